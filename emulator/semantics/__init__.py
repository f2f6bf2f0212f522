"""Instruction semantics in Python, written from the Intel SDM: one of the five judges.

Each decoded instruction becomes one Python function that computes registers, defined flags and
memory writes. Nothing here is taken from Unicorn or QEMU, because it exists to contradict them.
"""

from emulator.semantics.check import Difference, check_step
from emulator.semantics.compiler import compile_instruction, mnemonics, source_text, supports
from emulator.semantics.defects import UNICORN_DEFECTS, unicorn_defect
from emulator.semantics.step import (
    NOTHING,
    REGISTER_COUNT,
    REGISTER_NAMES,
    MemoryReader,
    Outside,
    ProcessorFault,
    Registers,
    Step,
    StepFunction,
    UnsupportedInstructionError,
    Write,
)

__all__ = [
    "NOTHING",
    "REGISTER_COUNT",
    "REGISTER_NAMES",
    "UNICORN_DEFECTS",
    "Difference",
    "MemoryReader",
    "Outside",
    "ProcessorFault",
    "Registers",
    "Step",
    "StepFunction",
    "UnsupportedInstructionError",
    "Write",
    "check_step",
    "compile_instruction",
    "mnemonics",
    "source_text",
    "supports",
    "unicorn_defect",
]
