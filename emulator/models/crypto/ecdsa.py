"""Verification of ECDSA signatures by FIPS 186-5 6.4.2, in the steps of the routine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.effects import ModelError
from emulator.models.crypto.inverse import INVERSE_MODELS
from emulator.models.crypto.montgomery import MODELS
from emulator.models.crypto.multiply import POINT_SUM_MODELS, signed_digits
from emulator.models.crypto.points import Formulas
from emulator.models.crypto.variants import variant
from firmware.crypto.ecdsa import CANDIDATE, ON_CURVE
from firmware.layouts.curves import CURVES, Curve
from firmware.layouts.ecdsa import CURVE_DATA, WIDTH_BASE, WIDTH_KEY
from firmware.layouts.field import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World


class _Verification:
    """One call; each method is a step, and returns False to refuse."""

    def __init__(self, w: World, curve: Curve, level: Level) -> None:
        self.w, self.curve, self.f = w, curve, Formulas(w, curve, level)
        self.mul_order = MODELS[curve.order.name][f"mul_{level.value}"]
        self.inverse = INVERSE_MODELS[curve.order.name, level]
        self.size = 8 * curve.field.count

    def put(self, name: str, raw: bytes) -> None:
        """Set a number given big-endian."""
        self.w.write(self.f.address(name), raw[::-1])

    def take(self, key: int, signature: int, hash_: int, length: int) -> None:
        """Read the inputs."""
        w, size = self.w, self.size
        self.put("x2", w.read(key, size))
        self.put("y2", w.read(key + size, size))
        self.put("r", w.read(signature, size))
        self.put("s", w.read(signature + size, size))
        leftmost = w.read(hash_, min(length, size)).rjust(size, b"\0")
        self.f.clear("hash")
        w.write(self.f.address("hash"), leftmost)
        self.put("e", leftmost)

    def in_range(self) -> bool:
        """0 < r, s < n; the key's coordinates are least residues on the curve."""
        n, p = self.curve.order.value, self.curve.field.value
        if not all(0 < self.f.get(name) < n for name in ("r", "s")):
            return False
        x, y = (self.f.get(name) for name in ("x2", "y2"))
        if x >= p or y >= p:
            return False
        self.f.run(ON_CURVE)
        return (y * y - x**3 + 3 * x - self.curve.b) % p == 0

    def scalars(self) -> None:
        """u1 = e / s, u2 = r / s, and their digits."""
        w, f, n = self.w, self.f, self.curve.order.value
        e, r, s = (f.get(name) for name in "ers")
        at = f.address
        self.mul_order(w, at("s"), at("s"), w.address(CURVE_DATA[self.curve.name].square_order))
        self.inverse(w, at("s"), at("s"))
        for name, source, width in (("1", "e", WIDTH_BASE), ("2", "r", WIDTH_KEY)):
            self.mul_order(w, at(f"u{name}"), at(source), at("s"))
            w.write(at(f"u{name}") + self.size, bytes(8))
            signed_digits(w, at(f"u{name}"), at(f"digits{name}"), width, 8 * self.size)
        if (f.get("u1") * s - e) % n or (f.get("u2") * s - r) % n:
            raise ModelError("the scalars are not e / s and r / s")

    def accepted(self) -> bool:
        """Tell whether x = r modulo n, where x is below p."""
        f, n, p = self.f, self.curve.order.value, self.curve.field.value
        point = f.affine(1)
        if point is None:
            return False
        f.run("t0 = z1 ^ 2")
        f.run(CANDIDATE)
        r = f.get("r")
        if point[0] == r:
            return True
        if r + n >= 1 << 8 * self.size:
            return False
        self.w.write(f.address("r"), (r + n).to_bytes(self.size, "little"))
        if r + n >= p:
            return False
        f.run(CANDIDATE)
        return point[0] == r + n


def _of(curve: Curve, level: Level) -> Callable[..., int]:
    def scalars(w: World) -> None:
        """The digits of both scalars."""
        _Verification(w, curve, level).scalars()

    def judge(w: World) -> int:
        """Return 1 for refused."""
        return int(not _Verification(w, curve, level).accepted())

    modelled = [
        variant(f"ecdsa_{curve.name}_{step.__name__}_{level.value}", step)
        for step in (scalars, judge)
    ]

    def verify(w: World, key: int, signature: int, hash_: int, length: int) -> int:
        """Return 1 for refused."""
        v = _Verification(w, curve, level)
        v.take(key, signature, hash_, length)
        if not v.in_range():
            return 1
        modelled[0](w)
        POINT_SUM_MODELS[curve.name, level](w)
        verdict: int = modelled[1](w)
        return verdict

    return variant(f"ecdsa_{curve.name}_verify_{level.value}", verify)


ECDSA_MODELS = {(c.name, level): _of(c, level) for c in CURVES for level in Level}
"""The models by curve and level."""
