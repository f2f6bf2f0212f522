"""The lease."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.shard.hold import shard_hold
from firmware.layouts.config import CONFIG
from firmware.layouts.log import LEASE_EXPIRED, LEASE_GRANTED
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.layouts.shard import Hold


@model
def slots_wake(w: World) -> None:
    """Deadline zero is always due."""
    for n in range(w.g(CORE).slots_used):
        w.g(CORE).slots[n].deadline = 0
    w.g(CORE).slots_due = 0


@model
def expire_lease(w: World) -> None:
    """The mark first, so that nothing leaves while the shards are put away."""
    lease, core = w.g(LEASE), w.g(CORE)
    lease.expired = 1
    late = (core.now - lease.deadline) % 2**64
    log_write(w, 0, LEASE_EXPIRED, lease.generation, late, 0, 0)
    for n in range(core.slots_used):
        if core.slots[n].flags & 1:
            shard_hold(w, core.slots[n].context, Hold.LEASE_EXPIRED)
    slots_wake(w)


@model
def lease_tick(w: World) -> None:
    """Unsigned and absolute; deadline 0 turns enforcement off."""
    lease = w.g(LEASE)
    if lease.expired == 1 or lease.deadline == 0:
        return
    if w.rdtsc() >= lease.deadline:
        expire_lease(w)


@model
def lease_grant(w: World, deadline: int) -> None:
    """Generation and deadline, then the mark; then every shard is due."""
    lease = w.g(LEASE)
    lease.generation += 1
    lease.deadline = deadline
    lease.expired = 0
    slots_wake(w)
    left = (deadline - w.g(CORE).now) % 2**64 if deadline else 0
    log_write(w, 0, LEASE_GRANTED, lease.generation, left, 0, 0)


@model
def lease_begin(w: World) -> None:
    """The configured grant, when nothing was granted or expired before and time can be told."""
    span = w.g(CONFIG).lease_ms * w.g(CLOCK).tsc_cycles_per_ms % 2**64
    if span and not w.g(LEASE).generation and not w.g(LEASE).expired:
        lease_grant(w, (w.g(CORE).now + span) % 2**64)
