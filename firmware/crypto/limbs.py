"""Rows of limb products in registers, with MULX and two carry chains or with MUL and one.

What multiplication, reduction and folding are made of. `LOW`, `CARRY`, `FACTOR` and `SPARE` are
scratch in both variants; RDI and RBX stay what the caller made them.
"""

from __future__ import annotations

from collections.abc import Sequence

from firmware.layouts.field import ELEMENT, Level
from toolchain.asm import (
    EBP,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Mem64,
    Reg64,
    mem64,
)
from toolchain.asm.registers import Convention

LIMB_BITS, LIMB_BYTES = 64, 8
LIMBS = (R8, R9, R10, R11, R12, R13, R14, R15)
LOW, CARRY, FACTOR, SPARE = RAX, RCX, RDX, RBP
LEAF_CLOBBERS = Convention((LOW, CARRY, FACTOR, SPARE, RSI, *LIMBS))
"""A leaf saves nothing: a scalar multiplication calls thousands of them and saves once."""
LEAF_SAVES = (RBX, RBP, R12, R13, R14, R15)
"""What whoever calls leaves has to save."""
OUT, X, Y = RDI, RSI, RBX
UNARY = [In(OUT, int, "where the result goes"), In(X, int, "an element")]
BINARY = [*UNARY, In(Y, int, "another element; both may be where the result goes")]
Limb = Mem64[int] | Reg64


def element(pointer: Reg64, count: int) -> list[Mem64[int]]:
    """Return the limbs of an element in memory."""
    return [mem64(pointer, LIMB_BYTES * n, ref=ELEMENT) for n in range(count)]


def load(a: Asm, limbs: Sequence[Reg64], source: Sequence[Mem64[int]]) -> None:
    """Fetch an element into registers."""
    for limb, word in zip(limbs, source, strict=True):
        a.mov(limb, word)


def store(a: Asm, target: Sequence[Mem64[int]], limbs: Sequence[Reg64]) -> None:
    """Write registers to an element."""
    for word, limb in zip(target, limbs, strict=True):
        a.mov(word, limb)


def first_row(
    a: Asm, level: Level, total: Sequence[Reg64], factor: Limb | int, row: Sequence[Limb]
) -> None:
    """Total := factor * row; the total has one limb more than the row."""
    if level is Level.ADX:
        _load(a, FACTOR, factor)
        a.mulx(total[1], total[0], row[0])
        for j in range(1, len(row)):
            a.mulx(total[j + 1], LOW, row[j])
            (a.add if j == 1 else a.adc)(total[j], LOW)
        a.adc(total[len(row)], 0)
        return
    _load(a, SPARE, factor)
    for j, limb in enumerate(row):
        _load(a, LOW, limb)
        a.mul(SPARE)
        if j:
            a.add(LOW, CARRY)
            a.adc(RDX, 0)
        a.mov(total[j], LOW)
        a.mov(CARRY, RDX)
    a.mov(total[len(row)], CARRY)


def add_row(
    a: Asm, level: Level, total: Sequence[Reg64], factor: Limb | int, row: Sequence[Limb]
) -> None:
    """Total += factor * row, where the limb of the total above the row is new.

    Args:
        a: Where to.
        level: With which instructions.
        total: One limb more than the row; the last one's value before does not count.
        factor: What every limb is multiplied by.
        row: The limbs, lowest first.
    """
    n = len(row)
    if level is Level.ADX:
        _load(a, FACTOR, factor)
        a.xor(EBP, EBP)  # CF = OF = 0 as well
        for j in range(n - 1):
            a.mulx(CARRY, LOW, row[j])
            a.adcx(total[j], LOW)
            a.adox(total[j + 1], CARRY)
        a.mulx(total[n], LOW, row[n - 1])
        a.adcx(total[n - 1], LOW)
        a.adox(total[n], SPARE)
        a.adcx(total[n], SPARE)
        return
    _load(a, SPARE, factor)
    for j, limb in enumerate(row):
        _load(a, LOW, limb)
        a.mul(SPARE)
        if j:
            a.add(LOW, CARRY)
            a.adc(RDX, 0)
        a.add(total[j], LOW)
        a.adc(RDX, 0)
        a.mov(CARRY, RDX)
    a.mov(total[n], CARRY)


def product(
    a: Asm, level: Level, total: Sequence[Reg64], x: Sequence[Mem64[int]], y: Sequence[Mem64[int]]
) -> None:
    """Total := x * y, row by row; the total has as many limbs as both together."""
    n = len(y)
    first_row(a, level, total[: n + 1], x[0], y)
    for i in range(1, len(x)):
        add_row(a, level, total[i : i + n + 1], x[i], y)


def square(a: Asm, total: Sequence[Reg64], x: Sequence[Mem64[int]]) -> None:
    """Total := x * x for four limbs with MULX: each mixed product once, doubled, then the squares."""
    t = total
    # Mixed products of limb 0 and of limbs 1 and 2.
    a.mov(FACTOR, x[0])
    a.mulx(t[2], t[1], x[1])
    a.mulx(t[3], LOW, x[2])
    a.add(t[2], LOW)
    a.mulx(t[4], LOW, x[3])
    a.adc(t[3], LOW)
    a.adc(t[4], 0)
    a.mov(FACTOR, x[1])
    a.xor(EBP, EBP)
    a.mulx(CARRY, LOW, x[2])
    a.adcx(t[3], LOW)
    a.adox(t[4], CARRY)
    a.mulx(t[5], LOW, x[3])
    a.adcx(t[4], LOW)
    a.adox(t[5], SPARE)
    a.adcx(t[5], SPARE)
    a.mov(FACTOR, x[2])
    a.mulx(t[6], LOW, x[3])
    a.add(t[5], LOW)
    a.adc(t[6], 0)
    # One chain doubles, the other adds the squares.
    a.mov(FACTOR, x[0])
    a.xor(EBP, EBP)
    a.mov(t[7], SPARE)
    a.mulx(CARRY, t[0], FACTOR)
    a.adcx(t[1], t[1])
    a.adox(t[1], CARRY)
    for k in (1, 2, 3):
        a.mov(FACTOR, x[k])
        a.mulx(CARRY, LOW, FACTOR)
        a.adcx(t[2 * k], t[2 * k])
        a.adox(t[2 * k], LOW)
        a.adcx(t[2 * k + 1], t[2 * k + 1])
        a.adox(t[2 * k + 1], CARRY)


def _load(a: Asm, register: Reg64, value: Limb | int) -> None:
    if value is not register:
        a.mov(register, value)
