"""Sums and products of polynomials (FIPS 203 2.4), eight coefficients at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.crypto.mlkem_lanes import (
    INVERSES,
    QS,
    down,
    lanes,
    load_modulus,
    multiply,
    reduce,
    up,
)
from firmware.layouts.mlkem import (
    MLKEM_LANES,
    MLKEM_ZETAS,
    POLY,
    POLY_BYTES,
    K,
    N,
)
from toolchain.asm import (
    EAX,
    ECX,
    NE,
    NZ,
    R8,
    R9,
    R9D,
    R10,
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
    mem32,
    mem128,
    routine,
)

if TYPE_CHECKING:
    from toolchain.asm.routine import Routine

VECTOR = 16
EXCHANGED = 0xB1
"""PSHUFLW selector that exchanges the words of each pair."""
SECOND_HALF = 2 * (N // 4)
"""Offset of the powers of zeta from which the pairs' moduli come."""


def _pair_moduli(a: Asm) -> None:
    """XMM2 := 2^16 and 2^16 g in turn, for the moduli X^2 - g of four pairs; XMM3 changes.

    Two pairs in a row have g and -g, and g is a power of zeta of the last layer.
    """
    signed = XMM3
    a.movd(signed, mem32(R10, ref=MLKEM_ZETAS))
    a.punpcklwd(signed, signed)
    a.pxor(signed, lanes("odd"))
    a.psubw(signed, lanes("odd"))
    a.movdqa(XMM2, lanes("one"))
    a.punpcklwd(XMM2, signed)


def _interleave(a: Asm) -> None:
    """Of the sums in XMM0 and XMM1: XMM3 := their high words in turn, XMM4 := their low words."""
    a.movdqa(XMM3, XMM1)
    a.psrld(XMM3, 16)
    a.pslld(XMM3, 16)
    a.movdqa(XMM4, XMM0)
    a.psrld(XMM4, 16)
    a.por(XMM3, XMM4)
    a.pslld(XMM1, 16)
    a.movdqa(XMM4, XMM0)
    a.pslld(XMM4, 16)
    a.psrld(XMM4, 16)
    a.por(XMM4, XMM1)


@routine(
    inputs=[
        In(RDI, int, "where the sum of products goes"),
        In(RSI, int, "the first of three polynomials, transformed"),
        In(ECX, int, "bytes from one of them to the next"),
        In(RDX, int, "three polynomials in a row, transformed"),
    ],
    clobbers=[
        RAX, RCX, RDX, RSI, RDI, R8, R9, R10,
        XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, QS, INVERSES,
    ],
    reads=[POLY, MLKEM_LANES, MLKEM_ZETAS],
    writes=[POLY],
    secret=[POLY],
    source="FIPS 203 algorithms 11 and 12",
)  # fmt: skip
def mlkem_dot(a: Asm, out: Reg64, first: Reg64, stride: Reg32, second: Reg64) -> None:
    """Sum the products of three pairs of polynomials, each of 128 products modulo X^2 - g."""
    x, y, left = RAX, R8, R9D
    load_modulus(a)
    a.mov(ECX, stride)  # the upper half of a narrow input is anything
    a.lea(R10, MLKEM_ZETAS.m8(SECOND_HALF))
    with a.loop() as vectors:
        _pair_moduli(a)
        a.pxor(XMM0, XMM0)
        a.pxor(XMM1, XMM1)
        a.mov(x, RSI)
        a.mov(y, RDX)
        a.mov(left, K)
        with a.loop() as products:
            # (x0 + x1 X)(y0 + y1 X) = x0 y0 + x1 y1 g and x0 y1 + x1 y0: exact sums in two words.
            a.movdqu(XMM3, mem128(y, ref=POLY))
            a.pshuflw(XMM4, XMM3, EXCHANGED)
            a.pshufhw(XMM4, XMM4, EXCHANGED)
            multiply(a, XMM3, XMM2, XMM5)
            a.movdqu(XMM5, mem128(x, ref=POLY))
            a.pmaddwd(XMM3, XMM5)
            a.pmaddwd(XMM4, XMM5)
            a.paddd(XMM0, XMM3)
            a.paddd(XMM1, XMM4)
            a.add(x, RCX)
            a.add(y, POLY_BYTES)
            a.dec(left)
            a.again(NZ, products)
        _interleave(a)
        # Six products are below q 2^15; what the reduction divides by comes back.
        reduce(a, XMM3, XMM4)
        multiply(a, XMM3, lanes("square"), XMM4)
        up(a, XMM3, XMM4)
        a.movdqu(mem128(RDI, ref=POLY), XMM3)
        a.add(RDI, VECTOR)
        a.add(RSI, VECTOR)
        a.add(RDX, VECTOR)
        a.add(R10, 4)
        a.lea(RAX, MLKEM_ZETAS.m8(2 * (N // 2)))
        a.cmp(R10, RAX)
        a.again(NE, vectors)
    a.ret()


def _each(name: str, sign: int) -> Routine:
    def body(a: Asm, poly: Reg64, other: Reg64) -> None:
        """Add another polynomial to one, or take it away."""
        a.movdqa(QS, lanes("q"))
        a.mov(EAX, POLY_BYTES // VECTOR)
        with a.loop() as each:
            a.movdqu(XMM0, mem128(poly, ref=POLY))
            a.movdqu(XMM1, mem128(other, ref=POLY))
            if sign < 0:
                a.psubw(XMM0, XMM1)
                up(a, XMM0, XMM1)
            else:
                a.paddw(XMM0, XMM1)
                down(a, XMM0, XMM1)
            a.movdqu(mem128(poly, ref=POLY), XMM0)
            a.add(poly, VECTOR)
            a.add(other, VECTOR)
            a.dec(EAX)
            a.again(NZ, each)
        a.ret()

    body.__name__ = name
    return routine(
        inputs=[In(RDI, int, "the polynomial that changes"), In(RSI, int, "the other one")],
        clobbers=[RAX, RSI, RDI, XMM0, XMM1, QS],
        reads=[POLY, MLKEM_LANES],
        writes=[POLY],
        secret=[POLY],
        source="FIPS 203 2.4.4",
    )(body)


mlkem_add = _each("mlkem_add", 1)
mlkem_subtract = _each("mlkem_subtract", -1)
