"""Poly1305 in 64-bit integers (RFC 8439 2.5): h = (h + block) r modulo 2^130 - 5, block by block.

r is clamped, so its upper half is a multiple of four: what a product has at 2^128 comes back as 5/4 of
it. h is kept below 2^131, in three words, and reduced completely at the end alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.aead import ChaChaPoly
from toolchain.asm import (
    EBP,
    NZ,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RDI,
    RDX,
    XMM0,
)

if TYPE_CHECKING:
    from toolchain.asm import Asm, Mem64, Reg64

H0, H1, H2 = R14, R15, RBP
R0, R1, S1 = R11, R12, R13
"""r, and 5/4 of its upper half."""
CLAMPS = (0x0FFF_FFFC_0FFF_FFFF, 0x0FFF_FFFC_0FFF_FFFC)


def begin(a: Asm) -> None:
    """Take r and the pad from the first block of key stream (RFC 8439 2.6); h is zero."""
    work = ChaChaPoly.at(RDI)
    for n, (register, clamp) in enumerate(zip((R0, R1), CLAMPS, strict=True)):  # unrolled: two
        a.mov(register, clamp)
        a.and_(register, work.stream.m64(8 * n))
    a.mov(S1, R1)
    a.shr(S1, 2)
    a.add(S1, R1)
    a.movdqa(XMM0, work.stream.m128(16))
    a.movdqa(work.pad.m128(), XMM0)
    a.xor(R14D, R14D)
    a.xor(R15D, R15D)
    a.xor(EBP, EBP)


def absorb(a: Asm, low: Mem64[int] | Reg64, high: Mem64[int] | Reg64) -> None:
    """Take a whole block, in two halves; RAX, RDX and R8 to R10 are lost."""
    a.add(H0, low)
    a.adc(H1, high)
    a.adc(H2, 1)  # the bit behind a whole block

    # R9:R10 is what stands at 2^64, R8:H0 what stands at 1.
    a.mov(RAX, R1)
    a.mul(H0)
    a.mov(R10, RAX)
    a.mov(R9, RDX)
    a.mov(RAX, R0)
    a.mul(H0)
    a.mov(H0, RAX)
    a.mov(R8, RDX)
    a.mov(RAX, R0)
    a.mul(H1)
    a.add(R10, RAX)
    a.adc(R9, RDX)
    a.mov(RAX, S1)
    a.mul(H1)
    a.add(H0, RAX)
    a.adc(R8, RDX)
    # The upper word has a few bits only.
    a.mov(RAX, S1)
    a.imul(RAX, H2)
    a.imul(H2, R0)
    a.mov(H1, R8)
    a.add(R10, RAX)
    a.adc(R9, 0)
    a.add(H1, R10)
    a.adc(H2, R9)

    # 2^130 is 5: the bits from there on come back five times.
    a.mov(RAX, H2)
    a.mov(RDX, H2)
    a.and_(RAX, -4)
    a.shr(RDX, 2)
    a.and_(EBP, 3)
    a.add(RAX, RDX)
    a.add(H0, RAX)
    a.adc(H1, 0)
    a.adc(H2, 0)


def finish(a: Asm) -> None:
    """Set H1:H0 to the tag: h modulo 2^130 - 5, plus the pad, modulo 2^128."""
    a.mov(R8, H0)
    a.mov(R9, H1)
    a.add(R8, 5)
    a.adc(R9, 0)
    a.adc(H2, 0)
    a.shr(H2, 2)
    a.cmov(NZ, H0, R8)
    a.cmov(NZ, H1, R9)
    a.add(H0, ChaChaPoly.at(RDI).pad.m64())
    a.adc(H1, ChaChaPoly.at(RDI).pad.m64(8))
