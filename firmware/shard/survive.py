"""A shard's session in the pages that a warm reset keeps: kept up to date, offered after the reset."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.date import date_now
from firmware.layouts.gateway import GatewayContext
from firmware.layouts.log import SESSION_IGNORED, SESSION_RESTORED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import Session, ShardContext, ShardFlag, ShardState
from firmware.layouts.survivor import (
    CLOCK_SLACK_S,
    NOTE_MS,
    SESSION_KEPT_BYTES,
    SESSION_SUMMED_QUADS,
    SESSION_WINDOW_S,
    SURVIVAL,
    SavedSession,
    SessionRefusal,
    Survival,
)
from firmware.limits import PAGE
from firmware.log import log, log_write
from firmware.memory.kept import kept_sum
from firmware.shard.resume import shard_is_resumable
from toolchain.asm import (
    AE,
    AX,
    DL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R9D,
    R10D,
    R12,
    R13,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Reg64,
    Z,
    routine,
)


def _row(a: Asm, shard: ShardContext, to: Reg64, none: Label) -> SavedSession:
    """Return the shard's row at `to`; go to `none` before the pages were looked at. Clobbers RAX."""
    a.mov(to, SURVIVAL.it.page)
    a.test(to, to)
    a.j(Z, none)
    a.movzx(EAX, shard.slot)
    a.imul(RAX, RAX, SavedSession.SIZE)
    a.lea(to, SavedSession.at(to, PAGE, index=RAX).sum)
    return SavedSession.at(to)


def _seal(a: Asm, row: SavedSession) -> None:
    """Make the row whole. Clobbers RAX, RCX, RSI."""
    a.lea(RSI, row.valid)
    a.mov(ECX, SESSION_SUMMED_QUADS)
    a.call(kept_sum)
    a.mov(row.sum, RAX)


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose turn is over")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.slot,
        ShardContext.sequence,
        ShardContext.shard_id,
        ShardContext.shard_total,
        ShardContext.identifies,
        GatewayContext.seq_acked,
        Session,
        SavedSession,
        Survival.page,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[SavedSession],
    calls=[shard_is_resumable, date_now, kept_sum],
    source="firmware/docs/lifecycle.md#sessions-over-a-reset",
)
def survive_shard(a: Asm, shard: ShardContext) -> None:
    """Keep the session as it is now; a sequence that grew is kept once a second."""
    done, whole, dated, date, grown = map(a.label, ("done", "whole", "dated", "date", "grown"))
    connected, sequence = R9D, R10D
    row = _row(a, shard, R8, done)
    a.call(shard_is_resumable)
    with a.if_(B):
        a.xor(EDX, EDX)
        a.cmp(shard.state, ShardState.READY)
        a.set(E, DL)
        a.mov(connected, EDX)
        # While connected a Resume would name what was handed on.
        a.mov(sequence, shard.sequence)
        with a.block() as lost:
            a.test(connected, connected)
            a.leave(Z, lost)
            a.mov(sequence, shard.gateway.seq_acked)

        a.cmp(row.valid, 1)
        a.j(NE, whole)
        a.mov(EAX, shard.identifies)
        a.cmp(EAX, row.identifies)
        a.j(NE, whole)
        a.cmp(connected, row.connected)
        a.j(NE, whole)
        for field in (shard.session.session_id_len, shard.session.resume_host_len):  # unrolled
            a.mov(EAX, field)
            a.cmp(EAX, row.session.m32(field.disp - ShardContext.session.offset))
            a.j(NE, whole)
        for word in (shard.session.resume_port, shard.session.unanswered_resumes):  # unrolled
            a.mov(AX, word)
            a.cmp(AX, row.session.m16(word.disp - ShardContext.session.offset))
            a.j(NE, whole)
        a.cmp(sequence, row.sequence)
        a.j(E, done)
        a.mov(RAX, core.now)
        a.cmp(RAX, row.note_at)
        a.j(B, done)
        a.jmp(grown)
    a.mov(row.valid, 0)
    a.place(done)
    a.ret()

    # The date is that of the connection's end, so what fails afterwards does not renew it.
    a.place(whole)
    a.cmp(row.valid, 1)
    a.j(NE, date)
    a.cmp(row.connected, 0)
    a.j(E, dated)
    a.place(date)
    a.call(date_now)
    a.mov(row.saved_at, RAX)
    a.place(dated)
    a.lea(RSI, shard.session.valid)
    a.lea(RDI, row.session.m8())
    a.mov(ECX, SESSION_KEPT_BYTES // 8)
    a.rep_movsq()
    for source, target in (
        (shard.shard_id, row.shard_id),
        (shard.shard_total, row.shard_total),
        (shard.identifies, row.identifies),
    ):  # fmt: skip - three values, unrolled
        a.mov(EAX, source)
        a.mov(target, EAX)
    a.mov(row.connected, connected)
    a.mov(row.valid, 1)
    a.place(grown)
    a.mov(row.sequence, sequence)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, NOTE_MS)
    a.add(RAX, core.now)
    a.mov(row.note_at, RAX)
    _seal(a, row)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that was just made")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.slot,
        ShardContext.shard_id,
        ShardContext.shard_total,
        ShardContext.identifies,
        SavedSession,
        Survival.page,
        Survival.before_at,
        Clock.unix_time,
    ],
    writes=[ShardContext.sequence, ShardContext.flags, Session, SavedSession],
    calls=[kept_sum, date_now, log_write],
    saves=[R12, R13],
    source="firmware/docs/lifecycle.md#sessions-over-a-reset",
)
def survive_offer(a: Asm, shard: ShardContext) -> None:
    """Take a kept session over when it is whole, of this shard, and young; its first try is a Resume."""
    none, refuse = a.label("none"), a.label("refuse")
    row, since, reason = _row(a, shard, R12, none), R13, EDX
    a.cmp(row.valid, 1)
    a.j(NE, none)

    a.lea(RSI, row.valid)
    a.mov(ECX, SESSION_SUMMED_QUADS)
    a.call(kept_sum)
    a.mov(reason, SessionRefusal.DAMAGED)
    a.cmp(RAX, row.sum)
    a.j(NE, refuse)
    a.mov(reason, SessionRefusal.OTHER_PLAN)
    a.mov(EAX, row.shard_id)
    a.cmp(EAX, shard.shard_id)
    a.j(NE, refuse)
    a.mov(EAX, row.shard_total)
    a.cmp(EAX, shard.shard_total)
    a.j(NE, refuse)
    a.mov(reason, SessionRefusal.NO_DATE)
    a.cmp(CLOCK.it.unix_time, 0)
    a.j(E, refuse)
    # A connection that was up when the node went down ended with the node's last second.
    a.mov(since, row.saved_at)
    a.cmp(row.connected, 0)
    with a.if_(NZ):
        a.mov(since, SURVIVAL.it.before_at)
    a.call(date_now)
    a.sub(RAX, since)
    a.lea(RCX, SavedSession.at(RAX, CLOCK_SLACK_S).sum)
    a.mov(reason, SessionRefusal.TOO_OLD)
    a.cmp(RCX, SESSION_WINDOW_S + CLOCK_SLACK_S)
    a.j(AE, refuse)

    a.mov(row.connected, 0)
    a.mov(row.saved_at, since)
    a.mov(since, RCX)
    a.mov(ECX, shard.identifies)
    a.mov(row.identifies, ECX)
    a.lea(RSI, row.session.m8())
    a.lea(RDI, shard.session.valid)
    a.mov(ECX, SESSION_KEPT_BYTES // 8)
    a.rep_movsq()
    a.mov(EDX, row.sequence)
    a.mov(shard.sequence, EDX)
    a.or_(shard.flags, ShardFlag.SEQ_VALID)
    _seal(a, row)
    a.mov(EDX, row.sequence)
    a.mov(RCX, since)
    a.sub(RCX, CLOCK_SLACK_S)
    with a.if_(C):
        a.xor(ECX, ECX)
    log(a, SESSION_RESTORED, RBX)
    a.place(none)
    a.ret()

    a.place(refuse)
    a.mov(row.valid, 0)
    a.mov(ECX, row.sequence)
    log(a, SESSION_IGNORED, RBX)
    a.ret()
