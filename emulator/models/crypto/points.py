"""Points in Jacobian coordinates: the routine's steps, and beside them the group law in affine ones.

The formulas are the routine's constants, so that each step is compared; whether they add points is
judged by the chord and the tangent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.effects import ModelError
from emulator.models.crypto.montgomery import MODELS
from emulator.models.crypto.variants import variant
from firmware.crypto.points import DIFFERENCES, DIFFERENCES_AFFINE, DOUBLE, SUM
from firmware.layouts.curves import CURVES, Curve
from firmware.layouts.ecdsa import CURVE_DATA, ECDSA, Ecdsa
from firmware.layouts.field import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World

Affine = tuple[int, int] | None


class Formulas:
    """Runs formulas of one curve on the work space.

    Args:
        w: The world.
        curve: Whose field.
        level: Whose leaves.
    """

    def __init__(self, w: World, curve: Curve, level: Level) -> None:
        self.w, self.curve, self.work = w, curve, w.g(ECDSA)
        models = MODELS[curve.field.name]
        self.binary = {
            "*": models[f"mul_{level.value}"],
            "+": models["add"],
            "-": models["sub"],
        }
        self.unary = {"^": models[f"sqr_{level.value}"], "/": models["half"]}
        self.size = 8 * curve.field.count

    def address(self, name: str) -> int:
        """Return where a name of a formula lies."""
        if hasattr(Ecdsa, name):
            return int(self.work.offset_of(name))
        return self.w.address(getattr(CURVE_DATA[self.curve.name], name))

    def run(self, formula: str) -> None:
        """Run each line."""
        for line in formula.strip().split("\n"):
            out, _, x, sign, y = line.split()
            if sign in self.unary:
                self.unary[sign](self.w, self.address(out), self.address(x))
            else:
                self.binary[sign](self.w, self.address(out), self.address(x), self.address(y))

    def get(self, name: str) -> int:
        """Return an element as it lies there."""
        return int.from_bytes(self.w.read(self.address(name), self.size), "little")

    def copy(self, out: str, x: str) -> None:
        """Copy an element."""
        self.w.write(self.address(out), self.w.read(self.address(x), self.size))

    def clear(self, out: str) -> None:
        """Set an element to zero."""
        self.w.write(self.address(out), bytes(self.size))

    def affine(self, n: int, *, unit: bool = False) -> Affine:
        """Return the first or second point in affine coordinates; None is infinity."""
        m = self.curve.field
        back = pow(m.radix, -1, m.value)
        x, y, z = (self.get(f"{name}{n}") * back % m.value for name in "xyz")
        if unit:
            z = 1
        if z == 0:
            return None
        inverse = pow(z, -1, m.value)
        return x * inverse**2 % m.value, y * inverse**3 % m.value

    def expect(self, wanted: Affine) -> None:
        """Raise unless the sum is this point."""
        if self.affine(1) != wanted:
            raise ModelError(f"the formulas of {self.curve.name} give another point than the law")


def _double(curve: Curve, level: Level) -> Callable[..., None]:
    def point_double(w: World) -> None:
        """Tangent."""
        f = Formulas(w, curve, level)
        point = f.affine(1)
        wanted = curve.added(point, point)
        f.run(DOUBLE)
        f.expect(wanted)

    return variant(f"{curve.name}_point_double_{level.value}", point_double)


def _add(
    curve: Curve, level: Level, double: Callable[..., None], *, affine: bool
) -> Callable[..., None]:
    def point_add(w: World) -> None:
        """Chord, or what stands for it."""
        f = Formulas(w, curve, level)
        first, second = f.affine(1), f.affine(2, unit=affine)
        wanted = curve.added(first, second)
        one = "one" if affine else "z2"
        if first is None or first == second:
            if first is not None:
                f.run(DIFFERENCES_AFFINE if affine else DIFFERENCES)
            f.copy("x1", "x2")
            f.copy("y1", "y2")
            f.copy("z1", one)
            if first is not None:
                double(w)
        else:
            f.run(DIFFERENCES_AFFINE if affine else DIFFERENCES)
            if wanted is None:
                f.clear("z1")
            else:
                u1, s1 = ("x1", "y1") if affine else ("t2", "t4")
                f.run(SUM.format(u1=u1, s1=s1))
        f.expect(wanted)

    return variant(f"{curve.name}_point_add{'_affine' if affine else ''}_{level.value}", point_add)


def _points(curve: Curve, level: Level) -> tuple[Callable[..., None], ...]:
    double = _double(curve, level)
    return (
        double,
        _add(curve, level, double, affine=False),
        _add(curve, level, double, affine=True),
    )


POINT_MODELS = {(c.name, level): _points(c, level) for c in CURVES for level in Level}
"""Double, add, add an affine point, by curve and level."""
