"""Arithmetic modulo 2^255 - 19 on residues below 2^256, as far as each routine reduces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.effects import model
from emulator.models.crypto.variants import variant
from firmware.layouts.field import Level

if TYPE_CHECKING:
    from emulator.effects import World

_ALL = 2**256 - 1
_A24 = 121665


def _folded(value: int) -> int:
    """2^256 is 38: three rounds bring any product back below 2^256."""
    for _ in range(3):
        value = (value & _ALL) + 38 * (value >> 256)
    return value


@model
def field25519_least(w: World, x: int) -> None:
    """The residue below p."""
    _put(w, x, _get(w, x) % (2**255 - 19))


def _get(w: World, address: int) -> int:
    return int.from_bytes(w.read(address, 32), "little")


def _put(w: World, address: int, value: int) -> None:
    w.write(address, value.to_bytes(32, "little"))


def _less(x: int, y: int) -> int:
    """A borrow takes 38 away, and so does a second one."""
    value = x - y
    for _ in range(2):
        value = value if value >= 0 else value + 2**256 - 38
    return value


def _mul(w: World, out: int, x: int, y: int) -> None:
    _put(w, out, _folded(_get(w, x) * _get(w, y)))


def _sqr(w: World, out: int, x: int) -> None:
    _put(w, out, _folded(_get(w, x) ** 2))


def _butterfly(w: World, out: int, x: int, y: int) -> None:
    a, b = _get(w, x), _get(w, y)
    _put(w, out, _folded(a + b))
    _put(w, out + 32, _less(a, b))


def _sub(w: World, out: int, x: int, y: int) -> None:
    _put(w, out, _less(_get(w, x), _get(w, y)))


def _a24(w: World, out: int, x: int, y: int) -> None:
    _put(w, out, _folded(_A24 * _get(w, x) + _get(w, y)))


MODELS = {
    level: {
        what: variant(f"field25519_{what}_{level.value}", function)
        for what, function in (
            ("mul", _mul),
            ("sqr", _sqr),
            ("butterfly", _butterfly),
            ("sub", _sub),
            ("a24", _a24),
        )
    }
    for level in Level
}
"""The models by level and operation."""
