"""Changes of an input: bits, bytes, lengths, pieces cut, doubled and put together with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

EDGES = (0, 1, 2, 3, 0x7F, 0x80, 0x81, 0x82, 0x83, 0xFE, 0xFF)
"""Bytes that lengths, tags and counts turn at."""
ROUNDS_MAX = 6


def _place(source: random.Random, data: bytearray) -> int:
    return source.randrange(len(data))


def _flip(source: random.Random, data: bytearray) -> None:
    data[_place(source, data)] ^= 1 << source.randrange(8)


def _set(source: random.Random, data: bytearray) -> None:
    data[_place(source, data)] = source.choice(EDGES)


def _add(source: random.Random, data: bytearray) -> None:
    """Move a number of one, two or three bytes by a little: most of them are lengths."""
    width, at = source.randint(1, 3), _place(source, data)
    old = int.from_bytes(data[at : at + width], "big")
    size = len(data[at : at + width])
    new = (old + source.choice((-4, -2, -1, 1, 2, 4, 16, 64))) % (1 << 8 * size)
    data[at : at + size] = new.to_bytes(size, "big")


def _random(source: random.Random, data: bytearray) -> None:
    data[_place(source, data)] = source.randrange(256)


def _piece(source: random.Random, data: bytearray) -> tuple[int, int]:
    at = _place(source, data)
    return at, min(len(data), at + source.choice((1, 2, 3, 4, 8, 16, 64)))


def _cut(source: random.Random, data: bytearray) -> None:
    start, end = _piece(source, data)
    del data[start:end]


def _double(source: random.Random, data: bytearray) -> None:
    start, end = _piece(source, data)
    data[start:start] = data[start:end]


def _move(source: random.Random, data: bytearray) -> None:
    start, end = _piece(source, data)
    piece = data[start:end]
    at = _place(source, data)
    data[at : at + len(piece)] = piece


def _shorten(source: random.Random, data: bytearray) -> None:
    del data[_place(source, data) :]


def _lengthen(source: random.Random, data: bytearray) -> None:
    data += source.randbytes(source.choice((1, 2, 4, 16)))


def _element(source: random.Random, data: bytearray) -> None:
    """Cut or put in a piece right behind a byte that says its length, and correct that byte."""
    at = _place(source, data)
    size = data[at]
    if at + 1 + size > len(data) or size > 0x7E:
        return
    if size and source.randrange(2):
        del data[at + size]
        data[at] -= 1
    else:
        data.insert(at + 1 + size, source.choice(EDGES))
        data[at] += 1


CHANGES = (
    *(_flip, _set, _add, _random, _cut, _double, _move, _shorten, _lengthen, _element),
)  # fmt: skip


def mutate(source: random.Random, seed: bytes, others: Sequence[bytes], longest: int) -> bytes:
    """Return a changed input.

    Args:
        source: Of randomness.
        seed: What is changed.
        others: Inputs whose ends may be put behind a beginning of this one.
        longest: Bytes that an input may have.
    """
    data = bytearray(seed)
    if others and not source.randrange(8):
        other = source.choice(others)
        data = data[: source.randint(0, len(data))] + other[source.randint(0, len(other)) :]
    for _ in range(source.randint(1, ROUNDS_MAX)):
        if not data:
            data += source.randbytes(1)
        source.choice(CHANGES)(source, data)
    return bytes(data[:longest])
