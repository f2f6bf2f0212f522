"""Ed25519: the routine's steps, and beside them the multiples by the group law and RFC 8032 5.1.6."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from emulator.effects import ModelError, model
from emulator.models.crypto.field25519 import MODELS as FIELD
from emulator.models.crypto.field25519 import field25519_least
from emulator.models.crypto.formula import interpreter_model
from emulator.models.crypto.montgomery import MODELS as ORDER
from emulator.models.crypto.sha512 import sha512_finish, sha512_start, sha512_update
from emulator.models.crypto.variants import variant
from firmware.crypto.ed25519_formulas import (
    ED25519_ADD,
    ED25519_AFFINE,
    ED25519_ANSWER,
    ED25519_DOUBLE,
    ED25519_NONCE,
    ED25519_START,
)
from firmware.layouts.ed25519 import ED25519_BASE, ED25519_COMB, ED25519_WORK, Ed25519Key
from firmware.layouts.field import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_R = 2**256
_Affine = tuple[int, int]


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _added(p: _Affine, q: _Affine) -> _Affine:
    """The law of -x^2 + y^2 = 1 + dx^2y^2 (RFC 8032 5.1.4)."""
    m = _D * p[0] * q[0] * p[1] * q[1]
    return (
        (p[0] * q[1] + q[0] * p[1]) * pow(1 + m, -1, _P) % _P,
        (p[1] * q[1] + p[0] * q[0]) * pow(1 - m, -1, _P) % _P,
    )


def _multiple(k: int) -> _Affine:
    total, power = (0, 1), ED25519_BASE
    while k:
        if k & 1:
            total = _added(total, power)
        power = _added(power, power)
        k >>= 1
    return total


def _encoded(x: int, y: int) -> bytes:
    return (y | (x & 1) << 255).to_bytes(32, "little")


@model
def ed25519_encode(w: World, out: int) -> None:
    """RFC 8032 5.1.2."""
    work = w.g(ED25519_WORK)
    for name in "xy":
        field25519_least(w, work.offset_of(name))
    w.write(out, _encoded(_number(bytes(work.x)), _number(bytes(work.y))))


class _Work:
    """The work space, and programs on it."""

    def __init__(self, w: World, level: Level) -> None:
        self.w, self.work = w, w.g(ED25519_WORK)
        self.formula, self.scalars = _FORMULAS[level]

    def run(self, program: Any, *, scalars: bool = False) -> None:  # noqa: ANN401 - of the image
        """Run a program on elements or on scalars."""
        (self.scalars if scalars else self.formula)(self.w, self.w.address(program))

    def begin(self) -> None:
        """Constants."""
        for name, value in (("square", _R**2), ("cube", _R**3), ("one", 1)):
            getattr(self.work, name)[:] = (value % _L).to_bytes(32, "little")

    def hash(self, *parts: tuple[int, int]) -> None:
        """SHA-512 of parts in a row."""
        hash_, low = self.work.offset_of("hash"), self.work.offset_of("low")
        sha512_start(self.w, hash_)
        for at, size in parts:
            sha512_update(self.w, hash_, at, size)
        sha512_finish(self.w, hash_, low)

    def element(self, name: str) -> int:
        """Return the least residue."""
        return _number(bytes(getattr(self.work, name))) % _P


def _of(level: Level) -> tuple[Callable[..., None], Callable[..., None]]:
    def multiply(w: World) -> None:
        """A comb."""
        s = _Work(w, level)
        work, k = s.work, _number(bytes(s.work.by))
        table = w.address(ED25519_COMB)
        s.run(ED25519_START)
        for bit in reversed(range(51)):
            work.bit = bit
            s.run(ED25519_DOUBLE)
            row = table + 96 * sum((k >> bit + 51 * tooth & 1) << tooth for tooth in range(5))
            for n, name in enumerate(("plus", "minus", "twice")):
                getattr(work, name)[:] = w.read(row + 32 * n, 32)
            s.run(ED25519_ADD)
        work.bit = -1
        s.run(ED25519_AFFINE)
        if (s.element("x"), s.element("y")) != _multiple(k):
            raise ModelError("the comb gives another multiple than the law")

    multiplied = variant(f"ed25519_multiply_{level.value}", multiply)

    def key(w: World, out: int, seed: int) -> None:
        """RFC 8032 5.1.5."""
        s = _Work(w, level)
        work, made = s.work, w.view(Ed25519Key, out)
        work.key, work.message = out, seed
        s.begin()
        s.hash((seed, 32))
        digest = bytearray(bytes(work.low))
        digest[0] &= 248
        digest[31] = digest[31] & 127 | 64
        work.low[:8], work.low[24:] = bytes(digest[:8]), bytes(digest[24:])
        work.by[:] = bytes(digest)
        made.scalar[:], made.prefix[:] = bytes(digest), bytes(work.high)
        multiplied(w)
        ed25519_encode(w, made.offset_of("public"))
        work.wipe()

    def sign(w: World, out: int, key: int, message: int, length: int) -> None:
        """RFC 8032 5.1.6, which judges the result."""
        s = _Work(w, level)
        work, signer = s.work, w.view(Ed25519Key, key)
        work.out, work.key, work.message, work.length = out, key, message, length
        s.begin()
        s.hash((signer.offset_of("prefix"), 32), (message, length))
        s.run(ED25519_NONCE, scalars=True)
        multiplied(w)
        ed25519_encode(w, out)
        s.hash((out, 32), (signer.offset_of("public"), 32), (message, length))
        work.scalar[:] = bytes(signer.scalar)
        s.run(ED25519_ANSWER, scalars=True)
        w.write(out + 32, bytes(work.answer))
        work.wipe()
        if w.read(out, 64) != _signature(signer, w.read(message, length) if length else b""):
            raise ModelError("the steps give another signature than RFC 8032")

    return variant(f"ed25519_key_{level.value}", key), variant(f"ed25519_sign_{level.value}", sign)


def _signature(signer: Any, message: bytes) -> bytes:  # noqa: ANN401 - a view
    """RFC 8032 5.1.6, steps 2 to 6."""
    digest = hashlib.sha512(bytes(signer.prefix) + message).digest()
    nonce = _number(digest) % _L
    point = _encoded(*_multiple(nonce))
    hashed = _number(hashlib.sha512(point + bytes(signer.public) + message).digest())
    answer = (nonce + hashed * _number(bytes(signer.scalar))) % _L
    return point + answer.to_bytes(32, "little")


def _interpreters(level: Level) -> tuple[Callable[..., None], Callable[..., None]]:
    field, order = FIELD[level], ORDER["ed25519n"]
    return (
        interpreter_model(
            f"ed25519_formula_{level.value}",
            __name__,
            ED25519_WORK,
            {"*": field["mul"], "^": field["sqr"], "-": field["sub"], "+-": field["butterfly"]},
        ),
        interpreter_model(
            f"ed25519_scalars_{level.value}",
            __name__,
            ED25519_WORK,
            {"*": order[f"mul_{level.value}"], "+": order["add"]},
        ),
    )


_FORMULAS = {level: _interpreters(level) for level in Level}
ED25519_MODELS = {level: _of(level) for level in Level}
"""Key and signature, by level."""
