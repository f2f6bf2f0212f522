"""The typed assembler: registers, operands, instructions, blocks, contracts and build-time checks.

Read `toolchain/docs/dsl.md` first. The names a generator needs are re-exported here.
"""

from toolchain.asm import registers
from toolchain.asm.assembler import Asm, Label, Offset
from toolchain.asm.conditions import (
    AE,
    BE,
    GE,
    LE,
    NB,
    NC,
    NE,
    NO,
    NS,
    NZ,
    A,
    B,
    C,
    E,
    G,
    L,
    O,
    S,
    Z,
)
from toolchain.asm.errors import AsmError
from toolchain.asm.operands import (
    Mem,
    Mem8,
    Mem16,
    Mem32,
    Mem64,
    Mem128,
    Region,
    mem8,
    mem16,
    mem32,
    mem64,
    mem128,
)
from toolchain.asm.registers import *  # noqa: F403 - the register names are the point
from toolchain.asm.routine import In, Out, Routine, routine

__all__ = [
    "AE", "BE", "GE", "LE", "NB", "NC", "NE", "NO", "NS", "NZ", "A", "Asm", "AsmError", "B", "C",
    "E", "G", "In", "L", "Label", "Mem", "Mem8", "Mem16", "Mem32", "Mem64",
    "Mem128", "O", "Offset", "Out", "Region", "Routine", "S", "Z", "mem8", "mem16", "mem32",
    "mem64", "mem128", "routine",
]  # fmt: skip
__all__ += registers.__all__
