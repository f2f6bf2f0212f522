"""The owner registry."""

from emulator.effects import World, model
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.events import EVENTS
from firmware.layouts.gateway import GatewayFlag
from firmware.layouts.log import LOG
from firmware.layouts.node import CORE, SLOT_ACTIVE
from firmware.layouts.owner import OwnerServices, Task
from firmware.layouts.shard import ShardContext
from firmware.layouts.stop import STOP

_WORKSPACES, _STRIDE = 0x7000_0000, 0x2_0000


@model
def owner_at(w: World, index: int) -> tuple[int, int]:
    """A row in use, or nothing."""
    core = w.g(CORE)
    if index < core.slots_used:
        row = core.slots[index]
        if row.flags & SLOT_ACTIVE and row.context:
            return row.context, 0
    return 0, 1


@model
def owner_of(w: World, candidate: int) -> tuple[int, int]:
    """A small number is an index; anything else must be the very context of some row."""
    if candidate < 256:
        return owner_at(w, candidate)
    index = (candidate - _WORKSPACES) // _STRIDE
    if not 0 <= index < 256:
        return 0, 1
    context, none = owner_at(w, index)
    return (0, 1) if none or context != candidate else (context, 0)


@model
def owner_tasks(w: World, shard: int) -> int:
    """A farewell, bytes that the peer has not taken, a beat without its ACK, half an event."""
    context = w.view(ShardContext, shard)
    beating = context.gateway.flags & (GatewayFlag.ACK_PENDING | GatewayFlag.BEAT_OWED)
    running = {
        Task.FAREWELL: context.close_deadline,
        Task.SENDING: context.tcp.tx_start != context.tcp.tx_end,
        Task.BEAT: beating,
        Task.EVENT: context.events.open,
    }
    return sum(task for task, runs in running.items() if runs)


@model
def owner_describe(w: World, shard: int, services: int) -> None:
    """Each service by its present state."""
    context, log = w.view(ShardContext, shard), w.g(LOG)
    said = w.view(OwnerServices, services)
    said.tasks, said.context = owner_tasks(w, shard), shard
    said.user_id, said.shard_id, said.slot = context.user_id, context.shard_id, context.slot
    said.log_waiting, said.log_dropped = (log.head - log.tail) % 2**64, log.dropped
    said.log_level = log.level
    said.failure, said.last_error = context.failure, context.last_error
    said.listeners, said.event_open = w.g(EVENTS).listeners, context.events.open
    said.drain = w.g(STOP).phase


@model
def control_owner(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """What resolves to nothing is no error."""
    if room < OwnerServices.SIZE:
        return ControlResult.ARGUMENT, 0, 0
    context, none = owner_of(w, w.view(ControlRequest, request).argument)
    if none:
        return ControlResult.DONE, 0, 0
    owner_describe(w, context, answer)
    return ControlResult.DONE, context, OwnerServices.SIZE
