"""A linked image: sections with bytes and addresses, symbols, source lines, stack depths."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolchain.asm.routine import Routine
    from toolchain.layout.data import Data


@dataclass
class Section:
    """One section. `size` exceeds `len(contents)` only for .bss, which holds none."""

    name: str
    address: int
    contents: bytes
    size: int
    executable: bool
    writable: bool
    bits: int = 64

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.address + self.size


@dataclass(frozen=True)
class Placed:
    """A symbol with its address and size in bytes."""

    name: str
    address: int
    size: int
    thing: Any
    section: str

    @property
    def is_routine(self) -> bool:
        """Whether the symbol is code with a contract, and not data or an address."""
        return hasattr(self.thing, "contract") or getattr(self.thing, "is_routine", False)


@dataclass
class Image:
    """Everything that was linked."""

    sections: list[Section]
    symbols: dict[str, Placed]
    lines: list[tuple[int, str, int, str]] = field(
        default_factory=list
    )  # address, file, line, routine
    stack: dict[str, int] = field(default_factory=dict)
    entry: int = 0
    replaced: frozenset[str] = frozenset()
    """Routines in whose place others of the same name stand."""

    def section(self, name: str) -> Section:
        """Return a section by name."""
        return next(s for s in self.sections if s.name == name)

    def address(self, thing: str | Routine | Data) -> int:
        """Return the address of a symbol."""
        return self.symbols[thing if isinstance(thing, str) else thing.name].address

    def routines(self) -> list[Placed]:
        """Return the routines in address order."""
        found = [p for p in self.symbols.values() if p.is_routine]
        return sorted(found, key=lambda p: p.address)

    def symbol_at(self, address: int) -> Placed | None:
        """Return the symbol whose bytes contain the address."""
        for placed in self.symbols.values():
            if placed.size and placed.address <= address < placed.address + placed.size:
                return placed
        return None
