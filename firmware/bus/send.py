"""What the node says: texts between `bus_open` and `bus_close`, and the two words of keepalive."""

from firmware.abi import CALLER_SAVED
from firmware.bus.names import put_boot, put_node
from firmware.layouts.bus import (
    BUS,
    ENROL_TEXT,
    FIRST_LETTER,
    INBOX_TEXT,
    PING_TEXT,
    PONG_TEXT,
    Bus,
    BusLink,
    LinkState,
)
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_IN, TEXT_OUT
from firmware.text import put, put_byte
from firmware.tls.transport import tls_commit, tls_reserve
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    EDI,
    NE,
    R12,
    R13,
    R13D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RSI,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    routine,
)


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RBX, ShardContext, "its workspace"),
        In(RSI, int, "text"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = not now: no room, or a message of ours is not whole yet")],
    clobbers=CALLER_SAVED,
    reads=[TEXT_IN, BusLink.midway],
    writes=[TEXT_OUT],
    calls=[tls_reserve, tls_commit],
    saves=[R12, R13],
    source="firmware/docs/bus.md#words",
)
def bus_say(a: Asm, link: BusLink, shard: ShardContext, text: Reg64, length: Reg32) -> None:
    """Send a text whatever state the link is in."""
    full = a.label("full")
    a.mov(R12, text)
    a.mov(R13D, length)
    a.cmp(link.midway, 1)
    a.cmc()  # CF was 1 when nothing is in the way
    a.j(C, full)
    a.call(tls_reserve)
    a.j(C, full)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.rep_movsb()
    a.mov(ECX, R13D)
    a.call(tls_commit)
    a.clc()
    a.place(full)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    clobbers=CALLER_SAVED,
    writes=[BusLink.pong_owed],
    calls=[bus_say],
    source="NATS client protocol, PING/PONG",
)
def bus_pong(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Answer a PING, now or as soon as there is room."""
    a.lea(RSI, PONG_TEXT.address)
    a.mov(ECX, PONG_TEXT.size)
    a.call(bus_say)
    a.set(C, AL)
    a.mov(link.pong_owed, AL)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace")],
    clobbers=CALLER_SAVED,
    writes=[BusLink.asked],
    calls=[bus_say],
    source="NATS client protocol, PING/PONG",
)
def bus_ping(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Ask whether the server is there; without room what is queued asks as well."""
    a.mov(link.asked, 1)
    a.lea(RSI, PING_TEXT.address)
    a.mov(ECX, PING_TEXT.size)
    a.call(bus_say)
    a.ret()


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RBX, ShardContext, "its workspace"),
        In(ECX, int, "bytes that will be written at most"),
    ],
    outputs=[Out(RDI, "where to write them"), Out(CF, "1 = the link is not UP, or no room now")],
    clobbers=CALLER_SAVED,
    reads=[BusLink.state],
    writes=[BusLink.out],
    calls=[tls_reserve],
    source="firmware/docs/bus.md#words",
)
def bus_open(a: Asm, link: BusLink, shard: ShardContext, length: Reg32) -> None:
    """Begin to write; nothing else may be written to the link before `bus_close`."""
    refused = a.label("refused")
    a.cmp(link.state, LinkState.UP)
    a.j(NE, refused)
    a.call(tls_reserve)
    a.j(C, refused)
    a.mov(link.out, RDI)
    a.clc()
    a.ret()
    a.place(refused)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RBX, ShardContext, "its workspace"),
        In(RDI, int, "the first byte after what was written since `bus_open`"),
    ],
    clobbers=CALLER_SAVED,
    reads=[BusLink.out],
    writes=[BusLink.sent],
    calls=[tls_commit],
    source="firmware/docs/bus.md#words",
)
def bus_close(a: Asm, link: BusLink, shard: ShardContext, end: Reg64) -> None:
    """Send what was written; it leaves in this turn."""
    a.mov(RCX, end)
    a.sub(RCX, link.out)
    a.inc(link.sent)
    a.call(tls_commit)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link")],
    outputs=[Out(EAX, "number of the next request, never 0")],
    writes=[BusLink.inbox_next],
    reads=[BusLink.inbox_next],
    source="firmware/docs/bus.md#requests",
)
def bus_request_id(a: Asm, link: BusLink) -> None:
    """Take the number by which an answer will be known."""
    a.mov(EAX, link.inbox_next)
    a.inc(EAX)
    with a.if_(Z):
        a.inc(EAX)
    a.mov(link.inbox_next, EAX)
    a.ret()


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RDI, int, "where it goes; up to INBOX_MAX bytes"),
    ],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RAX, RCX, RSI],
    reads=[Bus.enrolling, Bus.node_len, Bus.node, Bus.boot_text, BusLink.index],
    writes=[TEXT_OUT],
    source="firmware/docs/bus.md#requests",
)
def bus_put_inbox(a: Asm, link: BusLink, text: Reg64) -> None:
    """Write the link's own subject up to its number: `_I.<node>.<boot>.<c or d>.`."""
    a.cmp(BUS.it.enrolling, 0)
    with a.if_(E):
        put(a, INBOX_TEXT)
    with a.else_():
        put(a, ENROL_TEXT)
    put_node(a)
    put_byte(a, ".")
    put_boot(a)
    put_byte(a, ".")
    a.mov(AL, link.index)
    a.add(AL, FIRST_LETTER)
    a.stosb()
    put_byte(a, ".")
    a.ret()
