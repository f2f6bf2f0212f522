"""The lifecycle of one shard, one step: what the scheduler does next with it (seed A).

The tick takes one shard. The same pointer goes through lifecycle, TCP, TLS, WebSocket and Gateway,
so no layer scans the pool. `shards_tick` is the compatibility wrapper that sweeps all active shards.
"""

from firmware.abi import CALLER_SAVED
from firmware.failure import shard_fail
from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.gateway import GatewayContext, GatewayState
from firmware.layouts.log import SHARD_NO_CLOCK, SHARD_READY
from firmware.layouts.node import CLOCK, CORE, Clock, CoreState, Slot, core
from firmware.layouts.shard import (
    End,
    Evidence,
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
from firmware.shard.backoff import schedule_backoff
from firmware.shard.dial import (
    ATTEMPT_TIMEOUT,
    CONNECTION_GONE,
    shard_ask_permit,
    shard_begin,
    shard_dial,
    shard_may_start,
)
from firmware.shard.lose import record_backoff, shard_lose
from firmware.shard.permit import permit_release
from firmware.tcp.timers import tcp_tick
from firmware.tls.transport import tls_abort, tls_close, tls_start
from firmware.websocket.connection import ws_start
from firmware.websocket.frames import ws_next
from toolchain.asm import (
    AE,
    AL,
    EAX,
    EBX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9,
    R9D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RDX,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Z,
    routine,
)

RETRY_POLL_MS = 100
"""How often a shard looks again for what nobody announces: a lease, a permit, an address."""
SLOT_ACTIVE = 1
CLOSE_UNKNOWN_ERROR = 4000
"""The close code that keeps the session alive at the peer (decision 24)."""


def _poll_deadline(a: Asm) -> None:
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
        ShardContext.reconnect_deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Evidence.error,
        Evidence.tcp_state,
        Evidence.tls_state,
    ],
    writes=[ShardContext.state, ShardContext.hold],
    calls=[shard_say_goodbye, schedule_backoff, record_backoff, shard_begin, log_write],
    saves=[R12],
    source="firmware/docs/lifecycle.md#zero-deadlines",
)
def tick_backoff(a: Asm, shard: ShardContext) -> None:
    """Wait for the reconnect deadline; zero means schedule the normal backoff now."""
    due, wait = a.label("due"), a.label("wait")
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
        a.call(schedule_backoff)
        a.call(record_backoff)

    a.mov(RAX, shard.reconnect_deadline)
    a.cmp(RAX, core.now)
    a.j(B, due)
    a.j(NE, wait)
    a.place(due)
    a.call(shard_begin)
    a.mov(RAX, core.now)
    a.ret()

    a.place(wait)
    a.cmp(RAX, R12)
    a.cmov(AE, RAX, R12)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose READY or RESUMED just came")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.phase,
        ShardContext.attempts,
        ShardContext.sequence,
        ShardContext.attempt_started,
        ShardContext.session_ptr,
        CoreState.now,
    ],
    writes=[
        ShardContext.state,
        ShardContext.phase,
        ShardContext.flags,
        ShardContext.connected_at,
        ShardContext.disconnected_at,
        ShardContext.attempt_deadline,
        Session.unanswered_resumes,
    ],
    calls=[log_write],
    source="firmware/docs/lifecycle.md#ready",
)
def shard_become_ready(a: Asm, shard: ShardContext) -> None:
    """Move one shard to READY and say how it got there."""
    a.mov(shard.state, ShardState.READY)
    a.or_(shard.flags, ShardFlag.ESTABLISHED)
    a.xor(EAX, EAX)
    a.mov(shard.attempt_deadline, RAX)
    a.mov(shard.disconnected_at, RAX)
    a.mov(R9, core.now)
    a.mov(shard.connected_at, R9)
    a.mov(RDX, shard.session_ptr)
    a.test(RDX, RDX)
    with a.if_(NZ):
        a.mov(Session.at(RDX).unanswered_resumes, 0)

    a.sub(R9, shard.attempt_started)
    a.cmp(shard.phase, Phase.REPLAY)
    a.set(E, AL)
    a.movzx(ECX, AL)
    a.mov(shard.phase, Phase.NONE)
    a.mov(EDX, shard.attempts)
    a.mov(R8D, shard.sequence)
    log(a, SHARD_READY, RBX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in STARTING")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.phase,
        TcpContext.state,
        TlsContext.state,
        WebSocketContext.state,
        GatewayContext.state,
    ],
    writes=[ShardContext.phase, ShardContext.identifies, ShardContext.resumes],
    calls=[
        shard_ask_permit,
        shard_dial,
        tls_start,
        ws_start,
        permit_release,
        shard_become_ready,
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
        a.call(tls_start)
        a.mov(shard.phase, Phase.TLS)
    with a.block() as later:
        a.cmp(shard.phase, Phase.TLS)
        a.leave(NE, later)
        a.cmp(shard.tls.state, TlsState.PASS_THROUGH)
        a.leave(NE, later)
        a.call(ws_start)
        a.mov(shard.phase, Phase.WS)
    with a.block() as later:
        a.cmp(shard.phase, Phase.WS)
        a.leave(NE, later)
        a.cmp(shard.websocket.state, WsState.OPEN)
        a.leave(NE, later)
        a.mov(shard.phase, Phase.HELLO)

    # The Gateway layer answers Hello with Identify or Resume; the permit's five seconds start.
    with a.block() as later:
        a.cmp(shard.phase, Phase.HELLO)
        a.leave(NE, later)
        a.cmp(shard.gateway.state, GatewayState.WAIT_RESUMED)
        with a.if_(Z):
            a.mov(shard.phase, Phase.REPLAY)
        a.cmp(shard.gateway.state, GatewayState.WAIT_READY)
        a.leave(NE, later)
        a.inc(shard.identifies)
        a.mov(shard.phase, Phase.IDENT)
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
    inputs=[In(RBX, ShardContext, "a shard in STARTING or READY")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.attempt_deadline,
        CoreState.now,
        TcpContext.state,
        TcpContext.error,
        TlsContext.state,
        TlsContext.error,
        WebSocketContext.state,
    ],
    calls=[shard_fail],
    source="firmware/docs/lifecycle.md#detecting-failed-transport",
)
def shard_find_failure(a: Asm, shard: ShardContext) -> None:
    """Turn a failed layer or an overdue attempt into the shard's failure, unless one is known."""
    fail = a.label("fail")

    # The lowest layer first: FAILED of TCP or TLS is seed A's reason for a backoff.
    a.mov(EDX, End.TCP_FAILED)
    a.mov(R9D, shard.tcp.error)
    a.xor(R8D, R8D)
    a.cmp(shard.tcp.state, TcpState.FAILED)
    a.j(E, fail)
    a.mov(EDX, End.TLS_FAILED)
    a.mov(R9D, shard.tls.error)
    a.cmp(shard.tls.state, TlsState.FAILED)
    a.j(E, fail)
    a.mov(EDX, End.NETWORK)
    a.mov(R9D, CONNECTION_GONE.code)
    a.cmp(shard.websocket.state, WsState.CLOSED)
    a.j(AE, fail)

    # Only an attempt has a deadline; READY keeps it at zero.
    a.mov(RAX, shard.attempt_deadline)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.ret()
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.mov(EDX, End.TIMEOUT)
    a.mov(R9D, ATTEMPT_TIMEOUT.code)
    a.mov(R8D, CLOSE_UNKNOWN_ERROR)
    a.place(fail)
    a.xor(ECX, ECX)
    a.call(shard_fail)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in STARTING or READY")],
    outputs=[Out(RAX, "TSC when it next wants to run")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.phase,
        ShardContext.failure,
        ShardContext.attempt_deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    calls=[
        gateway_poll,
        shard_find_failure,
        shard_lose,
        shard_advance,
        gateway_tick,
        tcp_tick,
    ],
    saves=[R12],
    source="firmware/docs/lifecycle.md#tick",
)
def tick_connection(a: Asm, shard: ShardContext) -> None:
    """Read what came, look for failure, advance, send what is due."""
    failed, soon = a.label("failed"), a.label("soon")
    # What the peer said last (a close code, an op 9) counts before the state of its transport.
    a.cmp(shard.state, ShardState.READY)
    with a.block() as early:
        open_ = a.label("open")
        a.j(E, open_)
        a.cmp(shard.phase, Phase.WS)
        a.leave(B, early)
        a.cmp(shard.phase, Phase.PERMIT)
        a.leave(E, early)
        a.place(open_)
        a.call(gateway_poll)
    a.call(shard_find_failure)
    a.cmp(shard.failure, 0)
    a.j(NE, failed)

    a.cmp(shard.state, ShardState.STARTING)
    with a.if_(Z):
        a.call(shard_advance)
    a.call(gateway_tick)
    a.mov(R12, RAX)
    a.cmp(shard.failure, 0)
    a.j(NE, failed)
    a.call(tcp_tick)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)

    # An attempt ends by its deadline; while nobody will wake it, it looks again by itself.
    a.cmp(shard.state, ShardState.STARTING)
    a.j(NE, soon)
    a.mov(RAX, shard.attempt_deadline)
    a.dec(RAX)  # zero (no attempt yet) becomes the far end
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.cmp(shard.phase, Phase.RESOLVE)
    with a.block() as announced:
        again = a.label("again")
        a.j(E, again)
        a.cmp(shard.phase, Phase.PERMIT)
        a.leave(NE, announced)
        a.place(again)
        _poll_deadline(a)
        a.cmp(RAX, R12)
        a.cmov(B, R12, RAX)
    a.place(soon)
    a.mov(RAX, R12)
    a.ret()

    a.place(failed)
    a.call(shard_lose)
    a.mov(RAX, core.now)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RAX, "TSC when it next wants to run; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.state, CoreState.now, Clock.tsc_cycles_per_ms],
    writes=[ShardContext.hold],
    calls=[shard_may_start, shard_begin, tick_connection, tick_backoff, shard_say_goodbye],
    source="firmware/docs/lifecycle.md#tick",
)
def shard_tick(a: Asm, shard: ShardContext) -> None:
    """Do one step for one shard, by its state."""
    a.mov(EAX, shard.state)
    a.cmp(EAX, ShardState.BACKOFF)
    with a.if_(E):
        a.jmp(tick_backoff)
    with a.if_(A):
        a.jmp(shard_say_goodbye)  # FATAL retries nothing; it only finishes its farewell
    a.cmp(EAX, ShardState.ASSIGNED)
    with a.if_(NE):
        a.jmp(tick_connection)

    a.call(shard_may_start)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.mov(shard.hold, AL)
        _poll_deadline(a)
        a.ret()
    a.call(shard_begin)
    a.jmp(tick_connection)


@routine(
    clobbers=CALLER_SAVED,
    reads=[CoreState.slots_used, Slot.flags, Slot.context],
    writes=[Slot.deadline],
    calls=[shard_tick],
    saves=[RBX, R12, R13],
    source="firmware/docs/lifecycle.md#per-shard-failure-isolation",
)
def shards_tick(a: Asm) -> None:
    """Sweep all active shards, whatever their deadlines: the compatibility wrapper."""
    slot = Slot.at(R12)
    a.lea(R12, CORE.it.slots.address)
    a.mov(R13D, core.slots_used)
    a.test(R13D, R13D)
    with a.if_(NZ), a.loop() as top:
        a.test(slot.flags, SLOT_ACTIVE)
        with a.if_(NZ):
            a.mov(EBX, slot.context)
            a.call(shard_tick)
            a.mov(slot.deadline, RAX)
        a.add(R12, Slot.SIZE)
        a.dec(R13D)
        a.again(NZ, top)
    a.ret()
