"""HMAC by RFC 2104."""

from collections.abc import Callable
from dataclasses import dataclass

from emulator.effects import World, model
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.crypto.sha512 import sha384_finish, sha384_start, sha512_update
from firmware.layouts.crypto import HMAC


@dataclass(frozen=True)
class Hashed:
    """The hash below: its models, B and L of RFC 2104."""

    start: Callable[[World, int], None]
    update: Callable[[World, int, int, int], None]
    finish: Callable[[World, int, int], None]
    block: int
    size: int


SHA256 = Hashed(sha256_start, sha256_update, sha256_finish, 64, 32)
SHA384 = Hashed(sha384_start, sha512_update, sha384_finish, 128, 48)


def _pad(w: World, kind: Hashed, pattern: int) -> None:
    work = w.g(HMAC)
    work.pad[: kind.block] = bytes(byte ^ pattern for byte in work.pad[: kind.block])
    kind.start(w, work.offset_of("hash"))
    kind.update(w, work.offset_of("hash"), work.offset_of("pad"), kind.block)


def start(w: World, kind: Hashed, key: int, length: int) -> None:
    """H(K ^ ipad ...; a key longer than a block is hashed first."""
    work = w.g(HMAC)
    work.pad[: kind.block] = bytes(kind.block)
    if length > kind.block:
        kind.start(w, work.offset_of("hash"))
        kind.update(w, work.offset_of("hash"), key, length)
        kind.finish(w, work.offset_of("hash"), work.offset_of("pad"))
    else:
        work.pad[:length] = w.read(key, length)
    _pad(w, kind, 0x36)


def finish(w: World, kind: Hashed, tag: int) -> None:
    """H(K ^ opad, inner digest); nothing stays."""
    work = w.g(HMAC)
    kind.finish(w, work.offset_of("hash"), work.offset_of("inner"))
    _pad(w, kind, 0x36 ^ 0x5C)
    kind.update(w, work.offset_of("hash"), work.offset_of("inner"), kind.size)
    kind.finish(w, work.offset_of("hash"), tag)
    work.pad[:] = bytes(128)
    work.inner[:] = bytes(64)


@model
def hmac_sha256_start(w: World, key: int, length: int) -> None:
    """Begin."""
    start(w, SHA256, key, length)


@model
def hmac_sha256_finish(w: World, tag: int) -> None:
    """End."""
    finish(w, SHA256, tag)


@model
def hmac_sha384_start(w: World, key: int, length: int) -> None:
    """Begin."""
    start(w, SHA384, key, length)


@model
def hmac_sha384_finish(w: World, tag: int) -> None:
    """End."""
    finish(w, SHA384, tag)


@model
def hmac_sha256(w: World, key: int, message: int, length: int, tag: int) -> None:
    """The key has a whole block already."""
    hmac_sha256_start(w, key, 64)
    sha256_update(w, w.g(HMAC).offset_of("hash"), message, length)
    hmac_sha256_finish(w, tag)


@model
def tag_differs(w: World, left: int, right: int) -> int:
    """All 32 bytes count."""
    return int(w.read(left, 32) != w.read(right, 32))
