"""Numbers modulo an RSA modulus of any size: Montgomery multiplication, and its form. All is public.

Loops over the limbs, eight a turn (CIOS); the sum lies in locals and its highest limb in a register.
"""

from __future__ import annotations

from collections.abc import Callable

from firmware.crypto.limbs import LIMB_BYTES
from firmware.layouts.field import Level
from firmware.layouts.rsa import (
    CHUNK_LIMBS,
    NUMBER,
    RSA,
    RSA_BYTES_MAX,
    Rsa,
)
from toolchain.asm import (
    AE,
    EAX,
    EBP,
    ECX,
    NZ,
    R8,
    R8D,
    R9,
    R10,
    R10D,
    R11,
    R12,
    R12D,
    R13,
    R14,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    Convention,
    In,
    Reg64,
    Routine,
    mem8,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK

W = RSA.it
CHUNK_BYTES = CHUNK_LIMBS * LIMB_BYTES
INNER = Convention((RAX, RCX, RDX, RBX, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15))
_SOURCE = "RFC 8017 5.2.2; Koc, Acar, Kaliski 1996 (CIOS)"


def _pass(a: Asm, level: Level, back: int) -> None:
    """Sum += factor * the number at RSI; RCX := what goes over. Stored `back` bytes lower.

    The factor is in RDX for ADX, else in RBP; the sum begins at R11.
    """
    a.mov(R10D, W.limbs)
    a.shr(R10D, 3)
    a.xor(ECX, ECX)
    with a.loop() as chunks:
        over, other = RCX, R9
        if level is Level.ADX:
            a.xor(EBP, EBP)  # CF = OF = 0 as well
        for n in range(CHUNK_LIMBS):  # unrolled: a chunk
            word = mem64(RSI, LIMB_BYTES * n, ref=NUMBER)
            place = mem64(R11, LIMB_BYTES * n, ref=STACK)
            if level is Level.ADX:
                a.mulx(other, RAX, word)
                a.adcx(RAX, over)
                a.adox(RAX, place)
                over, other = other, over
            else:
                a.mov(RAX, word)
                a.mul(RBP)
                a.add(RAX, RCX)
                a.adc(RDX, 0)
                a.add(RAX, place)
                a.adc(RDX, 0)
                a.mov(RCX, RDX)
            a.mov(mem64(R11, LIMB_BYTES * n - back, ref=STACK), RAX)
        if level is Level.ADX:
            a.adcx(RCX, RBP)
            a.adox(RCX, RBP)
        a.add(RSI, CHUNK_BYTES)
        a.add(R11, CHUNK_BYTES)
        a.dec(R10D)
        a.again(NZ, chunks)


def _multiply(level: Level) -> Routine:
    def body(a: Asm, out: Reg64, x: Reg64, y: Reg64) -> None:
        """Out := x * y / radix modulo the modulus; both below it."""
        factor = RDX if level is Level.ADX else RBP
        sum_, top, above, rows = R14, R15, R8, R12D
        a.lea(sum_, a.local(8, LIMB_BYTES))  # a limb before it takes what vanishes
        a.mov(R13, x)
        a.mov(R8, out)
        a.mov(RDI, sum_)
        a.mov(ECX, W.limbs)
        a.xor(EAX, EAX)
        a.rep_stosq()
        a.mov(RDI, R8)
        a.xor(R15D, R15D)
        a.mov(rows, W.limbs)
        with a.loop() as all_rows:
            a.mov(factor, mem64(R13, ref=NUMBER))
            a.add(R13, LIMB_BYTES)
            a.mov(RSI, y)
            a.mov(R11, sum_)
            _pass(a, level, 0)
            a.xor(R8D, R8D)
            a.add(top, RCX)
            a.adc(above, 0)
            # A multiple of the modulus makes the lowest limb vanish, and the sum moves down by it.
            a.mov(factor, W.inverse)
            a.imul(factor, mem64(sum_, ref=STACK))
            a.lea(RSI, W.modulus.address)
            a.mov(R11, sum_)
            _pass(a, level, LIMB_BYTES)
            a.add(RCX, top)
            a.mov(mem64(R11, -LIMB_BYTES, ref=STACK), RCX)
            a.mov(top, above)
            a.adc(top, 0)
            a.dec(rows)
            a.again(NZ, all_rows)
        _least(a)
        a.ret()

    body.__name__ = f"rsa_multiply_{level.value}"
    return routine(
        inputs=[
            In(RDI, int, "where the product goes"),
            In(RSI, int, "a number"),
            In(RBX, int, "another"),
        ],
        clobbers=INNER,
        reads=[NUMBER, Rsa.modulus, Rsa.limbs, Rsa.inverse],
        writes=[NUMBER],
        stack=LIMB_BYTES + RSA_BYTES_MAX,
        source=_SOURCE,
    )(body)


def _over(a: Asm, step: Callable[[int], None], *, out: bool = False, carry: bool = True) -> None:
    """Run a step for each limb's offset from RSI, R11 and RDI; CF goes from one to the next.

    RSI begins at the modulus, R11 at the sum in R14; RDI moves on when it is written.
    """
    a.mov(ECX, W.limbs)
    a.shr(ECX, 3)
    a.lea(RSI, W.modulus.address)
    a.mov(R11, R14)
    if carry:
        a.clc()
    with a.loop() as chunks:
        for n in range(CHUNK_LIMBS):  # unrolled: a chunk
            step(LIMB_BYTES * n)
        # Neither LEA nor DEC changes CF.
        a.lea(RSI, mem8(RSI, CHUNK_BYTES, ref=NUMBER))
        a.lea(R11, mem8(R11, CHUNK_BYTES, ref=STACK))
        if out:
            a.lea(RDI, mem8(RDI, CHUNK_BYTES, ref=NUMBER))
        a.dec(ECX)
        a.again(NZ, chunks)


def _least(a: Asm) -> None:
    """Store the sum at R14, or that less the modulus when it is not below it; R15 is its top."""

    def subtract(at: int) -> None:
        a.mov(R9, mem64(R11, at, ref=STACK))
        a.sbb(R9, mem64(RSI, at, ref=NUMBER))

    def less(at: int) -> None:
        subtract(at)
        a.mov(mem64(RDI, at, ref=NUMBER), R9)

    def same(at: int) -> None:
        a.mov(R9, mem64(R11, at, ref=STACK))
        a.mov(mem64(RDI, at, ref=NUMBER), R9)

    _over(a, subtract)
    a.sbb(R15, 0)
    with a.if_(B):
        _over(a, same, out=True, carry=False)
        a.ret()
    _over(a, less, out=True)


def _enter(level: Level) -> Routine:
    def body(a: Asm, out: Reg64, x: Reg64) -> None:
        """Out := x * radix modulo the modulus, by long division, a limb of the quotient at a time."""
        sum_, rows, size, highest, target = R14, R12D, R8, R13, R15
        factor = RDX if level is Level.ADX else RBP
        # The dividend as its one's complement: so that adding the divisor subtracts it.
        a.mov(target, out)
        a.lea(sum_, a.local(8, RSA_BYTES_MAX))
        a.mov(R10, sum_)
        a.mov(R11, sum_)
        a.mov(ECX, W.limbs)
        a.mov(rows, ECX)
        with a.loop() as limbs:
            a.sub(R10, LIMB_BYTES)
            a.mov(mem64(R10, ref=STACK), -1)
            a.mov(RAX, mem64(x, ref=NUMBER))
            a.not_(RAX)
            a.mov(mem64(R11, ref=STACK), RAX)
            a.add(x, LIMB_BYTES)
            a.add(R11, LIMB_BYTES)
            a.dec(ECX)
            a.again(NZ, limbs)
        # The divisor's highest 64 bits begin with a one, at whichever byte they lie.
        a.mov(R8D, W.size)
        a.lea(RAX, W.modulus.address)
        a.mov(highest, mem64(RAX, -LIMB_BYTES, index=size, ref=NUMBER))
        with a.loop() as all_rows:
            # Knuth's theorem B: the quotient, or one or two more.
            a.mov(RDX, mem64(sum_, -LIMB_BYTES, index=size, ref=STACK))
            a.not_(RDX)
            a.mov(RAX, -1)
            a.cmp(RDX, highest)
            with a.if_(B):
                a.mov(RAX, mem64(sum_, -2 * LIMB_BYTES, index=size, ref=STACK))
                a.not_(RAX)
                a.div(highest)
            a.mov(factor, RAX)
            a.sub(sum_, LIMB_BYTES)
            a.lea(RSI, W.modulus.address)
            a.mov(R11, sum_)
            _pass(a, level, 0)
            a.add(RCX, mem64(R11, ref=STACK))
            with a.if_(B), a.loop() as too_much:
                _over(a, lambda at: _give_back(a, at))
                a.again(AE, too_much)
            a.dec(rows)
            a.again(NZ, all_rows)
        a.mov(ECX, W.limbs)
        with a.loop() as limbs:
            a.mov(RAX, mem64(sum_, ref=STACK))
            a.not_(RAX)
            a.mov(mem64(target, ref=NUMBER), RAX)
            a.add(sum_, LIMB_BYTES)
            a.add(target, LIMB_BYTES)
            a.dec(ECX)
            a.again(NZ, limbs)
        a.ret()

    body.__name__ = f"rsa_enter_{level.value}"
    return routine(
        inputs=[
            In(RDI, int, "where the remainder goes"),
            In(RSI, int, "a number below the modulus"),
        ],
        clobbers=INNER,
        reads=[NUMBER, Rsa.modulus, Rsa.limbs, Rsa.size],
        writes=[NUMBER],
        stack=2 * RSA_BYTES_MAX,
        source="The Art of Computer Programming, volume 2, 4.3.1, algorithm D",
    )(body)


def _give_back(a: Asm, at: int) -> None:
    """Subtract a limb of the modulus from the complement: a step of `_over`."""
    a.mov(R9, mem64(R11, at, ref=STACK))
    a.sbb(R9, mem64(RSI, at, ref=NUMBER))
    a.mov(mem64(R11, at, ref=STACK), R9)


MULTIPLY = {level: _multiply(level) for level in Level}
"""The products by level."""
ENTER = {level: _enter(level) for level in Level}
"""By level, what brings a number into Montgomery's form."""
