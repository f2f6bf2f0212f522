"""One message: dispatched on its opcode through a table."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.failure import shard_fail
from firmware.gateway.dispatch import gateway_op_dispatch
from firmware.gateway.fail import gateway_violate
from firmware.gateway.handshake import gateway_handshake
from firmware.gateway.profile import profile_table
from firmware.gateway.send import gateway_heartbeat
from firmware.gateway.session import kind, value
from firmware.layouts.gateway import (
    CLOSE_DESTROYING_SESSION,
    CLOSE_KEEPING_SESSION,
    HELLO_INTERVAL,
    INTERVAL_MAX_MS,
    INTERVAL_MIN_MS,
    LATE_ACK_MS,
    LATENCY_UNKNOWN,
    OP_MISSING,
    OPS_KNOWN,
    RECONNECT,
    SECOND_HELLO,
    SESSION_INVALID,
    GatewayContext,
    GatewayFlag,
    GatewayState,
    Op,
)
from firmware.layouts.json import (
    JsonField,
    JsonKind,
    JsonParser,
)
from firmware.layouts.log import (
    GATEWAY_ACK,
    GATEWAY_HELLO,
    GATEWAY_INVALID,
    GATEWAY_LATE,
    GATEWAY_RECEIVE,
    GATEWAY_RECONNECT,
    GATEWAY_UNKNOWN,
    LogState,
)
from firmware.layouts.log_line import Level
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.policy import RESUMABLE_INVALID_MAX
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.log import at_level, log, log_write
from toolchain.asm import (
    AE,
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    C,
    E,
    In,
    Region,
    Z,
    mem64,
    routine,
)
from toolchain.layout.data import Table

COMPUTED = Region("nothing", "LEA only computes")


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser holds Hello")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.sequence,
        JsonParser.kinds,
        JsonParser.values,
        GatewayContext.state,
        GatewayContext.heartbeat_interval_ms,
        GatewayContext.interval_cycles,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
    ],
    writes=[
        ShardContext.phase_deadline,
        GatewayContext.state,
        GatewayContext.heartbeat_interval_ms,
        GatewayContext.interval_cycles,
        GatewayContext.hb_next,
        GatewayContext.latency_ms,
        GatewayContext.seq_acked,
    ],
    calls=[drbg_u64, gateway_handshake, gateway_violate, log_write],
    source="firmware/docs/gateway.md#hello",
)
def gateway_op_hello(a: Asm, shard: ShardContext) -> None:
    """Start the heartbeat somewhere in the first interval, then identify or resume."""
    gateway = shard.gateway
    second, bad, fail = a.label("second"), a.label("bad"), a.label("fail")
    a.cmp(gateway.state, GatewayState.WAIT_HELLO)
    a.j(A, second)
    a.cmp(kind(shard, JsonField.HEARTBEAT_INTERVAL), JsonKind.INTEGER)
    a.jne(bad)
    a.mov(EAX, value(shard, JsonField.HEARTBEAT_INTERVAL))
    a.lea(ECX, mem64(RAX, -INTERVAL_MIN_MS, ref=COMPUTED))
    a.cmp(ECX, INTERVAL_MAX_MS - INTERVAL_MIN_MS)
    a.j(A, bad)

    a.mov(gateway.heartbeat_interval_ms, EAX)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.mov(gateway.interval_cycles, RAX)
    # The first beat comes after a random part of the interval.
    a.call(drbg_u64)
    a.mul(gateway.interval_cycles)
    a.add(RDX, core.now)
    a.mov(gateway.hb_next, RDX)
    a.mov(gateway.latency_ms, LATENCY_UNKNOWN)
    a.mov(EAX, shard.sequence)
    a.mov(gateway.seq_acked, EAX)
    a.xor(EAX, EAX)
    a.mov(shard.phase_deadline, RAX)
    a.mov(gateway.state, GatewayState.ANSWER)
    a.call(gateway_handshake)

    a.mov(EDX, gateway.heartbeat_interval_ms)
    a.xor(ECX, ECX)
    a.cmp(gateway.state, GatewayState.WAIT_RESUMED)
    a.set(E, CL)
    log(a, GATEWAY_HELLO, RBX)
    a.ret()

    a.place(second)
    a.mov(R9D, SECOND_HELLO.code)
    a.jmp(fail)
    a.place(bad)
    a.mov(R9D, HELLO_INTERVAL.code)
    a.place(fail)
    a.call(gateway_violate)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the server sent op 1")],
    clobbers=CALLER_SAVED,
    reads=[GatewayContext.hb_next],
    writes=[GatewayContext.flags, GatewayContext.unknown_ops],
    calls=[gateway_heartbeat],
    source="firmware/docs/gateway.md#heartbeats",
)
def gateway_op_heartbeat(a: Asm, shard: ShardContext) -> None:
    """Answer at once; without room the next tick does it. Before Hello it means nothing."""
    gateway = shard.gateway
    a.cmp(gateway.hb_next, 0)
    with a.if_(E):
        a.inc(gateway.unknown_ops)
        a.ret()
    a.call(gateway_heartbeat)
    with a.if_(C):
        a.or_(gateway.flags, GatewayFlag.BEAT_OWED)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the server sent op 11")],
    clobbers=CALLER_SAVED,
    reads=[
        LogState.level,
        GatewayContext.flags,
        GatewayContext.hb_sent_at,
        GatewayContext.latency_ms,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
    ],
    writes=[
        GatewayContext.flags,
        GatewayContext.latency_ms,
        GatewayContext.last_ack_at,
        GatewayContext.acks,
    ],
    calls=[log_write],
    source="firmware/docs/gateway.md#heartbeats",
)
def gateway_op_ack(a: Asm, shard: ShardContext) -> None:
    """Take the ACK of a pending heartbeat; one that nobody asked for is ignored."""
    gateway = shard.gateway
    a.test(gateway.flags, GatewayFlag.ACK_PENDING)
    with a.if_(NZ):
        a.and_(gateway.flags, ~GatewayFlag.ACK_PENDING & 0xFFFF_FFFF)
        a.inc(gateway.acks)
        a.mov(RAX, core.now)
        a.mov(gateway.last_ack_at, RAX)
        a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
        a.test(RCX, RCX)
        with a.if_(NZ):
            a.sub(RAX, gateway.hb_sent_at)
            a.xor(EDX, EDX)
            a.div(RCX)
            a.mov(gateway.latency_ms, EAX)
            with at_level(a, Level.TRACE):
                log(a, GATEWAY_ACK, RBX)
            a.cmp(gateway.latency_ms, LATE_ACK_MS)
            with a.if_(A):
                log(a, GATEWAY_LATE, RBX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the server sent op 7")],
    clobbers=CALLER_SAVED,
    calls=[shard_fail, log_write],
    source="firmware/docs/gateway.md#reconnect",
)
def gateway_op_reconnect(a: Asm, shard: ShardContext) -> None:
    """Close with 4000 and resume on a new connection."""
    log(a, GATEWAY_RECONNECT, RBX)
    a.mov(EDX, End.RECONNECT_REQUESTED)
    a.xor(ECX, ECX)
    a.mov(R8D, CLOSE_KEEPING_SESSION)
    a.mov(R9D, RECONNECT.code)
    a.jmp(shard_fail)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the server sent op 9")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.profile,
        ShardContext.resumable_invalid,
        ProfileTable.invalid_resumable,
        JsonParser.kinds,
    ],
    writes=[ShardContext.resumable_invalid],
    calls=[shard_fail, log_write],
    saves=[R12],
    source="firmware/docs/gateway.md#invalid-session",
)
def gateway_op_invalid(a: Asm, shard: ShardContext) -> None:
    """Keep the session when `d` may be true and is, but not for ever; anything else ends it."""
    a.xor(R12D, R12D)
    with a.block() as lost:
        a.cmp(kind(shard, JsonField.D), JsonKind.TRUE)
        a.leave(NE, lost)
        table = profile_table(a, shard, RAX, RCX)
        a.cmp(table.invalid_resumable, 0)
        a.leave(E, lost)
        a.cmp(shard.resumable_invalid, RESUMABLE_INVALID_MAX - 1)
        a.leave(AE, lost)
        a.inc(shard.resumable_invalid)
        a.inc(R12D)
    a.mov(EDX, R12D)
    log(a, GATEWAY_INVALID, RBX)
    a.lea(R9D, mem64(R12, SESSION_INVALID.code, ref=COMPUTED))
    a.mov(EDX, End.INVALID_SESSION)
    a.xor(ECX, ECX)
    a.mov(R8D, CLOSE_KEEPING_SESSION)
    a.test(R12D, R12D)
    with a.if_(Z):
        a.mov(ECX, FailureFlag.RESET_SESSION)
        a.mov(R8D, CLOSE_DESTROYING_SESSION)
    a.jmp(shard_fail)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser holds a message with an opcode")],
    clobbers=CALLER_SAVED,
    reads=[LogState.level],
    writes=[GatewayContext.unknown_ops],
    calls=[log_write],
    source="firmware/docs/gateway.md#opcodes",
)
def gateway_op_unknown(a: Asm, shard: ShardContext) -> None:
    """Count an opcode that means nothing here; a client ignores it."""
    a.inc(shard.gateway.unknown_ops)
    with at_level(a, Level.DEBUG):
        log(a, GATEWAY_UNKNOWN, RBX)
    a.ret()


_HANDLERS = {
    Op.DISPATCH: gateway_op_dispatch,
    Op.HEARTBEAT: gateway_op_heartbeat,
    Op.RECONNECT: gateway_op_reconnect,
    Op.INVALID_SESSION: gateway_op_invalid,
    Op.HELLO: gateway_op_hello,
    Op.HEARTBEAT_ACK: gateway_op_ack,
}
HANDLERS = tuple(_HANDLERS.get(Op(n) if n in list(Op) else Op.IDENTIFY, gateway_op_unknown)
                 for n in range(OPS_KNOWN))  # fmt: skip
OPS = Table("gateway_ops", OPS_KNOWN, lambda: HANDLERS, "what an opcode does")


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser holds a whole message")],
    clobbers=CALLER_SAVED,
    reads=[JsonParser.kinds, JsonParser.values, OPS, LogState.level],
    calls=[gateway_op_unknown, gateway_violate, log_write],
    indirect=lambda: tuple(dict.fromkeys(HANDLERS)),
    source="firmware/docs/gateway.md#opcodes",
)
def gateway_message(a: Asm, shard: ShardContext) -> None:
    """Act on one message by its opcode."""
    a.cmp(kind(shard, JsonField.OP), JsonKind.INTEGER)
    with a.if_(NE):
        a.mov(R9D, OP_MISSING.code)
        a.jmp(gateway_violate)
    with at_level(a, Level.TRACE):
        log(a, GATEWAY_RECEIVE, RBX)
    a.mov(EAX, value(shard, JsonField.OP))
    a.cmp(EAX, OPS_KNOWN)
    with a.if_(AE):
        a.jmp(gateway_op_unknown)
    a.lea(RCX, OPS.address)
    a.mov(RAX, mem64(RCX, index=RAX, scale=8, ref=OPS))
    a.call_indirect(RAX)
    a.ret()
