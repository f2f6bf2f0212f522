"""Structs as bytes and back: what the host writes into an image and reads from a running node."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from toolchain.layout.fields import BytesField, Field, NestedField

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolchain.layout.struct import Struct


class PackError(ValueError):
    """A value does not fit its field; the message names the field and what it holds."""


def pack(struct: type[Struct], values: Mapping[str, object]) -> bytes:
    """Return the bytes of a struct; fields that are not given are zero.

    Args:
        struct: The declaration.
        values: Field name to value: numbers and enum members, bytes (shorter ones are filled up
            with zeros), a mapping for a nested struct, a list of mappings for an array.

    Raises:
        PackError: There is no such field, or the value does not fit.
    """
    fields = {field.name: field for field in struct.fields()}
    unknown = [name for name in values if name not in fields]
    if unknown:
        raise PackError(
            f"{struct.__name__} has no field {unknown[0]!r}; its fields are {', '.join(fields)}"
        )
    out = bytearray(struct.SIZE)
    for name, value in values.items():
        field = fields[name]
        contents = _encode(field, value)
        out[field.offset : field.offset + len(contents)] = contents
    return bytes(out)


def _encode(field: Field, value: object) -> bytes:
    if isinstance(field, NestedField) and isinstance(value, dict):
        return pack(field.item, value)
    if isinstance(field, BytesField):
        if field.item is not None and isinstance(value, list):
            contents = b"".join(pack(field.item, row) for row in value)
        elif isinstance(value, (bytes, bytearray)):
            contents = bytes(value)
        else:
            raise PackError(f"{field!r} takes bytes, not {type(value).__name__}")
        if len(contents) > field.size:
            raise PackError(f"{field!r} holds {field.size} bytes; the value has {len(contents)}")
        return contents
    if isinstance(field, NestedField) or not isinstance(value, int):
        wanted = "a dict of its fields" if isinstance(field, NestedField) else "a number"
        raise PackError(f"{field!r} takes {wanted}, not {type(value).__name__}")
    if not 0 <= value < 1 << 8 * field.size:
        # The value is not repeated: a field can hold part of a secret.
        raise PackError(f"{field!r} holds 0 to {(1 << 8 * field.size) - 1}; the value is outside")
    return int(value).to_bytes(field.size, "big" if field.big_endian else "little")


def unpack(
    struct: type[Struct], contents: bytes | bytearray, *, partial: bool = False
) -> dict[str, Any]:
    """Return the fields of a struct from its bytes.

    Numbers of an enum field become members; a number that no member has stays a number. Nested
    structs become dicts, arrays lists of dicts.

    Args:
        struct: The declaration.
        contents: At least `struct.SIZE` bytes; more are ignored.
        partial: Take fewer bytes, and leave out the fields that do not lie whole in them.

    Raises:
        PackError: There are too few bytes.
    """
    if len(contents) < struct.SIZE and not partial:
        raise PackError(f"{struct.__name__} has {struct.SIZE} bytes; {len(contents)} were given")
    return {
        field.name: _decode(field, contents[field.offset : field.offset + field.size])
        for field in struct.fields()
        if field.offset + field.size <= len(contents)
    }


def _decode(field: Field, contents: bytes | bytearray) -> Any:  # noqa: ANN401 - the type is the field's
    if isinstance(field, NestedField):
        return unpack(field.item, contents)
    if isinstance(field, BytesField):
        if field.item is None:
            return bytes(contents)
        size = field.item.SIZE
        return [unpack(field.item, contents[n : n + size]) for n in range(0, field.size, size)]
    number = int.from_bytes(contents, "big" if field.big_endian else "little")
    if issubclass(field.type, enum.Enum):
        try:
            return field.type(number)
        except ValueError:
            return number
    return number
