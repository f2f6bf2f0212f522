"""The linker: what the roots reach is placed, the rest is left out; every byte is accounted for."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolchain.asm.assemble import Fixup, Unit, assemble
from toolchain.asm.assembler import Label
from toolchain.asm.flow import stack_move
from toolchain.asm.routine import Routine
from toolchain.layout.data import Data, Table
from toolchain.link.image import Image, Placed, Section

PAGE = 4096

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class LinkError(Exception):
    """The parts do not make an image.

    Args:
        what: What is wrong, with the symbol's name.
        instead: What to do instead.
    """

    def __init__(self, what: str, instead: str) -> None:
        self.what, self.instead = what, instead
        super().__init__(f"{what}; {instead}")


@dataclass(frozen=True, eq=False)
class LinkerSymbol:
    """An address that only the linker knows: `<section>_start`, `<section>_end`."""

    name: str
    size: int = 0


@dataclass(frozen=True)
class SectionPlan:
    """Where a section goes.

    Args:
        name: Section name.
        address: Its address, or None to follow the section before it.
        align: Bytes.
        executable: Code.
        writable: Data that changes.
        filler: Byte between the parts.
    """

    name: str
    address: int | None = None
    align: int = 1
    executable: bool = False
    writable: bool = False
    bits: int = 64
    filler: int = 0


@dataclass
class _Part:
    thing: Any
    section: str
    unit: Unit
    size: int
    align: int
    address: int = 0


@dataclass
class Linker:
    """Collects what `roots` reach and places it according to `plan`.

    Args:
        roots: Routines that are entered from outside, first in the image.
        plan: Sections in order.
        overrides: Contents for data by symbol (the configuration blob), of the declared size; longer
            for data that grows.
        keep: Data placed even when no operand names it (what GS points at).
        replace: Routines by name to link in place of others (the main routine of a test image).
    """

    roots: Sequence[Routine]
    plan: Sequence[SectionPlan]
    overrides: dict[str, bytes] = field(default_factory=dict)
    keep: Sequence[Data] = ()
    replace: dict[str, Routine] = field(default_factory=dict)
    _parts: dict[str, _Part] = field(default_factory=dict)
    _symbols: dict[str, int] = field(default_factory=dict)

    def link(self) -> Image:
        """Return the image.

        Raises:
            LinkError: Duplicate names, recursion, an unknown section, a value out of range.
        """
        order: list[_Part] = []
        for root in (*self.roots, *self.keep):
            self._collect(root, order)
        sections = self._place(order)
        contents = {s.name: bytearray(s.contents) for s in sections}
        for part in order:
            if part.unit.code:
                section = next(s for s in sections if s.name == part.section)
                self._fill(part, section, contents[part.section])
        for s in sections:
            s.contents = bytes(contents[s.name])
        image = Image(
            sections,
            self._placed(order, sections),
            entry=self._parts[self.roots[0].name].address,
            replaced=frozenset(self.replace) & self._parts.keys(),
        )
        self._lines(order, image)
        image.stack = self._stack(order)
        return image

    # -- reachability -----------------------------------------------------------------------------
    def _collect(self, root: Any, order: list[_Part]) -> None:  # noqa: ANN401
        work = [root]
        while work:
            thing = work.pop(0)
            if isinstance(thing, LinkerSymbol):
                continue
            thing = self.replace.get(thing.name, thing)
            known = self._parts.get(thing.name)
            if known is not None:
                if known.thing is not thing:
                    raise LinkError(f"two things are named {thing.name}", "rename one")
                continue
            part = self._part(thing)
            self._parts[thing.name] = part
            order.append(part)
            work[:0] = self._references(thing)

    def _part(self, thing: Any) -> _Part:  # noqa: ANN401
        if isinstance(thing, Routine):
            unit = assemble(thing)
            return _Part(thing, thing.contract.section, unit, len(unit.code), thing.contract.align)
        if isinstance(thing, Table):
            fixups = [Fixup(8 * n, 8, r) for n, r in enumerate(thing.entries())]
            if 8 * len(fixups) != thing.size:
                raise LinkError(
                    f"table {thing.name} has {len(fixups)} entries, declared {thing.size // 8}",
                    "give `count` and `entries` of the same length",
                )
            return _Part(thing, thing.section, Unit(bytes(thing.size), fixups), thing.size, 8)
        if isinstance(thing, Data):
            contents = self.overrides.get(thing.name, thing.init)
            size = thing.size if contents is None else len(contents)
            if size < thing.size if thing.grows else size != thing.size:
                raise LinkError(
                    f"{thing.name} gets {size} bytes, declared {thing.size}",
                    f"give an override of {'at least' if thing.grows else 'exactly'} that size",
                )
            return _Part(thing, thing.section, Unit(contents or b""), size, thing.align)
        raise LinkError(
            f"{thing.name} is neither routine nor data", "refer to a Routine, Data or LinkerSymbol"
        )

    def _references(self, thing: Any) -> list[Any]:  # noqa: ANN401
        if isinstance(thing, Table):
            return list(thing.entries())
        if not isinstance(thing, Routine):
            return []
        return [*_named(thing), *thing.contract.indirect()]

    # -- placement --------------------------------------------------------------------------------
    def _place(self, order: list[_Part]) -> list[Section]:
        known = {p.name for p in self.plan}
        for part in order:
            if part.section not in known:
                raise LinkError(
                    f"{part.thing.name} wants section {part.section}, which the plan lacks",
                    f"use one of {', '.join(sorted(known))}, or add it to the plan",
                )
        sections, here = [], 0
        for plan in self.plan:
            if plan.address is not None:
                here = plan.address
            start = here = -(-here // plan.align) * plan.align
            # Whole pages first: behind anything else they would leave a hole before them.
            for part in sorted(
                (p for p in order if p.section == plan.name), key=lambda p: p.align < PAGE
            ):
                here = -(-here // part.align) * part.align
                part.address = here
                here += part.size
            stored = 0 if plan.name == ".bss" else here - start
            sections.append(
                Section(plan.name, start, bytes([plan.filler]) * stored, here - start,
                        plan.executable, plan.writable, plan.bits)
            )  # fmt: skip
            self._check_overlap(sections)
            stem = plan.name.lstrip(".")
            for name, address in ((f"{stem}_start", start), (f"{stem}_end", here)):
                if name in self._parts:
                    raise LinkError(
                        f"{name} is the linker's own name for an end of {plan.name}",
                        "rename yours",
                    )
                self._symbols[name] = address
        return sections

    def _check_overlap(self, sections: list[Section]) -> None:
        """Refuse a section that reaches into one before it."""
        *before, last = sections
        for other in before:
            if last.size and last.address < other.end and other.address < last.end:
                raise LinkError(
                    f"section {last.name} ({last.address:#x} to {last.end:#x}) overlaps "
                    f"{other.name} ({other.address:#x} to {other.end:#x})",
                    f"give {last.name} another address in the plan",
                )

    def _fill(self, part: _Part, section: Section, contents: bytearray) -> None:
        at = part.address - section.address
        code = bytearray(part.unit.code)
        for fixup in part.unit.fixups:
            value = self._address(fixup.symbol, part) + fixup.addend
            if fixup.base is not None:
                value -= part.address + fixup.base
                limit = 1 << (8 * fixup.size - 1)
                if not -limit <= value < limit:
                    raise LinkError(
                        f"{part.thing.name}: {fixup.symbol.name} is out of reach",
                        "place their sections closer together",
                    )
            elif not 0 <= value < 1 << (8 * fixup.size):
                raise LinkError(
                    f"{part.thing.name}: address {value:#x} of {fixup.symbol.name} "
                    f"does not fit in {fixup.size} bytes",
                    "use a wider operand, or place the section lower",
                )
            code[fixup.offset : fixup.offset + fixup.size] = (
                value & ((1 << (8 * fixup.size)) - 1)
            ).to_bytes(fixup.size, "little")
        contents[at : at + len(code)] = code

    def _address(self, symbol: Any, part: _Part) -> int:  # noqa: ANN401
        if isinstance(symbol, LinkerSymbol):
            if symbol.name not in self._symbols:
                raise LinkError(
                    f"{part.thing.name} uses {symbol.name}, which no section gives",
                    "name a section of the plan with `_start` or `_end`",
                )
            return self._symbols[symbol.name]
        return self._parts[symbol.name].address

    def _placed(self, order: Iterable[_Part], sections: list[Section]) -> dict[str, Placed]:
        found = {
            p.thing.name: Placed(p.thing.name, p.address, p.size, p.thing, p.section) for p in order
        }
        for name, address in self._symbols.items():
            found[name] = Placed(name, address, 0, LinkerSymbol(name), "")
        return found

    def _lines(self, order: Iterable[_Part], image: Image) -> None:
        for part in order:
            if isinstance(part.thing, Routine):
                for offset, line in zip(part.unit.offsets, part.thing.lines(), strict=True):
                    image.lines.append(
                        (part.address + offset, line.file, line.lineno, part.thing.name)
                    )
        image.lines.sort()

    # -- stack ------------------------------------------------------------------------------------
    def _stack(self, order: Iterable[_Part]) -> dict[str, int]:
        """Return the deepest stack use in bytes of each routine with all it calls."""
        depth: dict[str, int] = {}
        running: list[str] = []

        def measure(routine: Routine) -> int:
            if routine.name in running:
                cycle = " -> ".join([*running[running.index(routine.name) :], routine.name])
                raise LinkError(
                    f"recursion has no bound on the stack: {cycle}", "turn it into a loop"
                )
            if routine.name not in depth:
                running.append(routine.name)
                own = _own_stack(routine)
                below = max((measure(t) + kind for t, kind in _callees(routine)), default=0)
                running.pop()
                depth[routine.name] = own + below
            return depth[routine.name]

        for part in order:
            if isinstance(part.thing, Routine):
                measure(part.thing)
        return depth


# What a routine itself tells is the same in every image: a process links many.
@functools.cache
def _named(routine: Routine) -> tuple[Any, ...]:
    found: list[Any] = []
    for line in routine.lines():
        if line.target is not None and not isinstance(line.target, Label):
            found.append(line.target)
        found += [op.symbol for op in line.ops if getattr(op, "symbol", None) is not None]
    return tuple(found)


@functools.cache
def _own_stack(routine: Routine) -> int:
    deepest = here = 0
    for line in routine.lines():
        here += stack_move(line)
        deepest = min(deepest, here)
    return -deepest


def _callees(routine: Routine) -> list[tuple[Routine, int]]:
    word = routine.bits // 8
    found: list[tuple[Routine, int]] = [(t, word) for t in routine.contract.indirect()]
    for line in routine.lines():
        if isinstance(line.target, Routine) and line.mnemonic != "jmp far":
            found.append((line.target, word if line.mnemonic == "call" else 0))
    return found
