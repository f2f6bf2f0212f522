"""Montgomery arithmetic by its definition, on least residues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.models.crypto.variants import variant
from firmware.layouts.curves import MODULI, Modulus
from firmware.layouts.field import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World


def _models(m: Modulus) -> dict[str, Callable[..., object]]:
    p, size = m.value, 8 * m.count
    inverse = pow(2, -8 * size, p)

    def get(w: World, address: int) -> int:
        return int.from_bytes(w.read(address, size), "little")

    def put(w: World, address: int, value: int) -> None:
        w.write(address, (value % p).to_bytes(size, "little"))

    def mul(w: World, out: int, x: int, y: int) -> None:
        """Product over the radix."""
        put(w, out, get(w, x) * get(w, y) * inverse)

    def sqr(w: World, out: int, x: int) -> None:
        """Square over the radix."""
        put(w, out, get(w, x) ** 2 * inverse)

    def add(w: World, out: int, x: int, y: int) -> None:
        """Sum."""
        put(w, out, get(w, x) + get(w, y))

    def sub(w: World, out: int, x: int, y: int) -> None:
        """Difference."""
        put(w, out, get(w, x) - get(w, y))

    def half(w: World, out: int, x: int) -> None:
        """Half."""
        put(w, out, get(w, x) * pow(2, -1, p))

    found: dict[str, Callable[..., object]] = {}
    for function in (mul, sqr):
        for level in Level:
            name = f"{m.name}_{function.__name__}_{level.value}"
            found[f"{function.__name__}_{level.value}"] = variant(name, function)
    for function in (add, sub, half):
        found[function.__name__] = variant(f"{m.name}_{function.__name__}", function)
    return found


MODELS = {m.name: _models(m) for m in MODULI}
"""The models by modulus, and by operation with its level."""
