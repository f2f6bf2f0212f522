"""Formulas as programs: four bytes an operation on the elements of a work space, and who runs them.

A formula is text, one operation a line: `x = y * z`, `x = y + z`, `x = y - z`, `x = y ^ 2^n` for n
squarings in a row, `x = y`; `x = y +- z` gives the sum, and the difference behind it. What runs is public and the same for all elements, so it is fit for
secrets; it takes a sixth of the bytes that calls would (`firmware/crypto/points.py`), and some time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firmware.crypto.inverse import INNER_CLOBBERS
from firmware.crypto.limbs import LIMB_BYTES, OUT, X, Y
from firmware.layouts.field import ELEMENT
from toolchain.asm import (
    EAX,
    NZ,
    R8D,
    RAX,
    RCX,
    RDX,
    RSI,
    Asm,
    In,
    Reg64,
    Region,
    Z,
    mem8,
    mem64,
    routine,
)
from toolchain.asm.routine import Routine
from toolchain.layout import Data, Global, Struct
from toolchain.layout.data import constant

PROGRAM = Region("a program", "in the image: four bytes an operation, a zero behind the last one")
STEP_BYTES = 4
UNIT = 8
"""Elements are told by their offset in the work space over this."""
SIGNS = ("*", "^", "+", "-", "=", "+-")
"""What an operation's first byte says, from 1 on; 0 ends a program."""
COPIED_LIMBS = 4


def encoded(formula: str, work: type[Struct]) -> bytes:
    """Return a formula as a program: operation, result, operand, operand or squarings."""

    def place(name: str) -> int:
        return int(getattr(work, name).offset) // UNIT

    steps = b""
    for line in formula.strip().split("\n"):
        out, _, x, *more = line.split()
        sign, y = more or ("=", x)
        last = int(y.removeprefix("2^")) if sign == "^" else place(y)
        steps += bytes((1 + SIGNS.index(sign), place(out), place(x), last))
    return steps + b"\0"


def compiled(name: str, formula: str, work: type[Struct]) -> Data:
    """Declare a program in the image."""
    return constant(name, encoded(formula, work), f"program: {name}")


def interpreter(
    name: str, module: str, work: Global[Any], leaves: Mapping[str, Routine]
) -> Routine:
    """Return a routine that runs programs.

    Args:
        name: Its name.
        module: Whose it is; its model is there.
        work: Where the elements are; it must not be longer than 256 units up to the last of them.
        leaves: Who does the operations, by sign; two operands each, but for the squaring `^`.
    """

    def body(a: Asm, program: Reg64) -> None:
        """Run a program."""
        at, left = a.local(8, 0), a.local(8, 8)
        a.mov(at, program)
        with a.loop() as step:
            a.mov(RDX, at)
            a.movzx(R8D, mem8(RDX, ref=PROGRAM))
            a.test(R8D, R8D)
            a.leave(Z, step)
            a.lea(RCX, work.address)
            for n, register in enumerate((OUT, X, Y), 1):  # unrolled: three places
                a.movzx(EAX, mem8(RDX, n, ref=PROGRAM))
                a.lea(register, mem8(RCX, index=RAX, scale=UNIT, ref=ELEMENT))
            a.mov(left, RAX)
            a.add(RDX, STEP_BYTES)
            a.mov(at, RDX)
            for sign, leaf in leaves.items():  # unrolled: one test for each operation
                a.cmp(R8D, 1 + SIGNS.index(sign))
                with a.if_(Z):
                    again = a.label("again")
                    a.place(again)
                    a.call(leaf)
                    if sign == "^":
                        a.mov(X, OUT)
                        a.dec(left)
                        a.j(NZ, again)
                    a.jmp(step.top)
            for n in range(COPIED_LIMBS):  # unrolled: the limbs
                a.mov(RAX, mem64(X, LIMB_BYTES * n, ref=ELEMENT))
                a.mov(mem64(OUT, LIMB_BYTES * n, ref=ELEMENT), RAX)
            a.jmp(step.top)
        a.ret()

    body.__name__, body.__module__ = name, module
    return routine(
        inputs=[In(RSI, int, "the program")],
        clobbers=INNER_CLOBBERS,
        reads=[PROGRAM, ELEMENT],
        writes=[ELEMENT],
        calls=list(leaves.values()),
        stack=16,
        secret=[ELEMENT],
        source="firmware/crypto/formula.py",
    )(body)
