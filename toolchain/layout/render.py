"""Layouts for readers: a table of a struct's fields, and an include file for hand-written NASM."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.asm.errors import AsmError
from toolchain.layout.fields import BytesField, NestedField

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.layout.data import Data
    from toolchain.layout.fields import Field
    from toolchain.layout.struct import Struct
    from toolchain.link.image import Image


@dataclass(frozen=True)
class Row:
    """One field as it is shown: offset and size in bytes, dotted name, type, meaning."""

    offset: int
    size: int
    name: str
    type: str
    doc: str


@dataclass(frozen=True)
class Equ:
    """A number under a name in the include file."""

    name: str
    value: int
    doc: str


@dataclass(frozen=True)
class Alias:
    """A label in the include file: a field of a global, or the start of any linked data.

    Args:
        name: The label.
        data: What it lies in.
        field: The field that it names, or None for the start.
        doc: Meaning.
    """

    name: str
    data: Data
    field: Field | None = None
    doc: str = ""


def _type(field: Field) -> str:
    if isinstance(field, NestedField):
        return field.item.__name__
    if isinstance(field, BytesField):
        if field.item is not None:
            return f"{field.item.__name__}[{field.size // field.item.SIZE}]"
        return f"bytes[{field.size}]"
    name = f"{'be' if field.big_endian else 'u'}{8 * field.size}"
    return f"{field.type.__name__}:{name}" if issubclass(field.type, enum.Enum) else name


def struct_rows(struct: type[Struct], *, nested: bool = False) -> list[Row]:
    """Return the fields in the order of their offsets.

    Args:
        struct: The struct.
        nested: Also list the fields of structs inside it, under dotted names.
    """
    rows: list[Row] = []
    for field in struct.fields():
        rows.append(Row(field.offset, field.size, field.name, _type(field), field.doc))
        if nested and isinstance(field, NestedField):
            rows += [
                Row(field.offset + r.offset, r.size, f"{field.name}.{r.name}", r.type, r.doc)
                for r in struct_rows(field.item, nested=True)
            ]
    return rows


def struct_table(struct: type[Struct], *, nested: bool = False) -> str:
    """Return the fields as an aligned text table, the struct's first doc line above it."""
    rows = struct_rows(struct, nested=nested)
    names = max((len(r.name) for r in rows), default=4)
    types = max((len(r.type) for r in rows), default=4)
    title = (struct.__doc__ or "").strip().split("\n")[0]
    out = [f"{struct.__name__}: {struct.SIZE:#x} bytes. {title}".rstrip()]
    out.append(f"{'offset':>8} {'size':>6}  {'name':{names}}  {'type':{types}}  meaning")
    for r in rows:
        out.append(f"{r.offset:#8x} {r.size:>6}  {r.name:{names}}  {r.type:{types}}  {r.doc}")
    return "\n".join(line.rstrip() for line in out) + "\n"


def struct_equs(struct: type[Struct]) -> list[Equ]:
    """Return field offsets as `Struct.field`, inner ones too, and `Struct_size`, as NASM's struc."""
    stem = struct.__name__
    found = [Equ(f"{stem}.{r.name}", r.offset, r.doc) for r in struct_rows(struct, nested=True)]
    return [*found, Equ(f"{stem}_size", struct.SIZE, "bytes of the whole struct")]


def enum_equs(stem: str, members: type[enum.IntEnum] | type[enum.IntFlag]) -> list[Equ]:
    """Return the members of an enum as `STEM_NAME`."""
    doc = (members.__doc__ or "").strip().split("\n")[0]
    return [Equ(f"{stem}_{m.name}", m.value, doc) for m in members]


def _equ_lines(equs: Sequence[Equ]) -> list[str]:
    width = max((len(e.name) for e in equs), default=0)
    return [f"{e.name:{width}} equ {e.value:<#10x} ; {e.doc}".rstrip() for e in equs]


def _label_lines(aliases: Sequence[Alias], image: Image) -> list[str]:
    """Return the labels in one nobits section that starts at the first of them."""
    placed: list[tuple[int, int, Alias]] = []
    for alias in aliases:
        if alias.data.name not in image.symbols:
            raise AsmError(
                f"{alias.name} needs {alias.data.name}, which the image does not hold",
                f"link a routine that uses {alias.data.name}",
            )
        offset = alias.field.offset if alias.field is not None else 0
        size = alias.field.size if alias.field is not None else alias.data.size
        placed.append((image.address(alias.data.name) + offset, size, alias))
    placed.sort(key=lambda row: (row[0], row[2].name))
    if not placed:
        return []
    here = placed[0][0]
    out = [f"[section .globals nobits vstart={here:#x} valign=1]"]
    for address, size, alias in placed:
        if address > here:
            out.append(f"        resb {address - here:#x}")
        meaning = alias.doc or (alias.field.doc if alias.field is not None else alias.data.doc)
        out.append(f"{alias.name}: ; {address:#x}, {size} bytes: {meaning}")
        here = max(here, address)
    return [*out, "__SECT__"]


def nasm_include(
    equs: Sequence[Equ], aliases: Sequence[Alias] = (), image: Image | None = None
) -> str:
    """Return an include file: numbers as `equ`, node-wide data as labels at their real addresses.

    The labels lie in a nobits section with `vstart`, because NASM does not take `[rel x]` of an
    `equ` as RIP-relative. The section that was current before the include is current after it.

    Raises:
        AsmError: The image lacks one of the aliases' data.
    """
    out = ["; Generated from the layouts of the firmware: do not edit.", *_equ_lines(equs)]
    if aliases and image is not None:
        out += ["", *_label_lines(aliases, image)]
    return "\n".join(out) + "\n"
