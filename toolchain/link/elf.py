"""The image as ELF64 for debuggers and for the emulator: sections, symbols, source lines.

Packed by hand, because lief cannot make an ELF file from nothing; lief reads it back
(`toolchain.link.reader`). Layouts after the System V ABI (gABI 4.1, AMD64 supplement).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.link.dwarf import debug_sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.link.image import Image, Placed, Section

_EHDR, _PHDR, _SHDR, _SYM = 64, 56, 64, 24
_PROGBITS, _SYMTAB, _STRTAB, _NOBITS = 1, 2, 3, 8
_WRITE, _ALLOC, _EXEC = 1, 2, 4
_SHN_ABS = 0xFFF1
_GLOBAL = 1 << 4
_NOTYPE, _OBJECT, _FUNC = 0, 1, 2
_PAGE = 4096
FACTS = ".shardfw"
"""A section with what ELF has no place for, as JSON: bits of each section, stack of each routine."""


@dataclass
class _Header:
    """One section header; `contents` is None for what takes no room in the file."""

    name: str
    kind: int
    flags: int
    address: int
    size: int
    contents: bytes | None
    link: int = 0
    info: int = 0
    align: int = 1
    entry: int = 0
    offset: int = 0


class _Strings:
    """A string table; the empty string is at 0."""

    def __init__(self) -> None:
        self.contents = bytearray(1)

    def add(self, text: str) -> int:
        """Return the offset of a string."""
        at = len(self.contents)
        self.contents += text.encode() + b"\0"
        return at


def _kind(placed: Placed) -> int:
    if not placed.section:
        return _NOTYPE
    return _FUNC if placed.is_routine else _OBJECT


def _symbols(image: Image, sections: Sequence[Section]) -> tuple[bytes, bytes]:
    """Return .symtab and .strtab: null first, then every symbol by address and name."""
    index = {s.name: n + 1 for n, s in enumerate(sections)}
    strings, table = _Strings(), bytearray(_SYM)
    for p in sorted(image.symbols.values(), key=lambda p: (p.address, p.size, p.name)):
        where = index.get(p.section, _SHN_ABS)
        name = strings.add(p.name)
        table += struct.pack("<IBBHQQ", name, _GLOBAL | _kind(p), 0, where, p.address, p.size)
    return bytes(table), bytes(strings.contents)


def _facts(image: Image) -> bytes:
    facts = {
        "bits": {s.name: s.bits for s in image.sections},
        "stack": dict(sorted(image.stack.items())),
    }
    return json.dumps(facts, separators=(",", ":"), sort_keys=True).encode()


def write_elf(image: Image, *, debug: bool = True) -> bytes:
    """Return the ELF file of an image; the same image gives the same bytes anywhere.

    Args:
        image: What was linked.
        debug: Add the source lines.
    """
    headers = [
        _Header(
            s.name,
            _PROGBITS if s.contents or not s.size else _NOBITS,
            _ALLOC | (_EXEC if s.executable else 0) | (_WRITE if s.writable else 0),
            s.address,
            s.size,
            s.contents if s.contents or not s.size else None,
        )
        for s in image.sections
    ]
    loaded = len(headers)
    symtab, strtab = _symbols(image, image.sections)
    extra = debug_sections(image) if debug else {}
    for name, contents in (*extra.items(), (FACTS, _facts(image))):
        headers.append(_Header(name, _PROGBITS, 0, 0, len(contents), contents))
    # The index of .strtab counts the null header.
    headers.append(
        _Header(".symtab", _SYMTAB, 0, 0, len(symtab), symtab, len(headers) + 2, 1, 8, _SYM)
    )
    headers.append(_Header(".strtab", _STRTAB, 0, 0, len(strtab), strtab))
    names = _Strings()
    offsets = [names.add(h.name) for h in headers]
    own = names.add(".shstrtab")
    headers.append(_Header(".shstrtab", _STRTAB, 0, 0, len(names.contents), bytes(names.contents)))
    return _pack(image.entry, headers, [*offsets, own], loaded)


def _pack(entry: int, headers: list[_Header], names: list[int], loaded: int) -> bytes:
    segments = [h for h in headers[:loaded] if h.size]
    out = bytearray(_EHDR + _PHDR * len(segments))
    for n, h in enumerate(headers):
        # A loaded section lies in the file as it does in its page, so that it could be mapped.
        align, rest = (_PAGE, h.address % _PAGE) if n < loaded else (h.align, 0)
        out += bytes((rest - len(out)) % align)
        h.offset = len(out)
        out += h.contents or b""
    out += bytes(-len(out) % 8)
    section_table = len(out)
    out += bytes(_SHDR)
    for h, name in zip(headers, names, strict=True):
        out += struct.pack(
            "<IIQQQQIIQQ",
            *(name, h.kind, h.flags, h.address, h.offset),
            *(h.size, h.link, h.info, h.align, h.entry),
        )
    ident = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
    out[:_EHDR] = ident + struct.pack(
        "<HHIQQQIHHHHHH",
        *(2, 62, 1, entry, _EHDR, section_table, 0),
        *(_EHDR, _PHDR, len(segments), _SHDR, len(headers) + 1, len(headers)),
    )
    for n, h in enumerate(segments):
        rights = 4 | (2 if h.flags & _WRITE else 0) | (1 if h.flags & _EXEC else 0)
        stored = len(h.contents or b"")
        at = _EHDR + n * _PHDR
        out[at : at + _PHDR] = struct.pack(
            "<IIQQQQQQ", 1, rights, h.offset, h.address, h.address, stored, h.size, _PAGE
        )
    return bytes(out)
