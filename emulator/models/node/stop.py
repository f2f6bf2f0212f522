"""The clean stop of the node."""

from emulator.effects import World, model
from emulator.models.cpu.power import power_pressed
from emulator.models.fleet.turn import fleet_close, fleet_left
from emulator.models.log import log_write
from emulator.models.node.lease import slots_wake
from emulator.models.node.sessions import stop_save
from firmware.layouts.clock import NEVER
from firmware.layouts.control import ControlResult
from firmware.layouts.log import NODE_STOPPED, NODE_STOPPING
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.shard import ShardContext, ShardState
from firmware.layouts.stop import (
    STOP,
    STOP_LINGER_MS,
    STOP_TIMEOUT_MS,
    StopPhase,
    StopReason,
    StopReport,
)
from firmware.layouts.tcp import TcpState


@model
def stop_open(w: World) -> int:
    """A shard is released when it is at rest and its TCP has no connection."""
    core, count = w.g(CORE), 0
    for n in range(core.slots_used):
        if not core.slots[n].flags & 1:
            continue
        shard = w.view(ShardContext, core.slots[n].context)
        at_rest = shard.state in (ShardState.ASSIGNED, ShardState.FATAL)
        gone = shard.tcp.state in (TcpState.CLOSED, TcpState.FAILED)
        count += not (at_rest and gone and not shard.close_deadline)
    return count


_WAITS = (stop_open, fleet_left)


@model
def stop_begin(w: World, reason: int) -> None:
    """Once; every shard is due to hear of it."""
    stop, core = w.g(STOP), w.g(CORE)
    if stop.phase != StopPhase.RUNNING:
        return
    stop.phase, stop.reason, stop.began = StopPhase.DRAINING, reason, core.now
    stop.closed = stop.reset = 0
    stop.deadline = core.now + STOP_TIMEOUT_MS * w.g(CLOCK).tsc_cycles_per_ms
    fleet_close(w)
    slots_wake(w)
    log_write(w, 0, NODE_STOPPING, reason, w.g(PLAN).local_count, 0, 0)


@model
def stop_tick(w: World) -> int:
    """Draining ends when nothing is left or its time is over; a second later the node is off."""
    stop, now = w.g(STOP), w.g(CORE).now
    if stop.phase == StopPhase.RUNNING:
        if not power_pressed(w):
            return NEVER
        stop_begin(w, StopReason.POWER_BUTTON)
        return int(now)
    if stop.phase == StopPhase.DRAINING:
        left = sum(wait(w) for wait in _WAITS)
        if left and stop.deadline > now:
            return int(stop.deadline)
        saving = stop_save(w)
        if saving:
            return saving
        stop.left, stop.took = left, now - stop.began
        stop.deadline = now + STOP_LINGER_MS * w.g(CLOCK).tsc_cycles_per_ms
        stop.phase = StopPhase.STOPPED
        log_write(w, 0, NODE_STOPPED, stop.closed, stop.reset, left, stop.took)
        return int(stop.deadline)
    if stop.phase == StopPhase.STOPPED:
        if stop.deadline > now:
            return int(stop.deadline)
        stop.phase = StopPhase.OFF
    return NEVER


@model
def control_stop(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """Asked again, it only reports."""
    stop_begin(w, StopReason.COMMAND)
    stop, report = w.g(STOP), w.view(StopReport, answer)
    report.open = stop_open(w)
    report.reason, report.closed = stop.reason, stop.closed
    report.reset, report.left = stop.reset, stop.left
    cycles = w.g(CLOCK).tsc_cycles_per_ms
    report.took = stop.took // cycles if cycles else stop.took
    report.phase = stop.phase
    return ControlResult.DONE, stop.phase, StopReport.SIZE
