"""A shard's session over a warm reset."""

from typing import Any

from emulator.effects import World, model
from emulator.models.cpu.date import date_now
from emulator.models.log import log_write
from emulator.models.memory.kept import kept_sum
from emulator.models.shard.resume import shard_is_resumable
from firmware.layouts.log import SESSION_IGNORED, SESSION_RESTORED
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import Session, ShardContext, ShardFlag, ShardState
from firmware.layouts.survivor import (
    CLOCK_SLACK_S,
    NOTE_MS,
    SESSION_KEPT_BYTES,
    SESSION_WINDOW_S,
    SURVIVAL,
    SavedSession,
    SessionRefusal,
)
from firmware.limits import PAGE

SUMMED = SavedSession.valid.offset


def _row(w: World, context: Any) -> Any:  # noqa: ANN401 - views by field
    page = w.g(SURVIVAL).page
    return w.view(SavedSession, page + PAGE + context.slot * SavedSession.SIZE) if page else None


def _sum(w: World, row: Any) -> int:  # noqa: ANN401 - a view by field
    return kept_sum(w, row.address_ + SUMMED, (SavedSession.SIZE - SUMMED) // 8)


def _unfit(w: World, row: Any, context: Any) -> int:  # noqa: ANN401 - views by field
    if _sum(w, row) != row.sum:
        return SessionRefusal.DAMAGED
    if (row.shard_id, row.shard_total) != (context.shard_id, context.shard_total):
        return SessionRefusal.OTHER_PLAN
    return 0 if w.g(CLOCK).unix_time else SessionRefusal.NO_DATE


@model
def survive_shard(w: World, shard: int) -> None:
    """Anything but the sequence is kept at once; what cannot be resumed is forgotten."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    row = _row(w, context)
    if row is None:
        return
    if not shard_is_resumable(w, shard):
        row.valid = 0
        return
    connected = int(context.state == ShardState.READY)
    sequence = context.gateway.seq_acked if connected else context.sequence
    session = context.session.address_
    head = Session.session_id.offset
    same = (
        row.valid == 1
        and (row.identifies, row.connected) == (context.identifies, connected)
        and row.session[0:head] == w.read(session, head)
    )
    if same and (row.sequence == sequence or now < row.note_at):
        return
    if not same:
        if row.valid != 1 or row.connected:
            row.saved_at = date_now(w)
        row.session[0:SESSION_KEPT_BYTES] = w.read(session, SESSION_KEPT_BYTES)
        row.shard_id, row.shard_total = context.shard_id, context.shard_total
        row.identifies, row.connected, row.valid = context.identifies, connected, 1
    row.sequence = sequence
    row.note_at = (now + w.g(CLOCK).tsc_cycles_per_ms * NOTE_MS) % 2**64
    row.sum = _sum(w, row)


@model
def survive_offer(w: World, shard: int) -> None:
    """Whole, of this shard, dated, and not older than the window: then it is as if never lost."""
    context = w.view(ShardContext, shard)
    row = _row(w, context)
    if row is None or row.valid != 1:
        return
    since = w.g(SURVIVAL).before_at if row.connected else row.saved_at
    age, reason = 0, _unfit(w, row, context)
    if not reason:
        age = (date_now(w) - since + CLOCK_SLACK_S) % 2**64
        if age >= SESSION_WINDOW_S + CLOCK_SLACK_S:
            reason = SessionRefusal.TOO_OLD
    if reason:
        row.valid = 0
        log_write(w, shard, SESSION_IGNORED, reason, row.sequence, 0, 0)
        return
    row.connected, row.saved_at, row.identifies = 0, since, context.identifies
    w.write(context.session.address_, bytes(row.session[0:SESSION_KEPT_BYTES]))
    context.sequence = row.sequence
    context.flags = context.flags | ShardFlag.SEQ_VALID
    row.sum = _sum(w, row)
    log_write(w, shard, SESSION_RESTORED, row.sequence, max(age - CLOCK_SLACK_S, 0), 0, 0)
