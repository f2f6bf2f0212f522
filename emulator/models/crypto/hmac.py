"""HMAC-SHA-256 by RFC 2104."""

from emulator.effects import World, model
from emulator.models.crypto.sha256 import sha256_compress, sha256_finish, sha256_start
from firmware.layouts.crypto import HMAC


@model
def hmac_sha256(w: World, key: int, message: int, length: int, tag: int) -> None:
    """H(K ^ opad, H(K ^ ipad, message)); the key has a whole block already."""
    work, secret = w.g(HMAC), w.read(key, 64)
    work.pad[:] = bytes(byte ^ 0x36 for byte in secret)
    sha256_start(w)
    sha256_compress(w, work.offset_of("pad"))
    sha256_finish(w, message, length, work.offset_of("inner"))
    work.pad[:] = bytes(byte ^ 0x5C for byte in secret)
    sha256_start(w)
    sha256_finish(w, work.offset_of("pad"), 64 + 32, tag)


@model
def tag_differs(w: World, left: int, right: int) -> int:
    """All 32 bytes count."""
    return int(w.read(left, 32) != w.read(right, 32))
