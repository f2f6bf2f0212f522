"""SHA-1 by the words of FIPS 180-4."""

import struct
from itertools import repeat

from emulator.effects import World, model
from firmware.layouts.crypto import SHA1

_START = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
_MASK = 0xFFFF_FFFF


def _rotl(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _round_function(t: int, x: int, y: int, z: int) -> tuple[int, int]:
    if t < 20:
        return (x & y) ^ (~x & z), 0x5A827999
    if 40 <= t < 60:
        return (x & y) ^ (x & z) ^ (y & z), 0x8F1BBCDC
    return x ^ y ^ z, 0x6ED9EBA1 if t < 40 else 0xCA62C1D6


def compressed(state: tuple[int, ...], block: bytes) -> tuple[int, ...]:
    """Return the state after one block (FIPS 180-4 6.1.2)."""
    w = list(struct.unpack(">16I", block)) + list(repeat(0, 64))
    for t in range(16, 80):
        w[t] = _rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1)
    a, b, c, d, e = state
    for t in range(80):
        f, k = _round_function(t, b, c, d)
        a, b, c, d, e = (_rotl(a, 5) + f + e + k + w[t]) & _MASK, a, _rotl(b, 30), c, d
    return tuple((s + v) & _MASK for s, v in zip(state, (a, b, c, d, e), strict=True))


@model
def sha1_compress(w: World, block: int) -> None:
    """Mix one block into the five words."""
    sha1 = w.g(SHA1)
    state = compressed(struct.unpack("<5I", bytes(sha1.state)), w.read(block, 64))
    sha1.state[:] = struct.pack("<5I", *state)


@model
def sha1_digest(w: World, message: int, length: int, digest: int) -> None:
    """Pad to one or two blocks, mix them, write the words big-endian."""
    sha1 = w.g(SHA1)
    sha1.state[:] = struct.pack("<5I", *_START)
    text = w.read(message, length)
    blocks = 1 if length < 56 else 2
    sha1.blocks[:] = bytes(128)
    sha1.blocks[:length] = text
    sha1.blocks[length] = 0x80
    end = 64 * blocks
    sha1.blocks[end - 2 : end] = (8 * length).to_bytes(2, "big")
    for n in range(blocks):
        sha1_compress(w, sha1.offset_of("blocks") + 64 * n)
    w.write(digest, struct.pack(">5I", *struct.unpack("<5I", bytes(sha1.state))))
