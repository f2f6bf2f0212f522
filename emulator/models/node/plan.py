"""Moves to another plan."""

from typing import Any

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.memory.windows import workspace_map
from emulator.models.node.lease import slots_wake
from emulator.models.shard.renew import shard_renew
from emulator.models.shard.reshard import MOVE_PLACES, move_time, plan_refusal
from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import RESHARD_REFUSED, RESHARDED
from firmware.layouts.node import CORE, PLAN
from firmware.layouts.plan import MOVES, NO_SHARD, Leaving
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import ShardContext, ShardState
from firmware.limits import SHARDS_MAX


def _active(w: World) -> list[Any]:
    core = w.g(CORE)
    rows = (core.slots[n] for n in range(core.slots_used))
    return [w.view(ShardContext, row.context) for row in rows if row.flags & 1]


@model
def plan_next(w: World) -> int:
    """In order, without those that a shard holds and keeps."""
    plan, moves = w.g(PLAN), w.g(MOVES)
    end = (plan.local_start + plan.local_count) % 2**32
    while moves.next < end:
        number = moves.next
        moves.next += 1
        if not any(s.shard_id == number and not s.leaving for s in _active(w)):
            return int(number)
    return NO_SHARD


@model
def plan_row(w: World) -> tuple[int, int]:
    """The first free row; else one more, while there are slots and memory."""
    core = w.g(CORE)
    for n in range(core.slots_used):
        if not core.slots[n].flags & 1:
            core.slots[n].flags, core.slots[n].deadline = 1, 0
            return core.slots[n].context, 0
    slot = core.slots_used
    fleet = w.g(FLEET_CONFIG).magic == FLEET_MAGIC
    if slot >= (FLEET_SHARDS_MAX if fleet else SHARDS_MAX):
        return 0, 1
    address, full = workspace_map(w, slot)
    if full:
        return 0, 1
    core.slots[slot].context, core.slots[slot].flags = address, 1
    core.slots_used = slot + 1
    return address, 0


@model
def plan_mark(w: World, how: int) -> int:
    """A shard stays when the total stays, the node still holds it, and it is not FATAL."""
    plan, moves, stays = w.g(PLAN), w.g(MOVES), 0
    for shard in _active(w):
        inside = 0 <= shard.shard_id - plan.local_start < plan.local_count
        if inside and how != Leaving.ENDING and shard.state != ShardState.FATAL:
            stays += 1
        else:
            shard.leaving = how
            moves.leaving += 1
    return stays


@model
def plan_move(w: World, total: int, start: int, count: int, wait: int) -> int:
    """A new generation: mark who leaves, make room for who has none."""
    refusal = plan_refusal(w, total, start, count)
    if refusal:
        log_write(w, 0, RESHARD_REFUSED, total, start, count, refusal)
        return refusal
    plan, moves, now = w.g(PLAN), w.g(MOVES), w.g(CORE).now
    older = [move_time(w, at) for at in (0, 8)]
    for at, time in zip(MOVE_PLACES, (now, *older), strict=True):
        moves.times[at : at + 8] = time.to_bytes(8, "little")
    how = Leaving.KEEPING if plan.global_total == total else Leaving.ENDING
    moves.wait_ms = wait if how == Leaving.KEEPING else 0
    plan.global_total, plan.local_start, plan.local_count = total, start, count
    plan.generation += 1
    moves.next = start
    wanted = count - plan_mark(w, how) - moves.leaving
    for _ in range(wanted):
        number = plan_next(w)
        address, full = plan_row(w)
        if full:
            moves.next = number
            break
        shard_renew(w, address, number)
    slots_wake(w)
    log_write(w, 0, RESHARDED, total, start, count, plan.generation)
    return PlanRefusal.NONE
