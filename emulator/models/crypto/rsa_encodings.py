"""Encoded messages by RFC 8017: 9.2 compared as a whole, 9.1.2 step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.crypto.sha512 import (
    sha384_finish,
    sha384_start,
    sha512_finish,
    sha512_start,
    sha512_update,
)
from emulator.models.crypto.variants import variant
from firmware.layouts.rsa import PSS_ZEROS, RSA, RSA_HASHES, RsaHash

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World

_FUNCTIONS: dict[str, tuple[Callable[..., None], ...]] = {
    "sha256": (sha256_start, sha256_update, sha256_finish),
    "sha384": (sha384_start, sha512_update, sha384_finish),
    "sha512": (sha512_start, sha512_update, sha512_finish),
}


def _pkcs1(h: RsaHash) -> Callable[..., int]:
    def pkcs1(w: World, digest: int) -> int:
        """Return 1 unless the message is the only one that there may be."""
        work = w.g(RSA)
        tail = h.prefix + w.read(digest, h.size)
        wanted = b"\0\1" + b"\xff" * (work.size - 3 - len(tail)) + b"\0" + tail
        w.write(work.offset_of("expected"), wanted)
        return int(w.read(work.offset_of("em"), work.size) != wanted)

    return variant(f"rsa_pkcs1_{h.name}", pkcs1)


def _pss(h: RsaHash) -> Callable[..., int]:
    start, update, finish = _FUNCTIONS[h.name]

    def hashed(w: World, *parts: tuple[int, int]) -> bytes:
        work = w.g(RSA)
        context = work.offset_of("hash")
        start(w, context)
        for at, count in parts:
            update(w, context, at, count)
        finish(w, context, work.offset_of("digest"))
        return bytes(work.digest)[: h.size]

    def pss(w: World, digest: int) -> int:
        """The steps 4 to 14."""
        work = w.g(RSA)
        em, size, counter = work.offset_of("em"), work.size, work.offset_of("counter")
        message = w.read(em, size)
        if message[-1] != 0xBC or message[0] & 0x80:
            return 1
        length = size - h.size - 1
        work.counter = 0
        mask = b""
        db = b""
        for block in range(-(-length // h.size)):
            mask = hashed(w, (em + length, h.size), (counter, 4))
            work.counter = (block + 1) << 24
            part = message[len(db) : min(length, len(db) + h.size)]
            w.write(em + len(db), bytes(a ^ b for a, b in zip(part, mask, strict=False)))
            db += bytes(a ^ b for a, b in zip(part, mask, strict=False))
        db = bytes([db[0] & 0x7F]) + db[1:]
        w.write(em, db[:1])
        if db[: length - h.size] != bytes(length - h.size - 1) + b"\1":
            return 1
        salt = em + length - h.size
        zeros = w.address(PSS_ZEROS)
        found = hashed(w, (zeros, 8), (digest, h.size), (salt, h.size))
        return int(found != w.read(em + length, h.size))

    return variant(f"rsa_pss_{h.name}", pss)


PKCS1_MODELS = {h.name: _pkcs1(h) for h in RSA_HASHES}
"""The models of PKCS #1 v1.5 by hash."""
PSS_MODELS = {h.name: _pss(h) for h in RSA_HASHES}
"""The models of PSS by hash."""
