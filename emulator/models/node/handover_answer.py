"""Answers of the store."""

from emulator.effects import World, model
from emulator.models.fleet.answer import answer_read
from emulator.models.fleet.tokens import key_number
from emulator.models.log import log_write
from emulator.models.node.handover_text import session_parse
from emulator.models.node.slots import slot_wake
from firmware.layouts.bus import BUS_IN
from firmware.layouts.handover import (
    HANDOVER,
    HandoverProblem,
    HandoverRequest,
    HandoverRow,
    HandoverStep,
)
from firmware.layouts.log import HANDOVER_IGNORED, HANDOVER_LOST, HANDOVER_TAKEN
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import SessionLoad, ShardContext, ShardFlag, ShardState

_HEADER = b"\r\nNats-Sequence:"


def after(w: World, milliseconds: int) -> int:
    """Return the TSC that many milliseconds from now."""
    return int(w.g(CORE).now + milliseconds * w.g(CLOCK).tsc_cycles_per_ms) % 2**64


@model
def handover_waits(w: World, shard: int) -> int:
    """It has not started, and nothing is settled."""
    context = w.view(ShardContext, shard)
    return int(context.state != ShardState.ASSIGNED or context.load == SessionLoad.SETTLED)


@model
def handover_settle(w: World, shard: int, row: int) -> None:
    """No session from the store."""
    kept = w.view(HandoverRow, row)
    kept.step, kept.stale = HandoverStep.KEEP, 1
    if not handover_waits(w, shard):
        w.view(ShardContext, shard).load = SessionLoad.SETTLED
        slot_wake(w, shard)


@model
def handover_again(w: World, shard: int, row: int) -> None:
    """A quarter of a second later."""
    kept = w.view(HandoverRow, row)
    kept.step = HandoverStep.READ
    kept.tries += 1
    kept.try_at = after(w, 250)


@model
def handover_lay_down(w: World, shard: int, row: int) -> None:
    """All but `valid`."""
    found, session = w.g(HANDOVER).found, w.view(ShardContext, shard).session
    for size, source, name in (
        (found.id_len, found.id, "session_id"),
        (found.host_len, found.host, "resume_host"),
    ):
        setattr(session, name + "_len", size)
        if size:
            w.write(session.offset_of(name), w.read(source, size))
    session.resume_port = found.port
    kept = w.view(HandoverRow, row)
    kept.step, kept.live = HandoverStep.FENCE, 1


@model
def handover_read(w: World, shard: int, row: int) -> None:
    """No record, one that is somebody else's, one that says nothing, one to take."""
    kept, context, message = w.view(HandoverRow, row), w.view(ShardContext, shard), w.g(BUS_IN)
    state, found, problem = w.g(HANDOVER), w.g(HANDOVER).found, HandoverProblem.NONE
    kept_live = 0
    if message.status == 404:
        kept.revision = 0
    else:
        revision = 0
        if not message.status:
            end = message.header + message.header_len
            missing, value = key_number(
                w, message.header, end, w.address("handover_revision"), len(_HEADER)
            )
            revision = 0 if missing else value
        if not revision:
            handover_again(w, shard, row)
            return
        kept.revision, kept.generation = revision, 0
        if session_parse(w, message.body, message.body + message.body_len):
            problem = HandoverProblem.MALFORMED
        else:
            kept.generation = found.generation
            if found.generation > context.events.fence:
                kept.step, context.saved = HandoverStep.OVER, 1
                state.lost += 1
                fence = context.events.fence
                log_write(w, shard, HANDOVER_LOST, fence, kept.generation, 0, 0)
                return
            if found.total != context.shard_total:
                problem = HandoverProblem.ANOTHER_TOTAL
            else:
                kept.sequence = found.sequence
                if found.id_len:
                    kept_live = 1
                    if not handover_waits(w, shard):
                        handover_lay_down(w, shard, row)
                        return
    if problem:
        state.ignored += 1
        log_write(w, shard, HANDOVER_IGNORED, problem, kept.revision, kept.generation, 0)
    kept.live = kept_live
    if handover_waits(w, shard):
        handover_settle(w, shard, row)
    else:
        kept.step = HandoverStep.FENCE


@model
def handover_written(w: World, shard: int, row: int, request: int) -> None:
    """Refused: read again. Granted: the record is the shard's, and a fence gives it its session."""
    kept, context, state = w.view(HandoverRow, row), w.view(ShardContext, shard), w.g(HANDOVER)
    refused, revision = answer_read(w)
    if refused:
        state.refused += 1
        handover_again(w, shard, row)
        return
    kept.revision, kept.tries, kept.save_at = revision, 0, after(w, 5_000)
    if request == HandoverRequest.SAVE:
        state.saves += 1
        kept.stale = 1 - kept.live
        return
    if handover_waits(w, shard) or not kept.live:
        handover_settle(w, shard, row)
        return
    kept.step, kept.stale = HandoverStep.KEEP, 0
    context.session.valid = 1
    context.sequence = context.gap_from = kept.sequence
    context.flags = context.flags | ShardFlag.SEQ_VALID | ShardFlag.RESTORED
    context.load = SessionLoad.SETTLED
    state.taken += 1
    log_write(w, shard, HANDOVER_TAKEN, kept.sequence, kept.generation, kept.revision, 0)
    slot_wake(w, shard)


@model
def handover_answer(w: World) -> None:
    """Nobody's, or that of the row whose request has this number."""
    state, core, inbox = w.g(HANDOVER), w.g(CORE), w.g(BUS_IN).inbox
    for n in range(core.slots_used):
        row, slot = state.rows[n], core.slots[n]
        request = row.request
        if not request or row.inbox != inbox:
            continue
        row.request, state.look_at = HandoverRequest.NONE, 0
        state.under_way -= 1
        if slot.flags & 1 and w.view(ShardContext, slot.context).hard_stop > core.now:
            if request == HandoverRequest.READ:
                handover_read(w, slot.context, row.address_)
            else:
                handover_written(w, slot.context, row.address_, request)
        return
