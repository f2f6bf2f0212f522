"""Secrets within one routine: they decide no branch, no address, no division, and stay where they may.

A routine whose contract names something `secret` is followed line by line: what is computed from a
secret is one. A flag among the outputs is a verdict, which may be told. That no time depends on a
secret is measured too (`emulator/constant_time.py`); this pass tells it at the line, for every path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolchain.asm.assembler import STACK, Label, Line
from toolchain.asm.flow import Effect, bit_of, names
from toolchain.asm.registers import Flag, Reg

if TYPE_CHECKING:
    from toolchain.asm.checks import Flow
    from toolchain.asm.operands import Mem
    from toolchain.asm.routine import Routine

_WORD = 8
_ANYWHERE = 1
"""Stands for every local among the slots, which are multiples of 8."""
_STRING = ("movs", "stos", "lods", "cmps", "scas")
_STRING_REGISTERS = bit_of("rsi") | bit_of("rdi") | bit_of("rcx")
_SLOW = ("div", "idiv")


@dataclass(frozen=True)
class _Known:
    """What is secret before a line: registers and flags as a set, locals by offset."""

    registers: int = 0
    slots: frozenset[int] = frozenset()

    def joined(self, other: _Known) -> _Known:
        return _Known(self.registers | other.registers, self.slots | other.slots)


def is_listed(ref: Any, items: tuple[Any, ...]) -> bool:  # noqa: ANN401 - field, region, global
    """Tell whether a contract's list names a reference, its struct or its global."""
    owner = getattr(ref, "owner", None)
    if owner is None:
        return any(ref is item for item in items)
    return any(ref is item or owner is item or getattr(item, "item", 0) is owner for item in items)


class Secrecy:
    """Follows the secrets of one routine.

    Args:
        flow: The routine's graph.
        depth: RSP relative to the entry, in bytes, before each line that is reached.
    """

    def __init__(self, flow: Flow, depth: dict[int, int]) -> None:
        self._flow, self._depth = flow, depth
        self._secret = flow.routine.contract.secret
        # Whoever takes the address of a local may let anybody write there.
        self._lent = any(
            line.mnemonic == "lea"
            and getattr(line.ops[1].base, "full", "") == "rsp"
            and line.ops[0].full != "rsp"
            for line in flow.lines
        )

    def check(self) -> None:
        """Follow every path.

        Raises:
            AsmError: A secret goes where it may not.
        """
        self._check_list()
        before: dict[int, _Known] = {0: _Known(_registers(self._flow.routine, inputs=True))}
        work = [0]
        while work:
            n = work.pop()
            self._check_line(n, before[n])
            after = self._after(n, before[n])
            for m in self._flow.next[n]:
                joined = after.joined(before[m]) if m in before else after
                if before.get(m) != joined:
                    before[m] = joined
                    work.append(m)

    # -- the contract -----------------------------------------------------------------------------
    def _check_list(self) -> None:
        routine, c = self._flow.routine, self._flow.routine.contract
        carried = [*(i.reg for i in c.inputs), *(o.reg for o in c.outputs)]
        # What it only hands on is touched by those that it calls or leaves to.
        touched = [*c.reads, *c.writes, *(ref for t in c.calls for ref in t.contract.secret)]
        for item in self._secret:
            used = (
                item in carried
                if isinstance(item, Reg)
                else any(is_listed(ref, (item,)) or is_listed(item, (ref,)) for ref in touched)
            )
            if not used:
                raise self._flow.error(
                    None,
                    f"lists {item!r} in `secret`, which is neither input, output, read nor "
                    "written, nor secret to what it calls",
                    "remove it",
                )
        for target in (*c.calls, *c.indirect()):
            if target.contract.reads and not target.contract.secret:
                raise self._flow.error(
                    None,
                    f"calls {target.name}, which reads memory and keeps nothing secret",
                    f"list in `secret` of {target.name} what it keeps, so that it is checked too",
                )
            for item in target.contract.secret:
                mine = is_listed(item, c.reads) and not is_listed(item, self._secret)
                if mine and hasattr(item, "owner"):
                    raise self._flow.error(
                        None,
                        f"reads {item!r}, which {target.name} keeps secret",
                        f"list it in `secret` of {routine.name} too",
                    )

    # -- one line ---------------------------------------------------------------------------------
    def _check_line(self, n: int, known: _Known) -> None:
        line, e = self._flow.lines[n], self._flow.effects[n]
        for target in self._targets(line):
            given = sum(bit_of(i.reg.full) for i in target.contract.inputs)
            told = given & known.registers & ~_registers(target, inputs=True)
            if told:
                raise self._flow.error(
                    line,
                    f"hands {target.name} a secret in {names(told)}",
                    f"list it in `secret` of {target.name}, or hand something else",
                )
        decides = self._decides(line, e) & known.registers
        if decides or self._jumps_by_memory(line, e):
            what = names(decides) or "memory"
            raise self._flow.error(
                line,
                f"{line.mnemonic} depends on a secret in {what}, as branch, address or divisor",
                "compute with masks, or keep the secret out of it",
            )
        if self._flow.is_exit(n):
            self._check_told(line, known)
        if not self._is_secret(n, known):
            return
        for op in e.stores:
            if op.ref is not STACK and not is_listed(op.ref, self._secret):
                raise self._flow.error(
                    line,
                    f"stores a secret in {op.ref!r}",
                    "list it in `secret`, or store something else",
                )

    def _check_told(self, line: Line, known: _Known) -> None:
        for o in self._flow.routine.contract.outputs:
            secret = bit_of(o.reg.full) & known.registers
            if secret and not isinstance(o.reg, Flag) and o.reg not in self._secret:
                raise self._flow.error(
                    line,
                    f"returns a secret in {o.reg!r}",
                    "list it in `secret`, or tell a verdict in a flag",
                )

    def _targets(self, line: Line) -> list[Routine]:
        if line.target is not None:
            return [] if isinstance(line.target, Label) else [line.target]
        indirect = line.mnemonic == "call" and line.ops
        return list(self._flow.routine.contract.indirect()) if indirect else []

    def _decides(self, line: Line, e: Effect) -> int:
        """Return the registers and flags that decide what runs next, where, or for how long."""
        if line.target is not None:
            return e.reads if line.mnemonic not in ("call", "jmp") else 0
        if line.mnemonic in _SLOW:
            return e.reads
        if line.mnemonic == "call":
            return sum(bit_of(op.full) for op in line.ops if isinstance(op, Reg))
        found = 0
        if line.mnemonic.split()[-1][:-1] in _STRING:
            found |= _STRING_REGISTERS & e.reads
        for op in (*e.loads, *e.stores):
            for part in (op.base, op.index):
                found |= bit_of(part.full) if part is not None else 0
        return found

    def _jumps_by_memory(self, line: Line, e: Effect) -> bool:
        return line.mnemonic == "call" and any(is_listed(op.ref, self._secret) for op in e.loads)

    # -- what is secret afterwards ----------------------------------------------------------------
    def _slots(self, n: int, op: Mem[Any], more: int = 0) -> set[int] | None:
        """Return the slots of a local; None when the address is computed."""
        if getattr(op.base, "full", "") != "rsp" or op.index is not None:
            return None
        start = self._depth[n] + op.disp + more
        return {at // _WORD * _WORD for at in range(start, start + max(op.size, 1))}

    def _loads_secret(self, n: int, op: Mem[Any], known: _Known) -> bool:
        if op.ref is not STACK:
            return is_listed(op.ref, self._secret)
        slots = self._slots(n, op)
        return (
            self._lent
            or _ANYWHERE in known.slots
            or bool(known.slots if slots is None else known.slots & slots)
        )

    def _is_secret(self, n: int, known: _Known) -> bool:
        """Tell whether the line computes something from a secret."""
        line, e = self._flow.lines[n], self._flow.effects[n]
        if line.target is not None or line.mnemonic == "ret":
            return False
        if line.mnemonic == "pop":
            return bool(known.slots & {self._depth[n], _ANYWHERE})
        string = line.mnemonic.split()[-1][:-1]
        if string in ("lods", "cmps", "scas"):
            return True  # it names no field, so it may load anything
        return bool(e.reads & known.registers) or any(
            self._loads_secret(n, op, known) for op in e.loads
        )

    def _after(self, n: int, known: _Known) -> _Known:
        line, e = self._flow.lines[n], self._flow.effects[n]
        targets = self._targets(line)
        if targets:
            told = 0
            for target in targets:
                told |= _registers(target, inputs=False)
            return _Known(known.registers & ~(e.kills | e.clobbers) | told, known.slots)
        secret = self._is_secret(n, known)
        registers = known.registers & ~e.kills | (e.sets if secret else 0)
        slots = set(known.slots)
        if line.mnemonic == "push":
            at = {self._depth[n] - _WORD}
            slots = slots | at if secret else slots - at
        for op in e.stores:
            if op.ref is not STACK:
                continue
            at_ = self._slots(n, op)
            if secret:
                slots |= {_ANYWHERE} if at_ is None else at_
            elif at_ is not None and op.size == _WORD and op.disp % _WORD == 0:
                slots -= at_
        return _Known(registers & ~bit_of("rsp"), frozenset(slots))


def _registers(routine: Routine, *, inputs: bool) -> int:
    """Return the secret inputs or outputs of a routine as a set."""
    c = routine.contract
    carried = [i.reg for i in c.inputs] if inputs else [o.reg for o in c.outputs]
    return sum(bit_of(r.full) for r in carried if r in c.secret)


def check_secrets(flow: Flow, depth: dict[int, int]) -> None:
    """Check a routine that keeps something secret.

    Raises:
        AsmError: A secret goes where it may not.
    """
    if flow.routine.contract.secret:
        Secrecy(flow, depth).check()
