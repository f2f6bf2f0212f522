"""Close code 4011: what is wanted, and whether the node may move."""

from emulator.effects import World, model
from emulator.models.log import log_write
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import RESHARD_WANTED
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.plan import MOVES
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import ShardContext
from firmware.layouts.stop import STOP, StopPhase

MOVE_PLACES = range(0, 24, 8)


def move_time(w: World, at: int) -> int:
    """TSC of a move; 0 = there was none."""
    return int.from_bytes(bytes(w.g(MOVES).times[at : at + 8]), "little")


@model
def moves_recent(w: World) -> int:
    """Of the last three, those within an hour."""
    hour, now = 3_600_000 * w.g(CLOCK).tsc_cycles_per_ms, w.g(CORE).now
    times = [move_time(w, at) for at in MOVE_PLACES]
    return sum(bool(t) and (now - t) % 2**64 < hour % 2**64 for t in times)


@model
def plan_refusal(w: World, total: int, start: int, count: int) -> int:
    """A fleet's leases, numbers, state of the node, moves of the hour."""
    if w.g(FLEET_CONFIG).magic == FLEET_MAGIC:
        return PlanRefusal.FLEET
    if not 1 <= count <= 256 or total > 16_384 or start + count > total:
        return PlanRefusal.OUT_OF_BOUNDS
    if w.g(STOP).phase != StopPhase.RUNNING:
        return PlanRefusal.STOPPING
    if not w.g(CLOCK).tsc_cycles_per_ms:
        return PlanRefusal.NO_CLOCK
    if w.g(MOVES).leaving:
        return PlanRefusal.STILL_MOVING
    return PlanRefusal.TOO_MANY_MOVES if moves_recent(w) >= 3 else PlanRefusal.NONE


@model
def reshard_judge(w: World, shard: int) -> None:
    """By itself only with leave, with every shard of the bot, and as an operator might."""
    context, plan = w.view(ShardContext, shard), w.g(PLAN)
    if not w.g(CONFIG).plan_auto:
        context.evidence.refusal = PlanRefusal.NOT_AUTOMATIC
    elif plan.local_start or plan.local_count != plan.global_total:
        context.evidence.refusal = PlanRefusal.NOT_THE_WHOLE_PLAN
    else:
        total = (context.shard_total + 1) % 2**32
        context.evidence.refusal = plan_refusal(w, total, 0, total)


@model
def reshard_want(w: World, shard: int) -> None:
    """One more shard than now is the least that can help; the largest wish counts."""
    total, moves = w.view(ShardContext, shard).shard_total + 1, w.g(MOVES)
    if total > moves.wanted:
        moves.wanted = total
    log_write(w, shard, RESHARD_WANTED, total, w.g(CONFIG).plan_auto, moves.recommended, 0)
