"""How an instruction and its mutant are written: field names instead of addresses.

The table of survivors is keyed by these texts, so they hold no address: a routine that is linked
elsewhere, or a struct whose fields moved, keeps its reasons.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolchain.asm.assembler import Label, Offset
from toolchain.asm.operands import SIZE_WORDS, Mem
from toolchain.layout.fields import BytesField, Field

if TYPE_CHECKING:
    from toolchain.asm.assembler import Line

NAMES = ("o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g")
"""The condition codes in the processor's order."""
CONDITIONS = {name: code for code, name in enumerate(NAMES)} | {
    "c": 2, "nc": 3, "nb": 3, "z": 4, "nz": 5,
}  # fmt: skip
_CONDITIONAL = re.compile(r"^(j|set|cmov)(\w+)$")


def before_of(line: Line) -> str:
    """Return the instruction as the source has it."""
    return _text(line.mnemonic, [_operand(op) for op in _operands(line)])


def after_of(
    line: Line,
    *,
    condition: int | None = None,
    immediate: int | None = None,
    delta: int = 0,
    turned: bool = False,
) -> str:
    """Return the instruction with one thing changed.

    Args:
        line: The instruction.
        condition: The new condition code of a branch, SETcc or CMOVcc.
        immediate: The new immediate operand.
        delta: What was added to its displacement.
        turned: Its operands are exchanged.
    """
    ops = _operands(line)
    mnemonic = line.mnemonic if condition is None else condition_of(line, condition)
    shown = [_operand(op, delta if isinstance(op, Mem) else 0) for op in ops]
    if immediate is not None:
        place = max(n for n, op in enumerate(ops) if isinstance(op, int))
        shown[place] = _number(immediate)
    if turned:
        shown.reverse()
    return _text(mnemonic, shown)


def condition_of(line: Line, code: int) -> str:
    """Return the mnemonic of a branch, SETcc or CMOVcc with another condition."""
    found = _CONDITIONAL.match(line.mnemonic)
    if found is None:
        raise AssertionError(f"{line.where}: {line.mnemonic} has no condition")
    return f"{found[1]}{NAMES[code]}"


def field_at(memory: Mem[Any], delta: int) -> Field | None:
    """Return the field of the same struct that a moved displacement names, or None."""
    ref = memory.ref
    if not isinstance(ref, Field) or isinstance(ref, BytesField):
        return None
    return next((f for f in ref.owner.fields() if f.offset == ref.offset + delta), None)


def _operands(line: Line) -> tuple[Any, ...]:
    return line.ops if line.target is None else (line.target,)


def _text(mnemonic: str, operands: list[str]) -> str:
    return f"{mnemonic} {', '.join(operands)}".rstrip()


def _number(value: int) -> str:
    signed = value - (1 << 64) if value >> 63 else value
    return f"-{-signed:#x}" if signed < 0 else f"{signed:#x}" if signed > 9 else str(signed)


def _operand(op: object, delta: int = 0) -> str:
    if isinstance(op, Mem):
        return _memory(op, delta)
    if isinstance(op, Label):
        return op.name
    if isinstance(op, Offset):
        return str(op)
    if isinstance(op, int):
        return _number(int(op) % (1 << 64) if op < 0 else int(op))
    return getattr(op, "name", None) or str(op)


def _memory(op: Mem[Any], delta: int) -> str:
    word = SIZE_WORDS[op.size]
    if not isinstance(op.ref, Field):
        moved = f" moved by {delta:+d}" if delta else ""
        return f"{word} {op.bare()}{moved}".lstrip()
    name = repr(op.ref)
    other = field_at(op, delta) if delta else None
    if other is not None:
        name = repr(other)
    elif delta:
        name += f"{delta:+d}"
    if op.index is not None:
        name += f"[{op.index}*{op.scale}]"
    return f"{word} {name}".lstrip()
