"""X25519 by the pseudocode of RFC 7748 5, in the steps of the routine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.models.crypto.field25519 import MODELS
from emulator.models.crypto.variants import variant
from firmware.layouts.field import Level
from firmware.layouts.x25519 import X25519, X25519_WORK

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World

_P = 2**255 - 19
_BITS = 255


class _Ladder:
    """The work space by field names, and the field's operations on it."""

    def __init__(self, w: World, level: Level) -> None:
        self.w, self.work, self.models = w, w.g(X25519_WORK), MODELS[level]

    def __call__(self, what: str, out: str, x: str, y: str | None = None) -> None:
        at = self.work.offset_of
        names = {"out": at(out), "x": at(x)} | ({} if y is None else {"y": at(y)})
        self.models[what](self.w, **names)

    def squares(self, out: str, x: str, count: int = 1) -> None:
        """Square and count what is left."""
        self("sqr", out, x)
        if count > 1:
            for left in range(count - 1, 0, -1):
                self.work.left = left
                self("sqr", out, out)
            self.work.left = 0

    def get(self, name: str) -> int:
        """Return an element."""
        return int.from_bytes(bytes(getattr(self.work, name)), "little")

    def put(self, name: str, value: int) -> None:
        """Set an element."""
        getattr(self.work, name)[:] = value.to_bytes(32, "little")

    def exchange(self, wanted: int) -> None:
        """Conditional swap of both points."""
        for one, other in (("x2", "x3"), ("z2", "z3")):
            a, b = self.get(one), self.get(other)
            self.put(one, b if wanted else a)
            self.put(other, a if wanted else b)

    def step(self) -> None:
        """One turn of the loop, with RFC 7748's names."""
        self("butterfly", "a", "x2", "z2")
        self("butterfly", "c", "x3", "z3")
        self("mul", "d", "d", "a")
        self("mul", "c", "c", "b")
        self("sqr", "aa", "a")
        self("sqr", "bb", "b")
        self("butterfly", "x3", "d", "c")
        self("sqr", "x3", "x3")
        self("sqr", "z3", "z3")
        self("mul", "z3", "z3", "x1")
        self("sub", "e", "aa", "bb")
        self("mul", "x2", "aa", "bb")
        self("a24", "t", "e", "aa")
        self("mul", "z2", "t", "e")

    def invert(self) -> None:
        """T := z2^(2^255 - 21); each name says which power of z2 it holds."""
        self.squares("a", "z2")  # 2
        self.squares("t", "a", 2)
        self("mul", "b", "t", "z2")  # 9
        self("mul", "c", "b", "a")  # 11
        self.squares("t", "c")
        self("mul", "d", "t", "b")  # 2^5 - 1
        for out, x, count, y in (
            ("e", "d", 5, "d"),
            ("aa", "e", 10, "e"),
            ("t", "aa", 20, "aa"),
            ("bb", "t", 10, "e"),
            ("x1", "bb", 50, "bb"),
            ("t", "x1", 100, "x1"),
            ("t", "t", 50, "bb"),
            ("t", "t", 5, "c"),
        ):
            self.squares("t", x, count)
            self("mul", out, "t", y)


def _of(level: Level) -> Callable[..., int]:
    def x25519(w: World, out: int, scalar: int, point: int) -> int:
        """Return 1 when the result is zero."""
        ladder = _Ladder(w, level)
        work = ladder.work
        work.out = out
        k = bytearray(w.read(scalar, 32))
        k[0] &= 248
        k[31] = k[31] & 127 | 64
        work.scalar[:] = bytes(k)
        u = int.from_bytes(w.read(point, 32), "little") % 2**255
        for name, value in (("x1", u), ("x2", 1), ("z2", 0), ("x3", u), ("z3", 1)):
            ladder.put(name, value)
        work.swapped = 0
        work.bit = _BITS - 1
        for t in reversed(range(_BITS)):
            bit = k[t // 8] >> t % 8 & 1
            swap = work.swapped ^ bit
            work.swapped = bit
            ladder.exchange(swap)
            ladder.step()
            work.bit = t - 1
        ladder.exchange(work.swapped)
        ladder.invert()
        ladder("mul", "t", "t", "x2")
        result = ladder.get("t") % _P
        w.write(out, result.to_bytes(32, "little"))
        w.store(work.address_, bytes(X25519.SIZE), "the work space is wiped")
        return int(result == 0)

    return variant(f"x25519_{level.value}", x25519)


MODELS_X25519 = {level: _of(level) for level in Level}
"""The models by level."""
