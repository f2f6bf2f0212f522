"""Orders about the lease: none in a fleet; else it is looked at first, so that what ran out is over."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.node.lease import expire_lease, lease_grant, lease_tick
from firmware.layouts.control import ControlResult
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import LEASE_GRANTED
from firmware.layouts.node import CLOCK, CORE, LEASE


def _member(w: World) -> bool:
    return bool(w.g(FLEET_CONFIG).magic == FLEET_MAGIC)


def _refused(w: World, milliseconds: int) -> ControlResult | None:
    """Say why no such span can be given."""
    if not 1 <= milliseconds <= 0xFFFF_FFFF:
        return ControlResult.ARGUMENT
    return None if _cycles(w, milliseconds) else ControlResult.NO_CLOCK


def _cycles(w: World, milliseconds: int) -> int:
    return milliseconds * int(w.g(CLOCK).tsc_cycles_per_ms) % 2**64


@model
def lease_arm(w: World, milliseconds: int) -> int:
    """A grant from the turn's time on."""
    if _member(w):
        return ControlResult.FLEET
    lease_tick(w)
    refused = _refused(w, milliseconds)
    if refused is None:
        lease_grant(w, (w.g(CORE).now + _cycles(w, milliseconds)) % 2**64)
    return refused or ControlResult.DONE


@model
def lease_renew(w: World, milliseconds: int) -> int:
    """Only a lease that holds can be renewed."""
    if _member(w):
        return ControlResult.FLEET
    lease_tick(w)
    lease = w.g(LEASE)
    if lease.expired:
        return ControlResult.LEASE_OVER
    refused = _refused(w, milliseconds)
    if refused is None:
        left = _cycles(w, milliseconds)
        lease.deadline = (w.g(CORE).now + left) % 2**64
        log_write(w, 0, LEASE_GRANTED, lease.generation, left, 0, 0)
    return refused or ControlResult.DONE


@model
def lease_end(w: World) -> int:
    """Once; the deadline says when."""
    if _member(w):
        return ControlResult.FLEET
    lease_tick(w)
    if w.g(LEASE).expired:
        return ControlResult.LEASE_OVER
    w.g(LEASE).deadline = w.g(CORE).now
    expire_lease(w)
    return ControlResult.DONE
