"""How a move goes on."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.node.plan import moves_recent, plan_move, plan_next
from emulator.models.node.slots import slot_wake
from emulator.models.shard.renew import shard_renew
from firmware.layouts.config import CONFIG
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.log import RESHARD_REFUSED
from firmware.layouts.node import CORE, PLAN
from firmware.layouts.plan import (
    MOVES,
    NO_SHARD,
    Leaving,
    PlanOrder,
    PlanRefusal,
    PlanReport,
)
from firmware.layouts.shard import ShardContext, ShardState
from firmware.layouts.tcp import TcpState


@model
def plan_settle(w: World) -> None:
    """A row passes on when its shard is at rest and its socket is gone."""
    core, moves = w.g(CORE), w.g(MOVES)
    if not moves.leaving:
        return
    for n in range(core.slots_used):
        row = core.slots[n]
        shard = w.view(ShardContext, row.context)
        if not row.flags & 1 or not shard.leaving:
            continue
        at_rest = shard.state in (ShardState.ASSIGNED, ShardState.FATAL)
        gone = shard.tcp.state in (TcpState.CLOSED, TcpState.FAILED)
        if shard.close_deadline or not at_rest or not gone:
            continue
        moves.leaving -= 1
        number = plan_next(w)
        if number == NO_SHARD:
            row.flags, shard.leaving = 0, Leaving.NO
        else:
            shard_renew(w, row.context, number)
            slot_wake(w, row.context)


@model
def plan_obey(w: World) -> None:
    """The service's wish, once, by configuration, on a node that is alone."""
    moves, plan = w.g(MOVES), w.g(PLAN)
    wanted, moves.wanted = moves.wanted, 0
    if wanted <= plan.global_total or not w.g(CONFIG).plan_auto:
        return
    if plan.local_start or plan.local_count != plan.global_total:
        reason = PlanRefusal.NOT_THE_WHOLE_PLAN
        log_write(w, 0, RESHARD_REFUSED, wanted, plan.local_start, plan.local_count, reason)
        return
    plan_move(w, wanted, 0, wanted)


@model
def plan_tick(w: World) -> None:
    """Wishes first, so that their shards are released in the same turn if they can be."""
    plan_obey(w)
    plan_settle(w)


@model
def control_plan(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """Without payload it only tells."""
    if room < PlanReport.SIZE or length not in (0, PlanOrder.SIZE):
        return ControlResult.ARGUMENT, 0, 0
    refusal = 0
    if length:
        order = w.view(PlanOrder, request + ControlRequest.SIZE)
        refusal = plan_move(w, order.total, order.start, order.count)
    report, plan = w.view(PlanReport, answer), w.g(PLAN)
    report.moves, report.leaving = moves_recent(w), w.g(MOVES).leaving
    report.total, report.start, report.count = (
        plan.global_total, plan.local_start, plan.local_count,
    )  # fmt: skip
    report.generation, report.refusal = plan.generation, refusal
    result = ControlResult.PLAN_REFUSED if refusal else ControlResult.DONE
    return result, refusal, PlanReport.SIZE
