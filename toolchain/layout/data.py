"""Node-wide data: globals in .bss or .data, constants and tables of routine addresses in .rodata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolchain.asm.errors import AsmError
from toolchain.asm.operands import Mem8, Mem16, Mem32, Mem64, Mem128, address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolchain.layout.struct import Struct

S = TypeVar("S", bound="Struct")


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """Named bytes of the image.

    Args:
        name: Symbol.
        size: Bytes.
        init: Contents, or None for zeroed .bss.
        align: Bytes.
        section: `.rodata`, `.data` or `.bss`; boot data says `.boot`.
        doc: What it holds.
        grows: An override may be longer; then nothing may lie behind it.
    """

    name: str
    size: int
    init: bytes | None = None
    align: int = 8
    section: str = ".bss"
    doc: str = ""
    grows: bool = False

    def __post_init__(self) -> None:
        if self.init is not None and len(self.init) != self.size:
            raise AsmError(
                f"data {self.name}: {len(self.init)} bytes of contents for size {self.size}",
                "give contents of exactly that size",
            )

    def __repr__(self) -> str:
        return self.name

    @property
    def address(self) -> Mem8[int]:
        """The first byte as `[rel name]`, for `lea`."""
        return self.m8()

    def m8(self, disp: int = 0) -> Mem8[int]:
        """Return the byte at `disp`."""
        got: Mem8[int] = address(Mem8, None, disp, None, 1, self, None, self)
        return got

    def m16(self, disp: int = 0) -> Mem16[int]:
        """Return the word at `disp`."""
        got: Mem16[int] = address(Mem16, None, disp, None, 1, self, None, self)
        return got

    def m32(self, disp: int = 0) -> Mem32[int]:
        """Return the doubleword at `disp`."""
        got: Mem32[int] = address(Mem32, None, disp, None, 1, self, None, self)
        return got

    def m64(self, disp: int = 0) -> Mem64[int]:
        """Return the quadword at `disp`."""
        got: Mem64[int] = address(Mem64, None, disp, None, 1, self, None, self)
        return got

    def m128(self, disp: int = 0) -> Mem128[int]:
        """Return the octaword at `disp`."""
        got: Mem128[int] = address(Mem128, None, disp, None, 1, self, None, self)
        return got


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Global(Data, Generic[S]):
    """A struct of the whole node at a fixed symbol; `.it` are its fields as operands."""

    struct: type[S] = field(default=None)  # type: ignore[assignment]  # always set by __init__
    count: int = 1

    def __init__(
        self,
        name: str,
        struct: type[S],
        doc: str,
        *,
        count: int = 1,
        init: bytes | None = None,
        align: int = 0,
        readonly: bool = False,
        tail: str = "",
    ) -> None:
        """Declare it.

        Args:
            name: Symbol.
            struct: Its shape.
            doc: What it holds.
            count: How many of them.
            init: Contents, or None for zeroed .bss.
            align: Bytes; 0 for what the struct needs.
            readonly: It lies in .rodata.
            tail: The section that it has for itself, to grow in; read-only.
        """
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "size", struct.SIZE * count)
        object.__setattr__(self, "init", init)
        object.__setattr__(self, "align", align or max(struct.ALIGN, 8))
        section = ".bss" if init is None else ".rodata" if readonly else ".data"
        object.__setattr__(self, "section", tail or section)
        object.__setattr__(self, "grows", bool(tail))
        object.__setattr__(self, "doc", doc)
        object.__setattr__(self, "struct", struct)
        object.__setattr__(self, "count", count)
        self.__post_init__()

    @property
    def it(self) -> S:
        """The struct, placed at the symbol."""
        return self.struct(None, symbol=self)


def constant(name: str, contents: bytes, doc: str, *, align: int = 1) -> Data:
    """Declare read-only bytes."""
    return Data(name, len(contents), contents, align, ".rodata", doc)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Table(Data):
    """Read-only 64-bit addresses of routines; the only source of indirect calls.

    Args:
        entries: Returns the routines (a function, so that modules may refer to each other).
    """

    entries: Callable[[], Sequence[Any]] = field(default=tuple)

    def __init__(
        self, name: str, count: int, entries: Callable[[], Sequence[Any]], doc: str
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "size", 8 * count)
        object.__setattr__(self, "init", None)
        object.__setattr__(self, "align", 8)
        object.__setattr__(self, "section", ".rodata")
        object.__setattr__(self, "doc", doc)
        object.__setattr__(self, "entries", entries)
