"""u1 * G + u2 * Q for public scalars, digit by digit from the highest.

Signed odd digits: of seven bits for the base point G, whose multiples are in the image, of five bits
for the key Q, whose multiples are made anew. The doublings serve both.
"""

from __future__ import annotations

from firmware.crypto.inverse import INNER_CLOBBERS
from firmware.crypto.limbs import LIMB_BYTES
from firmware.crypto.montgomery import SUMS
from firmware.crypto.points import POINTS, W, clear, copy, emit, limbs_of
from firmware.layouts.curves import CURVES, Curve
from firmware.layouts.ecdsa import CURVE_DATA, DIGITS, DIGITS_MAX, SCALAR, Ecdsa, Point
from firmware.layouts.field import Level
from toolchain.asm import (
    AL,
    BE,
    CL,
    EAX,
    ECX,
    EDX,
    NS,
    NZ,
    R8D,
    R9,
    R9D,
    R10,
    R10B,
    R10D,
    R11,
    R11D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Mem64,
    Reg32,
    Reg64,
    mem8,
    mem64,
    routine,
)
from toolchain.asm.routine import Routine
from toolchain.layout import Data
from toolchain.layout.fields import Span


@routine(
    inputs=[
        In(RSI, int, "a number; eight bytes of zeros behind it"),
        In(RDI, int, f"where its digits go; {DIGITS_MAX} bytes"),
        In(ECX, int, "bits of a digit, 2..7"),
        In(EDX, int, "bits of the number, a multiple of 64 below 385"),
    ],
    clobbers=[RAX, RCX, RDI, R8D, R9, R10, R11],
    reads=[SCALAR],
    writes=[DIGITS],
    source="Guide to Elliptic Curve Cryptography, algorithm 3.35",
)
def signed_digits(a: Asm, number: Reg64, digits: Reg64, width: Reg32, bits: Reg32) -> None:
    """Write a number as one digit for each bit, zero or odd, within half of what the width spans."""
    place, carry, span = R9D, R10D, R11D
    a.mov(R8D, width)
    a.mov(R9, digits)
    a.mov(ECX, DIGITS_MAX)
    a.xor(EAX, EAX)
    a.rep_stosb()
    a.mov(RDI, R9)
    a.mov(ECX, R8D)
    a.mov(span, 1)
    a.shl(span, CL)
    a.xor(place, place)
    a.xor(carry, carry)
    with a.loop() as places:
        a.mov(EAX, place)
        a.shr(EAX, 3)
        a.mov(RAX, mem64(number, index=RAX, ref=SCALAR))
        a.mov(ECX, place)
        a.and_(ECX, 7)
        a.shr(RAX, CL)
        # With the carry an even bit is a zero, and the next one is looked at.
        a.mov(ECX, EAX)
        a.and_(ECX, 1)
        a.cmp(ECX, carry)
        with a.if_(E):
            a.inc(place)
            a.cmp(place, bits)
            a.again(BE, places)
            a.ret()
        # The digit is what the width spans, or that less the span, which the next digits get back.
        a.lea(ECX, mem8(R11, -1, ref=SCALAR))
        a.and_(EAX, ECX)
        a.add(EAX, carry)
        a.shr(ECX, 1)
        a.xor(carry, carry)
        a.cmp(EAX, ECX)
        a.set(A, R10B)
        with a.if_(A):
            a.sub(EAX, span)
        a.mov(mem8(RDI, index=R9, ref=DIGITS), AL)
        a.add(place, R8D)
        a.cmp(place, bits)
        a.again(BE, places)
    a.ret()


class _Sum:
    """Emits the parts of one variant."""

    def __init__(self, a: Asm, curve: Curve, level: Level) -> None:
        self.a, self.curve, self.level = a, curve, level
        self.data, self.points = CURVE_DATA[curve.name], POINTS[curve.name, level]
        self.count, self.size = curve.field.count, curve.field.size

    def limbs(self, place: Span | Data) -> list[Mem64[int]]:
        """Return the limbs of an element."""
        return limbs_of(self.curve, place)

    def key_multiples(self) -> None:
        """Write Q, 3Q, 5Q, ... behind each other."""
        a, c = self.a, self.curve
        one = self.limbs(self.data.one)
        for target, source in ((W.x1, W.x2), (W.y1, W.y2)):
            copy(a, c, target, self.limbs(source))
        copy(a, c, W.z1, one)
        self.keep(0)
        a.call(self.points.double)
        for target, source in ((W.x2, W.x1), (W.y2, W.y1), (W.z2, W.z1)):
            copy(a, c, target, self.limbs(source))
        a.lea(RSI, W.multiples.address)
        first = Point.at(RSI)
        for target, span in ((W.x1, first.x), (W.y1, first.y), (W.z1, first.z)):
            copy(a, c, target, self.limbs(span))
        a.mov(W.bit, Point.SIZE)
        with a.loop() as multiples:
            a.call(self.points.add)
            a.mov(ECX, W.bit)
            a.lea(RSI, W.multiples.address)
            a.add(RSI, RCX)
            self.keep_at()
            a.add(W.bit, Point.SIZE)
            a.cmp(W.bit, Ecdsa.multiples.size)
            a.again(B, multiples)

    def keep(self, offset: int) -> None:
        """Keep the sum among the multiples."""
        self.a.lea(RSI, W.multiples.m8(offset))
        self.keep_at()

    def keep_at(self) -> None:
        """Keep the sum at RSI."""
        point = Point.at(RSI)
        for target, source in ((point.x, W.x1), (point.y, W.y1), (point.z, W.z1)):
            copy(self.a, self.curve, target, self.limbs(source))

    def choose(self, digits: Span) -> None:
        """EAX := the magnitude of this bit's digit, EDX := its sign in every bit; ZF: it is 0."""
        a = self.a
        a.mov(ECX, W.bit)
        a.lea(RAX, digits.address)
        a.movzx(EAX, mem8(RAX, index=RCX, ref=DIGITS))
        a.shl(EAX, 24)
        a.sar(EAX, 24)
        a.mov(EDX, EAX)
        a.sar(EDX, 31)
        a.xor(EAX, EDX)
        a.sub(EAX, EDX)

    def put(self, table: Span | Data, stride: int, words: list[list[Mem64[int]]]) -> None:
        """Copy the multiple EAX / 2 to the second point, turned over where EDX is all ones."""
        a = self.a
        a.shr(EAX, 1)
        a.imul(EAX, EAX, stride)
        a.lea(RSI, table.address)
        a.add(RSI, RAX)
        for target, source in zip((W.x2, W.y2, W.z2), words, strict=False):
            copy(a, self.curve, target, source)
        a.test(EDX, EDX)
        with a.if_(NZ):
            emit(a, self.curve, self.level, "y2 = zero - y2")

    def sum(self) -> None:
        """Sum := u1 * G + u2 * Q, from the highest digit down."""
        a, c = self.a, self.curve
        for coordinate in (W.x1, W.y1, W.z1):
            clear(a, c, coordinate)
        point = Point.at(RSI)
        key = [self.limbs(span) for span in (point.x, point.y, point.z)]
        base = [
            [
                mem64(RSI, self.size * k + LIMB_BYTES * n, ref=self.data.multiples)
                for n in range(self.count)
            ]
            for k in range(2)
        ]
        # The first digit that counts; without one the sum is infinity.
        a.mov(ECX, 8 * self.size)
        a.lea(RSI, W.digits1.address)
        a.lea(RDX, W.digits2.address)
        begin = a.label("begin")
        with a.loop() as zeros:
            a.mov(AL, mem8(RSI, index=RCX, ref=DIGITS))
            a.or_(AL, mem8(RDX, index=RCX, ref=DIGITS))
            a.jnz(begin)
            a.dec(ECX)
            a.again(NS, zeros)
        a.ret()
        a.place(begin)
        a.mov(W.bit, ECX)
        with a.loop() as bits:
            a.call(self.points.double)  # infinity stays what it is
            for digits, table, stride, words, add in (
                (W.digits2, W.multiples, Point.SIZE, key, self.points.add),
                (W.digits1, self.data.multiples, 2 * self.size, base, self.points.add_affine),
            ):
                self.choose(digits)
                with a.if_(NZ):
                    self.put(table, stride, words)
                    a.call(add)
            a.dec(W.bit)
            a.again(NS, bits)


def _sum(curve: Curve, level: Level) -> Routine:
    points, data = POINTS[curve.name, level], CURVE_DATA[curve.name]

    def body(a: Asm) -> None:
        """Sum := the digits' multiples of the base point and of the second point."""
        parts = _Sum(a, curve, level)
        parts.key_multiples()
        parts.sum()
        a.ret()

    body.__name__ = f"{curve.name}_point_sum_{level.value}"
    return routine(
        clobbers=INNER_CLOBBERS,
        reads=[Ecdsa, Point, DIGITS, data.one, data.multiples],
        writes=[Ecdsa, Point],
        calls=[SUMS[curve.field.name].sub, points.double, points.add, points.add_affine],
        source="Guide to Elliptic Curve Cryptography, algorithms 3.36 and 3.51",
    )(body)


POINT_SUMS = {(curve.name, level): _sum(curve, level) for curve in CURVES for level in Level}
"""The routines by curve and level."""
