"""Inverses modulo a prime: the power with the prime less two, four bits of it at a time.

The exponent is public, and what is inverted decides nothing: fit for secrets.
"""

from __future__ import annotations

from firmware.crypto.limbs import LEAF_CLOBBERS, LIMB_BYTES
from firmware.crypto.montgomery import PRODUCTS
from firmware.layouts.curves import CURVES, Modulus
from firmware.layouts.ecdsa import CURVE_DATA, INVERSION, POWER_BYTES, Inversion
from firmware.layouts.field import ELEMENT, Level
from toolchain.asm import (
    EAX,
    ECX,
    NE,
    NS,
    RAX,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Reg64,
    mem64,
    routine,
)
from toolchain.asm.registers import CL, EDX, Convention
from toolchain.asm.routine import Routine
from toolchain.layout import Data

INNER_CLOBBERS = Convention((*LEAF_CLOBBERS, RDI, RBX))
"""What calls leaves within a larger operation saves nothing either."""
WINDOW = 4
W = INVERSION.it
SECRET = [Inversion.value, Inversion.powers]


def _inverse(m: Modulus, exponent: Data, level: Level) -> Routine:
    products = PRODUCTS[m.name, level]

    def body(a: Asm, out: Reg64, x: Reg64) -> None:
        """Out := 1 / x in Montgomery's form; 0 stays 0."""
        a.mov(W.out, out)
        for n in range(m.count):  # unrolled: the limbs
            a.mov(RAX, mem64(x, LIMB_BYTES * n, ref=ELEMENT))
            a.mov(W.powers.m64(POWER_BYTES + LIMB_BYTES * n), RAX)
            a.mov(W.value.m64(LIMB_BYTES * n), RAX)
        for n in range(2, 1 << WINDOW):  # unrolled: the powers
            a.lea(RDI, W.powers.m8(POWER_BYTES * n))
            a.lea(RSI, W.powers.m8(POWER_BYTES * (n - 1)))
            a.lea(RBX, W.powers.m8(POWER_BYTES))
            a.call(products.mul)
        first = (m.value - 2) >> (LIMB_BYTES * 8 * m.count - WINDOW)
        for n in range(m.count):  # unrolled: the exponent's highest digit
            a.mov(RAX, W.powers.m64(POWER_BYTES * first + LIMB_BYTES * n))
            a.mov(W.value.m64(LIMB_BYTES * n), RAX)
        a.mov(W.bit, LIMB_BYTES * 8 * m.count - 2 * WINDOW)
        with a.loop() as digits:
            for _ in range(WINDOW):  # unrolled: a digit's bits
                a.lea(RDI, W.value.address)
                a.mov(RSI, RDI)
                a.call(products.sqr)
            # The digit lies within one limb.
            a.mov(ECX, W.bit)
            a.mov(EDX, ECX)
            a.shr(EDX, 6)
            a.lea(RAX, exponent.address)
            a.mov(RAX, mem64(RAX, index=RDX, scale=8, ref=exponent))
            a.shr(RAX, CL)
            a.and_(EAX, (1 << WINDOW) - 1)
            with a.if_(NE):
                a.imul(EAX, EAX, POWER_BYTES)
                a.lea(RBX, W.powers.address)
                a.add(RBX, RAX)
                a.lea(RDI, W.value.address)
                a.mov(RSI, RDI)
                a.call(products.mul)
            a.sub(W.bit, WINDOW)
            a.again(NS, digits)
        a.mov(RDI, W.out)
        for n in range(m.count):  # unrolled: the limbs
            a.mov(RAX, W.value.m64(LIMB_BYTES * n))
            a.mov(mem64(RDI, LIMB_BYTES * n, ref=ELEMENT), RAX)
        a.lea(RDI, INVERSION.address)
        a.mov(ECX, Inversion.SIZE // 8)
        a.xor(EAX, EAX)
        a.rep_stosq()
        a.ret()

    body.__name__ = f"{m.name}_inverse_{level.value}"
    return routine(
        inputs=[In(RDI, int, "where the inverse goes"), In(RSI, int, "what is inverted")],
        clobbers=INNER_CLOBBERS,
        reads=[ELEMENT, Inversion, exponent],
        writes=[ELEMENT, Inversion],
        calls=[products.mul, products.sqr],
        secret=[ELEMENT, *SECRET],
        source="Fermat: x^(p - 2) = 1 / x modulo a prime p",
    )(body)


INVERSES = {
    (m.name, level): _inverse(m, CURVE_DATA[c.name].less_two[m.name], level)
    for c in CURVES
    for m in (c.field, c.order)
    for level in Level
}
"""The routines by modulus and level."""
