"""Inverses modulo a prime, in the steps of the routine; what comes out is checked by its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.effects import ModelError
from emulator.models.crypto.montgomery import MODELS
from emulator.models.crypto.variants import variant
from firmware.layouts.curves import CURVES, Modulus
from firmware.layouts.ecdsa import INVERSION, POWER_BYTES, Inversion
from firmware.layouts.field import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World


def _of(m: Modulus, level: Level) -> Callable[..., None]:
    size, bits = 8 * m.count, 64 * m.count
    mul, sqr = (MODELS[m.name][f"{what}_{level.value}"] for what in ("mul", "sqr"))

    def inverse(w: World, out: int, x: int) -> None:
        """X to the power of m - 2, its exponent four bits at a time."""
        work = w.g(INVERSION)
        value, powers = work.offset_of("value"), work.offset_of("powers")
        base = w.read(x, size)
        work.out = out
        w.write(powers + POWER_BYTES, base)
        w.write(value, base)
        for n in range(2, 16):
            mul(w, powers + POWER_BYTES * n, powers + POWER_BYTES * (n - 1), powers + POWER_BYTES)
        exponent = m.value - 2
        w.write(value, w.read(powers + POWER_BYTES * (exponent >> bits - 4), size))
        work.bit = bits - 8
        for bit in range(bits - 8, -1, -4):
            for _ in range(4):
                sqr(w, value, value)
            digit = exponent >> bit & 15
            if digit:
                mul(w, value, value, powers + POWER_BYTES * digit)
            work.bit = bit - 4
        result = w.read(value, size)
        numbers = [int.from_bytes(raw, "little") for raw in (base, result)]
        # Both are in Montgomery's form: their product is the radix squared, or both are zero.
        if numbers[0] * numbers[1] % m.value != (m.radix**2 % m.value if numbers[0] else 0):
            raise ModelError(f"the steps of {m.name}'s inverse do not invert {numbers[0]:#x}")
        w.write(out, result)
        w.store(work.address_, bytes(Inversion.SIZE), "the work space is wiped")

    return variant(f"{m.name}_inverse_{level.value}", inverse)


INVERSE_MODELS = {
    (m.name, level): _of(m, level) for c in CURVES for m in (c.field, c.order) for level in Level
}
"""The models by modulus and level."""
