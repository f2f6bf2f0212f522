"""-ERR: what a server holds against us, by the table of `firmware/layouts/bus_sites.py`."""

from firmware.abi import CALLER_SAVED
from firmware.bus.link import bus_fail
from firmware.errors import Layer
from firmware.layouts.bus import BUS_LINE, BusLink
from firmware.layouts.bus_sites import BUS_ERRORS, ERROR_ROW_BYTES, ERROR_ROWS, OTHER
from firmware.layouts.log import BUS_DENIED
from firmware.layouts.shard import ShardContext
from firmware.log import log, log_write
from firmware.text import take_token
from toolchain.asm import (
    AL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    E,
    In,
    Reg64,
    mem8,
    routine,
)

SMALL = 0x20
"""The bit by which small letters differ; all that stands in the table has it."""


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RBX, ShardContext, "its workspace"),
        In(RSI, int, "what follows -ERR"),
        In(RDX, int, "the first byte after the line"),
    ],
    clobbers=CALLER_SAVED,
    reads=[BUS_LINE, ERROR_ROWS, BusLink.index, BusLink.denials],
    writes=[BusLink.denied, BusLink.denials],
    calls=[take_token, bus_fail, log_write],
    source="NATS client protocol, +OK/ERR; firmware/docs/bus.md#errors",
)
def bus_error(a: Asm, link: BusLink, shard: ShardContext, text: Reg64, end: Reg64) -> None:
    """Find out what it means; what the server stays for is told, all else ends the link."""
    row, left, at = R8, R9, RCX
    found, other, next_row, stays = map(a.label, ("found", "other", "next_row", "stays"))
    a.call(take_token)
    a.mov(left, end)
    a.sub(left, text)
    with a.if_(NE):
        a.cmp(mem8(text, ref=BUS_LINE), ord("'"))
        with a.if_(E):
            a.inc(text)
            a.dec(left)
    a.lea(row, BUS_ERRORS.address)
    with a.loop() as rows:
        a.movzx(EDX, mem8(row, ref=ERROR_ROWS))
        a.test(EDX, EDX)
        a.j(E, other)
        a.cmp(RDX, left)
        a.j(A, next_row)
        a.xor(ECX, ECX)
        with a.loop() as letters:
            a.mov(AL, mem8(text, index=at, ref=BUS_LINE))
            a.or_(AL, SMALL)
            a.cmp(AL, mem8(row, ERROR_ROW_BYTES, index=at, ref=ERROR_ROWS))
            a.j(NE, next_row)
            a.inc(ECX)
            a.cmp(ECX, EDX)
            a.again(NE, letters)
        a.jmp(found)
        a.place(next_row)
        a.lea(row, mem8(row, ERROR_ROW_BYTES, index=RDX, ref=ERROR_ROWS))
        a.jmp(rows.top)
    a.place(found)
    a.movzx(EDX, mem8(row, 1, ref=ERROR_ROWS))
    a.shl(EDX, 16)
    a.or_(EDX, Layer.BUS << 24)
    a.cmp(mem8(row, 2, ref=ERROR_ROWS), 0)
    a.j(NE, stays)
    a.jmp(bus_fail)
    a.place(other)
    a.mov(EDX, OTHER.code)
    a.place(stays)
    a.mov(link.denied, EDX)
    a.mov(ECX, EDX)
    # The lines of the log go to the server as well: one that denies them must not make another each.
    a.mov(EAX, link.denials)
    a.lea(R8D, mem8(RAX, 1, ref=ERROR_ROWS))
    a.mov(link.denials, R8D)
    a.test(EAX, R8D)
    with a.if_(NZ):
        a.ret()
    a.movzx(EDX, link.index)
    log(a, BUS_DENIED)
    a.ret()
