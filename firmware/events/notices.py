"""Notices on the bus: what the node says of a shard's session, as events of its own between the dispatches."""

from firmware.abi import CALLER_SAVED
from firmware.events.outbox import COMPUTED, outbox_publish
from firmware.layouts.events import EVENT_UNKNOWN, EventStream, Notice, Stuck
from firmware.layouts.outbox import NOTICE_NAMES, OUTBOX, Outbox
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.text import put, put_decimal
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
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
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Label,
    Reg32,
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
        In(EDX, int, "Notice"),
        In(ECX, int, "first value; EVENT_UNKNOWN = not known"),
        In(R8D, int, "second value; EVENT_UNKNOWN = not known"),
    ],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.sequence, EventStream.stuck],
    writes=[Outbox.stub, Outbox.notice, TEXT_OUT],
    calls=[outbox_publish, put_decimal],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/events.md#notices-on-the-bus",
)
def notice_publish(a: Asm, shard: ShardContext, kind: Reg32, first: Reg32, second: Reg32) -> None:
    """Publish a notice; one that says that nothing is missing, and one of a stuck shard, is left out."""
    out = a.label("out")
    a.mov(R12D, kind)
    a.mov(R13D, first)
    a.mov(R14D, second)
    a.cmp(shard.events.stuck, Stuck.NO)
    a.j(NE, out)
    a.cmp(kind, Notice.GAP)
    with a.if_(E):
        a.cmp(R13D, 0)
        a.j(E, out)
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
    a.place(out)
    a.ret()
