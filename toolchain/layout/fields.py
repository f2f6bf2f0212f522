"""The fields of a struct.

Read on the class, a field is a reference (contracts, documents, decoders). Read on a placed struct
it is a memory operand of the field's width and value type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from toolchain.asm.operands import BY_SIZE, Mem, Mem8, Mem16, Mem32, Mem64, Mem128, address

if TYPE_CHECKING:
    from toolchain.asm.registers import Reg
    from toolchain.layout.struct import Struct

V = TypeVar("V", bound=int)
S = TypeVar("S", bound="Struct")


class Field:
    """One named field: offset and size in bytes, meaning, and how its bytes are read.

    Args:
        offset: Bytes from the start of the struct.
        size: Bytes.
        doc: Meaning; unit; special values.
        type_: `int`, an enum, or flags.
        big_endian: True for a field in network byte order.
    """

    owner: type[Struct]
    name: str

    def __init__(
        self,
        offset: int,
        size: int,
        doc: str,
        type_: type[int] = int,
        *,
        align: int = 0,
        big_endian: bool = False,
    ) -> None:
        self.offset, self.size, self.doc, self.type = offset, size, doc, type_
        self.align = align or size
        self.big_endian = big_endian

    def __set_name__(self, owner: type[Struct], name: str) -> None:
        self.owner, self.name = owner, name

    def __repr__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    def _operand(self, placed: Struct) -> Any:  # noqa: ANN401 - the typed subclasses narrow it
        cls = BY_SIZE[self.size]
        p = placed.place_
        return cls(
            p.base,
            p.disp + self.offset,
            p.index,
            p.scale,
            p.symbol,
            self,
            p.segment,
            self.type,
        )


class Field8(Field, Generic[V]):
    """A byte."""

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...
    @overload
    def __get__(self, obj: Struct, owner: type) -> Mem8[V]: ...
    def __get__(self, obj: Struct | None, owner: type) -> Any:
        return self if obj is None else self._operand(obj)


class Field16(Field, Generic[V]):
    """A word."""

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...
    @overload
    def __get__(self, obj: Struct, owner: type) -> Mem16[V]: ...
    def __get__(self, obj: Struct | None, owner: type) -> Any:
        return self if obj is None else self._operand(obj)


class Field32(Field, Generic[V]):
    """A doubleword."""

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...
    @overload
    def __get__(self, obj: Struct, owner: type) -> Mem32[V]: ...
    def __get__(self, obj: Struct | None, owner: type) -> Any:
        return self if obj is None else self._operand(obj)


class Field64(Field, Generic[V]):
    """A quadword."""

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...
    @overload
    def __get__(self, obj: Struct, owner: type) -> Mem64[V]: ...
    def __get__(self, obj: Struct | None, owner: type) -> Any:
        return self if obj is None else self._operand(obj)


class Span:
    """A run of bytes inside a placed struct; its parts are operands of any width."""

    def __init__(self, placed: Struct, field: Field, stride: int = 1) -> None:
        self._placed, self._field, self.stride = placed, field, stride
        self.size = field.size

    def _at(self, cls: type[Mem[Any]], offset: int, index: Reg | None, scale: int) -> Any:  # noqa: ANN401 - the methods below narrow it
        p = self._placed.place_
        return address(
            cls,
            p.base,
            p.disp + self._field.offset + offset,
            index if index is not None else p.index,
            scale if index is not None else p.scale,
            self._field,
            p.segment,
            p.symbol,
        )

    @property
    def address(self) -> Mem8[int]:
        """The first byte, for `lea`."""
        return self.m8()

    def m8(self, offset: int = 0, *, index: Reg | None = None, scale: int = 1) -> Mem8[int]:
        """Return the byte at `offset` plus `index * scale`."""
        got: Mem8[int] = self._at(Mem8, offset, index, scale)
        return got

    def m16(self, offset: int = 0, *, index: Reg | None = None, scale: int = 1) -> Mem16[int]:
        """Return the word at `offset` plus `index * scale`."""
        got: Mem16[int] = self._at(Mem16, offset, index, scale)
        return got

    def m32(self, offset: int = 0, *, index: Reg | None = None, scale: int = 1) -> Mem32[int]:
        """Return the doubleword at `offset` plus `index * scale`."""
        got: Mem32[int] = self._at(Mem32, offset, index, scale)
        return got

    def m64(self, offset: int = 0, *, index: Reg | None = None, scale: int = 1) -> Mem64[int]:
        """Return the quadword at `offset` plus `index * scale`."""
        got: Mem64[int] = self._at(Mem64, offset, index, scale)
        return got

    def m128(self, offset: int = 0, *, index: Reg | None = None, scale: int = 1) -> Mem128[int]:
        """Return the octaword at `offset` plus `index * scale`."""
        got: Mem128[int] = self._at(Mem128, offset, index, scale)
        return got


class BytesField(Field):
    """A run of bytes or an array."""

    def __init__(
        self, offset: int, size: int, doc: str, *, align: int = 1, item: type[Struct] | None = None
    ) -> None:
        super().__init__(offset, size, doc, align=align)
        self.item = item

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...
    @overload
    def __get__(self, obj: Struct, owner: type) -> Span: ...
    def __get__(self, obj: Struct | None, owner: type) -> Any:
        if obj is None:
            return self
        return Span(obj, self, self.item.SIZE if self.item else 1)


class NestedField(Field, Generic[S]):
    """A struct inside a struct."""

    def __init__(self, offset: int, item: type[S], doc: str) -> None:
        super().__init__(offset, item.SIZE, doc, align=item.ALIGN)
        self.item = item

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...
    @overload
    def __get__(self, obj: Struct, owner: type) -> S: ...
    def __get__(self, obj: Struct | None, owner: type) -> Any:
        return self if obj is None else self.item.placed_in(obj, self.offset)


def u8(offset: int, doc: str) -> Field8[int]:
    """Declare a byte."""
    return Field8(offset, 1, doc)


def u16(offset: int, doc: str) -> Field16[int]:
    """Declare a word."""
    return Field16(offset, 2, doc)


def u32(offset: int, doc: str) -> Field32[int]:
    """Declare a doubleword."""
    return Field32(offset, 4, doc)


def u64(offset: int, doc: str) -> Field64[int]:
    """Declare a quadword."""
    return Field64(offset, 8, doc)


def ptr(offset: int, doc: str) -> Field64[int]:
    """Declare a pointer; 0 is none."""
    return Field64(offset, 8, doc)


def be16(offset: int, doc: str) -> Field16[int]:
    """Declare a word in network byte order, without alignment (wire structs)."""
    return Field16(offset, 2, doc, align=1, big_endian=True)


def be32(offset: int, doc: str) -> Field32[int]:
    """Declare a doubleword in network byte order, without alignment (wire structs)."""
    return Field32(offset, 4, doc, align=1, big_endian=True)


def enum8(offset: int, type_: type[V], doc: str) -> Field8[V]:
    """Declare a byte that holds one of `type_`."""
    return Field8(offset, 1, doc, type_)


def enum32(offset: int, type_: type[V], doc: str) -> Field32[V]:
    """Declare a doubleword that holds one of `type_`."""
    return Field32(offset, 4, doc, type_)


def flags8(offset: int, type_: type[V], doc: str) -> Field8[V]:
    """Declare a byte of flag bits."""
    return Field8(offset, 1, doc, type_)


def flags32(offset: int, type_: type[V], doc: str) -> Field32[V]:
    """Declare a doubleword of flag bits."""
    return Field32(offset, 4, doc, type_)


def bytes_(offset: int, size: int, doc: str, *, align: int = 1) -> BytesField:
    """Declare a run of bytes."""
    return BytesField(offset, size, doc, align=align)


def array(offset: int, item: type[Struct], count: int, doc: str) -> BytesField:
    """Declare `count` structs in a row."""
    return BytesField(offset, item.SIZE * count, doc, align=item.ALIGN, item=item)


def nested(offset: int, item: type[S], doc: str) -> NestedField[S]:
    """Declare a struct inside a struct."""
    return NestedField(offset, item, doc)
