"""A struct: one class whose fields carry their offsets, so that the file is the memory map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from toolchain.asm.errors import AsmError
from toolchain.layout.fields import Field

if TYPE_CHECKING:
    from toolchain.asm.registers import Reg


@dataclass(frozen=True)
class Place:
    """Where a placed struct lies: the parts of an address."""

    base: Reg | None
    disp: int
    index: Reg | None
    scale: int
    symbol: Any
    segment: Reg | None


_TAKEN = ("at", "in_segment", "placed_in", "fields", "place_")


class Struct:
    """Base of all layouts. `SIZE` in bytes is written out; the fields must fit without overlap."""

    SIZE: ClassVar[int]
    ALIGN: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in _TAKEN:
            if isinstance(vars(cls).get(name), Field):
                where = f"{cls.__name__}.{name}"
                raise AsmError(f"{where} has a name that Struct itself uses", "rename the field")
        end, last = 0, "the start"
        align = 1
        for field in cls.fields():
            where = f"{cls.__name__}.{field.name}"
            if field.offset < end:
                raise AsmError(
                    f"{where} at {field.offset:#x} overlaps {last}, which ends at {end:#x}",
                    f"move it to {end:#x} or later",
                )
            if field.offset % field.align:
                raise AsmError(
                    f"{where} at {field.offset:#x} is not aligned to {field.align}",
                    "move it, or declare it with be16/be32/bytes_ when it is a wire field",
                )
            align = max(align, field.align)
            end, last = field.offset + field.size, field.name
        if end > cls.SIZE:
            raise AsmError(
                f"{cls.__name__} has SIZE {cls.SIZE:#x} but its fields end at {end:#x}",
                f"set SIZE = {end:#x} or more",
            )
        cls.ALIGN = max(align, cls.__dict__.get("ALIGN", 1))

    def __init__(
        self,
        base: Reg | None,
        disp: int = 0,
        *,
        index: Reg | None = None,
        scale: int = 1,
        symbol: Any = None,  # noqa: ANN401 - a data declaration; typed there
        segment: Reg | None = None,
    ) -> None:
        self.place_ = Place(base, disp, index, scale, symbol, segment)

    @classmethod
    def at(cls, base: Reg, disp: int = 0, *, index: Reg | None = None, scale: int = 1) -> Self:
        """Place the struct at `[base + index * scale + disp]`."""
        return cls(base, disp, index=index, scale=scale)

    @classmethod
    def in_segment(cls, segment: Reg) -> Self:
        """Place the struct at the base of FS or GS."""
        return cls(None, 0, segment=segment)

    @classmethod
    def placed_in(cls, outer: Struct, offset: int) -> Self:
        """Place the struct `offset` bytes into another placed struct."""
        p = outer.place_
        return cls(
            p.base,
            p.disp + offset,
            index=p.index,
            scale=p.scale,
            symbol=p.symbol,
            segment=p.segment,
        )

    @classmethod
    def fields(cls) -> list[Field]:
        """Return the fields in the order of their offsets."""
        found = [f for f in vars(cls).values() if isinstance(f, Field)]
        return sorted(found, key=lambda f: f.offset)
