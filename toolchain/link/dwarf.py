"""Debug information: which line of which generator emitted each instruction (DWARF 2).

One compilation unit for each executable section, one line sequence for each routine, one row for
each instruction.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from toolchain.source import short_path

if TYPE_CHECKING:
    from toolchain.link.image import Image, Placed, Section

_COMPILE_UNIT, _SUBPROGRAM = 0x11, 0x2E
_NAME, _STMT_LIST, _LOW_PC, _HIGH_PC, _LANGUAGE, _COMP_DIR = 0x03, 0x10, 0x11, 0x12, 0x13, 0x1B
_DECL_FILE, _DECL_LINE, _EXTERNAL, _PRODUCER = 0x3A, 0x3B, 0x3F, 0x25
_ADDR, _DATA2, _DATA4, _STRING, _FLAG, _UDATA = 0x01, 0x05, 0x06, 0x08, 0x0C, 0x0F
_MIPS_ASSEMBLER = 0x8001  # the language code that debuggers know for assembly
_UNIT = (
    (_PRODUCER, _STRING), (_LANGUAGE, _DATA2), (_NAME, _STRING), (_COMP_DIR, _STRING),
    (_LOW_PC, _ADDR), (_HIGH_PC, _ADDR), (_STMT_LIST, _DATA4),
)  # fmt: skip
_FUNCTION = (
    (_EXTERNAL, _FLAG), (_NAME, _STRING), (_DECL_FILE, _UDATA), (_DECL_LINE, _UDATA),
    (_LOW_PC, _ADDR), (_HIGH_PC, _ADDR),
)  # fmt: skip
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_OPERANDS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1])  # of the standard opcodes 1 to 9
_LINE_BASE, _LINE_RANGE = -5, 14


def uleb(value: int) -> bytes:
    """Return an unsigned LEB128 number."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def sleb(value: int) -> bytes:
    """Return a signed LEB128 number."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        done = value == (-1 if low & 0x40 else 0)
        out.append(low | (0 if done else 0x80))
        if done:
            return bytes(out)


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _abbreviations() -> bytes:
    out = bytearray()
    for code, tag, children, rows in (
        (1, _COMPILE_UNIT, 1, _UNIT),
        (2, _SUBPROGRAM, 0, _FUNCTION),
    ):
        out += uleb(code) + uleb(tag) + bytes([children])
        for attribute, form in (*rows, (0, 0)):
            out += uleb(attribute) + uleb(form)
    return bytes(out) + b"\0"


class _Files:
    """The file table of one unit; numbers start at 1."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, file: str) -> int:
        """Return the number of a source file."""
        return self.numbers.setdefault(short_path(file), len(self.numbers) + 1)

    def table(self) -> bytes:
        """Return the entries: name, directory 0, no time, no length."""
        return b"".join(_text(name) + bytes(3) for name in self.numbers) + b"\0"


def _sequence(placed: Placed, rows: list[tuple[int, str, int]], files: _Files) -> bytes:
    """Return the line program of one routine; `rows` are address, file, line."""
    out = bytearray(b"\0" + uleb(9) + b"\x02" + struct.pack("<Q", placed.address))
    here, file, line = placed.address, 1, 1
    for address, name, lineno in rows:
        if (number := files.number(name)) != file:
            out += bytes([_SET_FILE]) + uleb(number)
            file = number
        if address != here:
            out += bytes([_ADVANCE_PC]) + uleb(address - here)
            here = address
        if lineno != line:
            out += bytes([_ADVANCE_LINE]) + sleb(lineno - line)
            line = lineno
        out.append(_COPY)
    end = placed.address + placed.size
    return bytes(out) + bytes([_ADVANCE_PC]) + uleb(end - here) + b"\0\x01\x01"


def _line_unit(programs: bytes, files: _Files) -> bytes:
    head = struct.pack("<BBbBB", 1, 1, _LINE_BASE, _LINE_RANGE, len(_OPERANDS) + 1)
    head += _OPERANDS + b"\0" + files.table()  # no directories
    body = struct.pack("<HI", 2, len(head)) + head + programs
    return struct.pack("<I", len(body)) + body


def _declaration(placed: Placed, files: _Files) -> bytes:
    file, _, lineno = placed.thing.where.rpartition(":")
    return (
        uleb(2)
        + b"\x01"
        + _text(placed.name)
        + uleb(files.number(file))
        + uleb(int(lineno))
        + struct.pack("<QQ", placed.address, placed.address + placed.size)
    )


def _unit(image: Image, section: Section, line_offset: int) -> tuple[bytes, bytes]:
    """Return the units of .debug_info and .debug_line of one section."""
    files = _Files()
    rows: dict[str, list[tuple[int, str, int]]] = {}
    for address, file, lineno, routine in image.lines:
        rows.setdefault(routine, []).append((address, file, lineno))
    functions = [p for p in image.routines() if p.section == section.name]
    programs = b"".join(_sequence(p, rows.get(p.name, []), files) for p in functions)
    body = uleb(1) + _text("shardfw") + struct.pack("<H", _MIPS_ASSEMBLER)
    body += _text(section.name) + _text(".")
    body += struct.pack("<QQI", section.address, section.end, line_offset)
    body += b"".join(_declaration(p, files) for p in functions) + b"\0"
    info = struct.pack("<HIB", 2, 0, 8) + body
    return struct.pack("<I", len(info)) + info, _line_unit(programs, files)


def debug_sections(image: Image) -> dict[str, bytes]:
    """Return the debug sections by name; paths start at the project's folder."""
    info = line = b""
    for section in image.sections:
        if section.executable and section.size:
            more_info, more_line = _unit(image, section, len(line))
            info += more_info
            line += more_line
    return {".debug_info": info, ".debug_abbrev": _abbreviations(), ".debug_line": line}
