"""The build checks: a routine keeps its own contract, as text, before anything runs.

Every message names the routine, the source line, what is wrong and what to do. `tests/reject` holds
one routine per message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.asm.assembler import STACK, TERMINATORS, Label, Line
from toolchain.asm.errors import AsmError
from toolchain.asm.flow import (
    BIT,
    FLAGS,
    RSP,
    Effect,
    bit_of,
    conditional_tail,
    effect,
    names,
    routine_clobbers,
    routine_outputs,
    routine_reads,
)
from toolchain.asm.registers import Convention
from toolchain.asm.secrecy import check_secrets, is_listed
from toolchain.asm.unjudged import unicorn_defect

if TYPE_CHECKING:
    from toolchain.asm.routine import Contract, Routine

_EVERYTHING = (1 << len(BIT)) - 1
_ALWAYS_SET = RSP | BIT["df"] | BIT["if"]


def _leaves(line: Line) -> bool:
    """Tell whether a line is a return or a tail jump."""
    tail = line.target is not None and not isinstance(line.target, Label)
    return line.mnemonic == "ret" or (tail and line.mnemonic != "call")


class Flow:
    """The control-flow graph of one routine with the effects of its lines."""

    def __init__(self, routine: Routine, lines: list[Line]) -> None:
        self.routine, self.lines = routine, lines
        if not lines:
            raise self.error(None, "has no instruction", "emit at least a.ret()")
        self.effects = [effect(line, routine.bits) for line in lines]
        for n in range(len(routine.contract.saves)):
            self.effects[n].reads &= RSP  # saving a register does not use its value
        self.exits = [_leaves(line) for line in lines]
        at = {label: n for n, line in enumerate(lines) for label in line.labels}
        self.next: list[tuple[int, ...]] = []
        for n, line in enumerate(lines):
            self.next.append(self._successors(n, line, at))
            if line.mnemonic == "call" and line.ops:
                self._add_indirect(self.effects[n])

    def _add_indirect(self, e: Effect) -> None:
        """Give a call through a pointer the effects of all that it may reach."""
        reads, sets, clobbers = _indirect_effect(self.routine.contract)
        e.reads |= reads
        e.sets |= sets
        e.kills |= sets | clobbers
        e.clobbers |= clobbers
        e.stack, e.needed = 0, True

    def _successors(self, n: int, line: Line, at: dict[Label, int]) -> tuple[int, ...]:
        target = line.target
        if isinstance(target, Label):
            onward = () if line.mnemonic in TERMINATORS else (n + 1,)
            following: tuple[int, ...] = (at[target], *onward)
        elif target is not None and (line.mnemonic == "call" and target.contract.noreturn):
            following = ()
        elif target is not None and line.mnemonic not in ("call", "jmp", "jmp far"):
            following = (n + 1,)  # a conditional tail jump
        else:
            following = () if line.mnemonic in TERMINATORS else (n + 1,)
        if any(f >= len(self.lines) for f in following):
            raise self.error(line, "control falls off the end", "end with a.ret() or a jump")
        return following

    def is_exit(self, n: int) -> bool:
        """Tell whether the line leaves the routine to its caller."""
        return self.exits[n]

    def error(self, line: Line | None, what: str, instead: str) -> AsmError:
        """Return an error at a line, or at the routine's declaration."""
        where = line.where if line is not None else self.routine.where
        return AsmError(what, instead, routine=self.routine.name, where=where)


def check(routine: Routine, lines: list[Line]) -> None:
    """Check the routine against its contract.

    Raises:
        AsmError: A rule is broken; see the module's tests for every message.
    """
    flow = Flow(routine, lines)
    reached = _check_reachable(flow)
    _check_judged(flow)
    depth = _check_stack(flow)
    _check_calls(flow)
    _check_clobbers(flow)
    _check_footprint(flow)
    _check_set_before_read(flow, reached)
    _check_results_used(flow)
    check_secrets(flow, depth)


def _check_reachable(flow: Flow) -> list[int]:
    seen, work = {0}, [0]
    while work:
        for n in flow.next[work.pop()]:
            if n not in seen:
                seen.add(n)
                work.append(n)
    for n, line in enumerate(flow.lines):
        if n not in seen:
            raise flow.error(
                line, f"{line.mnemonic} can never run", "remove it, or jump to it from somewhere"
            )
    return sorted(seen)


def _check_judged(flow: Flow) -> None:
    if flow.routine.bits != 64:
        return
    for line in flow.lines:
        defect = unicorn_defect(line.ins) if line.ins is not None else ""
        if defect:
            raise flow.error(
                line,
                f"{line.mnemonic} in this form cannot be proved, Unicorn runs it wrong: {defect}",
                "use other instructions",
            )


def _check_stack(flow: Flow) -> dict[int, int]:
    """Return RSP relative to the entry before each line, in bytes."""
    depth: dict[int, int] = {0: 0}
    work = [0]
    while work:
        n = work.pop()
        line, after = flow.lines[n], depth[n] + flow.effects[n].stack
        if flow.is_exit(n) and depth[n] != 0 and flow.routine.bits == 64:
            raise flow.error(
                line,
                f"returns with {-depth[n]} bytes left on the stack",
                "pop what was pushed on every path",
            )
        _check_alignment(flow, line, depth[n])
        for m in flow.next[n]:
            if m not in depth:
                depth[m] = after
                work.append(m)
            elif depth[m] != after:
                raise flow.error(
                    flow.lines[m],
                    f"stack depth is {-depth[m]} or {-after} bytes here, depending on the path",
                    "push and pop the same on every path",
                )
    return depth


def _check_alignment(flow: Flow, line: Line, depth: int) -> None:
    """Refuse a call that leaves RSP unaligned for a routine which needs it aligned."""
    target = line.target
    if target is None or isinstance(target, Label) or not target.contract.aligned:
        return
    if not flow.routine.contract.aligned:
        raise flow.error(
            line,
            f"calls {target.name}, which needs an aligned stack",
            "set aligned=True in this contract too",
        )
    if line.mnemonic == "call" and (depth + 8) % 16:
        raise flow.error(
            line,
            f"calls {target.name} with RSP off by {(depth + 8) % 16} bytes of 16",
            "add 8 to `stack` in the contract",
        )


def _check_calls(flow: Flow) -> None:
    listed = {id(r): r for r in flow.routine.contract.calls}
    found: set[int] = set()
    for line in flow.lines:
        target = line.target
        if target is None or isinstance(target, Label):
            indirect = line.mnemonic == "call" and line.ops
            if indirect and not flow.routine.contract.indirect():
                raise flow.error(
                    line,
                    "calls through a pointer without naming who it may reach",
                    "list them in `indirect` of the contract",
                )
            continue
        found.add(id(target))
        if target.bits != flow.routine.bits and line.mnemonic != "jmp far":
            raise flow.error(
                line,
                f"goes from {flow.routine.bits}-bit code to {target.name}, "
                f"which is {target.bits}-bit code",
                "change the mode first, with a.far_jmp",
            )
        if id(target) not in listed:
            raise flow.error(
                line,
                f"calls {target.name}, which its contract does not list",
                f"add {target.name} to `calls`",
            )
    for key, target in listed.items():
        if key not in found:
            raise flow.error(
                None, f"lists {target.name} in `calls` but never calls it", "remove it"
            )


def _indirect_effect(contract: Contract) -> tuple[int, int, int]:
    reads = sets = clobbers = 0
    for target in contract.indirect():
        reads |= routine_reads(target)
        sets |= routine_outputs(target)
        clobbers |= routine_clobbers(target)
    return reads, sets, clobbers & ~sets


def _check_clobbers(flow: Flow) -> None:
    c = flow.routine.contract
    saved = sum(bit_of(r.full) for r in c.saves)
    promised = sum(bit_of(r.full) for r in c.clobbers) | sum(bit_of(o.reg.full) for o in c.outputs)
    free = FLAGS | RSP
    written = 0
    for line, e in zip(flow.lines, flow.effects, strict=True):
        here = (e.sets | e.clobbers) & ~free & ~saved & ~promised
        if here and not c.noreturn:
            raise flow.error(
                line,
                f"{line.mnemonic} changes {names(here)}, which the contract does not list",
                "add it to `clobbers`, to `outputs`, or to `saves`",
            )
        written |= e.sets | e.clobbers
    extra = sum(bit_of(r.full) for r in c.clobbers) & ~written
    if extra and not isinstance(c.clobbers, Convention):
        raise flow.error(
            None, f"lists {names(extra)} as clobbered but never writes it", "remove it"
        )
    unsaved = saved & ~(written & ~_only_epilogue(flow, saved))
    if unsaved and not c.guard:
        raise flow.error(
            None, f"saves {names(unsaved)} but never changes it", "remove it from `saves`"
        )
    flags = sum(bit_of(o.reg.full) for o in c.outputs) & ~FLAGS & ~written
    inputs = sum(bit_of(i.reg.full) for i in c.inputs)
    if flags & ~inputs:
        raise flow.error(
            None, f"promises {names(flags & ~inputs)} as output but never sets it", "set it"
        )


def _only_epilogue(flow: Flow, saved: int) -> int:
    """Return the saved registers that nothing but their own `pop` writes."""
    changed = 0
    for line, e in zip(flow.lines, flow.effects, strict=True):
        if line.mnemonic != "pop":
            changed |= e.sets | e.clobbers
    return saved & ~changed


def _check_footprint(flow: Flow) -> None:
    c = flow.routine.contract
    used: set[int] = set()
    for line, e in zip(flow.lines, flow.effects, strict=True):
        for verb, operands, listed in (("reads", e.loads, c.reads), ("writes", e.stores, c.writes)):
            for op in operands:
                if op.ref is STACK or (
                    verb == "reads" and op in e.stores and is_listed(op.ref, c.writes)
                ):
                    continue  # a read-modify-write is listed once, as a write
                if not is_listed(op.ref, listed):
                    raise flow.error(
                        line,
                        f"{verb} {op.ref!r}, which the contract does not list",
                        f"add it to `{verb}`",
                    )
                used |= {id(op.ref), id(getattr(op.ref, "owner", None))}
    for line in flow.lines:
        if " " in line.mnemonic or line.mnemonic[:-1] in ("movs", "stos", "lods", "cmps", "scas"):
            return  # string instructions name no field; the emulator checks what they touch
    for verb, listed in (("reads", c.reads), ("writes", c.writes)):
        for item in listed:
            known = id(item) in used or id(getattr(item, "item", None)) in used
            if not known:
                raise flow.error(
                    None, f"lists {item!r} in `{verb}` but never {verb} it", "remove it"
                )


def _check_set_before_read(flow: Flow, reached: list[int]) -> None:
    c = flow.routine.contract
    known = [_EVERYTHING] * len(flow.lines)
    known[0] = sum(bit_of(i.reg.full) for i in c.inputs) | _ALWAYS_SET
    work, seen = [0], set[int]()
    while work:
        n = work.pop()
        seen.add(n)
        e = flow.effects[n]
        after = (known[n] & ~e.clobbers) | e.sets
        if conditional_tail(flow.lines[n]):
            after = known[n]
        for m in flow.next[n]:
            joined = known[m] & after
            if joined != known[m] or m not in seen:
                known[m] = joined
                work.append(m)
    for n, line in enumerate(flow.lines):
        missing = flow.effects[n].reads & ~known[n]
        if missing:
            raise flow.error(
                line,
                f"{line.mnemonic} reads {names(missing)} before anything sets it",
                "set it first, or list it in `inputs`",
            )
        outputs = sum(bit_of(o.reg.full) for o in c.outputs)
        after = (known[n] & ~flow.effects[n].clobbers) | flow.effects[n].sets
        if flow.is_exit(n) and (lost := outputs & ~after):
            raise flow.error(
                line, f"returns without having set {names(lost)}", "set the output on every path"
            )


def live_after(flow: Flow) -> list[int]:
    """Return what is still wanted after each line, as sets of registers and flags."""
    c = flow.routine.contract
    promised = sum(bit_of(r.full) for r in c.clobbers)
    outputs = sum(bit_of(o.reg.full) for o in c.outputs)
    kept = _EVERYTHING & ~promised & ~FLAGS
    at_exit = kept | outputs | _ALWAYS_SET
    live = [0] * len(flow.lines)

    def leaving(n: int) -> int:
        after = at_exit if flow.is_exit(n) else 0
        for m in flow.next[n]:
            after |= live[m]
        return after

    changed = True
    while changed:
        changed = False
        for n in range(len(flow.lines) - 1, -1, -1):
            e = flow.effects[n]
            new = e.reads | e.observes | (leaving(n) & ~e.kills)
            if new != live[n]:
                live[n], changed = new, True
    return [leaving(n) for n in range(len(flow.lines))]


def _check_results_used(flow: Flow) -> None:
    for line, e, after in zip(flow.lines, flow.effects, live_after(flow), strict=True):
        if e.sets and not e.needed and not e.sets & after:
            raise flow.error(
                line,
                f"nothing uses the result of {line.mnemonic}",
                "remove it, or use what it computes",
            )
