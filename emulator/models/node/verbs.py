"""Verbs about the whole node; each returns result, value and bytes of payload."""

from emulator.effects import World, model
from emulator.models.node.lease_orders import lease_arm, lease_end, lease_renew
from emulator.models.node.survive import survive_release
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.node import LEASE
from firmware.layouts.survivor import SURVIVAL


@model
def control_ping(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """The argument comes back."""
    return ControlResult.DONE, w.view(ControlRequest, request).argument, 0


@model
def control_lease_arm(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """As typed on the serial line."""
    result = lease_arm(w, w.view(ControlRequest, request).argument)
    return result, w.g(LEASE).generation, 0


@model
def control_lease_renew(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """As typed on the serial line."""
    result = lease_renew(w, w.view(ControlRequest, request).argument)
    return result, w.g(LEASE).generation, 0


@model
def control_lease_expire(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """As typed on the serial line."""
    return lease_end(w), w.g(LEASE).generation, 0


@model
def control_node_release(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """The value is the hold that ended."""
    held = w.g(SURVIVAL).held
    survive_release(w)
    return ControlResult.DONE, held, 0
