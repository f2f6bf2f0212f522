"""A routine: a Python function that emits instructions, and the contract in its decorator."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.asm.assembler import Asm, Line
from toolchain.asm.checks import check
from toolchain.asm.errors import AsmError
from toolchain.asm.registers import Convention, Flag, Reg, Reg64
from toolchain.layout.struct import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TOOLS = str(Path(__file__).resolve().parents[1])


@dataclass(frozen=True)
class In:
    """One input.

    Args:
        reg: The register that carries it.
        kind: A struct it points at, or `int` for a value.
        meaning: What it is; unit and bounds.
    """

    reg: Reg
    kind: type
    meaning: str


@dataclass(frozen=True)
class Out:
    """One output: a register or a flag, and what it tells."""

    reg: Reg
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a routine promises. Nothing else may change."""

    inputs: tuple[In, ...] = ()
    outputs: tuple[Out, ...] = ()
    clobbers: tuple[Reg, ...] = ()
    reads: tuple[Any, ...] = ()
    writes: tuple[Any, ...] = ()
    calls: tuple[Any, ...] = ()
    indirect: Callable[[], Sequence[Routine]] = tuple
    saves: tuple[Reg64, ...] = ()
    stack: int = 0
    source: str = ""
    bits: int = 64
    section: str = ".text"
    noreturn: bool = False
    secret: tuple[Any, ...] = ()
    ordered: tuple[Any, ...] = ()
    align: int = 1
    aligned: bool = False
    guard: bool = False


@dataclass(eq=False, repr=False)
class Routine:
    """A named routine; `lines()` runs the generator once and checks the result."""

    name: str
    module: str
    doc: str
    contract: Contract
    body: Callable[..., None]
    parameters: tuple[str, ...]
    where: str
    _lines: list[Line] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return self.name

    @property
    def bits(self) -> int:
        """16, 32 or 64."""
        return self.contract.bits

    def lines(self) -> list[Line]:
        """Return the checked instructions.

        Raises:
            AsmError: The generator or the contract breaks a rule.
        """
        if self._lines is None:
            c = self.contract
            file, _, lineno = self.where.rpartition(":")
            a = Asm(self.name, c.bits, c.saves, c.stack, (file, int(lineno)))
            arguments = [
                i.kind.at(i.reg) if issubclass(i.kind, Struct) else i.reg for i in c.inputs
            ]
            try:
                self.body(a, *arguments)
            except AsmError as problem:
                if problem.routine:
                    raise
                raise AsmError(
                    problem.what,
                    problem.instead,
                    routine=self.name,
                    where=_generator_line(problem) or self.where,
                ) from None
            a.finish()
            check(self, a.lines)
            self._lines = a.lines
        return self._lines


def _generator_line(problem: BaseException) -> str:
    """Return `file:line` of the deepest frame outside this package's tools."""
    found, frame = "", problem.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if not file.startswith(_TOOLS):
            found = f"{file}:{frame.tb_lineno}"
        frame = frame.tb_next
    return found


def routine(
    *,
    inputs: Sequence[In] = (),
    outputs: Sequence[Out] = (),
    clobbers: Sequence[Reg] = (),
    reads: Sequence[Any] = (),
    writes: Sequence[Any] = (),
    calls: Sequence[Any] = (),
    indirect: Callable[[], Sequence[Routine]] = tuple,
    saves: Sequence[Reg64] = (),
    stack: int = 0,
    source: str,
    bits: int = 64,
    section: str = ".text",
    noreturn: bool = False,
    secret: Sequence[Any] = (),
    ordered: Sequence[Any] = (),
    align: int = 1,
    aligned: bool = False,
    guard: bool = False,
) -> Callable[[Callable[..., None]], Routine]:
    """Declare a routine.

    Args:
        inputs: Registers that carry something in; parameters of the function in the same order.
        outputs: Registers and flags that carry something out.
        clobbers: Registers that change without meaning. Flags always may, unless they are outputs.
        reads: Fields, regions and globals that the routine itself reads.
        writes: Those that it writes.
        calls: Routines that it calls or tail-jumps to.
        indirect: Routines that `call_indirect` may reach.
        saves: Preserved registers that the prologue pushes and every `ret` pops.
        stack: Bytes of locals, a multiple of 8.
        source: The rule: RFC section, SDM section or page of our documents.
        bits: 16, 32 or 64.
        section: Where the code lies.
        noreturn: The routine never returns.
        secret: What it keeps secret: registers that carry it in or out, fields, regions. It decides
            no branch, address or division, and no time; a flag among the outputs tells a verdict.
        ordered: Fields whose writes are compared in order.
        align: Bytes, a power of two.
        aligned: RSP + 8 must be a multiple of 16 at the entry (System V), so that locals may hold
            SSE operands; callers must be aligned too.
        guard: A fault below may come back here with preserved registers changed, so all of
            `saves` are kept though nothing here changes them.
    """

    def wrap(body: Callable[..., None]) -> Routine:
        where = f"{inspect.getsourcefile(body)}:{body.__code__.co_firstlineno}"
        names = tuple(inspect.signature(body).parameters)[1:]
        listed = tuple(clobbers)
        if isinstance(clobbers, Convention):
            taken = {r.full for r in (*(o.reg for o in outputs), *saves)}
            listed = Convention(r for r in clobbers if r.full not in taken)
        problem = _signature_problem(body, inputs) or _list_problem(inputs, outputs, listed, saves)
        problem = problem or _number_problem(stack, align, bits)
        if problem:
            raise AsmError(*problem, routine=body.__name__, where=where)
        contract = Contract(
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            clobbers=listed,
            reads=tuple(reads),
            writes=tuple(writes),
            calls=tuple(calls),
            indirect=indirect,
            saves=tuple(saves),
            stack=stack,
            source=source,
            bits=bits,
            section=section,
            noreturn=noreturn,
            secret=tuple(secret),
            ordered=tuple(ordered),
            align=align,
            aligned=aligned,
            guard=guard,
        )
        return Routine(
            body.__name__, body.__module__, inspect.getdoc(body) or "", contract, body, names, where
        )

    return wrap


def _signature_problem(body: Callable[..., None], inputs: Sequence[In]) -> tuple[str, str] | None:
    hints = typing.get_type_hints(body)
    hints.pop("return", None)
    given = list(hints.values())
    wanted: list[type] = [Asm]
    wanted += [i.kind if issubclass(i.kind, Struct) else type(i.reg) for i in inputs]
    if given == wanted:
        return None
    shown = [getattr(g, "__name__", str(g)) for g in given]
    return (
        f"parameters {shown} differ from the contract's {[w.__name__ for w in wanted]}",
        "make the parameters after `a` match the contract's inputs",
    )


def _list_problem(
    inputs: Sequence[In], outputs: Sequence[Out], clobbers: Sequence[Reg], saves: Sequence[Reg]
) -> tuple[str, str] | None:
    """Return what is wrong when a register is listed twice."""
    for title, registers in (
        ("inputs", [i.reg.full for i in inputs]),
        ("outputs", [o.reg.full for o in outputs]),
        ("clobbers", [r.full for r in clobbers]),
        ("saves", [r.full for r in saves]),
    ):
        twice = sorted({name for name in registers if registers.count(name) > 1})
        if twice:
            return f"{', '.join(twice)} is listed twice in `{title}`", "list it once"
    results = {o.reg.full for o in outputs if not isinstance(o.reg, Flag)}
    changed, kept = {r.full for r in clobbers}, {r.full for r in saves}
    for both, what, instead in (
        (changed & results, "is an output and a clobber", "list it once, as an output"),
        (kept & results, "is saved and an output", "the epilogue would undo it; save another"),
        (kept & changed, "is saved and a clobber", "list it once: saved registers come back"),
    ):
        if both:
            return f"{', '.join(sorted(both))} {what}", instead
    return None


def _number_problem(stack: int, align: int, bits: int) -> tuple[str, str] | None:
    if stack % 8 or stack < 0:
        return f"stack={stack} is not a multiple of 8", f"use stack={-(-abs(stack) // 8) * 8}"
    if align < 1 or align & (align - 1):
        return f"align={align} is not a power of two", "use 1, 2, 4, 8, 16, 32 or 64"
    if bits not in (16, 32, 64):
        return f"bits={bits} is no mode of the processor", "use 16, 32 or 64"
    return None
