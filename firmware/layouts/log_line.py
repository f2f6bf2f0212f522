"""How a log line is declared, and the template that the node renders it from.

A line is `t=<ms since boot> level=<level> [shard=<id>] code=<name> key=value ...`. To declare one, write

    DHCP_BOUND = code("dhcp.bound", Level.INFO, address=IP, seconds=DEC)

in `firmware/layouts/log.py`; values travel in RDX, RCX, R8, R9 in the order of the keys. A value that
lies in the shard's context needs no register:

    attempt=of(ShardContext.attempts)

A line may end with `text="..."`, a sentence of literal parts and kinds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolchain.layout.fields import Field


class Level(enum.IntEnum):
    """How much a line matters; lines below `LogState.level` are not written."""

    TRACE = 0
    DEBUG = 1
    INFO = 2
    WARN = 3
    ERROR = 4


class Render(enum.IntEnum):
    """How a value becomes text."""

    DEC = 0
    HEX = 1
    IP = 2
    MS = 3
    NAMES = 4
    SHARD = 5
    WORD = 6
    KNOWN = 7
    FIXED = 8


@dataclass(frozen=True)
class Kind:
    """How a value becomes text, and where it comes from.

    Attributes:
        render: How.
        texts: Value to text, for NAMES.
        other: What stands before the number of a value that `texts` does not name; all of a FIXED.
        offset: Of the value in ShardContext; counts only with `size`.
        size: Bytes of that value; 0 = the value is in a register.
        word: For WORD: offset in ShardContext of the characters; the value is how many they are.
            For KNOWN: offset of the byte that says whether the value counts.
        room: For WORD: how many are printed at most. For KNOWN: bits of that byte; none set = none.
    """

    render: Render
    texts: tuple[tuple[int, str], ...] = ()
    other: str = ""
    offset: int = 0
    size: int = 0
    word: int = 0
    room: int = 0

    @property
    def given(self) -> bool:
        """Whether its value comes in a register."""
        return not self.size and self.render is not Render.FIXED

    @property
    def width(self) -> int:
        """The longest text that it can become."""
        if self.render is Render.FIXED:
            return len(self.other)
        number = len(str(256 ** (self.size or 8) - 1))
        if self.render is Render.NAMES:
            return max(len(self.other) + number, *(len(text) for _, text in self.texts))
        return {Render.HEX: 18, Render.IP: 15, Render.WORD: self.room}.get(self.render, number)


DEC = Kind(Render.DEC)
"""An unsigned number of 64 bits."""
HEX = Kind(Render.HEX)
"""An unsigned number as 0x and the digits that it needs."""
IP = Kind(Render.IP)
"""An IPv4 address as loaded from the wire."""
MS = Kind(Render.MS)
"""A duration in TSC cycles, written in milliseconds; 0 while the clock is not calibrated."""


def fixed(text: str) -> Kind:
    """Return the kind of a value that is the same in every line of a code."""
    return Kind(Render.FIXED, other=text)


def names(of_: type[enum.IntEnum]) -> Kind:
    """Return the kind of a member of `of_`, written as its name in small letters."""
    return Kind(Render.NAMES, tuple((member, member.name.lower()) for member in of_))


def texts(table: Mapping[int, str], other: str = "") -> Kind:
    """Return the kind of a value that is written as `table` says."""
    return Kind(Render.NAMES, tuple(sorted(table.items())), other)


def of(field: Field, kind: Kind = DEC, inside: Field | None = None) -> Kind:
    """Return `kind` for the value of a field of the line's shard.

    Args:
        field: Of ShardContext, or of the struct that lies in `inside`.
        kind: How it is written.
        inside: The field of ShardContext that holds the struct.
    """
    return replace(kind, offset=field.offset + (inside.offset if inside else 0), size=field.size)


def known(field: Field, flag: Field, bits: int, inside: Field | None = None) -> Kind:
    """Return the kind of a number that is written as `none` unless a flag says that it counts.

    Args:
        field: The number, as for `of`.
        flag: Its neighbour; the lowest byte decides.
        bits: Of that byte; one of them has to be set.
        inside: The field of ShardContext that holds the struct of both.
    """
    at = flag.offset + (inside.offset if inside else 0)
    return of(field, Kind(Render.KNOWN, word=at, room=bits), inside)


class LogCode(int):
    """A line: its number, name, level, fields, and the parts of its sentence."""

    name: str
    level: Level
    fields: tuple[tuple[str, Kind], ...]
    sentence: tuple[str | Kind, ...]

    @property
    def given(self) -> tuple[tuple[str, Kind], ...]:
        """The fields whose values come in registers."""
        return tuple((key, kind) for key, kind in self.fields if kind.given)

    @property
    def of_shard(self) -> bool:
        """Whether the line reads the shard's context."""
        kinds = (*(kind for _, kind in self.fields), *self.sentence)
        return any(isinstance(kind, Kind) and kind.size for kind in kinds)


DECLARED: list[LogCode] = []
"""Every line, in the order of the numbers; complete once `firmware/layouts/log.py` is imported."""
LINE_MAX = 880
"""Longest possible line in bytes; `code` refuses what could be longer."""


def code(
    name: str, level: Level, sentence: tuple[str | Kind, ...] = (), /, **fields: Kind
) -> LogCode:
    """Declare a line.

    Args:
        name: What happened, `layer.event`.
        level: How much it matters.
        sentence: Parts of a text for people: literal ones, and values of the shard.
        fields: Key and kind of each value; up to four of them in registers.

    Raises:
        ValueError: Too many fields, a used name, or a line that could exceed `LINE_MAX`.
    """
    made = LogCode(len(DECLARED))
    made.name, made.level, made.fields = name, level, tuple(fields.items())
    made.sentence = sentence
    if len(made.given) > 4:
        raise ValueError(
            f"log code {name} has {len(made.given)} fields; four registers carry values"
        )
    if any(c.name == name for c in DECLARED):
        raise ValueError(f"log code {name} is declared twice; use the first")
    longest = len(f't= level=error shard= code={name} text=""\n') + 20 + 10
    longest += sum(len(key) + 2 + kind.width for key, kind in fields.items())
    longest += sum(part.width if isinstance(part, Kind) else len(part) for part in sentence)
    if longest > LINE_MAX:
        raise ValueError(f"log code {name} can be {longest} bytes long; {LINE_MAX} fit")
    DECLARED.append(made)
    return made


IN_CONTEXT = 7
"""The index of an op whose value lies in the shard: a u16 with offset << 2 | log2(size) follows.

Behind it a WORD has a u16, the offset of its characters, and a u8, how many are printed at most; a
KNOWN has a u16, the offset of its flags, and a u8, the bits of which one has to be set.
"""
NAMES_END = 0xFFFF
"""Ends a table of names; the text of `Kind.other` follows."""


def op(kind: Kind, index: int) -> bytes:
    """Return the template bytes that render value `index`, or the shard's own, as `kind`."""
    if not kind.size:
        return bytes([0x80 | kind.render << 3 | index])
    place = kind.offset << 2 | kind.size.bit_length() - 1
    text = bytes([0x80 | kind.render << 3 | IN_CONTEXT]) + place.to_bytes(2, "little")
    if kind.render not in (Render.WORD, Render.KNOWN):
        return text
    return text + kind.word.to_bytes(2, "little") + bytes([kind.room])


def build_templates(codes: Sequence[LogCode]) -> bytes:
    """Return the template table of the firmware.

    u16 offsets (a prefix for each level, then the codes), then texts ending in 0 in which a byte
    above 0x7F is an `op`; a NAMES op is followed by the u16 offset of its names: u16 value, u8
    length, text; after NAMES_END the text that stands before a number. A code's text is preceded by
    its level.
    """
    blob = bytearray(2 * (len(Level) + len(codes)))
    at: dict[tuple[object, ...], int] = {}

    def rendered(kind: Kind, index: int) -> bytes:
        if kind.render is Render.FIXED:
            return kind.other.encode("ascii")
        text = op(kind, index)
        return text + at[kind.texts, kind.other].to_bytes(2, "little") if kind.texts else text

    for entry in codes:
        parts = [*(kind for _, kind in entry.fields), *entry.sentence]
        for kind in parts:
            if isinstance(kind, Kind) and kind.texts and (kind.texts, kind.other) not in at:
                at[kind.texts, kind.other] = len(blob)
                for value, text in (*kind.texts, (NAMES_END, kind.other)):
                    blob += value.to_bytes(2, "little") + bytes([len(text)]) + text.encode("ascii")
    offsets = []
    for level in Level:
        offsets.append(len(blob))
        blob += b"t=" + op(DEC, 0) + f" level={level.name.lower()}".encode()
        blob += op(Kind(Render.SHARD), 1) + b" code=\0"
    for entry in codes:
        offsets.append(len(blob))
        blob += bytes([entry.level]) + entry.name.encode()
        index = 2
        for key, kind in entry.fields:
            blob += f" {key}=".encode() + rendered(kind, index)
            index += kind.given
        if entry.sentence:
            blob += b' text="'
            for part in entry.sentence:
                blob += rendered(part, 0) if isinstance(part, Kind) else part.encode("ascii")
            blob += b'"'
        blob += b"\n\0"
    for n, offset in enumerate(offsets):
        blob[2 * n : 2 * n + 2] = offset.to_bytes(2, "little")
    return bytes(blob)
