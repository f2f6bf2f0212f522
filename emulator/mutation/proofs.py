"""Mutants that are the same program: each rule is a proof, and says so in one sentence.

A rule looks at the routine's instructions alone. Whatever needs to know which values can occur at
run time is no rule; it has a reason in `emulator/mutation_survivors.py`, or a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.mutation.words import CONDITIONS
from toolchain.asm.checks import Flow, live_after
from toolchain.asm.flow import BIT, FLAGS
from toolchain.asm.operands import Mem
from toolchain.asm.registers import Reg, Reg32, Reg64

if TYPE_CHECKING:
    from emulator.mutation.operators import Mutant
    from toolchain.asm.assembler import Line
    from toolchain.asm.routine import Routine

_STATUS = FLAGS & ~BIT["df"] & ~BIT["if"]
_OF_RESULT = BIT["zf"] | BIT["sf"] | BIT["pf"]
# These set ZF, SF and PF from the result that they leave in their first operand.
_SETS_FLAGS_OF_RESULT = frozenset("add sub and or xor inc dec neg adc sbb".split())
_CLEARS_CARRY = frozenset("and or xor test clc".split())
_SIGN_PAIRS = frozenset(
    frozenset(pair) for pair in ((0x2, 0xC), (0x3, 0xD), (0x6, 0xE), (0x7, 0xF))
)
_EDGE_PAIRS = frozenset(
    frozenset(pair) for pair in ((0x2, 0x6), (0x3, 0x7), (0xC, 0xE), (0xD, 0xF))
)


class Proofs:
    """Proves mutants equivalent; what it learned of a routine is kept."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Flow, list[int]]] = {}

    def equivalent(self, routine: Routine, mutant: Mutant) -> str:
        """Return the rule that proves a mutant equivalent, or an empty string."""
        known = self._known.get(routine.name)
        if known is None:
            flow = Flow(routine, routine.lines())
            known = self._known[routine.name] = flow, live_after(flow)
        flow, live = known
        for sentence, holds in _RULES.items():
            if holds(flow, mutant, live[mutant.line] & _STATUS):
                return sentence
        return ""


def _before(flow: Flow, number: int) -> int:
    """Return the one line that always runs right before another, or -1."""
    before = number - 1
    only = all((number in onward) == (n == before) for n, onward in enumerate(flow.next))
    return before if only else -1


def _flags_from(flow: Flow, number: int) -> int:
    """Return the line whose flags a line sees, when it stands in the same straight run, or -1."""
    at = _before(flow, number)
    while at >= 0 and not (flow.effects[at].sets | flow.effects[at].clobbers) & FLAGS:
        at = _before(flow, at)
    return at


def _symmetric(flow: Flow, mutant: Mutant, live: int) -> bool:
    line = flow.lines[mutant.line]
    return mutant.operator == "operands" and line.mnemonic == "cmp" and not live & ~BIT["zf"]


def _equal_move(flow: Flow, mutant: Mutant, _live: int) -> bool:
    line = flow.lines[mutant.line]
    if mutant.operator != "condition" or not line.mnemonic.startswith("cmov"):
        return False
    if frozenset((_code(line), mutant.value)) not in _EDGE_PAIRS:
        return False
    source = _flags_from(flow, mutant.line)
    if source < 0 or flow.lines[source].mnemonic != "cmp":
        return False
    compared = flow.lines[source].ops
    if tuple(compared) not in (tuple(line.ops), tuple(reversed(line.ops))):
        return False
    return all(
        not flow.effects[n].sets & _registers(line) and not flow.effects[n].stores
        for n in range(source + 1, mutant.line)
    )


def _same_flags(flow: Flow, mutant: Mutant, live: int) -> bool:
    line = flow.lines[mutant.line]
    itself = line.mnemonic in ("test", "or", "and") and len(line.ops) == 2
    if mutant.operator != "drop" or not itself or line.ops[0] != line.ops[1]:
        return False
    source = _before(flow, mutant.line)
    if source < 0 or live & ~_OF_RESULT:
        return False
    other = flow.lines[source]
    return other.mnemonic in _SETS_FLAGS_OF_RESULT and other.ops[0] == line.ops[0]


def _small(flow: Flow, mutant: Mutant, _live: int) -> bool:
    line = flow.lines[mutant.line]
    if mutant.operator != "condition":
        return False
    if frozenset((_code(line), mutant.value)) not in _SIGN_PAIRS:
        return False
    source = _flags_from(flow, mutant.line)
    if source < 0 or flow.lines[source].mnemonic != "cmp":
        return False
    return all(_is_small(flow, source, op) for op in flow.lines[source].ops)


def _is_small(flow: Flow, number: int, op: object) -> bool:
    """Tell whether an operand of 32 or 64 bits is below 2**31 for certain."""
    if isinstance(op, int):
        return 0 <= op < 1 << 31
    if not isinstance(op, (Reg32, Reg64)):
        return False
    bit = BIT[op.full]
    at = _before(flow, number)
    while at >= 0 and not (flow.effects[at].sets | flow.effects[at].clobbers) & bit:
        at = _before(flow, at)
    return at >= 0 and flow.lines[at].mnemonic == "movzx"


def _to_the_next(flow: Flow, mutant: Mutant, _live: int) -> bool:
    line, behind = flow.lines[mutant.line], flow.lines[mutant.line + 1 : mutant.line + 2]
    jump = mutant.operator == "drop" and line.mnemonic == "jmp"
    return jump and any(line.target is label for after in behind for label in after.labels)


def _unequal(flow: Flow, mutant: Mutant, _live: int) -> bool:
    line = flow.lines[mutant.line]
    if mutant.operator != "condition" or not mutant.line:
        return False
    if frozenset((_code(line), mutant.value)) not in _EDGE_PAIRS:
        return False
    ways = [n for n, onward in enumerate(flow.next) if mutant.line in onward]
    return bool(ways) and all(_clears_zero(flow, n, mutant.line) for n in ways)


def _clears_zero(flow: Flow, number: int, target: int) -> bool:
    """Tell whether who comes from one line to another has seen that ZF is clear."""
    line, onward = flow.lines[number], flow.next[number]
    if len(set(onward)) != 2 or line.mnemonic[:1] != "j":
        return False
    taken = target == onward[0]
    return _code(line) == (CONDITIONS["ne"] if taken else CONDITIONS["e"])


def _carry_clear(flow: Flow, mutant: Mutant, _live: int) -> bool:
    line = flow.lines[mutant.line]
    if mutant.operator != "drop" or line.mnemonic != "clc":
        return False
    seen, work = set[int](), [mutant.line]
    while work:
        number = work.pop()
        ways = [n for n, onward in enumerate(flow.next) if number in onward]
        if not number or not ways:
            return False  # the caller's flags
        for n in ways:
            touched = (flow.effects[n].sets | flow.effects[n].clobbers) & BIT["cf"]
            if touched and flow.lines[n].mnemonic not in _CLEARS_CARRY:
                return False
            if not touched and n not in seen:
                seen.add(n)
                work.append(n)
    return True


def _code(line: Line) -> int:
    """Return the condition code of a branch, SETcc or CMOVcc."""
    for prefix in ("cmov", "set", "j"):
        if line.mnemonic.startswith(prefix):
            return CONDITIONS.get(line.mnemonic.removeprefix(prefix), -1)
    return -1


def _registers(line: Line) -> int:
    found = 0
    for op in line.ops:
        parts = (op.base, op.index) if isinstance(op, Mem) else (op,)
        for part in parts:
            if isinstance(part, Reg):
                found |= BIT.get(part.full, 0)
    return found


_RULES = {
    "a CMP of which only ZF is used says the same with its operands exchanged": _symmetric,
    "a CMOV between the two compared values moves an equal one when they are equal": _equal_move,
    "TEST of a register with itself repeats the flags of what just left its result there": (
        _same_flags
    ),
    "a zero-extended byte or word is as large signed as unsigned": _small,
    "where every way in has seen ZF clear, equality makes no difference": _unequal,
    "a jump to the next instruction does nothing": _to_the_next,
    "CLC changes nothing where AND, OR, XOR or TEST set CF last on every way": _carry_clear,
}
