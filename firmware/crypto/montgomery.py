"""Montgomery arithmetic on four or six limbs, one generator for every modulus and both levels.

Residues are below the modulus on entry and on return; nothing depends on what they are. The
reduction adds a multiple of the modulus that makes the lowest limb vanish (CIOS: C. K. Koc,
T. Acar, B. Kaliski, "Analyzing and Comparing Montgomery Multiplication Algorithms", 1996). The primes
of P-256 and P-384 end in ones, so that their multiples are mostly shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firmware.crypto.limbs import (
    BINARY,
    CARRY,
    FACTOR,
    LEAF_CLOBBERS,
    LIMBS,
    LOW,
    SPARE,
    UNARY,
    element,
    first_row,
    load,
    product,
    square,
    store,
)
from firmware.layouts.curves import CURVES, ED25519_ORDER, MODULI, P256, P384, Modulus
from firmware.layouts.field import ELEMENT, Level
from toolchain.asm import (
    EAX,
    EBP,
    ECX,
    R14,
    R15,
    RAX,
    RBP,
    RCX,
    RDX,
    RSI,
    Asm,
    B,
    In,
    Mem64,
    Reg64,
    routine,
)
from toolchain.asm.registers import LOW32
from toolchain.asm.routine import Routine

_SOURCE = "NIST SP 800-186 3.2.1; Koc, Acar, Kaliski 1996 (CIOS)"
_ONES = 2**64 - 1


@dataclass(frozen=True)
class Products:
    """Products of one modulus at one level."""

    mul: Routine
    sqr: Routine


@dataclass(frozen=True)
class Sums:
    """Sums of one modulus; the instructions are those of every level."""

    add: Routine
    sub: Routine
    half: Routine


def _limbs(m: Modulus) -> list[Mem64[int]]:
    return [m.limbs.m64(8 * n) for n in range(m.count)]


# -- products -------------------------------------------------------------------------------------
def _accumulate(a: Asm, level: Level, total: Sequence[Reg64], row: Sequence[Mem64[int]]) -> None:
    """Total += the factor that is loaded * row; one limb above the total is there for the carry.

    With ADX the factor is in FACTOR, else in SPARE.
    """
    n = len(row)
    if level is Level.ADX:
        a.xor(EBP, EBP)  # CF = OF = 0 as well
        for j in range(n):
            a.mulx(CARRY, LOW, row[j])
            a.adcx(total[j], LOW)
            a.adox(total[j + 1], CARRY)
        a.adcx(total[n], SPARE)
        a.adox(total[n + 1], SPARE)
        a.adcx(total[n + 1], SPARE)
        return
    for j in range(n):
        a.mov(LOW, row[j])
        a.mul(SPARE)
        if j:
            a.add(LOW, CARRY)
            a.adc(RDX, 0)
        a.add(total[j], LOW)
        a.adc(RDX, 0)
        a.mov(CARRY, RDX)
    a.add(total[n], CARRY)
    a.adc(total[n + 1], 0)


def _factor(level: Level) -> Reg64:
    return FACTOR if level is Level.ADX else SPARE


def _dense(a: Asm, level: Level, m: Modulus, total: Sequence[Reg64]) -> None:
    """Make the lowest limb vanish with a multiple of any modulus."""
    factor = _factor(level)
    a.mov(factor, m.negative_inverse)
    a.imul(factor, total[0])
    _accumulate(a, level, total, _limbs(m))


def _of_p384(a: Asm, total: Sequence[Reg64]) -> None:
    """Add q * p as q * 2^384 - q * (2^128 + 2^96 - 2^32 + 1), where q = lowest limb * (2^32 + 1)."""
    q, low, high = RDX, RAX, RCX
    a.mov(q, total[0])
    a.shl(q, 32)
    a.add(q, total[0])
    # What is subtracted has four limbs: one that makes the lowest vanish, LOW, SPARE, a carry.
    a.mov(low, q)
    a.shl(low, 32)
    a.mov(high, q)
    a.shr(high, 32)
    a.cmp(q, low)
    a.sbb(low, high)
    a.mov(SPARE, q)
    a.sbb(SPARE, 0)
    a.add(SPARE, high)
    a.mov(ECX, 0)  # keeps CF
    a.adc(high, 0)
    a.sub(total[1], low)
    a.sbb(total[2], SPARE)
    a.sbb(total[3], high)
    a.sbb(total[4], 0)
    a.sbb(total[5], 0)
    a.sbb(q, 0)
    a.add(total[6], q)
    a.adc(total[7], 0)


def _of_p256(a: Asm, total: Sequence[Reg64]) -> None:
    """Reduce eight limbs by P-256: lowest limb by lowest limb, q * p = q * (2^256 - ... - 1).

    q * (2^224 (2^32 - 1) + 2^192 + 2^96 - 1) adds q << 96 and q * (2^256 - 2^224 + 2^192); the carry
    of each row goes into the next one's highest limb, at last into SPARE.
    """
    for n in range(P256.field.count):
        q = total[n]
        a.mov(RAX, q)
        a.mov(RCX, q)
        a.mov(RDX, q)
        a.shl(RDX, 32)
        a.shr(q, 32)
        a.sub(RAX, RDX)
        a.sbb(RCX, q)
        if n:
            a.add(RCX, SPARE)
        a.add(total[n + 1], RDX)
        a.adc(total[n + 2], q)
        a.adc(total[n + 3], RAX)
        a.adc(total[n + 4], RCX)
        a.mov(EBP, 0)  # keeps CF
        a.adc(SPARE, 0)


# -- results --------------------------------------------------------------------------------------
def _least(a: Asm, m: Modulus, out: Reg64, total: Sequence[Reg64], carry: Reg64) -> None:
    """Store what is below twice the modulus, less the modulus unless it is below that."""
    # The operands are not needed any more, so that their pointers may hold limbs.
    scratch = (*LIMBS, LOW, CARRY, FACTOR, SPARE, RSI)
    free = [register for register in scratch if register not in (*total, carry)]
    less = free[: m.count]
    for copy, limb in zip(less, total, strict=True):
        a.mov(copy, limb)
    _subtract(a, m, less, carry)
    for copy, limb in zip(less, total, strict=True):
        a.cmov(B, copy, limb)
    store(a, element(out, m.count), less)


def _subtract(a: Asm, m: Modulus, total: Sequence[Reg64], carry: Reg64) -> None:
    """Total -= modulus; CF = 1 when it was below that."""
    for n, (limb, word) in enumerate(zip(total, _limbs(m), strict=True)):
        (a.sbb if n else a.sub)(limb, word)
    a.sbb(carry, 0)


def _add_masked(a: Asm, m: Modulus, total: Sequence[Reg64]) -> None:
    """Total += modulus where RAX is all ones, += 0 where it is zero; CF = carry."""
    free = iter((RCX, RDX, RBP, R14, R15))
    parts: list[Reg64 | int] = []
    for n, word in enumerate(_limbs(m)):
        value = m.value >> 64 * n & _ONES
        part: Reg64 | int = 0
        if value == _ONES:
            part = RAX
        elif value:
            part = next(free)
            a.mov(part, word)
            a.and_(part, RAX)
        parts.append(part)
    for n, (limb, part) in enumerate(zip(total, parts, strict=True)):
        (a.adc if n else a.add)(limb, part)


def _named(
    m: Modulus, what: str, inputs: list[In], level: Level | None = None
) -> Callable[..., Routine]:
    """Return what declares a leaf of a modulus."""

    def declared(body: Callable[..., None]) -> Routine:
        body.__name__ = "_".join((m.name, what, *([level.value] if level else [])))
        return routine(
            inputs=inputs,
            clobbers=LEAF_CLOBBERS,
            reads=[ELEMENT, m.limbs],
            writes=[ELEMENT],
            secret=[ELEMENT],
            source=_SOURCE,
        )(body)

    return declared


def _products(m: Modulus, level: Level) -> Products:
    n = m.count

    def multiplied(a: Asm, out: Reg64, x: Reg64, y: Reg64, *, same: bool = False) -> None:
        if m is P256.field:
            if same and level is Level.ADX:
                square(a, LIMBS, element(x, n))
            else:
                product(a, level, LIMBS, element(x, n), element(y, n))
            _of_p256(a, LIMBS)
            _least(a, m, out, LIMBS[n:], SPARE)
            return
        total = list(LIMBS[: n + 2])
        row = element(y, n)
        for i, limb in enumerate(element(x, n)):
            if i == 0:
                first_row(a, level, total[: n + 1], limb, row)
                a.xor(total[n + 1], total[n + 1])
            else:
                a.xor(total[n + 1], total[n + 1])
                a.mov(_factor(level), limb)
                _accumulate(a, level, total, row)
            if m is P384.field:
                _of_p384(a, total)
            else:
                _dense(a, level, m, total)
            total = [*total[1:], total[0]]
        _least(a, m, out, total[:n], total[n])

    def mul(a: Asm, out: Reg64, x: Reg64, y: Reg64) -> None:
        """Out := x * y / radix."""
        multiplied(a, out, x, y)
        a.ret()

    def sqr(a: Asm, out: Reg64, x: Reg64) -> None:
        """Out := x * x / radix."""
        multiplied(a, out, x, x, same=True)
        a.ret()

    return Products(
        mul=_named(m, "mul", BINARY, level)(mul), sqr=_named(m, "sqr", UNARY, level)(sqr)
    )


def _sums(m: Modulus) -> Sums:
    n = m.count
    total = LIMBS[:n]

    def add(a: Asm, out: Reg64, x: Reg64, y: Reg64) -> None:
        """Out := x + y."""
        load(a, total, element(x, n))
        a.xor(EBP, EBP)
        for j, word in enumerate(element(y, n)):
            (a.adc if j else a.add)(total[j], word)
        a.adc(SPARE, SPARE)
        _least(a, m, out, total, SPARE)
        a.ret()

    def sub(a: Asm, out: Reg64, x: Reg64, y: Reg64) -> None:
        """Out := x - y."""
        load(a, total, element(x, n))
        for j, word in enumerate(element(y, n)):
            (a.sbb if j else a.sub)(total[j], word)
        a.sbb(RAX, RAX)
        _add_masked(a, m, total)
        store(a, element(out, n), total)
        a.ret()

    def half(a: Asm, out: Reg64, x: Reg64) -> None:
        """Out := x / 2: an odd residue gets the modulus added first, which is odd too."""
        load(a, total, element(x, n))
        a.mov(EAX, LOW32[total[0].full])
        a.and_(EAX, 1)
        a.neg(RAX)
        _add_masked(a, m, total)
        for limb in reversed(total):  # the carry becomes the highest bit
            a.rcr(limb, 1)
        store(a, element(out, n), total)
        a.ret()

    return Sums(
        add=_named(m, "add", BINARY)(add),
        sub=_named(m, "sub", BINARY)(sub),
        half=_named(m, "half", UNARY)(half),
    )


PRODUCTS = {(m.name, level): _products(m, level) for m in MODULI for level in Level}
"""Products by modulus and level. One factor of two may be any number of so many limbs."""
SUMS = {m.name: _sums(m) for m in (*(c.field for c in CURVES), ED25519_ORDER)}
"""Sums by modulus; they are the same at every level."""
