"""RSA's public operation by RFC 8017 5.2.2, in the steps of the routine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.effects import ModelError
from emulator.models.crypto.rsa_numbers import ENTER_MODELS, MULTIPLY_MODELS
from emulator.models.crypto.variants import variant
from firmware.layouts.field import Level
from firmware.layouts.rsa import RSA, RsaKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World


def _of(level: Level) -> Callable[..., int]:
    multiply = MULTIPLY_MODELS[level]

    def recover(w: World, key: int, signature: int, size: int) -> int:
        """Return 1 for refused; else s^e mod n is the message."""
        work, given = w.g(RSA), w.view(RsaKey, key)
        at = work.offset_of
        k = given.size
        if k != size or not 256 <= k <= 512:
            return 1
        work.size = k
        work.limbs = limbs = (k + 63) // 64 * 8
        e = given.exponent
        if e < 3 or e % 2 == 0:
            return 1
        work.exponent = e
        raw = w.read(given.modulus, k)
        if raw[0] < 128 or raw[-1] % 2 == 0:
            return 1
        n = int.from_bytes(raw, "big")
        s = int.from_bytes(w.read(signature, k), "big")
        for name, value in (("modulus", n), ("signature", s)):
            w.write(at(name), bytes(512))
            w.write(at(name), value.to_bytes(k, "little"))
        if s >= n:
            return 1
        work.inverse = -pow(n, -1, 2**64)
        ENTER_MODELS[level](w, at("base"), at("signature"))
        w.write(at("power"), w.read(at("base"), 8 * limbs))
        work.left = e.bit_length() - 2
        for left in range(e.bit_length() - 2, 0, -1):
            multiply(w, at("power"), at("power"), at("power"))
            if e >> left & 1:
                multiply(w, at("power"), at("power"), at("base"))
            work.left = left - 1
        multiply(w, at("power"), at("power"), at("power"))
        multiply(w, at("power"), at("power"), at("signature"))
        message = w.read(at("power"), k)[::-1]
        if int.from_bytes(message, "big") != pow(s, e, n):
            raise ModelError("the steps do not raise the signature to the exponent")
        w.write(at("em"), message)
        return 0

    return variant(f"rsa_recover_{level.value}", recover)


RECOVER_MODELS = {level: _of(level) for level in Level}
"""The models by level."""
