"""Tokens of records, reply subjects and answers."""

import re
from typing import Any

from emulator.effects import World, model
from firmware.layouts.fleet import (
    ACK_PREFIX,
)

NUMBER = re.compile(rb"(?:0|[1-9][0-9]{0,18})(?![0-9])")
_WORD = re.compile(rb"[!-~]+")


def number_of(token: bytes) -> int | None:
    """Return a whole token as a number; None when it is none."""
    return int(token) if NUMBER.fullmatch(token) else None


def small_of(token: bytes) -> int | None:
    """Return a whole token as a number of 32 bits."""
    value = number_of(token)
    return value if value is not None and value < 2**32 else None


def _first(text: bytes, separator: int) -> tuple[bytes, int] | None:
    """Return the first token and the place of what follows; None when the text ends in a separator."""
    token, found, rest = text.partition(bytes([separator]))
    if found and not rest:
        return None
    return token, len(token) + len(found)


@model
def digits_take(w: World, text: int, end: int) -> tuple[int, Any, Any]:
    """The longest run of digits has to be a number."""
    found = NUMBER.match(w.read(text, end - text))
    if found is None:
        return 1, None, None
    return 0, int(found[0]), text + len(found[0])


@model
def number_take(w: World, text: int, end: int, separator: int) -> tuple[int, Any, Any]:
    """A whole token."""
    raw = w.read(text, end - text)
    if digits_take(w, text, end)[0]:
        return 1, None, None
    found = _first(raw, separator)
    value = None if found is None else number_of(found[0])
    if found is None or value is None:
        return 1, None, None
    return 0, value, text + found[1]


@model
def word_take(w: World, text: int, end: int, separator: int) -> tuple[int, Any, Any, Any]:
    """A whole token of printable characters."""
    found = _first(w.read(text, end - text), separator)
    if found is None or not _WORD.fullmatch(found[0]):
        return 1, None, None, None
    return 0, text, len(found[0]), text + found[1]


@model
def text_differs(w: World, text: int, size: int, other: int, length: int) -> int:
    """Same length, same bytes."""
    return int(size != length or w.read(text, size) != w.read(other, length))


@model
def ack_take(w: World, reply: int, size: int) -> tuple[int, Any, Any, Any]:
    """Six tokens behind the prefix: consumer, times, stream, sequence, time, pending."""
    text, refused = w.read(reply, size), (1, None, None, None)
    if size < len(ACK_PREFIX):
        return refused
    if text_differs(w, reply, len(ACK_PREFIX), w.address("fleet_ack_prefix"), len(ACK_PREFIX)):
        return refused
    at, end, numbers = reply + len(ACK_PREFIX), reply + size, []
    bad, _, _, after = word_take(w, at, end, ord("."))
    for n in range(5):
        if bad:
            return refused
        bad, value, after = number_take(w, after, end, ord("."))
        numbers.append(value)
        if n in (1, 2) and value == 0:
            return refused
    if bad or text.count(b".", len(ACK_PREFIX)) != 5:
        return refused
    return 0, numbers[1], numbers[2], numbers[4]


@model
def key_find(w: World, text: int, end: int, key: int, length: int) -> tuple[int, Any]:
    """Where the key begins first."""
    at = w.read(text, end - text).find(w.read(key, length))
    return (1, None) if at < 0 else (0, text + at + length)


@model
def key_number(w: World, text: int, end: int, key: int, length: int) -> tuple[int, Any]:
    """Spaces may stand before the number."""
    missing, after = key_find(w, text, end, key, length)
    if missing:
        return 1, None
    raw = w.read(after, end - after)
    bad, value, _ = digits_take(w, after + len(raw) - len(raw.lstrip(b" ")), end)
    return bad, value
