"""INFO: one object of JSON, of which a few members count."""

import re

from emulator.effects import World, model
from emulator.models.text import take_decimal, take_token
from firmware.layouts.bus import NONCE_MAX, BusLink

FLAGS = {
    b"ldm": "lame_duck",
    b"tls_required": "tls_required",
    b"tls_available": "tls_available",
    b"headers": "headers",
}
_PART = re.compile(rb'"(?:[^"\\]|\\.)*"|.', re.DOTALL)
_OPEN, _CLOSE = b"{[", b"}]"


@model
def bus_version(w: World, text: int, length: int) -> int:
    """Three numbers, each taken for 255 at most."""
    raw = w.read(text, length) if length else b""
    found = re.match(rb"([0-9]+)\.([0-9]+)\.([0-9]+)", raw)
    if found is None:
        return 0
    major, minor, patch = (min(int(part), 255) for part in found.groups())
    return major << 16 | minor << 8 | patch


@model
def bus_info_value(
    w: World, link: int, name: int, name_length: int, value: int, length: int
) -> int:
    """By name: a flag, a version, a number, the name of a cluster, a nonce."""
    bus = w.view(BusLink, link)
    key, raw = w.read(name, name_length) if name_length else b"", w.read(value, length)
    quoted = raw.startswith(b'"')
    if key in FLAGS:
        setattr(bus, FLAGS[key], int(raw.startswith(b"true")))
    elif key == b"cluster":
        bus.clustered = int(quoted and raw != b'""')
    elif key == b"version":
        bus.version = bus_version(w, value + 1, length - 1) if quoted else 0
    elif key == b"max_payload":
        token, size = take_token(w, value, value + length)
        wrong, number = take_decimal(w, token, size)
        if wrong:
            return 1
        bus.max_payload = min(number, 0xFFFF_FFFF)
    elif key == b"nonce":
        if not quoted or length - 2 > NONCE_MAX:
            return 1
        bus.nonce_len = length - 2
        bus.nonce[0 : length - 2] = raw[1:-1]
    return 0


class _Parts:
    """Strings and single bytes of a text, with their places."""

    def __init__(self, text: bytes, first: int) -> None:
        self._parts = [(m.start() + first, m[0]) for m in _PART.finditer(text)]
        self.end = first + len(text)

    def next(self, *, blanks: bool = False) -> tuple[int, bytes]:
        """Take the next part, the next that is no blank unless told otherwise; b"" at the end."""
        while self._parts:
            at, part = self._parts.pop(0)
            if blanks or part not in b" \t":
                return at, part
        return self.end, b""

    def back(self, at: int, part: bytes) -> None:
        """Let a part come again."""
        self._parts.insert(0, (at, part))

    def value(self) -> tuple[int, int] | None:
        """Take a value; return where it is and its bytes, nothing when it does not end."""
        first, part = self.next()
        if len(part) > 1:
            return first, len(part)
        at, depth = first, 0
        while True:
            if part in (b"", b'"'):
                return None
            if (depth == 0 and part == b",") or (depth == 0 and part in _CLOSE):
                self.back(at, part)
                return first, at - first
            depth += (part in _OPEN) - (part in _CLOSE)
            at, part = self.next(blanks=True)


def _members(w: World, link: int, parts: _Parts) -> bool:
    """Take every member; tell whether all was right."""
    at, part = parts.next()
    if part == b"}":
        return True
    while True:
        if len(part) < 2 or parts.next()[1] != b":":
            return False
        value = parts.value()
        if value is None or value[1] == 0:
            return False
        if bus_info_value(w, link, at + 1, len(part) - 2, *value):
            return False
        end = parts.next()[1]
        if end == b"}":
            return True
        if end != b",":
            return False
        at, part = parts.next()


@model
def bus_info(w: World, link: int, text: int, length: int) -> int:
    """Nothing is so unless it is said."""
    bus = w.view(BusLink, link)
    bus.version = bus.max_payload = bus.nonce_len = bus.clustered = 0
    for field in FLAGS.values():
        setattr(bus, field, 0)
    parts = _Parts(w.read(text, length) if length else b"", text)
    return int(parts.next()[1] != b"{" or not _members(w, link, parts))
