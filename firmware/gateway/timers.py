"""What is due: heartbeats, the verdict on a missing ACK, the deadlines of Hello and Resume."""

from firmware.abi import CALLER_SAVED
from firmware.events.stall import publish_judge
from firmware.failure import shard_fail
from firmware.gateway.handshake import gateway_handshake, later
from firmware.gateway.send import gateway_heartbeat
from firmware.layouts.fleet_tickets import TICKET_LOOK_MS
from firmware.layouts.gateway import (
    BEAT_UNSENT,
    CLOSE_KEEPING_SESSION,
    HELLO_TIMEOUT,
    RESUME_TIMEOUT,
    ZOMBIE,
    GatewayContext,
    GatewayFlag,
    GatewayState,
)
from firmware.layouts.log import GATEWAY_ZOMBIE
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.outbox import OUTBOX, Outbox
from firmware.layouts.shard import End, ShardContext
from firmware.layouts.websocket import WebSocketContext, WsState
from firmware.limits import HELLO_TIMEOUT_MS
from firmware.log import log, log_write
from toolchain.asm import (
    BE,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    RAX,
    RBX,
    RCX,
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


@routine(
    inputs=[In(RBX, ShardContext, "a shard after Hello")],
    clobbers=CALLER_SAVED,
    reads=[
        GatewayContext.flags,
        GatewayContext.hb_next,
        GatewayContext.hb_sent_at,
        GatewayContext.interval_cycles,
        ShardContext.hb_misses,
        CoreState.now,
    ],
    writes=[GatewayContext.hb_next, GatewayContext.flags, ShardContext.hb_misses],
    calls=[gateway_heartbeat, shard_fail, log_write],
    source="firmware/docs/gateway.md#heartbeats",
)
def gateway_beat(a: Asm, shard: ShardContext) -> None:
    """Answer what is owed, judge what is pending, send what is due (decision 22)."""
    gateway = shard.gateway
    due, done = a.label("due"), a.label("done")
    a.test(gateway.flags, GatewayFlag.BEAT_OWED)
    with a.if_(NZ):
        a.call(gateway_heartbeat)

    # Missed: an ACK is pending and a whole interval has passed since the beat was sent.
    a.test(gateway.flags, GatewayFlag.ACK_PENDING)
    with a.if_(NZ):
        a.mov(RCX, core.now)
        a.sub(RCX, gateway.hb_sent_at)
        a.cmp(RCX, gateway.interval_cycles)
        a.jb(due)
        a.inc(shard.hb_misses)
        a.mov(EDX, shard.hb_misses)
        log(a, GATEWAY_ZOMBIE, RBX)
        a.mov(EDX, End.HEARTBEAT_TIMEOUT)
        a.xor(ECX, ECX)
        a.mov(R8D, CLOSE_KEEPING_SESSION)
        a.mov(R9D, ZOMBIE.code)
        a.jmp(shard_fail)

    a.place(due)
    a.mov(RAX, core.now)
    a.cmp(RAX, gateway.hb_next)
    a.jb(done)
    # A beat that the server forced and that is still pending stands for the scheduled one.
    a.test(gateway.flags, GatewayFlag.ACK_PENDING)
    with a.if_(Z):
        a.call(gateway_heartbeat)
        with a.if_(C):
            # It found no room: whoever makes none for an interval from when it was due is gone.
            a.or_(gateway.flags, GatewayFlag.BEAT_OWED)
            a.mov(RAX, core.now)
            a.sub(RAX, gateway.hb_next)
            a.cmp(RAX, gateway.interval_cycles)
            a.jb(done)
            a.mov(EDX, End.SEND_FAILED)
            a.xor(ECX, ECX)
            a.mov(R8D, CLOSE_KEEPING_SESSION)
            a.mov(R9D, BEAT_UNSENT.code)
            a.jmp(shard_fail)
    a.mov(RAX, gateway.hb_next)
    a.add(RAX, gateway.interval_cycles)
    a.cmp(RAX, core.now)
    with a.if_(BE):
        # The schedule lies in the past after a stall: it starts again from here.
        a.mov(RAX, core.now)
        a.add(RAX, gateway.interval_cycles)
    a.mov(gateway.hb_next, RAX)
    a.place(done)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RAX, "TSC when it next wants to run; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.failure,
        ShardContext.phase_deadline,
        GatewayContext.state,
        GatewayContext.flags,
        GatewayContext.hb_next,
        GatewayContext.hb_sent_at,
        GatewayContext.interval_cycles,
        WebSocketContext.state,
        Outbox.base,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[ShardContext.phase_deadline, GatewayContext.state],
    calls=[gateway_handshake, gateway_beat, publish_judge, shard_fail],
    saves=[R12],
    source="firmware/docs/gateway.md#timers",
)
def gateway_tick(a: Asm, shard: ShardContext) -> None:
    """Run the timers of one shard's Gateway session."""
    gateway = shard.gateway
    never, begun, timed = a.label("never"), a.label("begun"), a.label("timed")
    a.cmp(shard.failure, End.NONE)
    a.jne(never)
    a.cmp(gateway.state, GatewayState.IDLE)
    with a.if_(E):
        a.cmp(shard.websocket.state, WsState.OPEN)
        a.jne(never)
        a.mov(gateway.state, GatewayState.WAIT_HELLO)
        later(a, HELLO_TIMEOUT_MS)
        a.mov(shard.phase_deadline, RAX)
    a.cmp(gateway.state, GatewayState.ANSWER)
    with a.if_(E):
        a.call(gateway_handshake)

    # Hello or RESUMED is overdue.
    a.mov(RAX, shard.phase_deadline)
    a.test(RAX, RAX)
    a.jz(begun)
    a.cmp(RAX, core.now)
    a.j(A, begun)
    a.mov(R9D, RESUME_TIMEOUT.code)
    a.cmp(gateway.state, GatewayState.WAIT_HELLO)
    with a.if_(E):
        a.mov(R9D, HELLO_TIMEOUT.code)
    a.mov(EDX, End.TIMEOUT)
    a.xor(ECX, ECX)
    a.mov(R8D, CLOSE_KEEPING_SESSION)
    a.call(shard_fail)
    a.jmp(never)

    a.place(begun)
    a.cmp(gateway.hb_next, 0)
    with a.if_(NE):
        a.call(gateway_beat)
    a.mov(R12, -1)
    a.cmp(OUTBOX.it.base, 0)
    with a.if_(NE):
        a.call(publish_judge)
        a.mov(R12, RAX)
        a.cmp(shard.failure, End.NONE)
        a.jne(never)

    # The earliest of what is set. Zero less one is the far end.
    a.mov(RAX, shard.phase_deadline)
    a.dec(RAX)
    a.mov(RCX, gateway.hb_next)
    with a.block() as ahead:
        a.cmp(RCX, core.now)
        a.leave(A, ahead)
        a.test(RCX, RCX)
        a.leave(Z, ahead)
        # It found no room: frames that make some wake the shard, else the end of its interval.
        a.add(RCX, gateway.interval_cycles)
    a.dec(RCX)
    a.cmp(RCX, RAX)
    a.cmov(B, RAX, RCX)
    a.test(gateway.flags, GatewayFlag.ACK_PENDING)
    a.jz(timed)
    a.mov(RCX, gateway.hb_sent_at)
    a.add(RCX, gateway.interval_cycles)
    a.dec(RCX)
    a.cmp(RCX, RAX)
    a.cmov(B, RAX, RCX)
    a.place(timed)
    a.test(gateway.flags, GatewayFlag.TICKET_WAIT)
    with a.if_(NZ):
        # Its answer comes on another connection, which wakes no shard.
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, TICKET_LOOK_MS)
        a.add(RCX, core.now)
        a.dec(RCX)
        a.cmp(RCX, RAX)
        a.cmov(B, RAX, RCX)
    a.dec(R12)
    a.cmp(R12, RAX)
    a.cmov(B, RAX, R12)
    a.inc(RAX)
    a.ret()
    a.place(never)
    a.mov(RAX, -1)
    a.ret()
