"""GHASH with integer products, in constant time, for processors without PCLMULQDQ.

A product without carries is made of ordinary ones whose factors keep every fourth bit only: a column
then adds up to at most sixteen ones, whose carry reaches no bit that is kept, in the lower half of the
product. The upper half is the lower half of the reversed factors' product, reversed (the technique is
that of T. Pornin, BearSSL, "ghash_ctmul64").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.aead import GHASH_CLASSES, GHASH_FACTORS, AesGcmSoft
from toolchain.asm import (
    ECX,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSP,
    Asm,
    B,
    In,
    Out,
    Reg64,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY_FOURTH = 0x1111_1111_1111_1111
HALVES = ((1, 0x5555_5555_5555_5555), (2, 0x3333_3333_3333_3333), (4, 0x0F0F_0F0F_0F0F_0F0F))
PRODUCTS_AT = 8 * GHASH_FACTORS
FOLDS = (1, 2, 7)
"""x^128 = x^7 + x^2 + x + 1."""


def reverse_bits(a: Asm, value: Reg64, work: Reg64, mask: Reg64) -> None:
    """Turn a quadword around: bytes, then the bits of each."""
    a.bswap(value)
    for by, half in HALVES:  # unrolled: single bits, pairs, fours
        a.mov(mask, half)
        a.mov(work, value)
        a.shr(work, by)
        a.and_(work, mask)
        a.and_(value, mask)
        a.shl(value, by)
        a.or_(value, work)


def six_factors(
    a: Asm, high: Reg64, low: Reg64, work: tuple[Reg64, Reg64]
) -> Iterable[tuple[int, Reg64]]:
    """Yield the six factors of a number, each with its place: halves, their sum, all reversed.

    They lie in the registers until the next one is asked for.
    """
    total, mask = work
    for turn in range(2):  # unrolled
        if turn:
            reverse_bits(a, low, total, mask)
            reverse_bits(a, high, total, mask)
        yield 3 * turn, low
        yield 3 * turn + 1, high
        a.mov(total, low)
        a.xor(total, high)
        yield 3 * turn + 2, total


def _products(a: Asm) -> None:
    """Multiply the six factors in the locals by those of the key, lower halves only."""
    parts, sums, work, mask = (RAX, RBX, RBP, R8), (R10, R11, R12, R13), R14, R9
    a.xor(ECX, ECX)
    a.mov(RDX, RDI)
    with a.loop() as each:
        a.mov(mask, EVERY_FOURTH)
        for n, part in enumerate(parts):  # unrolled: four classes of bits
            a.mov(part, mem64(RSP, index=RCX, scale=8, ref=STACK))
            a.and_(part, mask)
            if n < GHASH_CLASSES - 1:
                a.add(mask, mask)
        for n in range(GHASH_CLASSES):  # unrolled: sixteen products
            for m, part in enumerate(parts):
                sum_ = sums[(n + m) % GHASH_CLASSES]
                into = sum_ if n == 0 else work
                a.mov(into, part)
                a.imul(into, AesGcmSoft.at(RDX).factors.m64(8 * n))
                if n:
                    a.xor(sum_, work)
        a.mov(mask, EVERY_FOURTH)
        for n, sum_ in enumerate(sums):  # unrolled
            a.and_(sum_, mask)
            if n:
                a.or_(sums[0], sum_)
            if n < GHASH_CLASSES - 1:
                a.add(mask, mask)
        a.mov(mem64(RSP, PRODUCTS_AT, index=RCX, scale=8, ref=STACK), sums[0])
        a.add(RDX, 8 * GHASH_CLASSES)
        a.add(ECX, 1)
        a.cmp(ECX, GHASH_FACTORS)
        a.again(B, each)


def _fold(a: Asm, low: Reg64, above: Reg64, high: Reg64, work: Reg64) -> None:
    """Add the lowest quadword, which is worth x^128, to those one and two above it."""
    a.xor(high, low)
    for by in FOLDS:  # unrolled
        a.mov(work, low)
        a.shr(work, by)
        a.xor(high, work)
        a.mov(work, low)
        a.shl(work, 64 - by)
        a.xor(above, work)


@routine(
    inputs=[
        In(RDI, AesGcmSoft, "the key"),
        In(R8, int, "the hash so far plus a block: first quadword, big-endian"),
        In(R9, int, "second quadword"),
    ],
    outputs=[Out(R8, "the hash: first quadword"), Out(R9, "second quadword")],
    clobbers=[RAX, RCX, RDX, R10, R11],
    reads=[AesGcmSoft.factors],
    saves=[RBX, RBP, R12, R13, R14],
    stack=16 * GHASH_FACTORS,
    secret=[R8, R9, AesGcmSoft.factors],
    source="SP 800-38D 6.3 and 6.4",
)
def ghash_soft(a: Asm, key: AesGcmSoft, high: Reg64, low: Reg64) -> None:
    """Multiply by H."""
    for n, register in six_factors(a, high, low, (RAX, RCX)):
        a.mov(a.local(8, 8 * n), register)
    _products(a)

    # Karatsuba's rule, for the lower halves and for the reversed upper ones.
    v0, v1, v2, v3, middle, turned = R10, RAX, R11, RBX, R12, RBP
    for low_, high_, sum_, first in ((v0, v2, middle, 0), (v1, v3, turned, 3)):  # unrolled
        for n, register in enumerate((low_, high_, sum_)):
            a.mov(register, a.local(8, PRODUCTS_AT + 8 * (first + n)))
        a.xor(sum_, low_)
        a.xor(sum_, high_)
    for register in (v1, v3, turned):  # unrolled: a product has one bit less than two quadwords
        reverse_bits(a, register, R13, R14)
        a.shr(register, 1)
    a.xor(v1, middle)
    a.xor(v2, turned)
    # GCM's bits are reflected: the product of 255 bits moves up by one.
    a.shld(v3, v2, 1)
    a.shld(v2, v1, 1)
    a.shld(v1, v0, 1)
    a.add(v0, v0)
    _fold(a, v0, v1, v2, R13)
    _fold(a, v1, v2, v3, R13)
    a.mov(high, v3)
    a.mov(low, v2)
    for n in range(2 * GHASH_FACTORS):  # unrolled: nothing stays on the stack
        a.mov(a.local(8, 8 * n), 0)
    a.ret()
