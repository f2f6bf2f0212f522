"""Notices on the bus: what the node says of a shard's session, as events of its own between the dispatches."""

from firmware.abi import CALLER_SAVED
from firmware.events.outbox import COMPUTED, outbox_publish
from firmware.layouts.events import EVENT_UNKNOWN, EventStream, GapTold, Notice, Stuck
from firmware.layouts.outbox import NOTICE_NAMES, OUTBOX, Outbox
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.text import put, put_decimal
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Z,
    mem8,
    routine,
)
from toolchain.layout.data import constant

NAMES = {
    kind: constant(f"notice_{kind.name.lower()}", name, f"the type of {kind.name} on the bus")
    for kind, name in NOTICE_NAMES.items()
}
TYPE = constant("notice_type", b'{"t":"', "a notice begins")
SEQUENCE = constant("notice_sequence", b'","s":', "where it stands among the dispatches")
FIRST = constant("notice_first", b',"first":', "its first value")
SECOND = constant("notice_second", b',"second":', "its second value")
NULL = constant("notice_null", b"null", "a value that nobody knows")


def _put_value(a: Asm, value: Reg32) -> None:
    """Write a number, or null for one that is not known."""
    known, done = a.label("known"), a.label("done")
    a.cmp(value, EVENT_UNKNOWN)
    a.j(NE, known)
    put(a, NULL)
    a.jmp(done)
    a.place(known)
    a.mov(EAX, value)
    a.call(put_decimal)
    a.place(done)


def _name(a: Asm, kind: Reg32, out: Label) -> None:
    """RDX, R9D := the name of a notice; go to `out` when it has none."""
    named = a.label("named")
    for notice, text in NAMES.items():  # unrolled: five names
        a.lea(RDX, text.address)
        a.mov(R9D, text.size)
        a.cmp(kind, notice)
        a.j(E, named)
    a.jmp(out)
    a.place(named)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(ECX, int, "first sequence that may be missing; 0 = none, EVENT_UNKNOWN = not known"),
        In(R8D, int, "last one; EVENT_UNKNOWN = not known"),
    ],
    outputs=[Out(CF, "1 = there is nothing to say")],
    clobbers=[RAX, RCX, R8],
    reads=[EventStream.gap_told, EventStream.owed_first, EventStream.owed_last],
    writes=[EventStream.gap_told, EventStream.owed_first, EventStream.owed_last],
    source="firmware/docs/events.md#gaps-on-the-bus",
)
def gap_owe(a: Asm, shard: ShardContext, first: Reg32, last: Reg32) -> None:
    """Note what may be missing beside what the stream was not told yet: one range that holds both."""
    stream, nothing, new = shard.events, a.label("nothing"), a.label("new")
    a.test(first, first)
    with a.if_(Z):
        a.cmp(stream.gap_told, GapTold.OWED)
        a.j(NE, nothing)
        a.clc()
        a.ret()
    a.cmp(stream.gap_told, GapTold.ALL)
    a.j(E, new)
    # Not known is below every first and above every last.
    a.inc(first)
    a.mov(EAX, stream.owed_first)
    a.inc(EAX)
    a.cmp(EAX, first)
    a.cmov(B, first, EAX)
    a.dec(first)
    a.mov(EAX, stream.owed_last)
    a.cmp(EAX, last)
    a.cmov(A, last, EAX)
    a.place(new)
    a.mov(stream.owed_first, first)
    a.mov(stream.owed_last, last)
    a.mov(stream.gap_told, GapTold.OWED)
    a.clc()
    a.ret()
    a.place(nothing)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "Notice"),
        In(ECX, int, "first value; EVENT_UNKNOWN = not known"),
        In(R8D, int, "second value; EVENT_UNKNOWN = not known"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.sequence,
        EventStream.stuck,
        EventStream.owed_first,
        EventStream.owed_last,
        Outbox.next,
    ],
    writes=[
        Outbox.stub,
        Outbox.notice,
        EventStream.gap_told,
        EventStream.owed_number,
        TEXT_OUT,
    ],
    calls=[gap_owe, outbox_publish, put_decimal],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/events.md#notices-on-the-bus",
)
def notice_publish(a: Asm, shard: ShardContext, kind: Reg32, first: Reg32, second: Reg32) -> None:
    """Publish a notice; a stuck shard says none, and a GAP without which nothing would be unknown is left out."""
    out = a.label("out")
    a.mov(R12D, kind)
    a.mov(R13D, first)
    a.mov(R14D, second)
    a.cmp(kind, Notice.GAP)
    with a.if_(E):
        a.call(gap_owe)
        a.j(C, out)
        a.mov(R13D, shard.events.owed_first)
        a.mov(R14D, shard.events.owed_last)
    a.cmp(shard.events.stuck, Stuck.NO)
    a.j(NE, out)
    _name(a, R12D, out)
    a.mov(R15D, R9D)
    a.mov(R12, RDX)
    a.lea(RDI, OUTBOX.it.stub.address)
    put(a, TYPE)
    a.mov(RSI, R12)
    a.mov(ECX, R15D)
    a.rep_movsb()
    put(a, SEQUENCE)
    a.mov(EAX, shard.sequence)
    a.call(put_decimal)
    put(a, FIRST)
    _put_value(a, R13D)
    put(a, SECOND)
    _put_value(a, R14D)
    a.mov(mem8(RDI, ref=TEXT_OUT), ord("}"))
    a.lea(RSI, OUTBOX.it.stub.address)
    a.lea(RCX, mem8(RDI, 1, ref=COMPUTED))
    a.sub(RCX, RSI)
    # Its number is that of the publication: no dispatch has it.
    a.mov(OUTBOX.it.notice, 1)
    a.mov(R8D, shard.sequence)
    a.mov(RDX, R12)
    a.mov(R9D, R15D)
    a.call(outbox_publish)
    a.mov(OUTBOX.it.notice, 0)
    a.j(C, out)
    a.lea(RAX, NAMES[Notice.GAP].address)
    a.cmp(R12, RAX)
    with a.if_(E):
        a.mov(shard.events.gap_told, GapTold.SAID)
        a.mov(EAX, OUTBOX.it.next)
        a.dec(EAX)
        a.mov(shard.events.owed_number, EAX)
    a.place(out)
    a.ret()
