"""Dispatches: which count, which complete the handshake, and what becomes of one that cannot be read."""

from firmware.abi import CALLER_SAVED
from firmware.failure import shard_fail
from firmware.gateway.fail import gateway_violate
from firmware.gateway.pace import gateway_rate_limited
from firmware.gateway.profile import profile_table
from firmware.gateway.session import gateway_ready, kind, value
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.gateway import (
    CLOSE_KEEPING_SESSION,
    DISPATCH_EARLY,
    DISPATCH_MALFORMED,
    EVENT_NAME,
    READY_UNEXPECTED,
    RESUMED_UNEXPECTED,
    SEQUENCE_BACK,
    SEQUENCE_FORM,
    GatewayContext,
    GatewayState,
)
from firmware.layouts.json import (
    EVENT_RATE_LIMITED,
    EVENT_READY,
    EVENT_RESUMED,
    JsonField,
    JsonKind,
    JsonParser,
)
from firmware.layouts.log import GATEWAY_DISPATCH, GATEWAY_REJECTED, GATEWAY_SEQUENCE, LogState
from firmware.layouts.log_line import Level
from firmware.layouts.outbox import OUTBOX, Outbox
from firmware.layouts.policy import OnMalformed
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import End, FailureFlag, ShardContext, ShardFlag
from firmware.log import at_level, log, log_write
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9,
    R9D,
    RAX,
    RBX,
    RCX,
    A,
    Asm,
    B,
    E,
    In,
    Label,
    Region,
    mem8,
    routine,
)

COMPUTED = Region("nothing", "LEA only computes")


def _text(text: bytes, at: int) -> int:
    return int.from_bytes(text[at : at + 4], "little")


def _note_hole(a: Asm, shard: ShardContext) -> None:
    """Keep what lies between the sequence ECX and EDX, which is not below it, when that is anything."""
    a.cmp(EDX, ECX)
    with a.if_(NE):
        a.mov(shard.hole_last, EDX)
        a.inc(ECX)
        a.cmp(shard.hole_first, 0)
        with a.if_(E):
            a.mov(shard.hole_first, ECX)


def _is_event(a: Asm, shard: ShardContext, name: bytes, other: Label) -> None:
    """Go on when `t` is the name, of five bytes or more: doublewords, the last two may overlap."""
    a.cmp(value(shard, JsonField.T), len(name))
    a.jne(other)
    for at in (*range(0, len(name) - 4, 4), len(name) - 4):  # unrolled: two or three
        a.cmp(shard.gateway.parser.t.m32(at), _text(name, at))
        a.jne(other)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser holds a dispatch that cannot be read")],
    clobbers=CALLER_SAVED,
    reads=[ConfigBlob.on_malformed],
    writes=[ShardContext.malformed],
    calls=[log_write, shard_fail],
    source="firmware/docs/gateway.md#malformed-dispatches",
)
def gateway_reject(a: Asm, shard: ShardContext) -> None:
    """Count it and say so; the configuration chooses whether that is all (seed B)."""
    a.inc(shard.malformed)
    a.movzx(EDX, CONFIG.it.on_malformed)
    log(a, GATEWAY_REJECTED, RBX)
    a.cmp(CONFIG.it.on_malformed, OnMalformed.TERMINATE)
    with a.if_(NE):
        a.ret()
    # A new connection would get it again: the session stays, and nobody tries.
    a.mov(EDX, End.PROTOCOL)
    a.mov(ECX, FailureFlag.FATAL)
    a.mov(R8D, CLOSE_KEEPING_SESSION)
    a.mov(R9D, DISPATCH_MALFORMED.code)
    a.jmp(shard_fail)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser holds a dispatch")],
    clobbers=CALLER_SAVED,
    reads=[
        LogState.level,
        ShardContext.sequence,
        ShardContext.failure,
        ShardContext.hole_first,
        ShardContext.profile,
        ProfileTable.resumed_numbered,
        GatewayContext.state,
        Outbox.base,
        JsonParser.kinds,
        JsonParser.values,
        JsonParser.t,
    ],
    writes=[
        ShardContext.sequence,
        ShardContext.flags,
        ShardContext.dispatches,
        ShardContext.phase_deadline,
        ShardContext.hole_first,
        ShardContext.hole_last,
        GatewayContext.state,
        GatewayContext.seq_acked,
        GatewayContext.seq_lower,
    ],
    calls=[gateway_ready, gateway_rate_limited, gateway_reject, gateway_violate, log_write],
    source="firmware/docs/gateway.md#dispatches",
)
def gateway_op_dispatch(a: Asm, shard: ShardContext) -> None:
    """Count a dispatch and take its sequence; READY and RESUMED complete the handshake."""
    gateway = shard.gateway
    sequence = EAX
    known, resumed, event, replay, live, lower, taken, malformed, fail = map(
        a.label,
        ("known", "resumed", "event", "replay", "live", "lower", "taken", "malformed", "fail"),
    )
    a.mov(R9D, SEQUENCE_FORM.code)
    a.cmp(kind(shard, JsonField.S), JsonKind.INTEGER)
    a.jne(fail)
    a.mov(R9D, EVENT_NAME.code)
    a.cmp(kind(shard, JsonField.T), JsonKind.STRING)
    a.jne(fail)
    with at_level(a, Level.DEBUG):
        log(a, GATEWAY_DISPATCH, RBX)
    a.mov(sequence, value(shard, JsonField.S))
    _is_event(a, shard, EVENT_READY, resumed)
    a.mov(R9D, READY_UNEXPECTED.code)
    a.cmp(gateway.state, GatewayState.WAIT_READY)
    a.jne(fail)
    a.inc(shard.dispatches)
    a.jmp(gateway_ready)

    # RESUMED may carry a sequence of the past: only the higher one counts.
    a.place(resumed)
    _is_event(a, shard, EVENT_RESUMED, event)
    a.mov(R9D, RESUMED_UNEXPECTED.code)
    a.cmp(gateway.state, GatewayState.WAIT_RESUMED)
    a.jne(fail)
    a.mov(gateway.state, GatewayState.READY)
    a.or_(shard.flags, ShardFlag.RESUMED)
    a.xor(ECX, ECX)
    a.mov(shard.phase_deadline, RCX)
    a.mov(ECX, shard.sequence)
    a.cmp(sequence, ECX)
    a.cmov(B, sequence, ECX)
    with a.if_(A):
        # What RESUMED names was not repeated, unless the number is its own.
        a.mov(EDX, sequence)
        table = profile_table(a, shard, R8, R9)
        a.sub(EDX, table.resumed_numbered)
        _note_hole(a, shard)
    a.place(known)
    a.inc(shard.dispatches)
    a.mov(shard.sequence, sequence)
    # Where dispatches are published, the stream's answer makes them count.
    a.cmp(OUTBOX.it.base, 0)
    with a.if_(E):
        a.mov(gateway.seq_acked, sequence)
    a.ret()

    a.place(event)
    a.mov(R9D, DISPATCH_EARLY.code)
    a.cmp(gateway.state, GatewayState.WAIT_RESUMED)
    a.jb(fail)
    a.je(replay)
    a.cmp(gateway.state, GatewayState.READY)
    a.j(A, fail)
    a.mov(ECX, shard.sequence)
    a.cmp(sequence, ECX)
    a.jb(lower)
    # Only what the node itself reads can be malformed; the rest is the application's.
    a.place(live)
    _is_event(a, shard, EVENT_RATE_LIMITED, known)
    # What of it can be read is obeyed in any case.
    a.call(gateway_rate_limited)
    a.cmp(kind(shard, JsonField.RATE_OPCODE), JsonKind.INTEGER)
    a.jne(malformed)
    for number in (JsonKind.INTEGER, JsonKind.DECIMAL, JsonKind.NUMBER):  # unrolled: three kinds
        a.cmp(kind(shard, JsonField.RETRY_AFTER), number)
        a.j(E, taken)
    a.place(malformed)
    a.call(gateway_reject)
    a.cmp(shard.failure, End.NONE)
    with a.if_(NE):
        a.ret()
    a.place(taken)
    a.mov(sequence, value(shard, JsonField.S))
    a.jmp(known)

    # A service may leave out of a replay what it does not keep: that is no fault, but is told.
    a.place(replay)
    a.mov(ECX, shard.sequence)
    a.cmp(sequence, ECX)
    a.jb(lower)
    with a.if_(NE):
        a.lea(EDX, mem8(RAX, -1, ref=COMPUTED))
        _note_hole(a, shard)
    a.jmp(live)

    a.place(lower)
    a.mov(R9D, SEQUENCE_BACK.code)
    a.cmp(gateway.state, GatewayState.READY)
    a.j(E, fail)
    a.inc(shard.dispatches)
    a.inc(gateway.seq_lower)
    a.mov(EDX, sequence)
    log(a, GATEWAY_SEQUENCE, RBX)
    a.ret()
    a.place(fail)
    a.call(gateway_violate)
    a.ret()
