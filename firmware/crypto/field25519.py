"""Arithmetic modulo p = 2^255 - 19, in four limbs below 2^256: not the least residue, but a residue.

As 2^256 = 38 modulo p, whatever goes over 2^256 comes back multiplied by 38. Every result is below
2^256 again, so that every result may be an operand. One generator for both levels of the processor;
nothing depends on what the elements are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firmware.crypto.limbs import (
    BINARY,
    CARRY,
    LEAF_CLOBBERS,
    LIMBS,
    UNARY,
    X,
    Y,
    add_row,
    element,
    first_row,
    load,
    product,
    square,
    store,
)
from firmware.layouts.field import ELEMENT, Level
from toolchain.asm import EAX, RAX, Asm, B, In, Mem64, Reg64, routine
from toolchain.asm.routine import Routine

N = 4
FOLD = 38
TOP_BIT = 63
"""Of the highest limb."""
LEAST = LIMBS[:N]
A24 = 121665
"""(486662 - 2) / 4, of Montgomery's formula (RFC 7748 5)."""
_SOURCE = "RFC 7748 4.1; facts of s2n-bignum and x25519-x86_64: radix 2^64, folding by 38"


@dataclass(frozen=True)
class Field25519:
    """The routines of one level."""

    mul: Routine
    sqr: Routine
    butterfly: Routine
    sub: Routine
    a24: Routine


def _last_carry(a: Asm, limbs: Sequence[Reg64]) -> None:
    """Fold CF; what is left then is so small that a single limb takes it."""
    a.sbb(RAX, RAX)
    a.and_(EAX, FOLD)
    a.add(limbs[0], RAX)


def _folded(a: Asm, level: Level, limbs: Sequence[Reg64]) -> None:
    """Bring eight limbs back into the lower four."""
    low, high = limbs[:N], limbs[N:]
    add_row(a, level, [*low, CARRY], FOLD, high)
    _top_folded(a, low, CARRY)


def _top_folded(a: Asm, low: Sequence[Reg64], top: Reg64) -> None:
    """Bring a fifth limb of a few bits back into the lower four."""
    a.imul(top, top, FOLD)
    a.add(low[0], top)
    for limb in low[1:]:
        a.adc(limb, 0)
    _last_carry(a, low)


def _carried(
    a: Asm, limbs: Sequence[Reg64], op: Callable[..., None], chain: Callable[..., None]
) -> None:
    """Fold the carry of an addition, or the borrow of a subtraction, twice."""
    a.sbb(RAX, RAX)
    a.and_(EAX, FOLD)
    op(limbs[0], RAX)
    for limb in limbs[1:]:
        chain(limb, 0)
    a.sbb(RAX, RAX)
    a.and_(EAX, FOLD)
    op(limbs[0], RAX)


def _sum(a: Asm, limbs: Sequence[Reg64]) -> None:
    """Limbs := x + y."""
    load(a, limbs, element(X, N))
    for n, word in enumerate(element(Y, N)):
        (a.adc if n else a.add)(limbs[n], word)
    _carried(a, limbs, a.add, a.adc)


def _difference(a: Asm, limbs: Sequence[Reg64]) -> None:
    """Limbs := x - y."""
    load(a, limbs, element(X, N))
    for n, word in enumerate(element(Y, N)):
        (a.sbb if n else a.sub)(limbs[n], word)
    _carried(a, limbs, a.sub, a.sbb)


def least(a: Asm, value: Sequence[Mem64[int]]) -> None:
    """LEAST := the least residue of an element."""
    other = LIMBS[N:]
    load(a, LEAST, value)
    for _ in range(2):  # unrolled: bit 255 is worth 19, and that may carry into it once more
        a.mov(RAX, LEAST[-1])
        a.shr(RAX, TOP_BIT)
        a.imul(RAX, RAX, 19)
        a.btr(LEAST[-1], TOP_BIT)
        a.add(LEAST[0], RAX)
        for limb in LEAST[1:]:
            a.adc(limb, 0)
    # It is p or more when adding 19 reaches bit 255; then that sum without the bit is it.
    for limb, copy in zip(LEAST, other, strict=True):
        a.mov(copy, limb)
    a.add(other[0], 19)
    for limb in other[1:]:
        a.adc(limb, 0)
    a.bt(other[-1], TOP_BIT)
    for limb, copy in zip(LEAST, other, strict=True):
        a.cmov(B, limb, copy)
    a.btr(LEAST[-1], TOP_BIT)


@routine(
    inputs=[In(X, int, "an element")],
    clobbers=[RAX, *LIMBS],
    reads=[ELEMENT],
    writes=[ELEMENT],
    secret=[ELEMENT],
    source="RFC 7748 5",
)
def field25519_least(a: Asm, x: Reg64) -> None:
    """Make an element the least residue."""
    least(a, element(x, N))
    store(a, element(x, N), LEAST)
    a.ret()


def _routines(level: Level) -> Field25519:
    def declared(inputs: list[In], body: Callable[..., None]) -> Routine:
        body.__name__ = f"field25519_{body.__name__}_{level.value}"
        return routine(
            inputs=inputs,
            clobbers=LEAF_CLOBBERS,
            reads=[ELEMENT],
            writes=[ELEMENT],
            secret=[ELEMENT],
            source=_SOURCE,
        )(body)

    def mul(a: Asm, out: Reg64, x: Reg64, y: Reg64) -> None:
        """Multiply."""
        product(a, level, LIMBS, element(x, N), element(y, N))
        _folded(a, level, LIMBS)
        store(a, element(out, N), LIMBS[:N])
        a.ret()

    def sqr(a: Asm, out: Reg64, x: Reg64) -> None:
        """Square."""
        if level is Level.ADX:
            square(a, LIMBS, element(x, N))
        else:
            product(a, level, LIMBS, element(x, N), element(x, N))
        _folded(a, level, LIMBS)
        store(a, element(out, N), LIMBS[:N])
        a.ret()

    def butterfly(a: Asm, out: Reg64, x: Reg64, y: Reg64) -> None:
        """Add; the difference goes behind the sum."""
        _sum(a, LIMBS[:N])
        _difference(a, LIMBS[N:])
        store(a, element(out, 2 * N), LIMBS)
        a.ret()

    def sub(a: Asm, out: Reg64, x: Reg64, y: Reg64) -> None:
        """Subtract."""
        _difference(a, LIMBS[:N])
        store(a, element(out, N), LIMBS[:N])
        a.ret()

    def a24(a: Asm, out: Reg64, x: Reg64, y: Reg64) -> None:
        """Multiply by A24 and add the other element."""
        low, top = LIMBS[:N], LIMBS[N]
        first_row(a, level, [*low, top], A24, element(x, N))
        for n, word in enumerate(element(y, N)):
            (a.adc if n else a.add)(low[n], word)
        a.adc(top, 0)
        _top_folded(a, low, top)
        store(a, element(out, N), low)
        a.ret()

    return Field25519(
        mul=declared(BINARY, mul),
        sqr=declared(UNARY, sqr),
        butterfly=declared(BINARY, butterfly),
        sub=declared(BINARY, sub),
        a24=declared(BINARY, a24),
    )


FIELD25519 = {level: _routines(level) for level in Level}
"""The routines by level."""
