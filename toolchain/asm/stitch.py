"""Two straight runs of instructions that do not need each other, woven into one.

The processor then finds work of the second while the first waits for its results, also where its
window is too small to reach from one run into the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.asm.assembler import TERMINATORS, Line
from toolchain.asm.flow import effect, names

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.asm.assembler import Asm


def stitch(a: Asm, first: Callable[[], object], second: Callable[[], object]) -> None:
    """Emit the instructions of both, each in its own order, spread evenly.

    Args:
        a: The routine.
        first: Emits a run; a label that waits goes to its start.
        second: Emits the other run.

    Raises:
        AsmError: A run branches, or one of them changes a register that the other uses.
    """
    start = len(a.lines)
    first()
    middle = len(a.lines)
    second()
    one, other = a.lines[start:middle], a.lines[middle:]
    _check(a, one, other)
    a.lines[start:] = _woven(one, other)


def _woven(one: list[Line], other: list[Line]) -> list[Line]:
    lines: list[Line] = []
    done = 0
    for n, line in enumerate(one, 1):
        lines.append(line)
        due = n * len(other) // len(one)
        lines += other[done:due]
        done = due
    return lines


def _check(a: Asm, one: list[Line], other: list[Line]) -> None:
    for n, line in enumerate((*one, *other)):
        if (line.labels and n) or line.target is not None or line.mnemonic in TERMINATORS:
            raise a.error(
                f"a stitched run holds {line.mnemonic}, a place to jump from or to",
                "stitch straight runs only",
            )
    uses, changes = zip(*(_sets(run, a.bits) for run in (one, other)), strict=True)
    both = changes[0] & uses[1] | changes[1] & uses[0]
    if both:
        raise a.error(
            f"both stitched runs use {names(both)}, which one of them changes",
            "give each its own registers",
        )


def _sets(run: list[Line], bits: int) -> tuple[int, int]:
    """Return what a run uses or changes, and what it changes."""
    uses = changes = 0
    for line in run:
        e = effect(line, bits)
        changes |= e.sets | e.clobbers
        uses |= e.reads
    return uses | changes, changes
