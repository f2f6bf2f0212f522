"""What happens to a shard whose connection is over: evidence, next state, one record, farewell."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.events import EventStream
from firmware.layouts.log import SHARD_BACKOFF, SHARD_END, SHARD_FATAL, SHARD_HELD
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import (
    End,
    Evidence,
    FailureFlag,
    Phase,
    Session,
    ShardContext,
    ShardFlag,
    ShardState,
)
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.websocket import WebSocketContext, WsState
from firmware.limits import CLOSE_TIMEOUT_MS, RECONNECT_BACKOFF_MS
from firmware.log import log, log_write
from firmware.shard.backoff import schedule_backoff
from firmware.shard.evidence import copy_evidence
from firmware.shard.gap import shard_gap_begin
from firmware.shard.permit import permit_release
from firmware.shard.reset import wipe_transport
from firmware.shard.resume import restore_resume_state, shard_is_resumable
from firmware.tls.transport import tls_abort
from firmware.websocket.close import ws_close
from toolchain.asm import (
    AE,
    AL,
    EAX,
    EBP,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    C,
    In,
    Reg32,
    Z,
    routine,
)

RESUMES_UNANSWERED_MAX = 3
_DROP_SESSION = FailureFlag.RESET_SESSION
_STOP = FailureFlag.FATAL | FailureFlag.RESHARD


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose attempt failed; evidence is copied")],
    clobbers=[RAX, RCX, RDX],
    reads=[
        ShardContext.session_ptr,
        ShardContext.failure_flags,
        ShardContext.phase,
        Session.unanswered_resumes,
    ],
    writes=[
        ShardContext.flags,
        Session.valid,
        Session.resume_host_len,
        Session.unanswered_resumes,
    ],
    source="firmware/docs/lifecycle.md#session-after-a-failure",
)
def settle_session(a: Asm, shard: ShardContext) -> None:
    """Decide what of the session survives the failure (decision 21)."""
    session = Session.at(RDX)
    done, drop, keep = a.label("done"), a.label("drop"), a.label("keep")

    a.mov(RDX, shard.session_ptr)
    a.test(RDX, RDX)
    a.jz(done)
    a.test(shard.failure_flags, _DROP_SESSION)
    a.jnz(drop)

    # A Resume that got no answer counts; the third in a row ends the session.
    a.mov(AL, shard.phase)
    a.cmp(AL, Phase.REPLAY)
    with a.if_(Z):
        a.inc(session.unanswered_resumes)
        a.cmp(session.unanswered_resumes, RESUMES_UNANSWERED_MAX)
        a.j(AE, drop)
        a.jmp(done)

    # A resume host is dropped after one failed connect; the session stays.
    a.movzx(ECX, AL)
    a.sub(ECX, Phase.RESOLVE)
    a.cmp(ECX, Phase.WS - Phase.RESOLVE)
    a.j(A, keep)
    a.mov(session.resume_host_len, 0)
    a.place(keep)
    a.jmp(done)

    a.place(drop)
    a.mov(session.valid, 0)
    a.mov(session.unanswered_resumes, 0)
    a.mov(session.resume_host_len, 0)
    a.and_(shard.flags, ~ShardFlag.SEQ_VALID & 0xFFFF_FFFF)
    a.place(done)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard in BACKOFF")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.reconnect_deadline,
        Evidence.error,
        Evidence.tcp_state,
        Evidence.tls_state,
        Evidence.end,
        Evidence.phase,
        Evidence.close_code,
        Evidence.next_step,
        Evidence.delay_ms,
    ],
    writes=[Evidence.delay_ms, Evidence.next_step],
    calls=[shard_is_resumable, log_write],
    source="firmware/docs/lifecycle.md#record",
)
def record_backoff(a: Asm, shard: ShardContext) -> None:
    """Write the one record of a backoff: evidence, delay, next step."""
    # The delay is the fixed one, or unknown (0) while there is no clock.
    a.xor(EAX, EAX)
    a.mov(ECX, RECONNECT_BACKOFF_MS)
    a.cmp(shard.reconnect_deadline, 0)
    a.cmov(NZ, EAX, ECX)
    a.mov(shard.evidence.delay_ms, EAX)

    # Next is a Resume (1) when session and sequence are valid, else an Identify (2).
    a.call(shard_is_resumable)
    a.set(C, AL)
    a.xor(AL, 1)
    a.inc(AL)
    a.mov(shard.evidence.next_step, AL)

    a.movzx(EDX, shard.evidence.end)
    a.movzx(ECX, shard.evidence.phase)
    a.movzx(R8D, shard.evidence.close_code)
    a.movzx(R9D, shard.evidence.next_step)
    log(a, SHARD_END, RBX)
    a.mov(EDX, shard.evidence.error)
    a.mov(ECX, shard.evidence.tcp_state)
    a.mov(R8D, shard.evidence.tls_state)
    a.mov(R9D, shard.evidence.delay_ms)
    log(a, SHARD_BACKOFF, RBX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose `failure` is set")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.failure_flags,
        ShardContext.failure_close,
        TcpContext.state,
        WebSocketContext.state,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Evidence.error,
        Evidence.tcp_state,
        Evidence.tls_state,
        Evidence.close_code,
    ],
    writes=[
        ShardContext.state,
        ShardContext.phase,
        ShardContext.disconnected_at,
        ShardContext.connected_at,
        ShardContext.attempt_deadline,
        ShardContext.phase_deadline,
        ShardContext.close_deadline,
    ],
    calls=[
        copy_evidence,
        settle_session,
        shard_gap_begin,
        permit_release,
        schedule_backoff,
        record_backoff,
        log_write,
        ws_close,
        tls_abort,
    ],
    source="firmware/docs/lifecycle.md#order-after-a-failure",
)
def shard_lose(a: Asm, shard: ShardContext) -> None:
    """Take one shard from STARTING or READY to BACKOFF or FATAL (decision 16's order)."""
    a.call(copy_evidence)
    a.call(settle_session)
    a.call(shard_gap_begin)
    a.call(permit_release)
    a.mov(RAX, core.now)
    a.mov(shard.disconnected_at, RAX)
    a.xor(EAX, EAX)
    a.mov(shard.connected_at, RAX)
    a.mov(shard.attempt_deadline, RAX)
    a.mov(shard.phase_deadline, RAX)
    a.mov(shard.phase, Phase.NONE)

    # A retry cannot solve a refused configuration; everything else waits its backoff.
    a.test(shard.failure_flags, _STOP)
    with a.if_(NZ):
        a.mov(shard.state, ShardState.FATAL)
        a.mov(EDX, shard.evidence.error)
        a.mov(ECX, shard.evidence.tcp_state)
        a.mov(R8D, shard.evidence.tls_state)
        a.movzx(R9D, shard.evidence.close_code)
        log(a, SHARD_FATAL, RBX)
    with a.else_():
        a.call(schedule_backoff)
        a.call(record_backoff)

    # A polite close is bounded; a handshake in progress and a dead transport are just dropped.
    abort, answered = a.label("abort"), a.label("answered")
    a.mov(EAX, shard.tcp.state)
    a.cmp(EAX, TcpState.ESTABLISHED)
    with a.if_(NE):
        a.cmp(EAX, TcpState.CLOSE_WAIT)
        a.jne(abort)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, CLOSE_TIMEOUT_MS)
    a.add(RCX, core.now)
    a.cmp(shard.websocket.state, WsState.CLOSED)
    a.je(answered)  # the peer closed first; our answer is queued and wants to leave
    a.cmp(shard.websocket.state, WsState.OPEN)
    a.jne(abort)
    a.movzx(EDX, shard.failure_close)
    a.test(EDX, EDX)
    a.jz(abort)
    a.mov(shard.close_deadline, RCX)
    a.jmp(ws_close)
    a.place(answered)
    a.mov(shard.close_deadline, RCX)
    a.ret()
    a.place(abort)
    a.jmp(tls_abort)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "Hold: why it waits"),
    ],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.state, ShardContext.sequence, ShardContext.flags],
    writes=[
        ShardContext.state,
        ShardContext.hold,
        ShardContext.phase,
        ShardContext.failure,
        EventStream.open,
    ],
    calls=[
        copy_evidence,
        permit_release,
        tls_abort,
        wipe_transport,
        restore_resume_state,
        log_write,
    ],
    saves=[R12, R14, R15, RBP],
    source="firmware/docs/lifecycle.md#lease-expiry",
)
def shard_hold(a: Asm, shard: ShardContext, hold: Reg32) -> None:
    """Stop one shard without a word to the peer; FATAL stays FATAL, ASSIGNED gets the new hold."""
    a.cmp(shard.state, ShardState.FATAL)
    with a.if_(Z):
        a.ret()
    a.mov(EBP, hold)

    # The end is recorded as what it is, whatever else was pending.
    a.cmp(shard.state, ShardState.ASSIGNED)
    with a.if_(NE):
        a.mov(shard.failure, End.LEASE_EXPIRED)
        a.call(copy_evidence)
        a.call(permit_release)
        a.mov(EDX, EBP)
        a.mov(ECX, shard.sequence)
        log(a, SHARD_HELD, RBX)
        # The expired lease keeps the transport silent; this frees the connection's port. The
        # session in memory stays for a later grant.
        a.call(tls_abort)
        a.mov(shard.events.open, 0)  # whoever has half an event is not told: nothing leaves
        a.mov(R14D, shard.sequence)
        a.mov(R15D, shard.flags)
        a.call(wipe_transport)
        a.call(restore_resume_state)
        a.mov(shard.state, ShardState.ASSIGNED)
    a.mov(shard.phase, Phase.NONE)
    a.mov(EAX, EBP)
    a.mov(shard.hold, AL)
    a.ret()
