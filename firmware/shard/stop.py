"""A shard of a node that stops: it closes so that its session survives, and starts nothing again."""

from firmware.abi import CALLER_SAVED
from firmware.events.publish import publish_rewind
from firmware.events.send import events_abort
from firmware.layouts.gateway import (
    CLOSE_DESTROYING_SESSION,
    CLOSE_KEEPING_SESSION,
    LATENCY_UNKNOWN,
    GatewayContext,
)
from firmware.layouts.log import SHARD_HELD
from firmware.layouts.node import CLOCK, LEASE, Clock, CoreState, Lease, core
from firmware.layouts.plan import Leaving
from firmware.layouts.shard import Hold, Phase, ShardContext, ShardState
from firmware.layouts.stop import STOP, Stop
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.tls import TlsContext, TlsState
from firmware.layouts.websocket import WebSocketContext, WsState
from firmware.limits import CLOSE_TIMEOUT_MS
from firmware.log import log, log_write
from firmware.shard.permit import permit_release
from firmware.shard.phases import shard_say_goodbye
from firmware.shard.reset import wipe_transport
from firmware.shard.resume import restore_resume_state
from firmware.tcp.timers import tcp_tick
from firmware.tls.transport import tls_abort
from firmware.websocket.close import ws_close
from firmware.websocket.frames import ws_next
from toolchain.asm import (
    BE,
    DL,
    EAX,
    EDX,
    NE,
    R12,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    routine,
)


def hold_at_rest(a: Asm, shard: ShardContext) -> None:
    """EDX := the hold of a shard that gives its place up, or of one whose node stops."""
    a.mov(EDX, Hold.STOPPED)
    a.cmp(shard.leaving, Leaving.NO)
    with a.if_(NE):
        a.mov(EDX, Hold.PLAN_CHANGED)


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose connection is over")],
    clobbers=CALLER_SAVED,
    reads=[TcpContext.state, ShardContext.sequence, ShardContext.flags],
    writes=[Stop.reset],
    calls=[tls_abort, wipe_transport, restore_resume_state],
    saves=[R12, R14, R15],
    source="firmware/docs/stop.md#released",
)
def shard_put_away(a: Asm, shard: ShardContext) -> None:
    """Release the connection and wipe its state; what a Resume needs stays."""
    # A connection that is still there ends by a reset.
    a.mov(EAX, shard.tcp.state)
    a.dec(EAX)
    a.cmp(EAX, TcpState.TIME_WAIT - 1)
    with a.if_(B):
        a.inc(STOP.it.reset)
    a.call(tls_abort)
    a.mov(R14D, shard.sequence)
    a.mov(R15D, shard.flags)
    a.call(wipe_transport)
    a.call(restore_resume_state)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that is neither FATAL nor stopped")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.leaving,
        ShardContext.close_deadline,
        TcpContext.state,
        WebSocketContext.state,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        ShardContext.state,
        ShardContext.hold,
        ShardContext.phase,
        ShardContext.disconnected_at,
        ShardContext.connected_at,
        ShardContext.attempt_deadline,
        ShardContext.phase_deadline,
        ShardContext.reconnect_deadline,
        ShardContext.close_deadline,
        GatewayContext.latency_ms,
    ],
    calls=[events_abort, publish_rewind, permit_release, log_write, shard_put_away],
    source="firmware/docs/stop.md#shards",
)
def shard_stop(a: Asm, shard: ShardContext) -> None:
    """End whatever the shard does: an open WebSocket gets five seconds to close, the rest none."""
    kept = a.label("kept")
    hold_at_rest(a, shard)
    a.mov(shard.hold, DL)
    a.cmp(shard.state, ShardState.ASSIGNED)
    a.j(E, kept)
    a.call(events_abort)
    a.call(publish_rewind)
    a.call(permit_release)
    hold_at_rest(a, shard)
    log(a, SHARD_HELD, RBX)
    a.cmp(shard.state, ShardState.READY)
    with a.if_(E):
        a.mov(RAX, core.now)
        a.mov(shard.disconnected_at, RAX)
    a.xor(EAX, EAX)
    a.mov(shard.connected_at, RAX)
    a.mov(shard.attempt_deadline, RAX)
    a.mov(shard.phase_deadline, RAX)
    a.mov(shard.reconnect_deadline, RAX)
    a.mov(shard.state, ShardState.ASSIGNED)
    a.mov(shard.phase, Phase.NONE)
    a.mov(shard.gateway.latency_ms, LATENCY_UNKNOWN)

    # A farewell that has begun goes on, with the time that it has left.
    a.cmp(shard.close_deadline, 0)
    a.j(NE, kept)
    with a.block() as no_close:
        a.cmp(shard.websocket.state, WsState.OPEN)
        a.leave(NE, no_close)
        # A transport that ended leaves its upper layers as they were, until the next attempt.
        with a.block() as alive:
            a.cmp(shard.tcp.state, TcpState.ESTABLISHED)
            a.leave(E, alive)
            a.cmp(shard.tcp.state, TcpState.CLOSE_WAIT)
            a.leave(NE, no_close)
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, CLOSE_TIMEOUT_MS)
        a.add(RAX, core.now)
        a.mov(shard.close_deadline, RAX)
        a.jmp(kept)
    # A handshake in progress is dropped without a close frame.
    a.jmp(shard_put_away)
    a.place(kept)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "any shard while the node stops, or one that leaves")],
    outputs=[Out(RAX, "TSC when it next wants to run; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.hold,
        ShardContext.leaving,
        ShardContext.close_deadline,
        WebSocketContext.state,
        TlsContext.state,
        CoreState.now,
        Lease.expired,
    ],
    writes=[Stop.closed, Stop.reset],
    calls=[
        shard_say_goodbye,
        shard_stop,
        shard_put_away,
        ws_next,
        ws_close,
        tcp_tick,
    ],
    saves=[R12],
    source="firmware/docs/stop.md#shards",
)
def shard_drain(a: Asm, shard: ShardContext) -> None:
    """Do one step towards the end of one shard's connection; nothing new begins."""
    closing, silent, over, reset, done, none = map(
        a.label, ("closing", "silent", "over", "reset", "done", "none")
    )
    a.cmp(shard.state, ShardState.FATAL)
    with a.if_(E):
        a.jmp(shard_say_goodbye)
    # Decision 18: without the lease nothing leaves, not even a close.
    a.cmp(LEASE.it.expired, 0)
    a.j(NE, silent)
    hold_at_rest(a, shard)
    a.cmp(shard.state, ShardState.ASSIGNED)
    with a.block() as stopped:
        again = a.label("again")
        a.j(NE, again)
        a.cmp(shard.hold, DL)
        a.leave(E, stopped)
        a.place(again)
        a.call(shard_stop)
    a.mov(R12, shard.close_deadline)
    a.test(R12, R12)
    a.jz(none)

    # What the peer sent before it saw our close is of no use any more; it will be replayed.
    with a.loop() as waiting:
        a.call(ws_next)
        a.leave(C, waiting)
        a.jmp(waiting.top)
    # The close frame may have to wait for room in the transmit buffer.
    a.mov(EDX, CLOSE_KEEPING_SESSION)
    a.cmp(shard.leaving, Leaving.ENDING)
    with a.if_(E):
        a.mov(EDX, CLOSE_DESTROYING_SESSION)
    a.call(ws_close)
    a.cmp(shard.websocket.state, WsState.OPEN)
    a.j(NE, closing)
    a.cmp(shard.tls.state, TlsState.FAILED)
    a.j(E, closing)
    a.cmp(R12, core.now)
    a.j(BE, closing)
    a.call(tcp_tick)
    a.cmp(RAX, R12)
    a.cmov(A, RAX, R12)
    a.ret()

    a.place(closing)
    a.call(shard_say_goodbye)
    a.cmp(shard.close_deadline, 0)
    a.j(E, over)
    a.ret()
    # It is over; both close frames were seen, or they were not within the time.
    a.place(over)
    a.cmp(shard.websocket.state, WsState.CLOSED)
    a.j(NE, reset)
    a.cmp(R12, core.now)
    a.j(BE, reset)
    a.inc(STOP.it.closed)
    a.jmp(done)
    a.place(reset)
    a.inc(STOP.it.reset)
    a.place(done)
    a.call(shard_put_away)
    a.jmp(none)

    a.place(silent)
    a.cmp(shard.close_deadline, 0)
    a.j(NE, done)
    a.place(none)
    a.mov(RAX, -1)
    a.ret()
