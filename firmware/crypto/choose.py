"""A row of a table by a secret number: every row is read, in order, and one is kept."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R9,
    R10,
    R11,
    RDI,
    RSI,
    Asm,
    B,
    E,
    Mem64,
)
from toolchain.asm.registers import LOW32

LIMBS = (R8, R9, R10, R11)
ELEMENT_BYTES = 32
ELEMENTS = 3
"""Coordinates of a point in the tables here."""
ROW_BYTES = ELEMENTS * ELEMENT_BYTES


def choose(a: Asm, row: Sequence[Mem64[int]], target: Sequence[Mem64[int]], *, rows: int) -> None:
    """Copy row EAX of the table at RSI to RDI, one element after another.

    Args:
        a: Where to.
        row: The limbs of an element at RSI.
        target: The limbs of an element at RDI.
        rows: How many there are; EAX is below.
    """
    for limb in LIMBS:
        a.xor(LOW32[limb.full], LOW32[limb.full])
    a.mov(EDX, ELEMENTS)
    with a.loop() as elements:
        a.xor(ECX, ECX)
        with a.loop() as all_rows:
            a.cmp(ECX, EAX)
            for limb, word in zip(LIMBS, row, strict=True):  # unrolled: the limbs
                a.cmov(E, limb, word)
            a.add(RSI, ROW_BYTES)
            a.inc(ECX)
            a.cmp(ECX, rows)
            a.again(B, all_rows)
        for limb, word in zip(LIMBS, target, strict=True):  # unrolled: the limbs
            a.mov(word, limb)
        a.add(RDI, ELEMENT_BYTES)
        a.sub(RSI, rows * ROW_BYTES - ELEMENT_BYTES)
        a.dec(EDX)
        a.again(NZ, elements)
