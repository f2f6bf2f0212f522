"""What the state of a shard asks for: a farewell, the end of a backoff, an attempt's next phase."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.events import EVENT_UNKNOWN, EventStream
from firmware.layouts.gateway import GatewayContext, GatewayState
from firmware.layouts.log import SHARD_NO_CLOCK, SHARD_READY
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import (
    End,
    Evidence,
    Gap,
    Hold,
    Phase,
    Session,
    ShardContext,
    ShardFlag,
    ShardState,
)
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.tls import TlsContext, TlsState
from firmware.layouts.websocket import WebSocketContext, WsState
from firmware.log import log, log_write
from firmware.shard.allowance import allowance_count
from firmware.shard.dial import shard_ask_permit, shard_begin, shard_dial
from firmware.shard.lose import shard_back_off
from firmware.shard.permit import permit_release
from firmware.shard.startup import startup_check
from firmware.tcp.timers import tcp_tick
from firmware.tls.transport import tls_abort, tls_close, tls_ready
from firmware.websocket.connection import ws_start
from firmware.websocket.frames import ws_next
from toolchain.asm import (
    AE,
    AL,
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R12,
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
    Out,
    Z,
    routine,
)

RETRY_POLL_MS = 100
"""How often a shard looks again for what nobody announces: a lease, a permit, an address."""


def poll_deadline(a: Asm) -> None:
    """RAX := now + RETRY_POLL_MS; all ones without a clock, whose calibration wakes the shards."""
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, RETRY_POLL_MS)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.dec(RAX)
    with a.else_():
        a.add(RAX, core.now)


@routine(
    inputs=[In(RBX, ShardContext, "a shard in BACKOFF or FATAL")],
    outputs=[Out(RAX, "TSC when the farewell needs the next look; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.close_deadline,
        CoreState.now,
        WebSocketContext.state,
        TcpContext.state,
        TlsContext.state,
    ],
    writes=[ShardContext.close_deadline],
    calls=[ws_next, tcp_tick, tls_close, tls_abort],
    source="firmware/docs/lifecycle.md#farewell",
)
def shard_say_goodbye(a: Asm, shard: ShardContext) -> None:
    """Carry a closing connection on until the peer answered or its five seconds are over."""
    drop, none = a.label("drop"), a.label("none")
    a.cmp(shard.close_deadline, 0)
    a.j(E, none)
    a.call(ws_next)
    # Without keys nothing comes or goes any more.
    a.cmp(shard.tls.state, TlsState.FAILED)
    a.j(E, drop)
    a.cmp(shard.websocket.state, WsState.CLOSED)
    with a.if_(E):
        a.call(tls_close)  # both close frames are on their way: FIN behind ours
    with a.else_():
        a.cmp(shard.websocket.state, WsState.CLOSING)
        a.j(NE, drop)
    # Nothing is left to say in CLOSED, TIME_WAIT and FAILED.
    a.mov(EAX, shard.tcp.state)
    a.dec(EAX)
    a.cmp(EAX, TcpState.TIME_WAIT - 1)
    a.j(AE, drop)
    a.mov(RAX, core.now)
    a.cmp(RAX, shard.close_deadline)
    a.j(AE, drop)
    a.call(tcp_tick)
    a.cmp(RAX, shard.close_deadline)
    with a.if_(AE):
        a.mov(RAX, shard.close_deadline)
    a.ret()
    a.place(drop)
    a.mov(shard.close_deadline, 0)
    a.call(tls_abort)
    a.place(none)
    a.mov(RAX, -1)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in BACKOFF")],
    outputs=[Out(RAX, "TSC when it next wants to run; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.reconnect_deadline,
        ShardContext.close_deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Evidence.end,
        Evidence.error,
        Evidence.tcp_state,
        Evidence.tls_state,
    ],
    writes=[ShardContext.state, ShardContext.hold],
    calls=[shard_say_goodbye, shard_back_off, shard_begin, log_write],
    saves=[R12],
    source="firmware/docs/lifecycle.md#zero-deadlines",
)
def tick_backoff(a: Asm, shard: ShardContext) -> None:
    """Wait for the reconnect deadline; zero means schedule the normal backoff now."""
    due, wait, ended = a.label("due"), a.label("wait"), a.label("ended")
    a.call(shard_say_goodbye)
    a.mov(R12, RAX)

    a.cmp(shard.reconnect_deadline, 0)
    with a.if_(Z):
        a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
        with a.if_(Z):
            # Without a clock nothing can be scheduled: one record, then wait for calibration.
            a.mov(shard.state, ShardState.ASSIGNED)
            a.mov(shard.hold, Hold.NO_CLOCK)
            a.mov(EDX, shard.evidence.error)
            a.mov(ECX, shard.evidence.tcp_state)
            a.mov(R8D, shard.evidence.tls_state)
            log(a, SHARD_NO_CLOCK, RBX)
            a.mov(RAX, -1)
            a.ret()
        a.call(shard_back_off)
        a.cmp(shard.state, ShardState.BACKOFF)
        a.jne(ended)

    a.mov(RAX, shard.reconnect_deadline)
    a.cmp(RAX, core.now)
    a.j(B, due)
    a.j(NE, wait)
    # The last connection's farewell comes first; it has its own end. A dead peer is not waited for.
    a.place(due)
    a.cmp(shard.close_deadline, 0)
    with a.if_(NE):
        a.cmp(shard.evidence.end, End.HEARTBEAT_TIMEOUT)
        a.jne(ended)
    a.call(shard_begin)
    a.mov(RAX, core.now)
    a.ret()

    a.place(wait)
    a.cmp(RAX, R12)
    a.cmov(AE, RAX, R12)
    a.ret()
    a.place(ended)
    a.mov(RAX, R12)
    a.ret()


def _tell_gap(a: Asm, shard: ShardContext) -> None:
    """Settle whether events may be missing, and which: a Resume replays, a new session does not."""
    stream, told = shard.events, a.label("told")
    a.cmp(shard.phase, Phase.REPLAY)
    with a.if_(E):
        a.mov(CL, Gap.REPLAYED)
        a.cmp(shard.hole_first, 0)
        a.j(E, told)
        a.mov(CL, Gap.PARTIAL)
        a.jmp(told)
    a.xor(EAX, EAX)
    a.mov(shard.hole_first, EAX)
    a.mov(shard.hole_last, EAX)
    a.mov(CL, Gap.NONE)
    a.test(shard.flags, ShardFlag.ESTABLISHED | ShardFlag.RESTORED)
    a.j(Z, told)
    a.mov(CL, Gap.POSSIBLE)
    a.cmp(stream.gap_open, 0)
    a.j(E, told)
    a.mov(EAX, stream.gap_first)
    a.cmp(EAX, EVENT_UNKNOWN)
    with a.if_(NE):
        a.mov(shard.hole_first, EAX)
    a.place(told)
    a.mov(shard.gap, CL)
    a.mov(stream.gap_open, 0)


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose READY or RESUMED just came")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.hole_first,
        EventStream.gap_open,
        EventStream.gap_first,
        ShardContext.phase,
        ShardContext.attempt_started,
        ShardContext.disconnected_at,
        ShardContext.session_ptr,
        ShardContext.flags,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        ShardContext.state,
        ShardContext.phase,
        ShardContext.flags,
        ShardContext.connected_at,
        ShardContext.disconnected_at,
        ShardContext.attempt_deadline,
        ShardContext.outage_ms,
        ShardContext.gap,
        ShardContext.hole_first,
        ShardContext.hole_last,
        ShardContext.resumable_invalid,
        EventStream.gap_open,
        Session.unanswered_resumes,
    ],
    calls=[startup_check, log_write],
    source="firmware/docs/lifecycle.md#ready",
)
def shard_become_ready(a: Asm, shard: ShardContext) -> None:
    """Move one shard to READY and say how it got there, and whether events may be missing."""
    _tell_gap(a, shard)
    # How long it was away; 0 for the first READY.
    a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
    a.mov(RAX, shard.disconnected_at)
    a.test(RAX, RAX)
    with a.if_(NZ):
        a.neg(RAX)
        a.add(RAX, core.now)
        a.xor(EDX, EDX)
        a.test(RCX, RCX)
        with a.if_(NZ):
            a.div(RCX)
    a.mov(shard.outage_ms, EAX)

    a.mov(shard.state, ShardState.READY)
    a.mov(EAX, shard.flags)
    a.or_(EAX, ShardFlag.ESTABLISHED)
    a.and_(EAX, ~ShardFlag.RESTORED & 0xFFFF_FFFF)
    a.mov(shard.flags, EAX)
    a.xor(EAX, EAX)
    a.mov(shard.attempt_deadline, RAX)
    a.mov(shard.disconnected_at, RAX)
    a.mov(shard.resumable_invalid, AL)
    a.mov(RDX, core.now)
    a.mov(shard.connected_at, RDX)
    a.mov(RCX, shard.session_ptr)
    a.test(RCX, RCX)
    with a.if_(NZ):
        a.mov(Session.at(RCX).unanswered_resumes, 0)

    a.sub(RDX, shard.attempt_started)
    a.cmp(shard.phase, Phase.REPLAY)
    a.set(E, AL)
    a.movzx(ECX, AL)
    a.mov(shard.phase, Phase.NONE)
    log(a, SHARD_READY, RBX)
    a.jmp(startup_check)


@routine(
    inputs=[In(RBX, ShardContext, "a shard in STARTING")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.phase,
        ShardContext.flags,
        WebSocketContext.state,
        GatewayContext.state,
    ],
    writes=[ShardContext.phase, ShardContext.identifies, ShardContext.resumes],
    calls=[allowance_count, permit_release, shard_become_ready],
    source="firmware/docs/lifecycle.md#phases",
)
def shard_follow(a: Asm, shard: ShardContext) -> None:
    """Let the phase follow WebSocket and Gateway, whatever became of the connection since."""
    # OPEN, CLOSING and CLOSED: the upgrade was accepted.
    with a.block() as later:
        a.cmp(shard.phase, Phase.WS)
        a.leave(NE, later)
        a.mov(EAX, shard.websocket.state)
        a.sub(EAX, WsState.OPEN)
        a.cmp(EAX, WsState.CLOSED - WsState.OPEN)
        a.leave(A, later)
        a.mov(shard.phase, Phase.HELLO)

    # The Gateway layer answers Hello with Identify or Resume; the permit's five seconds start.
    with a.block() as later:
        a.cmp(shard.phase, Phase.HELLO)
        a.leave(NE, later)
        # READY or RESUMED may have come with Hello; what was answered is known all the same.
        a.mov(EAX, shard.gateway.state)
        a.cmp(EAX, GatewayState.READY)
        with a.if_(E):
            a.mov(EAX, GatewayState.WAIT_READY)
            a.test(shard.flags, ShardFlag.RESUMED)
            with a.if_(NZ):
                a.mov(EAX, GatewayState.WAIT_RESUMED)
        a.cmp(EAX, GatewayState.WAIT_RESUMED)
        with a.if_(E):
            a.mov(shard.phase, Phase.REPLAY)
        a.cmp(EAX, GatewayState.WAIT_READY)
        a.leave(NE, later)
        a.inc(shard.identifies)
        a.mov(shard.phase, Phase.IDENT)
        a.call(allowance_count)
        a.call(permit_release)
    with a.block() as later:
        a.cmp(shard.gateway.state, GatewayState.READY)
        a.leave(NE, later)
        a.cmp(shard.phase, Phase.REPLAY)
        with a.if_(Z):
            a.inc(shard.resumes)
        a.call(shard_become_ready)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in STARTING")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.phase,
        TcpContext.state,
    ],
    writes=[ShardContext.phase],
    calls=[
        shard_ask_permit,
        shard_dial,
        tls_ready,
        ws_start,
        shard_follow,
    ],
    source="firmware/docs/lifecycle.md#phases",
)
def shard_advance(a: Asm, shard: ShardContext) -> None:
    """Go from phase to phase as far as the layers below have come."""
    # Each test falls through to the next phase, so one turn may pass several.
    a.cmp(shard.phase, Phase.PERMIT)
    with a.if_(Z):
        a.call(shard_ask_permit)
    a.cmp(shard.phase, Phase.RESOLVE)
    with a.if_(Z):
        a.call(shard_dial)

    with a.block() as later:
        a.cmp(shard.phase, Phase.TCP)
        a.leave(NE, later)
        a.cmp(shard.tcp.state, TcpState.ESTABLISHED)
        a.leave(NE, later)
        a.mov(shard.phase, Phase.TLS)
    with a.block() as later:
        a.cmp(shard.phase, Phase.TLS)
        a.leave(NE, later)
        a.call(tls_ready)
        a.leave(C, later)
        a.call(ws_start)
        a.mov(shard.phase, Phase.WS)
    a.call(shard_follow)
    a.ret()
