"""Polynomials as bits and back, and what is lost on the way (FIPS 203 4.2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.crypto.mlkem_lanes import lanes
from firmware.layouts.crypto import BUFFER_IN, BUFFER_OUT
from firmware.layouts.mlkem import (
    CODED,
    MLKEM_LANES,
    POLY,
    POLY_BYTES,
    SYMBOL_BYTES,
    Q,
)
from toolchain.asm import (
    AL,
    AX,
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    XMM0,
    XMM1,
    XMM2,
    XMM3,
    XMM4,
    XMM5,
    Asm,
    In,
    Reg32,
    Reg64,
    mem8,
    mem16,
    mem64,
    mem128,
    routine,
)

if TYPE_CHECKING:
    from toolchain.asm import Xmm

VECTOR = 16
SHIFT = 35
RECIPROCAL = -(-(1 << SHIFT) // Q)
"""What one multiplies by, and shifts, to divide any number below 2^22 by q."""


def _count(a: Asm, into: Xmm, first: int, factor: int) -> None:
    """Set a register to first + factor d, as a shift count; EAX changes, ECX is d."""
    a.imul(EAX, ECX, factor)
    if first:
        a.add(EAX, first)
    a.movd(into, EAX)


@routine(
    inputs=[
        In(RDI, int, "where the 32 d bytes go; CODED_SLACK behind them may be zeroed"),
        In(RSI, int, "the polynomial; each coefficient below 2^d"),
        In(ECX, int, "d: 4, 10 or 12"),
    ],
    clobbers=[RAX, RSI, RDI, R8, R9, XMM0, XMM1, XMM2, XMM3],
    reads=[POLY],
    writes=[CODED],
    secret=[POLY, CODED],
    source="FIPS 203 algorithm 5",
)
def mlkem_encode(a: Asm, out: Reg64, poly: Reg64, bits: Reg32) -> None:
    """ByteEncode: four coefficients are d / 2 bytes."""
    pairs, twice, step = XMM2, XMM3, R8
    a.lea(R9, mem8(poly, POLY_BYTES, ref=POLY))
    a.mov(EAX, 1)
    a.shl(EAX, CL)
    a.shl(EAX, 16)
    a.or_(EAX, 1)
    a.movd(pairs, EAX)
    a.pshufd(pairs, pairs, 0)
    _count(a, twice, 0, 2)
    a.mov(R8D, ECX)
    a.shr(R8D, 1)
    with a.loop() as each:
        # Two coefficients to a doubleword, two of those to a quadword.
        a.movdqu(XMM0, mem128(poly, ref=POLY))
        a.pmaddwd(XMM0, pairs)
        a.movdqa(XMM1, XMM0)
        a.psrlq(XMM1, 32)
        a.psllq(XMM1, twice)
        a.psllq(XMM0, 32)
        a.psrlq(XMM0, 32)
        a.por(XMM0, XMM1)
        for half in range(2):  # unrolled: two quadwords
            if half:
                a.psrldq(XMM0, 8)
            a.movq(mem64(out, ref=CODED), XMM0)
            a.add(out, step)
        a.add(poly, VECTOR)
        a.cmp(poly, R9)
        a.again(NE, each)
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "where the polynomial goes"),
        In(RSI, int, "the 32 d bytes; CODED_SLACK behind them may be read"),
        In(ECX, int, "d: 4, 10 or 12"),
    ],
    clobbers=[RAX, RCX, RDX, RSI, RDI, XMM0, XMM1, XMM2, XMM3, XMM4, XMM5],
    reads=[CODED],
    writes=[POLY],
    secret=[POLY, CODED],
    source="FIPS 203 algorithm 6",
)
def mlkem_decode(a: Asm, poly: Reg64, coded: Reg64, bits: Reg32) -> None:
    """ByteDecode; twelve bits are those of a key of ours and need no reduction."""
    twice, once, up, down = XMM2, XMM3, XMM4, XMM5
    _count(a, twice, 0, 2)
    _count(a, once, 0, 1)
    _count(a, up, 32, -1)
    _count(a, down, 16, -1)
    a.shr(ECX, 1)
    a.mov(EDX, POLY_BYTES // VECTOR)
    with a.loop() as each:
        a.movq(XMM0, mem64(coded, ref=CODED))
        a.add(coded, RCX)
        a.movq(XMM1, mem64(coded, ref=CODED))
        a.add(coded, RCX)
        a.punpcklqdq(XMM0, XMM1)
        # 4 d bits to 2 d in each doubleword, those to d in each word; what is above goes.
        a.movdqa(XMM1, XMM0)
        a.psrlq(XMM1, twice)
        a.psllq(XMM1, 32)
        a.psllq(XMM0, 32)
        a.psrlq(XMM0, 32)
        a.por(XMM0, XMM1)
        a.movdqa(XMM1, XMM0)
        a.psrld(XMM1, once)
        a.pslld(XMM1, up)
        a.psrld(XMM1, down)
        a.pslld(XMM0, up)
        a.psrld(XMM0, up)
        a.por(XMM0, XMM1)
        a.movdqu(mem128(poly, ref=POLY), XMM0)
        a.add(poly, VECTOR)
        a.dec(EDX)
        a.again(NZ, each)
    a.ret()


@routine(
    inputs=[In(RDI, int, "the polynomial"), In(ECX, int, "d: 4 or 10")],
    clobbers=[RAX, RDX, RDI, R8],
    reads=[POLY],
    writes=[POLY],
    secret=[POLY],
    source="FIPS 203 4.7",
)
def mlkem_compress(a: Asm, poly: Reg64, bits: Reg32) -> None:
    """Compress in place: the nearest to 2^d x / q, without a division."""
    mask = EDX
    a.mov(mask, 1)
    a.shl(mask, CL)
    a.dec(mask)
    a.mov(R8D, POLY_BYTES // 2)
    with a.loop() as each:
        a.movzx(EAX, mem16(poly, ref=POLY))
        a.shl(EAX, CL)
        a.add(EAX, Q // 2)
        a.imul(RAX, RAX, RECIPROCAL)
        a.shr(RAX, SHIFT)
        a.and_(EAX, mask)
        a.mov(mem16(poly, ref=POLY), AX)
        a.add(poly, 2)
        a.dec(R8D)
        a.again(NZ, each)
    a.ret()


@routine(
    inputs=[In(RDI, int, "the polynomial; each coefficient below 2^d"), In(ECX, int, "d: 4 or 10")],
    clobbers=[RAX, RDX, RDI, R8],
    reads=[POLY],
    writes=[POLY],
    secret=[POLY],
    source="FIPS 203 4.8",
)
def mlkem_decompress(a: Asm, poly: Reg64, bits: Reg32) -> None:
    """Decompress in place: the nearest to q y / 2^d."""
    half = EDX
    a.mov(half, 1)
    a.shl(half, CL)
    a.shr(half, 1)
    a.mov(R8D, POLY_BYTES // 2)
    with a.loop() as each:
        a.movzx(EAX, mem16(poly, ref=POLY))
        a.imul(EAX, EAX, Q)
        a.add(EAX, half)
        a.shr(EAX, CL)
        a.mov(mem16(poly, ref=POLY), AX)
        a.add(poly, 2)
        a.dec(R8D)
        a.again(NZ, each)
    a.ret()


@routine(
    inputs=[In(RDI, int, "where the 32 bytes go"), In(RSI, int, "the polynomial")],
    clobbers=[RAX, RDX, RSI, RDI, XMM0, XMM1],
    reads=[POLY, MLKEM_LANES],
    writes=[BUFFER_OUT],
    secret=[POLY, BUFFER_OUT],
    source="FIPS 203 4.7 and algorithm 5, d = 1",
)
def mlkem_to_message(a: Asm, out: Reg64, poly: Reg64) -> None:
    """A bit of each coefficient: whether it is nearer to q / 2 than to 0."""
    a.mov(EDX, SYMBOL_BYTES)
    with a.loop() as each:
        a.movdqu(XMM0, mem128(poly, ref=POLY))
        a.movdqa(XMM1, lanes("above"))
        a.pcmpgtw(XMM1, XMM0)
        a.pcmpgtw(XMM0, lanes("below"))
        a.pand(XMM0, XMM1)
        a.packsswb(XMM0, XMM0)
        a.pmovmskb(EAX, XMM0)
        a.mov(mem8(out, ref=BUFFER_OUT), AL)
        a.inc(out)
        a.add(poly, VECTOR)
        a.dec(EDX)
        a.again(NZ, each)
    a.ret()


@routine(
    inputs=[In(RDI, int, "where the polynomial goes"), In(RSI, int, "the 32 bytes")],
    clobbers=[RAX, RDX, RSI, RDI, XMM0, XMM1],
    reads=[BUFFER_IN, MLKEM_LANES],
    writes=[POLY],
    secret=[POLY, BUFFER_IN],
    source="FIPS 203 algorithm 6 and 4.8, d = 1",
)
def mlkem_from_message(a: Asm, poly: Reg64, message: Reg64) -> None:
    """Half of q for each bit that is 1."""
    a.mov(EDX, SYMBOL_BYTES)
    a.movdqa(XMM1, lanes("bits"))
    with a.loop() as each:
        a.movzx(EAX, mem8(message, ref=BUFFER_IN))
        a.movd(XMM0, EAX)
        a.pshuflw(XMM0, XMM0, 0)
        a.punpcklqdq(XMM0, XMM0)
        a.pand(XMM0, XMM1)
        a.pcmpeqw(XMM0, XMM1)
        a.pand(XMM0, lanes("half"))
        a.movdqu(mem128(poly, ref=POLY), XMM0)
        a.inc(message)
        a.add(poly, VECTOR)
        a.dec(EDX)
        a.again(NZ, each)
    a.ret()
