"""GHASH with PCLMULQDQ (SP 800-38D 6.4): products by Karatsuba's rule, added up, reduced once.

Blocks are reversed to big-endian numbers, which makes them polynomials with reflected bits. The key's
powers carry a division by x (see `AesGcm`), so that a reflected product needs no shift. The reduction
is Montgomery's: it divides by x^128, which the reflection had multiplied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.aead import GCM_CONSTANTS, POLYNOMIAL_AT, REVERSE_AT, AesGcm
from toolchain.asm import XMM8, XMM9, XMM10, XMM11, XMM12, XMM13

if TYPE_CHECKING:
    from toolchain.asm import Asm, Mem128, Reg64, Xmm

LOW, HIGH, MIDDLE = XMM8, XMM9, XMM10
"""The three parts of a product, or of a sum of products."""
BLOCK, WORK = XMM11, XMM12
SUM = XMM13
"""GHASH of all blocks so far."""
SWAP_HALVES = 0x4E


def load_block(a: Asm, source: Mem128[int]) -> None:
    """Set BLOCK to a block of the message."""
    a.movdqu(BLOCK, source)
    reverse(a, BLOCK)


def reverse(a: Asm, register: Xmm) -> None:
    """Turn a block into a number, or back."""
    a.pshufb(register, GCM_CONSTANTS.m128(REVERSE_AT))


def multiply_first(a: Asm, key: Reg64, power: int) -> None:
    """Begin a sum of products with BLOCK times H^power of the key at a register."""
    factor = AesGcm.at(key, 16 * (power - 1))
    a.movdqa(LOW, BLOCK)
    a.movdqa(HIGH, BLOCK)
    a.pshufd(MIDDLE, BLOCK, SWAP_HALVES)
    a.pxor(MIDDLE, BLOCK)
    a.pclmulqdq(LOW, factor.powers.m128(), 0x00)
    a.pclmulqdq(HIGH, factor.powers.m128(), 0x11)
    a.pclmulqdq(MIDDLE, factor.halves.m128(), 0x00)


def multiply_next(a: Asm, key: Reg64, power: int) -> None:
    """Add BLOCK times H^power of the key at a register; BLOCK is lost."""
    factor = AesGcm.at(key, 16 * (power - 1))
    a.movdqa(WORK, BLOCK)
    a.pclmulqdq(WORK, factor.powers.m128(), 0x00)
    a.pxor(LOW, WORK)
    a.pshufd(WORK, BLOCK, SWAP_HALVES)
    a.pxor(WORK, BLOCK)
    a.pclmulqdq(WORK, factor.halves.m128(), 0x00)
    a.pxor(MIDDLE, WORK)
    a.pclmulqdq(BLOCK, factor.powers.m128(), 0x11)
    a.pxor(HIGH, BLOCK)


def reduce(a: Asm, result: Xmm) -> None:
    """Set the result to the sum of products modulo the polynomial."""
    # Karatsuba: the middle part is what the outer two leave of the product of the sums.
    a.pxor(MIDDLE, LOW)
    a.pxor(MIDDLE, HIGH)
    a.movdqa(WORK, MIDDLE)
    a.psrldq(WORK, 8)
    a.pslldq(MIDDLE, 8)
    a.pxor(HIGH, WORK)
    a.pxor(LOW, MIDDLE)
    for _ in range(2):  # unrolled: the lower quadword vanishes, then the other
        a.movdqa(WORK, GCM_CONSTANTS.m128(POLYNOMIAL_AT))
        a.pclmulqdq(WORK, LOW, 0x00)
        a.pshufd(LOW, LOW, SWAP_HALVES)
        a.pxor(LOW, WORK)
    a.pxor(LOW, HIGH)
    a.movdqa(result, LOW)


def absorb(a: Asm, key: Reg64) -> None:
    """Take BLOCK into SUM, alone."""
    a.pxor(BLOCK, SUM)
    multiply_first(a, key, 1)
    reduce(a, SUM)
