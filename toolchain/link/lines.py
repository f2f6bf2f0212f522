"""Read a DWARF 2 line table: the subset of the standard opcodes that assemblers write."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<IHIBBbBB")


class _Bytes:
    """A cursor over bytes."""

    def __init__(self, contents: bytes, at: int) -> None:
        self.contents, self.at = contents, at

    def byte(self) -> int:
        """Return the next byte."""
        self.at += 1
        return self.contents[self.at - 1]

    def uleb(self) -> int:
        """Return an unsigned LEB128 number."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def sleb(self) -> int:
        """Return a signed LEB128 number."""
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def text(self) -> str:
        """Return a string that a zero byte ends."""
        end = self.contents.index(b"\0", self.at)
        got = self.contents[self.at : end].decode()
        self.at = end + 1
        return got


def _files(data: _Bytes) -> list[str]:
    """Skip the directories and return the file names."""
    while data.text():
        pass
    names: list[str] = []
    while name := data.text():
        names.append(name)
        for _ in range(3):
            data.uleb()
    return names


def _unit(data: _Bytes, end: int, files: list[str]) -> list[tuple[int, str, int]]:
    rows: list[tuple[int, str, int]] = []
    address, file, line = 0, 1, 1
    while data.at < end:
        match opcode := data.byte():
            case 0:
                size = data.uleb()
                following = data.at + size
                kind = data.byte()
                if kind == 2:
                    address = int.from_bytes(data.contents[data.at : following], "little")
                elif kind == 1:
                    address, file, line = 0, 1, 1
                data.at = following
            case 1:
                rows.append((address, files[file - 1], line))
            case 2:
                address += data.uleb()
            case 3:
                line += data.sleb()
            case 4:
                file = data.uleb()
            case _:
                raise ValueError(f"line table: opcode {opcode} is not one that the linker writes")
    return rows


def read_lines(contents: bytes) -> list[tuple[int, str, int]]:
    """Return address, file and line of every row, in order of address.

    Raises:
        ValueError: An opcode or a version that our linker does not write.
    """
    rows: list[tuple[int, str, int]] = []
    at = 0
    while at < len(contents):
        length, version, header, _, _, _, _, opcodes = _HEADER.unpack_from(contents, at)
        if version != 2:
            raise ValueError(f"line table: version {version}, not 2")
        data = _Bytes(contents, at + _HEADER.size + opcodes - 1)
        files = _files(data)
        data.at = at + 10 + header
        rows += _unit(data, at + 4 + length, files)
        at += 4 + length
    return sorted(rows)
