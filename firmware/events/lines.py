"""Lines of the log on the bus: fire and forget, behind the events."""

from firmware.abi import CALLER_SAVED
from firmware.bus.names import put_bot, put_node
from firmware.bus.send import bus_close, bus_open
from firmware.layouts.bus import BUS, DATA, Bus, BusLink, LinkState
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.log import LOG, LOG_ON_BUS, LOG_RING, LOG_RING_BYTES, LogOnBus, LogState
from firmware.layouts.log_line import LINE_MAX
from firmware.layouts.text import TEXT_OUT
from firmware.text import put, put_byte, put_crlf, put_decimal
from toolchain.asm import (
    AL,
    EAX,
    ECX,
    NZ,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    E,
    Out,
    Region,
    Z,
    mem8,
    routine,
)
from toolchain.layout.data import constant

LINES_PER_TURN = 4
TARGET_MAX = 128
"""Bytes of the control line, and of the line's own end."""
PUB = constant("log_pub", b"PUB shardfw.", "a line's subject begins")
SUBJECT = constant("log_subject", b".log.", "what tells lines from events")
RING = Region("log_ring", "LOG_RING_BYTES of node memory, indexed modulo its size")
COMPUTED = Region("nothing", "LEA only computes")
TOLD = LOG_ON_BUS.it


@routine(
    outputs=[Out(R12D, "bytes of the next line without its end; it lies at `told`")],
    clobbers=[RAX, RCX, RSI],
    reads=[LogOnBus.told, RING],
    source="firmware/docs/log.md#bus",
)
def line_measure(a: Asm) -> None:
    """Measure the line: one that was put into the ring is there whole, its end included."""
    a.lea(RSI, LOG_RING.address)
    a.mov(RCX, TOLD.told)
    a.xor(R12D, R12D)
    with a.loop() as bytes_:
        a.lea(EAX, mem8(RCX, index=R12, ref=COMPUTED))
        a.and_(EAX, LOG_RING_BYTES - 1)
        a.cmp(mem8(RSI, index=RAX, ref=RING), ord("\n"))
        a.leave(E, bytes_)
        a.inc(R12D)
        a.jmp(bytes_.top)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.magic,
        FleetConfig.bot,
        FleetConfig.bot_len,
        Bus.enrolling,
        Bus.node,
        Bus.node_len,
        BusLink.context,
        BusLink.state,
        BusLink.midway,
        BusLink.wanted,
        LogState.head,
        LogOnBus.told,
        RING,
    ],
    writes=[LogOnBus.told, LogOnBus.lines, LogOnBus.lost, TEXT_OUT],
    calls=[bus_open, bus_close, put_decimal, line_measure],
    saves=[RBX, RBP, R12, R13],
    source="firmware/docs/log.md#bus",
)
def lines_publish(a: Asm) -> None:
    """Send a few lines; what the ring has overwritten meanwhile is passed over."""
    link, out = BusLink.at(RBP), a.label("out")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.jne(out)
    # A login that may enrol and nothing else may not say this.
    a.cmp(BUS.it.enrolling, 0)
    a.jne(out)
    a.lea(RBP, BUS.it.links.m8(DATA * BusLink.SIZE))
    a.cmp(link.state, LinkState.UP)
    a.jne(out)
    a.cmp(link.midway, 0)
    a.jne(out)
    # Answers need more room, and would wait for ever.
    a.cmp(link.wanted, 0)
    a.jne(out)
    a.mov(RBX, link.context)
    a.mov(R13D, LINES_PER_TURN)
    with a.loop() as lines:
        a.mov(RAX, LOG.it.head)
        a.mov(RCX, RAX)
        a.sub(RCX, TOLD.told)
        a.leave(Z, lines)
        a.cmp(RCX, LOG_RING_BYTES)
        with a.if_(A):
            a.mov(TOLD.told, RAX)
            a.inc(TOLD.lost)
            a.ret()
        a.mov(ECX, LINE_MAX + TARGET_MAX)
        a.call(bus_open)
        a.leave(C, lines)
        a.call(line_measure)
        put(a, PUB)
        put_bot(a)
        put(a, SUBJECT)
        put_node(a)
        put_byte(a, " ")
        a.mov(EAX, R12D)
        a.call(put_decimal)
        put_crlf(a)
        # Byte by byte, because the line may go on at the start of the ring.
        a.lea(RSI, LOG_RING.address)
        a.mov(RCX, TOLD.told)
        with a.loop() as bytes_:
            a.mov(EAX, ECX)
            a.and_(EAX, LOG_RING_BYTES - 1)
            a.mov(AL, mem8(RSI, index=RAX, ref=RING))
            a.cmp(AL, ord("\n"))
            a.leave(E, bytes_)
            a.mov(mem8(RDI, ref=TEXT_OUT), AL)
            a.inc(RDI)
            a.inc(RCX)
            a.jmp(bytes_.top)
        a.inc(RCX)
        a.mov(TOLD.told, RCX)
        a.inc(TOLD.lines)
        put_crlf(a)
        a.call(bus_close)
        a.dec(R13D)
        a.again(NZ, lines)
    a.place(out)
    a.ret()
