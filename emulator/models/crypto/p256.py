"""Key agreement over P-256: the routine's steps, and beside them the multiple by chord and tangent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.effects import ModelError, model
from emulator.models.crypto.drbg import drbg_bytes
from emulator.models.crypto.formula import interpreter_model
from emulator.models.crypto.montgomery import MODELS
from emulator.models.crypto.variants import variant
from firmware.crypto.p256_formulas import (
    P256_ADD,
    P256_AFFINE,
    P256_DOUBLE,
    P256_START,
    P256_TAKE,
)
from firmware.layouts.curves import P256
from firmware.layouts.field import Level
from firmware.layouts.p256 import P256_WORK

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World

_P, _N = P256.field.value, P256.order.value
_R = 2**256


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


@model
def p256_scalar_refused(w: World, number: int) -> int:
    """0 < k < n."""
    return int(not 0 < _number(w.read(number, 32)) < _N)


@model
def p256_draw(w: World, out: int) -> None:
    """Candidates until one fits."""
    drbg_bytes(w, out, 32)
    while p256_scalar_refused(w, out):
        drbg_bytes(w, out, 32)


@model
def p256_turned(w: World, out: int, source: int, count: int) -> None:
    """The last byte first."""
    w.write(out, w.read(source, 8 * count)[::-1])


@model
def p256_share_refused(w: World) -> int:
    """First byte, coordinates, equation."""
    work = w.g(P256_WORK)
    x, y = _number(bytes(work.x)), _number(bytes(work.y))
    on_curve = bytes(work.left) == bytes(work.t2)
    if (x < _P, y < _P) != (bytes(work.t1) == bytes(work.x), bytes(work.t0) == bytes(work.y)):
        raise ModelError("the coordinates were not reduced as the judgement needs it")
    if on_curve != ((y * y - x**3 + 3 * x - P256.b) % _P == 0):
        raise ModelError("the formulas say something else than the equation of the curve")
    return int(bool(work.wrong) or x >= _P or y >= _P or not on_curve)


class _Work:
    """The work space, and programs on it."""

    def __init__(self, w: World, level: Level) -> None:
        self.w, self.work, self.formula = w, w.g(P256_WORK), _FORMULAS[level]

    def run(self, program: Any) -> None:  # noqa: ANN401 - data of the image
        """Run a program."""
        self.formula(self.w, self.w.address(program))

    def begin(self, out: int, scalar: int) -> None:
        """Scalar and constants."""
        work = self.work
        work.out = out
        work.scalar[:] = self.w.read(scalar, 32)
        for name, value in (("square", _R * _R), ("one", _R), ("b", P256.b * _R), ("unit", 1)):
            getattr(work, name)[:] = (value % _P).to_bytes(32, "little")

    def wipe(self) -> None:
        """Forget everything."""
        self.work.wipe()


def _multiple(x: int, y: int, k: int) -> tuple[int, int] | None:
    total, power = None, (x, y)
    while k:
        if k & 1:
            total = P256.added(total, power)
        power = P256.added(power, power)  # type: ignore[assignment]  # the order is odd
        k >>= 1
    return total


def _of(level: Level) -> tuple[Callable[..., int], Callable[..., None]]:
    def multiply(w: World) -> None:
        """The multiple of a point."""
        s = _Work(w, level)
        work, k = s.work, _number(bytes(s.work.scalar))
        back = pow(_R, -1, _P)
        given = (_number(bytes(work.x2)) * back % _P, _number(bytes(work.y2)) * back % _P)
        s.run(P256_START)
        for n in range(16):
            work.bit = 96 * n
            row = work.multiples[n]
            for name in "xyz":
                getattr(row, name)[:] = bytes(getattr(work, f"{name}1"))
            s.run(P256_ADD)
        work.bit = 96 * 16
        s.run(P256_START)
        for bit in reversed(range(256)):
            work.bit = bit
            s.run(P256_DOUBLE)
            if bit % 4 == 0:
                row = work.multiples[k >> bit & 15]
                for name in "xyz":
                    getattr(work, f"{name}2")[:] = bytes(getattr(row, name))
                s.run(P256_ADD)
        work.bit = -1
        s.run(P256_AFFINE)
        wanted = _multiple(*given, k)
        if wanted != (_number(bytes(work.x)), _number(bytes(work.y))):
            raise ModelError("the formulas give another multiple than chord and tangent")

    multiplied = variant(f"p256_multiply_{level.value}", multiply)

    def public(w: World, out: int, scalar: int) -> None:
        """The multiple of the base point, uncompressed."""
        s = _Work(w, level)
        s.begin(out, scalar)
        for name, value in zip(("x2", "y2"), P256.base, strict=True):
            getattr(s.work, name)[:] = (value * _R % _P).to_bytes(32, "little")
        multiplied(w)
        w.write(out, b"\x04")
        p256_turned(w, out + 1, s.work.offset_of("y"), 8)
        s.wipe()

    def agree(w: World, out: int, scalar: int, share: int) -> int:
        """X of k * Q, or a refusal."""
        s = _Work(w, level)
        s.work.wrong = w.u8(share) ^ 4
        s.begin(out, scalar)
        p256_turned(w, s.work.offset_of("y"), share + 1, 8)
        s.run(P256_TAKE)
        refused = int(p256_share_refused(w))
        if not refused:
            multiplied(w)
            p256_turned(w, out, s.work.offset_of("x"), 4)
        s.wipe()
        return refused

    return variant(f"p256_agree_{level.value}", agree), variant(
        f"p256_public_{level.value}", public
    )


def _formula(level: Level) -> Callable[..., None]:
    leaves = MODELS[P256.field.name]
    return interpreter_model(
        f"p256_formula_{level.value}",
        __name__,
        P256_WORK,
        {
            "*": leaves[f"mul_{level.value}"],
            "^": leaves[f"sqr_{level.value}"],
            "+": leaves["add"],
            "-": leaves["sub"],
        },
    )


_FORMULAS = {level: _formula(level) for level in Level}
P256_MODELS = {level: _of(level) for level in Level}
"""Agreement and public key, by level."""
