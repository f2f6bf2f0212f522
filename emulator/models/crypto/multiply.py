"""u1 * G + u2 * Q from the digits of both scalars, in the steps of the routine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.effects import ModelError, model
from emulator.models.crypto.points import POINT_MODELS, Affine, Formulas
from emulator.models.crypto.variants import variant
from firmware.layouts.curves import CURVES, Curve
from firmware.layouts.ecdsa import CURVE_DATA, DIGITS_MAX, WIDTH_KEY, Point
from firmware.layouts.field import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World


@model
def signed_digits(w: World, number: int, digits: int, width: int, bits: int) -> None:
    """The non-adjacent form of a width: least digits first, each of which makes the rest even."""
    value = rest = int.from_bytes(w.read(number, bits // 8 + 8), "little")
    found = [0] * DIGITS_MAX
    w.write(digits, bytes(DIGITS_MAX))
    for place in range(bits + 1):
        if rest >> place & 1:
            digit = rest >> place & (1 << width) - 1
            found[place] = digit - (1 << width) if digit >> width - 1 else digit
            w.write(digits + place, found[place].to_bytes(1, "little", signed=True))
            rest -= found[place] << place
    if sum(digit << place for place, digit in enumerate(found)) != value:
        raise ModelError(f"the digits of {value:#x} do not sum up to it")


class _Sum:
    """One call."""

    def __init__(self, w: World, curve: Curve, level: Level) -> None:
        self.w, self.curve, self.f = w, curve, Formulas(w, curve, level)
        self.double, self.add, self.add_affine = POINT_MODELS[curve.name, level]
        self.size = 8 * curve.field.count

    def multiples(self) -> None:
        """Odd multiples of the key."""
        w, f = self.w, self.f
        f.copy("x1", "x2")
        f.copy("y1", "y2")
        f.copy("z1", "one")
        self.keep(0)
        self.double(w)
        for name in "xyz":
            f.copy(f"{name}2", f"{name}1")
        table = f.address("multiples")
        for k, name in enumerate("xyz"):
            w.write(f.address(f"{name}1"), w.read(table + 48 * k, self.size))
        for n in range(1, 1 << (WIDTH_KEY - 2)):
            f.work.bit = n * Point.SIZE
            self.add(w)
            self.keep(n)
        f.work.bit = Point.SIZE << (WIDTH_KEY - 2)

    def keep(self, n: int) -> None:
        """Keep the sum as a multiple."""
        at = self.f.address("multiples") + n * Point.SIZE
        for k, name in enumerate("xyz"):
            self.w.write(at + 48 * k, self.w.read(self.f.address(f"{name}1"), self.size))

    def digit(self, name: str, bit: int) -> int:
        """Return a signed digit."""
        raw = self.w.u8(self.f.address(f"digits{name}") + bit)
        return raw - 256 if raw > 127 else raw

    def choose(self, digit: int, table: int, stride: int, apart: int, count: int) -> None:
        """Second point := a multiple from a table, turned over for a negative digit."""
        at = table + abs(digit) // 2 * stride
        for k, name in enumerate("xyz"[:count]):
            self.w.write(self.f.address(f"{name}2"), self.w.read(at + apart * k, self.size))
        if digit < 0:
            self.f.run("y2 = zero - y2")

    def sum(self) -> None:
        """u1 * G + u2 * Q, from the highest digit."""
        w, f = self.w, self.f
        for name in ("x1", "y1", "z1"):
            f.clear(name)
        base = w.address(CURVE_DATA[self.curve.name].multiples)
        places = range(8 * self.size, -1, -1)
        wanted = [n for n in places if self.digit("1", n) or self.digit("2", n)]
        if not wanted:
            return
        f.work.bit = wanted[0]
        for bit in range(wanted[0], -1, -1):
            self.double(w)
            digit = self.digit("2", bit)
            if digit:
                self.choose(digit, f.address("multiples"), Point.SIZE, 48, 3)
                self.add(w)
            digit = self.digit("1", bit)
            if digit:
                self.choose(digit, base, 2 * self.size, self.size, 2)
                self.add_affine(w)
            f.work.bit = bit - 1

    def wanted(self) -> Affine:
        """Return what the digits sum up to, by the group law."""
        c, total = self.curve, None
        key = self.f.affine(2, unit=True)
        for bit in range(8 * self.size, -1, -1):
            total = c.added(total, total)
            for name, (x, y) in (("1", c.base), ("2", key or (0, 0))):
                digit = self.digit(name, bit)
                for _ in range(abs(digit)):
                    total = c.added(total, (x, y if digit > 0 else -y % c.field.value))
        return total


def _of(curve: Curve, level: Level) -> Callable[..., None]:
    def point_sum(w: World) -> None:
        """Multiples of the key, then the sum."""
        steps = _Sum(w, curve, level)
        wanted = steps.wanted()
        steps.multiples()
        steps.sum()
        steps.f.expect(wanted)

    return variant(f"{curve.name}_point_sum_{level.value}", point_sum)


POINT_SUM_MODELS = {(c.name, level): _of(c, level) for c in CURVES for level in Level}
"""The models by curve and level."""
