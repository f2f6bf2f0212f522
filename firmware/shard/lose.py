"""What happens to a shard whose connection is over: evidence, next state, one record, farewell."""

from firmware.abi import CALLER_SAVED
from firmware.events.publish import publish_rewind
from firmware.gateway.discovery_verdict import discovery_later
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.discovery import Discovery
from firmware.layouts.events import EventStream
from firmware.layouts.gateway import LATENCY_UNKNOWN, GatewayContext
from firmware.layouts.log import (
    CONNECTION_ENDED,
    CONNECTION_LOST,
    CONNECTION_RETRY,
    SESSION_RESET,
    STARTUP_LIMIT,
)
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.policy import OnLimit, Policy
from firmware.layouts.shard import (
    SSES_VALID,
    Evidence,
    FailureFlag,
    Phase,
    Session,
    ShardContext,
    ShardFlag,
    ShardState,
    Stop,
    Then,
)
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.websocket import WebSocketContext, WsState
from firmware.limits import CLOSE_TIMEOUT_MS, RECONNECT_BACKOFF_MS
from firmware.log import log, log_write
from firmware.shard.backoff import choose_delay, schedule_backoff, schedule_backoff_jittered
from firmware.shard.discover import end_question
from firmware.shard.evidence import copy_evidence
from firmware.shard.gap import shard_gap_begin
from firmware.shard.permit import permit_refuse, permit_release
from firmware.shard.reshard import reshard_judge, reshard_want
from firmware.shard.resume import shard_is_resumable
from firmware.shard.verdict import classify, judge_health, shard_verdict
from firmware.tls.transport import tls_abort
from firmware.websocket.close import ws_close
from toolchain.asm import (
    AL,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    RAX,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Z,
    routine,
)

RESUMES_UNANSWERED_MAX = 3


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose attempt failed; evidence is copied")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.session_ptr,
        ShardContext.failure_flags,
        ShardContext.phase,
        Session.unanswered_resumes,
        Session.resume_host_len,
        Session.valid,
    ],
    writes=[
        ShardContext.required_wait_ms,
        ShardContext.flags,
        ShardContext.user_id,
        Session.valid,
        Session.resume_host_len,
        Session.unanswered_resumes,
    ],
    calls=[shard_is_resumable, log_write],
    source="firmware/docs/lifecycle.md#session-after-a-failure",
)
def settle_session(a: Asm, shard: ShardContext) -> None:
    """Decide what of the session survives the failure (decision 21)."""
    session = Session.at(RDX)
    done, drop, keep, replay = map(a.label, ("done", "drop", "keep", "replay"))

    a.mov(RDX, shard.session_ptr)
    a.test(RDX, RDX)
    a.jz(done)
    a.test(shard.failure_flags, FailureFlag.RESET_SESSION)
    a.jnz(drop)

    # A Resume that got no answer counts; the third in a row ends the session.
    # One whose replay the stream did not take says nothing of the service.
    a.mov(AL, shard.phase)
    a.cmp(AL, Phase.REPLAY)
    a.je(replay)

    # A resume host is dropped after one failed connect; the session stays.
    a.movzx(ECX, AL)
    a.sub(ECX, Phase.RESOLVE)
    a.cmp(ECX, Phase.WS - Phase.RESOLVE)
    a.j(A, keep)
    # The wait after a certificate is for its server; the next attempt goes to another.
    with a.block() as same:
        a.cmp(AL, Phase.TLS)
        a.leave(NE, same)
        a.cmp(session.resume_host_len, 0)
        a.leave(E, same)
        a.call(shard_is_resumable)
        a.leave(NC, same)
        a.mov(shard.required_wait_ms, 0)
    a.mov(session.resume_host_len, 0)
    a.place(keep)
    a.jmp(done)

    a.place(replay)
    a.test(shard.failure_flags, FailureFlag.RESET_IN_REPLAY)
    a.jnz(drop)
    a.test(shard.failure_flags, FailureFlag.UNTAKEN)
    a.jnz(done)
    a.inc(session.unanswered_resumes)
    a.cmp(session.unanswered_resumes, RESUMES_UNANSWERED_MAX)
    a.j(B, done)

    a.place(drop)
    a.mov(ECX, session.valid)
    a.mov(session.valid, 0)
    a.mov(session.unanswered_resumes, 0)
    a.mov(session.resume_host_len, 0)
    a.mov(shard.user_id, 0)
    a.and_(shard.flags, ~ShardFlag.SEQ_VALID & 0xFFFF_FFFF)
    a.cmp(ECX, SSES_VALID)
    with a.if_(E):
        log(a, SESSION_RESET, RBX)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard in BACKOFF"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.reconnect_deadline,
        Evidence.lost,
        Evidence.required_wait_ms,
        Evidence.tls_site,
    ],
    writes=[Evidence.delay_ms, Evidence.next_step, Evidence.then, Evidence.stop],
    calls=[shard_is_resumable, classify, log_write],
    source="firmware/docs/lifecycle.md#record",
)
def record_backoff(a: Asm, shard: ShardContext) -> None:
    """Write the one record of a backoff: what happened, the evidence, what comes next and when."""
    kept, clock = shard.evidence, a.label("clock")
    a.mov(kept.stop, Stop.NONE)
    # Next is a Resume (1) when session and sequence are valid, else an Identify (2).
    a.call(shard_is_resumable)
    a.set(C, AL)
    a.xor(AL, 1)
    a.inc(AL)
    a.mov(kept.next_step, AL)
    a.cmp(shard.reconnect_deadline, 0)
    a.jne(clock)
    # Without a clock there is no delay yet.
    a.xor(EAX, EAX)
    a.mov(kept.delay_ms, EAX)
    a.place(clock)
    a.cmp(kept.required_wait_ms, 0)
    with a.block() as said:
        a.leave(E, said)
        a.test(AL, AL)
        a.leave(Z, said)
        a.cmp(kept.tls_site, 0)
        a.leave(NE, said)  # nobody asked for the wait after a failure in TLS
        a.add(AL, Then.WAIT_RESUME - Then.RESUME)
    a.mov(kept.then, AL)
    a.call(classify)
    a.cmp(kept.lost, 0)
    with a.if_(E):
        log(a, CONNECTION_RETRY, RBX)
        a.ret()
    log(a, CONNECTION_LOST, RBX)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard whose attempt failed; session and health are settled")
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.flags,
        Evidence.delay_ms,
        Evidence.stop,
        ConfigBlob.policy,
        ConfigBlob.on_limit,
    ],
    writes=[ShardContext.state, ShardContext.flags, Evidence.stop],
    calls=[
        shard_verdict,
        choose_delay,
        schedule_backoff,
        schedule_backoff_jittered,
        record_backoff,
        classify,
        reshard_judge,
        reshard_want,
        log_write,
    ],
    source="firmware/docs/lifecycle.md#order-after-a-failure",
)
def shard_back_off(a: Asm, shard: ShardContext) -> None:
    """BACKOFF with a delay and one record, or FATAL with its reason."""
    stop, fixed, config = a.label("stop"), a.label("fixed"), CONFIG.it
    with a.loop() as again:
        a.call(shard_verdict)
        a.test(EAX, EAX)
        a.j(NZ, stop)
        a.call(choose_delay)
        a.test(EAX, EAX)
        a.leave(Z, again)
        a.place(stop)
        a.mov(shard.evidence.stop, AL)
        a.call(classify)

        # The startup's limits end a shard only when the operator wants that.
        with a.block() as limit:
            a.mov(AL, shard.evidence.stop)
            a.sub(AL, Stop.STARTUP_ATTEMPTS)
            a.cmp(AL, Stop.STARTUP_DEADLINE - Stop.STARTUP_ATTEMPTS)
            a.leave(A, limit)
            a.cmp(config.on_limit, OnLimit.FATAL)
            a.leave(E, limit)
            a.or_(shard.flags, ShardFlag.STARTUP_OVER)
            log(a, STARTUP_LIMIT, RBX)
            a.jmp(again.top)
        a.mov(shard.state, ShardState.FATAL)
        # Whether the node moves is part of the record, so it is judged before.
        a.cmp(shard.evidence.stop, Stop.RESHARD)
        with a.if_(E):
            a.call(reshard_judge)
        log(a, CONNECTION_ENDED, RBX)
        a.cmp(shard.evidence.stop, Stop.RESHARD)
        with a.if_(E):
            a.jmp(reshard_want)
        a.ret()

    # Seed A's own order when its delay is the one that counts.
    a.cmp(config.policy, Policy.FIXED)
    with a.if_(E):
        a.cmp(shard.evidence.delay_ms, RECONNECT_BACKOFF_MS)
        a.je(fixed)
    a.call(schedule_backoff_jittered)
    a.jmp(record_backoff)
    a.place(fixed)
    a.call(schedule_backoff)
    a.jmp(record_backoff)


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose `failure` is set")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.failure_close,
        ShardContext.sequence,
        ShardContext.phase,
        ShardContext.slot,
        ShardContext.required_wait_ms,
        ShardContext.last_error,
        EventStream.stuck,
        EventStream.stalled_at,
        TcpContext.state,
        WebSocketContext.state,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Evidence.lost,
        Evidence.tls_site,
        Discovery.state,
        Discovery.owner,
    ],
    writes=[
        Discovery.retry_after_ms,
        ShardContext.failure_flags,
        ShardContext.phase,
        ShardContext.disconnected_at,
        ShardContext.connected_at,
        ShardContext.attempt_deadline,
        ShardContext.phase_deadline,
        ShardContext.close_deadline,
        ShardContext.gap_from,
        ShardContext.hole_first,
        ShardContext.hole_last,
        GatewayContext.latency_ms,
    ],
    calls=[
        copy_evidence,
        publish_rewind,
        discovery_later,
        settle_session,
        shard_gap_begin,
        permit_release,
        permit_refuse,
        judge_health,
        shard_back_off,
        ws_close,
        tls_abort,
    ],
    source="firmware/docs/lifecycle.md#order-after-a-failure",
)
def shard_lose(a: Asm, shard: ShardContext) -> None:
    """Take one shard from STARTING or READY to BACKOFF or FATAL (decision 16's order)."""
    a.call(copy_evidence)
    # The next connection forgets that this one had no room.
    a.mov(EAX, shard.events.stuck)
    a.or_(RAX, shard.events.stalled_at)
    with a.if_(NZ):
        a.or_(shard.failure_flags, FailureFlag.UNTAKEN)
    a.call(publish_rewind)
    end_question(a, shard)
    # The outage begins when the loss is seen, and lasts over all attempts until the next READY.
    a.cmp(shard.evidence.lost, 0)
    with a.if_(NE):
        a.mov(RAX, core.now)
        a.mov(shard.disconnected_at, RAX)
        a.mov(EAX, shard.sequence)
        a.mov(shard.gap_from, EAX)
        a.mov(shard.hole_first, 0)
        a.mov(shard.hole_last, 0)
    a.mov(shard.gateway.latency_ms, LATENCY_UNKNOWN)
    a.call(settle_session)
    a.call(shard_gap_begin)
    a.call(permit_release)
    a.call(permit_refuse)
    a.call(judge_health)
    a.xor(EAX, EAX)
    a.mov(shard.connected_at, RAX)
    a.mov(shard.attempt_deadline, RAX)
    a.mov(shard.phase_deadline, RAX)
    a.mov(shard.phase, Phase.NONE)
    a.call(shard_back_off)

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
