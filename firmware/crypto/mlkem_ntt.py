"""The number-theoretic transform of ML-KEM and its inverse (FIPS 203 4.3), eight coefficients at a time.

Seven layers of butterflies, whose halves lie 128 to 2 coefficients apart. While they fill registers
of their own the layers are one loop; halves of four and two are brought into registers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.crypto.mlkem_lanes import INVERSES, QS, down, lanes, load_modulus, multiply, up
from firmware.layouts.mlkem import MLKEM_LANES, MLKEM_ZETAS, POLY, POLY_BYTES, N
from toolchain.asm import (
    AE,
    BE,
    ECX,
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
    Asm,
    B,
    In,
    Reg64,
    mem8,
    mem32,
    mem64,
    mem128,
    routine,
)

if TYPE_CHECKING:
    from toolchain.asm.routine import Routine

X, Y, T, W, Z = XMM0, XMM1, XMM2, XMM3, XMM4
"""Both halves, two that change, the powers of zeta."""
LANES = 8
VECTOR = 2 * LANES
MIDDLE_PAIRS = 0xD8
"""PSHUFD selector that exchanges the two middle doublewords."""


@dataclass(frozen=True)
class Direction:
    """One of both transforms.

    Attributes:
        name: Of the routine.
        inverse: Which.
        source: Where it is defined.
    """

    name: str
    inverse: bool
    source: str

    @property
    def step(self) -> int:
        """Bytes to the next power of zeta."""
        return -2 if self.inverse else 2


def _butterfly(a: Asm, inverse: bool) -> None:
    """(X, Y) := (x + z y, x - z y), or (x + y, z (y - x))."""
    if not inverse:
        multiply(a, Y, Z, W)
        up(a, Y, W)
    a.movdqa(T, X)
    a.paddw(X, Y)
    down(a, X, W)
    if inverse:
        a.psubw(Y, T)
        multiply(a, Y, Z, W)
        up(a, Y, W)
    else:
        a.psubw(T, Y)
        up(a, T, W)
        a.movdqa(Y, T)


def _far(a: Asm, way: Direction) -> None:
    """Do the layers whose halves are eight coefficients or more; R8D is their distance in bytes."""
    low, high, half = RDX, RAX, R8D
    with a.loop() as layers:
        a.mov(low, RDI)
        with a.loop() as blocks:
            a.movd(Z, mem32(RSI, ref=MLKEM_ZETAS))
            a.add(RSI, way.step)
            a.pshuflw(Z, Z, 0)
            a.pshufd(Z, Z, 0)
            a.lea(high, mem8(low, index=R8, ref=POLY))
            a.mov(ECX, half)
            with a.loop() as each:
                a.movdqu(X, mem128(low, ref=POLY))
                a.movdqu(Y, mem128(high, ref=POLY))
                _butterfly(a, way.inverse)
                a.movdqu(mem128(low, ref=POLY), X)
                a.movdqu(mem128(high, ref=POLY), Y)
                a.add(low, VECTOR)
                a.add(high, VECTOR)
                a.sub(ECX, VECTOR)
                a.again(NZ, each)
            a.mov(low, high)
            a.cmp(low, R9)
            a.again(B, blocks)
        if way.inverse:
            a.add(half, half)
            a.cmp(half, POLY_BYTES // 2)
            a.again(BE, layers)
        else:
            a.shr(half, 1)
            a.cmp(half, VECTOR)
            a.again(AE, layers)


def _near(a: Asm, way: Direction, half: int) -> None:
    """Do one layer whose halves are four or two coefficients: two vectors hold both of some blocks."""
    pointer, pairs = RDX, half == 2
    a.mov(pointer, RDI)
    with a.loop() as each:
        a.movdqu(X, mem128(pointer, ref=POLY))
        a.movdqu(T, mem128(pointer, VECTOR, ref=POLY))
        # Lower halves to X, upper ones to Y.
        if pairs:
            a.pshufd(X, X, MIDDLE_PAIRS)
            a.pshufd(T, T, MIDDLE_PAIRS)
        a.movdqa(Y, X)
        a.punpcklqdq(X, T)
        a.punpckhqdq(Y, T)
        # A power for each block, as often as half of one has coefficients.
        if pairs:
            a.movq(Z, mem64(RSI, ref=MLKEM_ZETAS))
            if way.inverse:
                a.pshuflw(Z, Z, 0x1B)
            a.punpcklwd(Z, Z)
        else:
            a.movd(Z, mem32(RSI, ref=MLKEM_ZETAS))
            if way.inverse:
                a.pshuflw(Z, Z, 0x01)
            a.punpcklwd(Z, Z)
            a.pshufd(Z, Z, 0x50)
        a.add(RSI, way.step * LANES // half)
        _butterfly(a, way.inverse)
        a.movdqa(T, X)
        a.punpcklqdq(X, Y)
        a.punpckhqdq(T, Y)
        if pairs:
            a.pshufd(X, X, MIDDLE_PAIRS)
            a.pshufd(T, T, MIDDLE_PAIRS)
        a.movdqu(mem128(pointer, ref=POLY), X)
        a.movdqu(mem128(pointer, VECTOR, ref=POLY), T)
        a.add(pointer, 2 * VECTOR)
        a.cmp(pointer, R9)
        a.again(NE, each)


def _transform(way: Direction) -> Routine:
    def body(a: Asm, poly: Reg64) -> None:
        """Transform a polynomial in place."""
        load_modulus(a)
        a.lea(R9, mem8(poly, POLY_BYTES, ref=POLY))
        if not way.inverse:
            a.lea(RSI, MLKEM_ZETAS.m8(2))
            a.mov(R8D, POLY_BYTES // 2)
            _far(a, way)
            _near(a, way, 4)
            _near(a, way, 2)
            a.ret()
            return
        # Downwards from the last power; a group's first one is the highest that is loaded with it.
        a.lea(RSI, MLKEM_ZETAS.m8(2 * (N // 2 - 4)))
        _near(a, way, 2)
        a.add(RSI, 2 * 2)
        _near(a, way, 4)
        a.add(RSI, 2)
        a.mov(R8D, VECTOR)
        _far(a, way)
        a.mov(RDX, RDI)
        with a.loop() as each:  # divided by 128, which the layers left out
            a.movdqu(X, mem128(RDX, ref=POLY))
            multiply(a, X, lanes("last"), W)
            up(a, X, W)
            a.movdqu(mem128(RDX, ref=POLY), X)
            a.add(RDX, VECTOR)
            a.cmp(RDX, R9)
            a.again(NE, each)
        a.ret()

    body.__name__ = way.name
    return routine(
        inputs=[In(RDI, int, "the polynomial")],
        clobbers=[RAX, RCX, RDX, RSI, R8, R9, X, Y, T, W, Z, QS, INVERSES],
        reads=[POLY, MLKEM_LANES, MLKEM_ZETAS],
        writes=[POLY],
        secret=[POLY],
        source=way.source,
    )(body)


mlkem_ntt = _transform(Direction("mlkem_ntt", False, "FIPS 203 algorithm 9"))
mlkem_inverse_ntt = _transform(Direction("mlkem_inverse_ntt", True, "FIPS 203 algorithm 10"))
