"""Lines of a server: found whole in the receive ring, and dealt with unless a message follows."""

from firmware.abi import CALLER_SAVED
from firmware.bus.aside import aside_place, bus_consume, bus_join, bus_lay_aside
from firmware.bus.errors import bus_error
from firmware.bus.info import bus_info
from firmware.bus.judge import bus_judge
from firmware.bus.link import bus_fail, bus_up
from firmware.bus.send import bus_pong
from firmware.layouts.bus import (
    BUS_LINE,
    LINE_MAX,
    BusLink,
    LinkState,
    Verb,
)
from firmware.layouts.bus_sites import (
    BAD_INFO,
    LINE_END,
    LINE_TOO_LONG,
    UNEXPECTED,
    VERB,
)
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsContext, TlsState
from firmware.tcp.ring import tcp_readable
from firmware.text import take_token
from firmware.tls.transport import tls_readable
from toolchain.asm import (
    AE,
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    R12,
    R13,
    R13D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem16,
    mem32,
    routine,
)

CR, LF = ord("\r"), ord("\n")


WORDS = {
    b"PING": Verb.PING, b"PONG": Verb.PONG, b"INFO": Verb.INFO, b"-ERR": Verb.ERR,
    b"HMSG": Verb.HMSG, b"MSG": Verb.MSG, b"+OK": Verb.OK,
}  # fmt: skip


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(RSI, "first readable byte"), Out(ECX, "readable bytes, in one run")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state, BusLink.aside, BusLink.index],
    calls=[tcp_readable, tls_readable],
    source="firmware/docs/bus.md#tls; firmware/docs/bus.md#ring",
)
def bus_readable(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Show what came: in clear before TLS begins, which INFO does, else what TLS let through.

    What was laid aside came before all that.
    """
    a.mov(ECX, link.aside)
    a.test(ECX, ECX)
    with a.if_(NE):
        aside_place(a, link, RSI, ESI)
        a.ret()
    a.cmp(shard.tls.state, TlsState.IDLE)
    with a.if_(E):
        a.jmp(tcp_readable)
    a.jmp(tls_readable)


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(CF, "1 = nothing more now")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.state, TlsContext.plain_left, BusLink.aside],
    calls=[bus_lay_aside, bus_join],
    source="firmware/docs/bus.md#ring",
)
def bus_more(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Add to what is readable; its first byte moves.

    In clear all that came is readable. With TLS what is readable goes out of the way first: the next
    record finds the whole ring, whatever it carries.
    """
    none, join = a.label("none"), a.label("join")
    a.cmp(link.aside, 0)
    a.j(NE, join)
    a.cmp(shard.tls.state, TlsState.CONNECTED)
    a.j(NE, none)
    a.cmp(shard.tls.plain_left, 0)
    a.j(E, none)
    a.call(bus_lay_aside)
    a.place(join)
    a.jmp(bus_join)
    a.place(none)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[
        Out(CF, "1 = none is whole yet, or the link is DOWN because of it"),
        Out(RSI, "the line"),
        Out(ECX, "its bytes without the two that end it"),
    ],
    clobbers=CALLER_SAVED,
    reads=[BUS_LINE],
    calls=[bus_readable, bus_more, bus_fail],
    source="NATS client protocol",
)
def bus_line(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Find the line at the head of the ring."""
    none, found, failed = a.label("none"), a.label("found"), a.label("failed")
    at = EAX
    with a.loop() as records:
        a.call(bus_readable)
        a.xor(at, at)
        with a.loop() as bytes_:
            a.cmp(at, ECX)
            a.leave(AE, bytes_)
            a.cmp(mem8(RSI, index=RAX, ref=BUS_LINE), LF)
            a.j(E, found)
            a.inc(at)
            a.jmp(bytes_.top)
        a.mov(EDX, LINE_TOO_LONG.code)
        a.cmp(ECX, LINE_MAX)
        a.j(AE, failed)
        a.call(bus_more)
        a.j(C, none)
        a.jmp(records.top)
    a.place(found)
    a.mov(EDX, LINE_END.code)
    a.mov(ECX, at)
    a.sub(ECX, 1)
    a.j(B, failed)
    a.cmp(mem8(RSI, index=RCX, ref=BUS_LINE), CR)
    a.j(NE, failed)
    a.clc()
    a.ret()
    a.place(failed)
    a.call(bus_fail)
    a.place(none)
    a.xor(ECX, ECX)
    a.xor(ESI, ESI)
    a.stc()
    a.ret()


def _compare(a: Asm, size: int, done: Label) -> None:
    """Leave with the Verb whose word ECX is, of those with so many bytes."""
    for word, verb in WORDS.items():  # unrolled: the words
        if len(word) == size:
            a.mov(EAX, verb)
            a.cmp(ECX, int.from_bytes(word, "little"))
            a.j(E, done)


@routine(
    inputs=[In(RSI, int, "a line"), In(ECX, int, "its bytes")],
    outputs=[
        Out(EAX, "Verb: the word that begins it"),
        Out(RSI, "the first byte after the word"),
        Out(RDX, "the first byte after the line"),
    ],
    clobbers=[RCX, RDI],
    reads=[BUS_LINE],
    calls=[take_token],
    source="NATS client protocol",
)
def bus_verb(a: Asm, line: Reg64, length: Reg32) -> None:
    """Tell which word begins a line; it begins with the line."""
    four, done, none = a.label("four"), a.label("done"), a.label("none")
    a.mov(EDX, length)
    a.add(RDX, line)
    a.mov(RDI, line)
    a.call(take_token)
    a.cmp(RSI, RDI)
    a.j(NE, none)
    a.add(RSI, RCX)
    a.cmp(ECX, 4)
    a.j(E, four)
    a.cmp(ECX, 3)
    a.j(NE, none)
    a.movzx(ECX, mem16(RDI, ref=BUS_LINE))
    a.movzx(EAX, mem8(RDI, 2, ref=BUS_LINE))
    a.shl(EAX, 16)
    a.or_(ECX, EAX)
    _compare(a, 3, done)
    a.jmp(none)
    a.place(four)
    a.mov(ECX, mem32(RDI, ref=BUS_LINE))
    _compare(a, 4, done)
    a.place(none)
    a.mov(EAX, Verb.NONE)
    a.place(done)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    outputs=[
        Out(EAX, "Verb: MSG or HMSG when such a line is at the head; else NONE"),
        Out(RSI, "the line's arguments"),
        Out(RDX, "the first byte after the line, which two more end"),
        Out(RDI, "the line"),
    ],
    clobbers=CALLER_SAVED,
    reads=[BusLink.state, BusLink.skip],
    writes=[BusLink.asked],
    calls=[
        bus_line,
        bus_verb,
        bus_info,
        bus_judge,
        bus_error,
        bus_pong,
        bus_up,
        bus_fail,
        bus_consume,
    ],
    saves=[R12, R13],
    source="NATS client protocol; firmware/docs/bus.md#tolerance",
)
def bus_lines(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Deal with lines until a message follows or none is whole; what must not come ends the link."""
    none, unknown, unexpected, failed, done, message = map(
        a.label, ("none", "unknown", "unexpected", "failed", "done", "message")
    )
    handlers = {v: a.label(v.name) for v in (Verb.PING, Verb.PONG, Verb.INFO, Verb.ERR)}
    # What is left of a message is anybody's words, and goes by before the next line.
    a.cmp(link.skip, 0)
    a.j(NE, none)
    with a.loop() as lines:
        a.mov(EAX, link.state)
        a.cmp(EAX, LinkState.INFO)
        a.j(B, none)
        a.cmp(EAX, LinkState.TLS)
        a.j(E, none)
        a.call(bus_line)
        a.j(C, none)
        a.mov(R12, RSI)
        a.mov(R13D, ECX)
        a.call(bus_verb)
        a.cmp(EAX, Verb.ERR)
        a.j(E, handlers[Verb.ERR])
        a.cmp(EAX, Verb.INFO)
        a.j(E, handlers[Verb.INFO])
        a.cmp(EAX, Verb.NONE)
        a.j(E, unknown)
        a.cmp(link.state, LinkState.INFO)
        a.j(E, unexpected)
        a.cmp(EAX, Verb.PING)
        a.j(E, handlers[Verb.PING])
        a.cmp(EAX, Verb.PONG)
        a.j(E, handlers[Verb.PONG])
        a.cmp(EAX, Verb.OK)
        a.j(E, done)
        a.cmp(link.state, LinkState.UP)
        a.j(E, message)
        a.place(unexpected)
        a.mov(EDX, UNEXPECTED.code)
        a.jmp(failed)

        a.place(handlers[Verb.PING])
        a.call(bus_pong)
        a.jmp(done)
        a.place(handlers[Verb.PONG])
        a.mov(link.asked, 0)
        a.cmp(link.state, LinkState.HELLO)
        a.j(NE, done)
        a.call(bus_up)
        a.jmp(done)
        a.place(handlers[Verb.INFO])
        a.mov(RCX, RDX)
        a.sub(RCX, RSI)
        a.call(bus_info)
        a.mov(EDX, BAD_INFO.code)
        a.j(C, failed)
        a.call(bus_judge)
        a.jmp(done)
        a.place(handlers[Verb.ERR])
        a.call(bus_error)

        a.place(done)
        a.cmp(link.state, LinkState.DOWN)
        a.leave(E, lines)
        a.lea(ECX, mem8(R13, 2, ref=BUS_LINE))
        a.call(bus_consume)
        a.jmp(lines.top)
        a.place(unknown)
        a.mov(EDX, VERB.code)
        a.place(failed)
        a.call(bus_fail)
    a.place(none)
    a.xor(EAX, EAX)
    a.xor(ESI, ESI)
    a.xor(EDX, EDX)
    a.xor(EDI, EDI)
    a.ret()
    a.place(message)
    a.mov(RDI, R12)
    a.ret()
