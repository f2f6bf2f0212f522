"""Messages while somebody listens: their bytes are handed on as they come, and what became of them."""

from firmware.abi import CALLER_SAVED
from firmware.events.assembly import assembly_leave
from firmware.events.publish import publish_part, publish_whole
from firmware.events.send import (
    events_abort,
    events_begin,
    events_end,
    events_notice,
    events_part,
)
from firmware.gateway.fail import gateway_violate
from firmware.gateway.ops import gateway_message
from firmware.gateway.profile import profile_table
from firmware.gateway.session import kind, value
from firmware.layouts.events import EVENT_UNKNOWN, EVENTS, Events, EventStream, Notice, Verdict
from firmware.layouts.gateway import GatewayContext, GatewayState, Op
from firmware.layouts.json import INCOMPLETE, T_MAX, JsonField, JsonKind, JsonParser, JsonState
from firmware.layouts.outbox import OUTBOX, Outbox
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import End, ShardContext, ShardFlag
from firmware.websocket.frames import FIRST_PART, LAST_PART
from toolchain.asm import (
    BE,
    CF,
    EAX,
    EBP,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    routine,
)

COMPUTED = Region("nothing", "LEA only computes")
SESSION_NAME = b"READY"


def known_name(a: Asm, shard: ShardContext) -> None:
    """R9D := bytes of the dispatch's name in the parser; 0 = it does not fit. Clobbers RAX."""
    a.xor(R9D, R9D)
    a.mov(EAX, value(shard, JsonField.T))
    a.cmp(EAX, T_MAX)
    a.cmov(BE, R9D, EAX)


def finish_message(a: Asm, shard: ShardContext) -> None:
    """Act on the message whose last part the parser has; a text that ends early is a violation."""
    a.mov(EAX, shard.gateway.parser.state)
    a.lea(R9D, mem8(RAX, INCOMPLETE.code, ref=COMPUTED))
    a.cmp(EAX, JsonState.END)
    with a.if_(NE):
        a.jmp(gateway_violate)
    a.jmp(gateway_message)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser has the last part of a message")],
    clobbers=CALLER_SAVED,
    reads=[JsonParser.state],
    calls=[gateway_message, gateway_violate],
    source="firmware/docs/gateway.md#messages",
)
def gateway_end(a: Asm, shard: ShardContext) -> None:
    """Act on a whole message, and come back."""
    finish_message(a, shard)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser has a part that is not the last")],
    outputs=[Out(CF, "1 = the bytes must not be handed on")],
    reads=[JsonParser.kinds, JsonParser.values, JsonParser.field, JsonParser.t],
    source="firmware/docs/events.md#withheld",
)
def gateway_is_private(a: Asm, shard: ShardContext) -> None:
    """Find out what has a session id, or will turn out to be no dispatch, while it arrives."""
    parser = shard.gateway.parser
    private, public, nameless = map(a.label, ("private", "public", "nameless"))
    with a.block() as dispatch:
        a.cmp(kind(shard, JsonField.OP), JsonKind.ABSENT)
        a.leave(E, dispatch)
        a.cmp(parser.field, JsonField.OP)
        a.leave(E, dispatch)  # its digits still come
        a.cmp(kind(shard, JsonField.OP), JsonKind.INTEGER)
        a.jne(private)
        a.cmp(value(shard, JsonField.OP), Op.DISPATCH)
        a.jne(private)
    a.cmp(kind(shard, JsonField.T), JsonKind.STRING)
    a.jne(nameless)
    a.cmp(value(shard, JsonField.T), 0)
    a.je(nameless)  # its letters still come
    with a.block() as other:
        a.cmp(value(shard, JsonField.T), len(SESSION_NAME))
        a.leave(NE, other)
        for at in (0, len(SESSION_NAME) - 4):  # unrolled: both ends of the name
            a.cmp(parser.t.m32(at), int.from_bytes(SESSION_NAME[at : at + 4], "little"))
            a.leave(NE, other)
        a.jmp(private)
    a.place(public)
    a.clc()
    a.ret()
    # Nobody knows yet whose session id that is: READY's is secret.
    a.place(nameless)
    a.cmp(kind(shard, JsonField.SESSION_ID), JsonKind.ABSENT)
    a.jne(private)
    a.cmp(parser.field, JsonField.SESSION_ID)
    a.jne(public)
    a.place(private)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a part of a message, not the last; the parser has it"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "FIRST_PART or 0"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        Outbox.base,
        Events.listeners,
        GatewayContext.state,
        EventStream.open,
        EventStream.withheld,
    ],
    writes=[EventStream.withheld],
    calls=[publish_part, events_begin, events_part, gateway_is_private],
    saves=[R12, R13, R14],
    source="firmware/docs/events.md#half-an-event",
)
def gateway_heard_part(
    a: Asm, shard: ShardContext, part: Reg64, length: Reg32, place: Reg32
) -> None:
    """Hand a part on when the message may be a dispatch that a listener may see."""
    done, stream = a.label("done"), shard.events
    a.mov(R12, part)
    a.mov(R13D, length)
    a.mov(R14D, place)
    with a.block() as kept:
        a.cmp(OUTBOX.it.base, 0)
        a.leave(E, kept)
        # READY is published, too: it is its listeners' session.
        a.mov(EAX, shard.gateway.state)
        a.sub(EAX, GatewayState.WAIT_READY)
        a.cmp(EAX, GatewayState.READY - GatewayState.WAIT_READY)
        a.leave(A, kept)
        a.and_(EDX, FIRST_PART)
        a.call(publish_part)
    a.cmp(EVENTS.it.listeners, 0)
    a.je(done)
    a.test(R14D, FIRST_PART)
    with a.if_(NZ):
        # Before READY there is nothing that a listener may see.
        a.mov(EAX, shard.gateway.state)
        a.sub(EAX, GatewayState.WAIT_RESUMED)
        a.cmp(EAX, GatewayState.READY - GatewayState.WAIT_RESUMED)
        a.j(A, done)
        a.call(events_begin)
    a.cmp(stream.open, 0)
    a.j(E, done)
    a.cmp(stream.withheld, 0)
    a.j(NE, done)
    a.call(gateway_is_private)
    with a.if_(C):
        a.mov(stream.withheld, 1)
        a.jmp(done)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.call(events_part)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard whose READY or RESUMED just came"),
        In(EDX, int, "what it waited for: WAIT_READY or WAIT_RESUMED"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.flags,
        ShardContext.profile,
        ProfileTable.stales_threads,
        ShardContext.sequence,
        ShardContext.hole_first,
        ShardContext.hole_last,
        EventStream.gap_open,
        EventStream.gap_first,
    ],
    calls=[events_notice],
    source="firmware/docs/events.md#notices",
)
def gateway_tell(a: Asm, shard: ShardContext, awaited: Reg32) -> None:
    """Say whether the session goes on or is new, and which events may be missing."""
    a.cmp(awaited, GatewayState.WAIT_RESUMED)
    with a.if_(E):
        # The lifecycle clears the flag after this, when the shard becomes READY.
        a.test(shard.flags, ShardFlag.RESTORED)
        with a.if_(NZ):
            a.mov(EDX, Notice.RESTORED)
            a.mov(ECX, shard.sequence)
            a.xor(R8D, R8D)
            a.call(events_notice)
        a.mov(EDX, Notice.RESUMED)
        a.mov(ECX, shard.sequence)
        a.xor(R8D, R8D)
        a.call(events_notice)
        # What is known of threads may be old then (decision 27).
        table = profile_table(a, shard, RAX, RCX)
        a.cmp(table.stales_threads, 0)
        with a.if_(NE):
            a.mov(EDX, Notice.THREADS_STALE)
            a.mov(ECX, shard.sequence)
            a.xor(R8D, R8D)
            a.call(events_notice)
        a.mov(EDX, Notice.GAP)
        a.mov(ECX, shard.hole_first)
        a.mov(R8D, shard.hole_last)
        a.jmp(events_notice)
    a.test(shard.flags, ShardFlag.ESTABLISHED | ShardFlag.RESTORED)
    with a.if_(Z):
        a.ret()
    a.mov(EDX, Notice.NEW_SESSION)
    a.mov(ECX, shard.sequence)
    a.xor(R8D, R8D)
    a.call(events_notice)
    a.mov(EDX, Notice.GAP)
    a.mov(R8D, EVENT_UNKNOWN)
    a.mov(ECX, R8D)
    a.cmp(shard.events.gap_open, 0)
    a.cmov(NE, ECX, shard.events.gap_first)
    a.jmp(events_notice)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "the last part of a message; the parser has it"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "LAST_PART, and FIRST_PART when it is the only one"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.failure,
        ShardContext.malformed,
        GatewayContext.state,
        GatewayContext.seq_lower,
        ShardContext.sequence,
        JsonParser.values,
        EventStream.open,
        EventStream.withheld,
        Outbox.base,
    ],
    calls=[
        gateway_end,
        gateway_tell,
        events_abort,
        events_begin,
        events_end,
        publish_whole,
        assembly_leave,
    ],
    saves=[RBP, R12, R13, R14, R15],
    source="firmware/docs/events.md#order",
)
def gateway_heard_whole(
    a: Asm, shard: ShardContext, part: Reg64, length: Reg32, place: Reg32
) -> None:
    """Act on a message, then hand on what it was: a dispatch that counted, or nothing."""
    stream, gateway = shard.events, shard.gateway
    awaited, passed_over, verdict = R15D, EBP, R14D
    end, nothing, told, publish = map(a.label, ("end", "nothing", "told", "publish"))
    a.mov(R12, part)
    a.mov(R13D, length)
    a.mov(R14D, place)
    # Above what was awaited: the sequence until now.
    a.mov(R15D, shard.sequence)
    a.shl(R15, 32)
    a.mov(EAX, gateway.state)
    a.or_(R15, RAX)
    a.mov(passed_over, gateway.seq_lower)
    a.add(passed_over, shard.malformed)
    a.call(gateway_end)
    a.cmp(shard.failure, End.NONE)
    with a.if_(NE):
        a.call(assembly_leave)
        a.jmp(events_abort)
    a.cmp(value(shard, JsonField.OP), Op.DISPATCH)
    a.jne(nothing)
    a.sub(passed_over, gateway.seq_lower)
    a.cmp(passed_over, shard.malformed)
    a.jne(nothing)
    with a.block() as kept:
        a.cmp(OUTBOX.it.base, 0)
        a.leave(E, kept)
        a.mov(R8D, value(shard, JsonField.S))
        a.cmp(awaited, GatewayState.WAIT_READY)
        a.j(E, publish)
        # A RESUMED without a number of its own would have the Msg-Id of a dispatch, and stand for it.
        a.mov(RAX, R15)
        a.shr(RAX, 32)
        a.cmp(R8D, EAX)
        with a.if_(BE):
            a.call(assembly_leave)
            a.jmp(kept)
        a.place(publish)
        a.mov(RSI, R12)
        a.mov(ECX, R13D)
        a.mov(EDX, R14D)
        a.and_(EDX, FIRST_PART)
        known_name(a, shard)
        a.call(publish_whole)

    a.cmp(awaited, GatewayState.WAIT_READY)
    with a.if_(NE):
        a.test(R14D, FIRST_PART)
        a.mov(verdict, Verdict.OK)
        with a.if_(NZ):
            a.call(events_begin)
        a.cmp(stream.withheld, 0)
        a.je(end)
    with a.else_():
        a.call(events_begin)
    a.mov(verdict, Verdict.WITHHELD)
    a.xor(R13D, R13D)
    a.jmp(end)

    a.place(nothing)
    a.call(assembly_leave)
    a.mov(verdict, Verdict.IGNORED)
    a.xor(R13D, R13D)
    a.place(end)
    a.cmp(stream.open, 0)
    a.j(E, told)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.mov(EDX, verdict)
    a.xor(R8D, R8D)
    a.mov(R9D, R8D)
    a.cmp(verdict, Verdict.IGNORED)
    with a.if_(NE):
        a.mov(R8D, value(shard, JsonField.S))
        known_name(a, shard)
    a.call(events_end)
    a.place(told)
    a.cmp(verdict, Verdict.IGNORED)
    with a.if_(NE):
        a.cmp(awaited, gateway.state)
        with a.if_(NE):
            a.mov(EDX, awaited)
            a.jmp(gateway_tell)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a part of a message; the parser has it"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "bit 0: first of the message, bit 1: last"),
    ],
    clobbers=CALLER_SAVED,
    calls=[gateway_heard_part, gateway_heard_whole],
    source="firmware/docs/events.md#order",
)
def gateway_heard(a: Asm, shard: ShardContext, part: Reg64, length: Reg32, place: Reg32) -> None:
    """Take a part while somebody listens."""
    a.test(place, LAST_PART)
    with a.if_(Z):
        a.jmp(gateway_heard_part)
    a.jmp(gateway_heard_whole)
