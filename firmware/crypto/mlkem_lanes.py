"""Arithmetic modulo 3329 in eight words of an XMM register; what the parts of ML-KEM are made of.

Every macro says from which range its operand comes and into which it goes; what lies in memory
is the least residue.
"""

from __future__ import annotations

from firmware.layouts.mlkem import LANES_AT, MLKEM_LANES
from toolchain.asm import XMM6, XMM7, Asm, Mem128, Xmm

QS, INVERSES = XMM6, XMM7
"""The modulus and its inverse modulo 2^16, while a routine runs."""
SIGN = 15


def lanes(name: str) -> Mem128[int]:
    """Return eight constants as an operand."""
    return MLKEM_LANES.m128(LANES_AT[name])


def load_modulus(a: Asm) -> None:
    """Set both registers that the macros below read."""
    a.movdqa(QS, lanes("q"))
    a.movdqa(INVERSES, lanes("q_inverse"))


def up(a: Asm, x: Xmm, work: Xmm) -> None:
    """(-q, q) to [0, q): add q to what is negative."""
    a.movdqa(work, x)
    a.psraw(work, SIGN)
    a.pand(work, QS)
    a.paddw(x, work)


def down(a: Asm, x: Xmm, work: Xmm) -> None:
    """[0, 2 q) to [0, q)."""
    a.psubw(x, QS)
    up(a, x, work)


def reduce(a: Asm, high: Xmm, low: Xmm) -> None:
    """A number of two words, below q 2^15, divided by 2^16: to (-q, q) in `high`; `low` changes."""
    a.pmullw(low, INVERSES)
    a.pmulhw(low, QS)
    a.psubw(high, low)


def multiply(a: Asm, x: Xmm, y: Xmm | Mem128[int], work: Xmm) -> None:
    """X := x y / 2^16 in (-q, q), of x and y in (-q, q)."""
    a.movdqa(work, x)
    a.pmullw(work, y)
    a.pmulhw(x, y)
    reduce(a, x, work)
