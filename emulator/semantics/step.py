"""What one executed instruction does, as data.

A register file is any sequence of 18 integers: the sixteen general registers in encoding order
(RAX RCX RDX RBX RSP RBP RSI RDI R8..R15), then RIP, then EFLAGS.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from iced_x86 import Instruction

RIP = 16
EFLAGS = 17
REGISTER_COUNT = 18

REGISTER_NAMES = (
    *("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI"),
    *(f"R{number}" for number in range(8, 16)),
    "RIP",
    "EFLAGS",
)

# Bit values in EFLAGS. SDM Vol. 1, 3.4.3.
CF, PF, AF, ZF, SF, DF, OF = 0x1, 0x4, 0x10, 0x40, 0x80, 0x400, 0x800
STATUS = CF | PF | AF | ZF | SF | OF

FLAG_NAMES = {
    CF: "CF",
    PF: "PF",
    AF: "AF",
    ZF: "ZF",
    SF: "SF",
    0x100: "TF",
    0x200: "IF",
    DF: "DF",
    OF: "OF",
}

Registers: TypeAlias = Sequence[int]
# (address, size in bytes) -> little-endian value, as memory stood before the instruction.
MemoryReader: TypeAlias = Callable[[int, int], int]
# (address, size in bytes, value); None says that the architecture leaves the value undefined.
Write: TypeAlias = tuple[int, int, int | None]


@dataclass(frozen=True, slots=True)
class Outside:
    """What an instruction takes from outside registers and memory.

    Attributes:
        fs_base: Base address of FS.
        gs_base: Base address of GS.
        tsc: What RDTSC and RDTSCP read.
        tsc_aux: What RDTSCP puts into ECX.
        random: What RDRAND and RDSEED deliver, cut to the operand size; None = none ready (CF=0).
        cpl: Current privilege level; POPFQ changes IF and IOPL only at 0.
    """

    fs_base: int = 0
    gs_base: int = 0
    tsc: int = 0
    tsc_aux: int = 0
    random: int | None = None
    cpl: int = 0


NOTHING = Outside()


class Step(NamedTuple):
    """Say what state an instruction leaves behind.

    Attributes:
        instruction: The instruction, for messages.
        registers: The 18 registers afterwards. Undefined flag bits hold their old value.
        writes: Memory writes in order.
        undefined_flags: EFLAGS bits that the SDM leaves undefined; exclude them from comparison.
        undefined_registers: Pairs (register number, undefined bits).
    """

    instruction: Instruction
    registers: list[int]
    writes: Sequence[Write]
    undefined_flags: int
    undefined_registers: tuple[tuple[int, int], ...]

    @property
    def rip(self) -> int:
        """Return the address of the next instruction."""
        return self.registers[RIP]

    @property
    def flags(self) -> int:
        """Return EFLAGS afterwards."""
        return self.registers[EFLAGS]


StepFunction: TypeAlias = Callable[..., Step]


class ProcessorFault(Exception):  # noqa: N818 - the SDM calls it a fault, not an error
    """The instruction raises a processor exception instead of completing.

    Attributes:
        vector: Exception vector, 0 = #DE.
    """

    def __init__(self, vector: int, message: str) -> None:
        super().__init__(message)
        self.vector = vector


class UnsupportedInstructionError(ValueError):
    """No semantics exist for this instruction: ask `supports` first."""
