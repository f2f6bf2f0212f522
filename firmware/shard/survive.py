"""A shard's session in the pages that a warm reset keeps: kept up to date, offered after the reset."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.date import date_now
from firmware.layouts.clock import SECOND_MS
from firmware.layouts.gateway import GatewayContext
from firmware.layouts.log import SESSION_IGNORED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.sessions import SessionProblem, SessionSnapshot
from firmware.layouts.shard import Session, ShardContext, ShardState
from firmware.layouts.survivor import (
    NOTE_MS,
    SESSION_SUMMED_QUADS,
    SURVIVAL,
    SavedSession,
    Survival,
)
from firmware.limits import PAGE
from firmware.log import log, log_write
from firmware.memory.kept import kept_sum
from firmware.shard.resume import shard_is_resumable
from firmware.shard.snapshot import snapshot_problem, snapshot_restore, snapshot_take
from toolchain.asm import (
    AX,
    DL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R9D,
    R10D,
    R12,
    R13,
    R14,
    RAX,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
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
        ShardContext.identifies,
        GatewayContext.seq_acked,
        GatewayContext.beats,
        Session,
        SavedSession,
        SessionSnapshot.session,
        SessionSnapshot.sequence,
        Survival.page,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[SavedSession, SessionSnapshot.sequence],
    calls=[shard_is_resumable, date_now, snapshot_take, kept_sum],
    saves=[R12],
    source="firmware/docs/lifecycle.md#sessions-over-a-reset",
)
def survive_shard(a: Asm, shard: ShardContext) -> None:
    """Keep the session as it is now; a sequence that grew is kept once a second and at a heartbeat."""
    done, whole, dated, date, grown, noted = map(
        a.label, ("done", "whole", "dated", "date", "grown", "noted")
    )
    connected, sequence = R9D, R10D
    row = _row(a, shard, R12, done)
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
            a.cmp(EAX, row.snapshot.session.m32(field.disp - ShardContext.session.offset))
            a.j(NE, whole)
        for word in (shard.session.resume_port, shard.session.unanswered_resumes):  # unrolled
            a.mov(AX, word)
            a.cmp(AX, row.snapshot.session.m16(word.disp - ShardContext.session.offset))
            a.j(NE, whole)
        a.cmp(sequence, row.snapshot.sequence)
        a.j(E, done)
        # What a heartbeat names the service may forget, so no Resume may ask for it (E38).
        a.mov(EAX, shard.gateway.beats)
        a.cmp(EAX, row.beats)
        a.j(NE, grown)
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
    a.mov(EAX, shard.identifies)
    a.mov(row.identifies, EAX)
    a.mov(row.connected, connected)
    a.mov(row.valid, 1)
    a.mov(EDX, sequence)
    a.lea(RDI, row.snapshot.magic)
    a.call(snapshot_take)
    a.jmp(noted)
    a.place(grown)
    a.mov(row.snapshot.sequence, sequence)
    a.place(noted)
    a.mov(EAX, shard.gateway.beats)
    a.mov(row.beats, EAX)
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
        ShardContext.identifies,
        SavedSession,
        SessionSnapshot,
        Survival.page,
        Survival.before_at,
        Clock.unix_time,
    ],
    writes=[SavedSession],
    calls=[kept_sum, date_now, snapshot_problem, snapshot_restore, log_write],
    saves=[R12, R13, R14],
    source="firmware/docs/lifecycle.md#sessions-over-a-reset",
)
def survive_offer(a: Asm, shard: ShardContext) -> None:
    """Take a kept session over when it is whole, of this shard, and young; its first try is a Resume."""
    none, refuse = a.label("none"), a.label("refuse")
    row, since, age = _row(a, shard, R12, none), R13, R14
    a.cmp(row.valid, 1)
    a.j(NE, none)

    a.lea(RSI, row.valid)
    a.mov(ECX, SESSION_SUMMED_QUADS)
    a.call(kept_sum)
    a.mov(RDX, RAX)
    a.mov(EAX, SessionProblem.MALFORMED)
    a.cmp(RDX, row.sum)
    a.j(NE, refuse)
    a.mov(EAX, SessionProblem.AGE_UNKNOWN)
    a.cmp(CLOCK.it.unix_time, 0)
    a.j(E, refuse)
    # A connection that was up when the node went down ended with the node's last second.
    a.mov(since, row.saved_at)
    a.cmp(row.connected, 0)
    with a.if_(NZ):
        a.mov(since, SURVIVAL.it.before_at)
    a.call(date_now)
    a.sub(RAX, since)
    a.imul(age, RAX, SECOND_MS)
    a.mov(RDX, age)
    a.lea(RSI, row.snapshot.magic)
    a.call(snapshot_problem)
    a.test(EAX, EAX)
    a.j(NZ, refuse)

    a.mov(row.connected, 0)
    a.mov(row.saved_at, since)
    a.mov(ECX, shard.identifies)
    a.mov(row.identifies, ECX)
    a.lea(RSI, row.snapshot.magic)
    a.mov(RDX, age)
    a.call(snapshot_restore)
    _seal(a, row)
    a.place(none)
    a.ret()

    a.place(refuse)
    a.mov(row.valid, 0)
    a.mov(EDX, EAX)
    a.mov(ECX, row.snapshot.sequence)
    log(a, SESSION_IGNORED, RBX)
    a.ret()
