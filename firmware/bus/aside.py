"""What a link's reader cannot use yet, laid aside, so that a record of TLS finds the whole ring.

A record is opened when all of it is there, and may take four fifths of the ring, its padding included.
So half a message or line goes to a buffer of the link's own, and is put together there.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.bus import ASIDE_CHUNK, BUS_ASIDE, BUS_LINE, BusAside, BusLink
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsContext
from firmware.tcp.ring import tcp_readable
from firmware.tls.transport import tls_consume, tls_readable
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDI,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)


def aside_place(a: Asm, link: BusLink, target: Reg64, low: Reg32) -> None:
    """Put the address of a link's buffer into a register, given with its lower half. RAX changes."""
    a.movzx(low, link.index)
    a.imul(low, low, BusAside.SIZE)
    a.lea(RAX, BUS_ASIDE.it.links.address)
    a.add(target, RAX)


@routine(
    inputs=[
        In(RBP, BusLink, "a link of which nothing lies aside"),
        In(
            RBX, ShardContext, "its workspace, with text of TLS that is less than a message or line"
        ),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.plain_left, BusLink.aside, BusLink.index, BUS_LINE],
    writes=[BusLink.aside, BusAside],
    calls=[tcp_readable, tls_consume],
    source="firmware/docs/bus.md#ring",
)
def bus_lay_aside(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Move what is readable out of the ring, and what of records lies behind it with it."""
    a.call(tcp_readable)
    a.mov(ECX, shard.tls.plain_left)
    a.mov(link.aside, ECX)
    aside_place(a, link, RDI, EDI)
    a.rep_movsb()
    a.mov(ECX, link.aside)
    a.jmp(tls_consume)


@routine(
    inputs=[In(RBP, BusLink, "the link"), In(RBX, ShardContext, "its workspace, with TLS")],
    outputs=[Out(CF, "1 = nothing more has come")],
    clobbers=CALLER_SAVED,
    reads=[BusLink.aside, BusLink.index, BUS_LINE],
    writes=[BusLink.aside, BusAside],
    calls=[tls_readable, tls_consume],
    source="firmware/docs/bus.md#ring",
)
def bus_join(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Move what came next from the ring behind what was laid aside, ASIDE_CHUNK bytes at most.

    What lies there is less than a message or a line may have, so that the chunk always fits.
    """
    none = a.label("none")
    a.call(tls_readable)
    a.test(ECX, ECX)
    a.j(Z, none)
    a.mov(EAX, ASIDE_CHUNK)
    a.cmp(ECX, EAX)
    a.cmov(A, ECX, EAX)
    aside_place(a, link, RDI, EDI)
    a.mov(EAX, link.aside)
    a.add(RDI, RAX)
    a.add(link.aside, ECX)
    a.mov(EAX, ECX)
    a.rep_movsb()
    a.mov(ECX, EAX)
    a.call(tls_consume)
    a.clc()
    a.ret()
    a.place(none)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RBX, ShardContext, "its workspace"),
        In(ECX, int, "bytes that were read, at most what was readable"),
    ],
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[BusLink.aside, BusLink.index, BusAside],
    writes=[BusLink.aside, BusAside],
    calls=[tls_consume],
    source="firmware/docs/bus.md#ring",
)
def bus_consume(a: Asm, link: BusLink, shard: ShardContext, length: Reg32) -> None:
    """Free what was read, where it lies; what is left aside moves to its front."""
    a.cmp(link.aside, 0)
    with a.if_(E):
        a.jmp(tls_consume)
    a.sub(link.aside, length)
    aside_place(a, link, RDI, EDI)
    a.mov(EAX, length)
    a.lea(RSI, mem8(RDI, index=RAX, ref=BUS_LINE))
    a.mov(ECX, link.aside)
    a.rep_movsb()
    a.ret()
