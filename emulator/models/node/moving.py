"""How a move goes on."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.node.plan import plan_move, plan_next
from emulator.models.node.sessions import session_due
from emulator.models.node.slots import slot_wake
from emulator.models.shard.identity import session_identity
from emulator.models.shard.renew import shard_renew
from emulator.models.shard.reshard import moves_recent
from emulator.models.shard.survive import survive_shard
from firmware.layouts.config import CONFIG
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.log import RESHARD_REFUSED, SESSION_SAVE_FAILED
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.plan import LOAD_WAIT_MAX_MS, MOVES, NO_SHARD, Leaving, PlanOrder, PlanReport
from firmware.layouts.policy import SessionProvider
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.sessions import SAVE_TIMEOUT_MS, SESSIONS, SaveState
from firmware.layouts.shard import ShardContext, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState


@model
def plan_save(w: World, shard: int) -> int:
    """Five seconds for each shard, from its release; what nobody took by then is lost, and said aloud."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    if w.g(CONFIG).session_provider == SessionProvider.NONE or context.saved:
        return 0
    if session_due(w, shard) != SaveState.DUE:
        return 0
    if not context.save_deadline:
        context.save_deadline = now + SAVE_TIMEOUT_MS * w.g(CLOCK).tsc_cycles_per_ms
    if context.save_deadline > now:
        return 1
    context.saved = 1
    log_write(w, shard, SESSION_SAVE_FAILED, 0, 0, 0, 0)
    return 0


@model
def plan_settle(w: World) -> None:
    """A row passes on when its shard is at rest, its socket gone and its session taken."""
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
        if plan_save(w, row.context):
            row.deadline = shard.save_deadline
            if row.deadline < core.slots_due:
                core.slots_due = row.deadline
            continue
        moves.leaving -= 1
        number = plan_next(w)
        if number == NO_SHARD:
            row.flags, shard.leaving, shard.session.valid = 0, Leaving.NO, 0
            shard.flags = shard.flags & ~ShardFlag.SEQ_VALID
        else:
            shard_renew(w, row.context, number)
            slot_wake(w, row.context)
        survive_shard(w, row.context)


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
    plan_move(w, wanted, 0, wanted, 0)


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
        wait = min(order.wait_ms, LOAD_WAIT_MAX_MS)
        refusal = plan_move(w, order.total, order.start, order.count, wait)
    session_identity(w)
    report, plan = w.view(PlanReport, answer), w.g(PLAN)
    report.bot[:] = bytes(w.g(SESSIONS).bot)
    report.provider = w.g(CONFIG).session_provider
    report.moves, report.leaving = moves_recent(w), w.g(MOVES).leaving
    report.total, report.start, report.count = (
        plan.global_total, plan.local_start, plan.local_count,
    )  # fmt: skip
    report.generation, report.refusal = plan.generation, refusal
    result = ControlResult.PLAN_REFUSED if refusal else ControlResult.DONE
    return result, refusal, PlanReport.SIZE
