"""Messages of a server: parsed where they lie in the ring, one at a time."""

from firmware.abi import CALLER_SAVED
from firmware.bus.arguments import bus_arguments, bus_header, bus_inbox_number
from firmware.bus.aside import bus_consume
from firmware.bus.lines import bus_lines, bus_more, bus_readable
from firmware.bus.link import bus_fail
from firmware.layouts.bus import (
    BUS_IN,
    BUS_LINE,
    INBOX_SID,
    MESSAGE_MAX,
    BusKind,
    BusLink,
    BusMessage,
    Verb,
)
from firmware.layouts.bus_sites import BAD_HEADER, MESSAGE_END, MESSAGE_TOO_LONG
from firmware.layouts.shard import ShardContext
from firmware.text import CRLF
from toolchain.asm import (
    AE,
    AX,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R12,
    R13,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    mem8,
    mem16,
    routine,
)


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[BusLink.message_bytes],
    writes=[BusLink.message_bytes, BusMessage.kind],
    calls=[bus_consume],
    source="firmware/docs/bus.md#messages",
)
def bus_done(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Give back the bytes of the message in hand; without one nothing happens."""
    none = a.label("none")
    a.mov(ECX, link.message_bytes)
    a.test(ECX, ECX)
    a.j(E, none)
    a.mov(link.message_bytes, 0)
    a.mov(BUS_IN.it.kind, BusKind.NONE)
    a.call(bus_consume)
    a.place(none)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(CF, "1 = some of them are still to come, or the link is DOWN")],
    clobbers=CALLER_SAVED,
    reads=[BusLink.skip],
    writes=[BusLink.skip],
    calls=[bus_readable, bus_more, bus_consume],
    source="firmware/docs/bus.md#messages",
)
def bus_skip(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Leave out what came of a message that does not fit into the ring."""
    none, some = a.label("none"), ECX
    with a.loop() as pieces:
        a.cmp(link.skip, 0)
        a.leave(E, pieces)
        a.call(bus_readable)
        a.test(some, some)
        with a.if_(E):
            a.call(bus_more)
            a.j(C, none)
            a.jmp(pieces.top)
        a.mov(EAX, link.skip)
        a.cmp(some, EAX)
        a.cmov(A, some, EAX)
        a.sub(link.skip, some)
        a.call(bus_consume)
        a.jmp(pieces.top)
    a.clc()
    a.ret()
    a.place(none)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(EAX, "BusKind: MESSAGE = one is in BUS_IN, until `bus_done`")],
    clobbers=CALLER_SAVED,
    reads=[
        BUS_LINE, BusMessage.header_len, BusMessage.body_len, BusMessage.sid, BusMessage.subject,
        BusMessage.subject_len,
    ],
    writes=[
        BusMessage.header, BusMessage.body, BusMessage.header_len, BusMessage.body_len,
        BusMessage.status, BusMessage.inbox, BusMessage.kind, BusMessage.unreadable,
        BusLink.message_bytes, BusLink.skip, BusLink.received,
    ],
    calls=[
        bus_done, bus_skip, bus_lines, bus_arguments, bus_readable, bus_more, bus_header, bus_inbox_number,
        bus_fail,
    ],
    saves=[R12, R13, R14, R15],
    source="NATS client protocol; firmware/docs/bus.md#messages",
)  # fmt: skip
def bus_take(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Take the next message that is whole; the one in hand is done with.

    Whatever anybody may publish costs that message alone. Only an answer to the node itself, which no
    server gives in such a form, ends the link.
    """
    got, line, line_end, whole = BUS_IN.it, R12, R13, R15D
    none, failed, complete, long_, unreadable, taken = map(
        a.label, ("none", "failed", "complete", "long", "unreadable", "taken")
    )
    a.call(bus_done)
    a.call(bus_skip)
    a.j(C, none)
    with a.loop() as records:
        a.call(bus_lines)
        a.test(EAX, EAX)
        a.j(E, none)
        a.mov(line, RDI)
        a.mov(line_end, RDX)
        a.mov(R14D, EAX)
        a.call(bus_arguments)
        a.mov(EDX, EAX)
        a.test(EAX, EAX)
        a.j(NE, failed)
        a.mov(whole, got.header_len)
        a.add(whole, got.body_len)
        a.lea(RAX, mem8(line_end, 2 * 2, ref=BUS_LINE))
        a.sub(RAX, line)
        a.add(whole, EAX)
        a.cmp(whole, MESSAGE_MAX)
        a.j(A, long_)
        a.call(bus_readable)
        a.cmp(ECX, whole)
        a.j(AE, complete)
        a.call(bus_more)
        a.j(C, none)
        a.jmp(records.top)

    a.place(complete)
    a.mov(EDX, MESSAGE_END.code)
    a.cmp(mem16(line, -2, index=R15, ref=BUS_LINE), CRLF)
    a.j(NE, failed)
    a.lea(RSI, mem8(line_end, 2, ref=BUS_LINE))
    a.mov(got.header, RSI)
    a.mov(ECX, got.header_len)
    a.lea(RAX, mem8(RSI, index=RCX, ref=BUS_LINE))
    a.mov(got.body, RAX)
    a.mov(link.message_bytes, whole)
    a.xor(EAX, EAX)
    a.cmp(R14D, Verb.HMSG)
    with a.if_(E):
        a.call(bus_header)
        a.mov(EDX, BAD_HEADER.code)
        a.j(C, unreadable)
    a.xor(EDX, EDX)
    a.place(taken)
    a.mov(got.unreadable, EDX)
    a.mov(got.status, AX)
    a.xor(EAX, EAX)
    a.cmp(got.sid, INBOX_SID)
    with a.if_(E):
        a.mov(RSI, got.subject)
        a.mov(ECX, got.subject_len)
        a.call(bus_inbox_number)
    a.mov(got.inbox, EAX)
    a.inc(link.received)
    a.mov(got.kind, BusKind.MESSAGE)
    a.mov(EAX, BusKind.MESSAGE)
    a.ret()

    # The line alone is in hand; what follows is left out as it comes.
    a.place(long_)
    a.lea(RAX, mem8(line_end, 2, ref=BUS_LINE))
    a.sub(RAX, line)
    a.mov(link.message_bytes, EAX)
    a.sub(whole, EAX)
    a.mov(link.skip, whole)
    a.mov(EDX, MESSAGE_TOO_LONG.code)
    a.place(unreadable)
    a.cmp(got.sid, INBOX_SID)
    a.j(E, failed)
    a.xor(EAX, EAX)
    a.mov(got.header_len, EAX)
    a.mov(got.body_len, EAX)
    a.jmp(taken)
    a.place(failed)
    a.call(bus_fail)
    a.place(none)
    a.mov(EAX, BusKind.NONE)
    a.ret()
