"""HKDF by RFC 5869, and its labels by RFC 8446 7.1."""

from collections.abc import Callable
from dataclasses import dataclass

from emulator.effects import World, model
from emulator.models.crypto.hmac import (
    hmac_sha256_finish,
    hmac_sha256_start,
    hmac_sha384_finish,
    hmac_sha384_start,
)
from emulator.models.crypto.sha256 import sha256_update
from emulator.models.crypto.sha512 import sha512_update
from firmware.layouts.crypto import HKDF, HMAC


@dataclass(frozen=True)
class Mac:
    """HMAC with a hash, and HashLen."""

    start: Callable[[World, int, int], None]
    update: Callable[[World, int, int, int], None]
    finish: Callable[[World, int], None]
    size: int

    def append(self, w: World, message: int, length: int) -> None:
        """Append to the message."""
        self.update(w, w.g(HMAC).offset_of("hash"), message, length)


SHA256 = Mac(hmac_sha256_start, sha256_update, hmac_sha256_finish, 32)
SHA384 = Mac(hmac_sha384_start, sha512_update, hmac_sha384_finish, 48)


def _expand(w: World, mac: Mac, prk: int, info: tuple[int, int], out: tuple[int, int]) -> None:
    work, (at, left) = w.g(HKDF), out
    work.counter = 0
    while left:
        mac.start(w, prk, mac.size)
        if work.counter:
            mac.append(w, work.offset_of("block"), mac.size)
        mac.append(w, *info)
        work.counter += 1
        mac.append(w, work.offset_of("counter"), 1)
        mac.finish(w, work.offset_of("block"))
        taken = min(left, mac.size)
        w.write(at, work.block[:taken])
        at, left = at + taken, left - taken
    work.block[:] = bytes(64)


def _label(w: World, label: int, context: int, size: int, out_bytes: int) -> tuple[int, int]:
    """Lay an HkdfLabel down; return where it is and its bytes."""
    work = w.g(HKDF)
    parts = out_bytes.to_bytes(2, "big") + w.read(label, 1 + w.u8(label))
    parts += bytes([size]) + w.read(context, size)
    work.info[: len(parts)] = parts
    return work.offset_of("info"), len(parts)


@model
def hkdf_sha256_extract(
    w: World, salt: int, salt_bytes: int, ikm: int, ikm_bytes: int, prk: int
) -> None:
    """PRK = HMAC-Hash(salt, IKM)."""
    hmac_sha256_start(w, salt, salt_bytes)
    SHA256.append(w, ikm, ikm_bytes)
    hmac_sha256_finish(w, prk)


@model
def hkdf_sha256_expand(
    w: World, prk: int, info: int, info_bytes: int, out: int, out_bytes: int
) -> None:
    """T(1) | T(2) | ..., cut."""
    _expand(w, SHA256, prk, (info, info_bytes), (out, out_bytes))


@model
def hkdf_sha256_expand_label(
    w: World, secret: int, label: int, context: int, size: int, out: int, out_bytes: int
) -> None:
    """HKDF-Expand with an HkdfLabel."""
    info = _label(w, label, context, size, out_bytes)
    hkdf_sha256_expand(w, secret, *info, out, out_bytes)


@model
def hkdf_sha384_extract(
    w: World, salt: int, salt_bytes: int, ikm: int, ikm_bytes: int, prk: int
) -> None:
    """PRK = HMAC-Hash(salt, IKM)."""
    hmac_sha384_start(w, salt, salt_bytes)
    SHA384.append(w, ikm, ikm_bytes)
    hmac_sha384_finish(w, prk)


@model
def hkdf_sha384_expand(
    w: World, prk: int, info: int, info_bytes: int, out: int, out_bytes: int
) -> None:
    """T(1) | T(2) | ..., cut."""
    _expand(w, SHA384, prk, (info, info_bytes), (out, out_bytes))


@model
def hkdf_sha384_expand_label(
    w: World, secret: int, label: int, context: int, size: int, out: int, out_bytes: int
) -> None:
    """HKDF-Expand with an HkdfLabel."""
    info = _label(w, label, context, size, out_bytes)
    hkdf_sha384_expand(w, secret, *info, out, out_bytes)
