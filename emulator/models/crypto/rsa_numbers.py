"""Numbers modulo an RSA modulus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.models.crypto.variants import variant
from firmware.layouts.field import Level
from firmware.layouts.rsa import RSA

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World


def _modulus(w: World) -> tuple[int, int]:
    """Return the modulus and the bytes of a number."""
    work = w.g(RSA)
    size = 8 * work.limbs
    return int.from_bytes(bytes(work.modulus)[:size], "little"), size


def _multiply(w: World, out: int, x: int, y: int) -> None:
    """X * y / radix, least residue."""
    n, size = _modulus(w)
    a, b = (int.from_bytes(w.read(at, size), "little") for at in (x, y))
    w.write(out, (a * b * pow(2, -8 * size, n) % n).to_bytes(size, "little"))


def _enter(w: World, out: int, x: int) -> None:
    """X * radix, least residue."""
    n, size = _modulus(w)
    value = int.from_bytes(w.read(x, size), "little") << 8 * size
    w.write(out, (value % n).to_bytes(size, "little"))


MULTIPLY_MODELS: dict[Level, Callable[..., None]] = {
    level: variant(f"rsa_multiply_{level.value}", _multiply) for level in Level
}
ENTER_MODELS: dict[Level, Callable[..., None]] = {
    level: variant(f"rsa_enter_{level.value}", _enter) for level in Level
}
"""The models by level."""
