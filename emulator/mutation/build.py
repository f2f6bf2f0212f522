"""The first judge asked last: would the checks of the build take the mutated routine?

Most mutants fall to a recorded call. Of those that do not, some could never have been built: they
use a flag that nothing set, drop the only use of a result, or touch what the contract does not list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import iced_x86 as ix

from emulator.mutation.words import condition_of, field_at
from toolchain.asm.checks import check
from toolchain.asm.errors import AsmError
from toolchain.asm.operands import Mem

if TYPE_CHECKING:
    from emulator.mutation.operators import Mutant
    from toolchain.asm.assembler import Line
    from toolchain.asm.routine import Routine


OFF_THE_END = "control falls off the end of the routine"


def refusal(routine: Routine, mutant: Mutant) -> str:
    """Return what the build says of the mutated routine, or an empty string."""
    if mutant.operator == "drop" and mutant.line == len(routine.lines()) - 1:
        return OFF_THE_END
    try:
        check(routine, mutated_lines(routine, mutant))
    except AsmError as problem:
        return f"{problem.what}; {problem.instead}"
    return ""


def mutated_lines(routine: Routine, mutant: Mutant) -> list[Line]:
    """Return the routine's instructions with the mutant in its place."""
    lines = list(routine.lines())
    line = lines[mutant.line]
    if mutant.operator == "drop":
        del lines[mutant.line]
        if line.labels and mutant.line < len(lines):
            heir = lines[mutant.line]
            lines[mutant.line] = replace(heir, labels=[*line.labels, *heir.labels])
        return lines
    lines[mutant.line] = _mutated(line, mutant)
    return lines


def _mutated(line: Line, mutant: Mutant) -> Line:
    if line.target is not None:  # a branch has no other mutants than those of its condition
        return replace(line, mnemonic=condition_of(line, mutant.value))
    ins = ix.Decoder(64, mutant.patched(line.code), ip=mutant.offset).decode()
    ops = line.ops
    match mutant.operator:
        case "condition":
            return replace(line, mnemonic=condition_of(line, mutant.value), ins=ins)
        case "operands":
            ops = tuple(reversed(ops))
        case "immediate":
            last = max(n for n, op in enumerate(ops) if isinstance(op, int))
            ops = tuple(mutant.value if n == last else op for n, op in enumerate(ops))
        case "displacement":
            ops = tuple(_moved(op, mutant.value) if isinstance(op, Mem) else op for op in ops)
    return replace(line, ops=ops, ins=ins)


def _moved(memory: Mem[int], delta: int) -> Mem[int]:
    """Return the operand that the moved displacement is; between fields it keeps its name."""
    other = field_at(memory, delta)
    return replace(memory, disp=memory.disp + delta, ref=other or memory.ref)
