"""A shard's session over a warm reset."""

from typing import Any

from emulator.effects import World, model
from emulator.models.cpu.date import date_now
from emulator.models.log import log_write
from emulator.models.memory.kept import kept_sum
from emulator.models.shard.resume import shard_is_resumable
from emulator.models.shard.snapshot import snapshot_problem, snapshot_restore, snapshot_take
from firmware.layouts.log import SESSION_IGNORED
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.sessions import SessionProblem
from firmware.layouts.shard import Session, ShardContext, ShardState
from firmware.layouts.survivor import NOTE_MS, SURVIVAL, SavedSession
from firmware.limits import PAGE

SUMMED = SavedSession.valid.offset


def _row(w: World, context: Any) -> Any:  # noqa: ANN401 - views by field
    page = w.g(SURVIVAL).page
    return w.view(SavedSession, page + PAGE + context.slot * SavedSession.SIZE) if page else None


def _sum(w: World, row: Any) -> int:  # noqa: ANN401 - a view by field
    return kept_sum(w, row.address_ + SUMMED, (SavedSession.SIZE - SUMMED) // 8)


@model
def survive_shard(w: World, shard: int) -> None:
    """Anything but the sequence is kept at once, the sequence too when a heartbeat has named it."""
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
        and row.snapshot.session[0:head] == w.read(session, head)
    )
    beaten = row.beats != context.gateway.beats
    if same and (row.snapshot.sequence == sequence or (now < row.note_at and not beaten)):
        return
    if same:
        row.snapshot.sequence = sequence
    else:
        if row.valid != 1 or row.connected:
            row.saved_at = date_now(w)
        row.identifies, row.connected, row.valid = context.identifies, connected, 1
        snapshot_take(w, shard, row.snapshot.address_, sequence)
    row.beats = context.gateway.beats
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
    snapshot, age, problem = row.snapshot.address_, 0, 0
    if _sum(w, row) != row.sum:
        problem = SessionProblem.MALFORMED
    elif not w.g(CLOCK).unix_time:
        problem = SessionProblem.AGE_UNKNOWN
    else:
        age = (date_now(w) - since) * 1000 % 2**64
        problem = snapshot_problem(w, shard, snapshot, age)
    if problem:
        row.valid = 0
        log_write(w, shard, SESSION_IGNORED, problem, row.snapshot.sequence, 0, 0)
        return
    row.connected, row.saved_at, row.identifies = 0, since, context.identifies
    snapshot_restore(w, shard, snapshot, age)
    row.sum = _sum(w, row)
