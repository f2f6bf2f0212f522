"""Memory operands, typed by width and by the value that lives there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from toolchain.asm.errors import AsmError

if TYPE_CHECKING:
    from toolchain.asm.registers import Reg
    from toolchain.layout.data import Data

V_co = TypeVar("V_co", bound=int, covariant=True)

SIZE_WORDS = {0: "", 1: "byte", 2: "word", 4: "dword", 8: "qword", 16: "oword"}


@dataclass(frozen=True)
class Region:
    """Memory without a struct (a frame, a ring, a page table) as a name in contracts.

    Args:
        name: What the memory is.
        doc: Who owns it and how it is bounded.
    """

    name: str
    doc: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Mem(Generic[V_co]):
    """`[base + index * scale + disp]`, or `[rel symbol + disp]` when `symbol` is set."""

    base: Reg | None = None
    disp: int = 0
    index: Reg | None = None
    scale: int = 1
    symbol: Any = None
    ref: Any = None
    segment: Reg | None = None
    value: type[int] = int

    size: ClassVar[int] = 0

    def text(self) -> str:
        """Return the operand in NASM syntax."""
        word = SIZE_WORDS[self.size]
        return f"{word} {self.bare()}".lstrip()

    def bare(self) -> str:
        """Return the bracketed address alone."""
        parts: list[str] = []
        if self.symbol is not None:
            parts.append(f"rel {self.symbol.name}")
        if self.base is not None:
            parts.append(str(self.base))
        if self.index is not None:
            parts.append(f"{self.index}*{self.scale}" if self.scale != 1 else str(self.index))
        shown = self._shown_disp()
        if shown or not parts:
            parts.append(shown or "0x0")
        body = "+".join(parts).replace("+-", "-")
        return f"[{self.segment}:{body}]" if self.segment is not None else f"[{body}]"

    def _shown_disp(self) -> str:
        if self.disp == 0:
            return ""
        return f"{self.disp:#x}" if self.disp >= 0 else f"-{-self.disp:#x}"

    def __str__(self) -> str:
        return self.text()


class Mem8(Mem[V_co]):
    """A byte in memory."""

    size = 1


class Mem16(Mem[V_co]):
    """A word in memory."""

    size = 2


class Mem32(Mem[V_co]):
    """A doubleword in memory."""

    size = 4


class Mem64(Mem[V_co]):
    """A quadword in memory."""

    size = 8


class Mem128(Mem[V_co]):
    """An octaword in memory, for SSE."""

    size = 16


BY_SIZE: dict[int, type[Mem[Any]]] = {1: Mem8, 2: Mem16, 4: Mem32, 8: Mem64, 16: Mem128}
_SCALES = (1, 2, 4, 8)


def address(
    cls: type[Mem[Any]],
    base: Reg | None,
    disp: int,
    index: Reg | None,
    scale: int,
    ref: object,
    segment: Reg | None = None,
    symbol: object = None,
) -> Any:  # noqa: ANN401 - the caller names the class
    """Check the parts of an address and return it as an operand of `cls`."""
    if scale not in _SCALES:
        raise AsmError(f"scale {scale} does not exist", "use 1, 2, 4 or 8")
    if index is not None and index.full == "rsp":
        raise AsmError("RSP cannot be an index", "swap base and index, or use another register")
    if not -(1 << 31) <= disp < 1 << 32:
        raise AsmError(f"displacement {disp:#x} needs more than 32 bits", "load it into a register")
    return cls(base, disp, index, scale, symbol, ref, segment)


def mem8(
    base: Reg | None,
    disp: int = 0,
    *,
    ref: Region | Data,
    index: Reg | None = None,
    scale: int = 1,
    segment: Reg | None = None,
) -> Mem8[int]:
    """Return `byte [base + index * scale + disp]` in the named region."""
    got: Mem8[int] = address(Mem8, base, disp, index, scale, ref, segment)
    return got


def mem16(
    base: Reg | None,
    disp: int = 0,
    *,
    ref: Region | Data,
    index: Reg | None = None,
    scale: int = 1,
    segment: Reg | None = None,
) -> Mem16[int]:
    """Return `word [base + index * scale + disp]` in the named region."""
    got: Mem16[int] = address(Mem16, base, disp, index, scale, ref, segment)
    return got


def mem32(
    base: Reg | None,
    disp: int = 0,
    *,
    ref: Region | Data,
    index: Reg | None = None,
    scale: int = 1,
    segment: Reg | None = None,
) -> Mem32[int]:
    """Return `dword [base + index * scale + disp]` in the named region."""
    got: Mem32[int] = address(Mem32, base, disp, index, scale, ref, segment)
    return got


def mem64(
    base: Reg | None,
    disp: int = 0,
    *,
    ref: Region | Data,
    index: Reg | None = None,
    scale: int = 1,
    segment: Reg | None = None,
) -> Mem64[int]:
    """Return `qword [base + index * scale + disp]` in the named region."""
    got: Mem64[int] = address(Mem64, base, disp, index, scale, ref, segment)
    return got


def mem128(
    base: Reg | None,
    disp: int = 0,
    *,
    ref: Region | Data,
    index: Reg | None = None,
    scale: int = 1,
    segment: Reg | None = None,
) -> Mem128[int]:
    """Return `oword [base + index * scale + disp]` in the named region."""
    got: Mem128[int] = address(Mem128, base, disp, index, scale, ref, segment)
    return got
