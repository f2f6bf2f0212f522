"""SHA-256 by the words of FIPS 180-4."""

import struct

from emulator.effects import World, model
from firmware.layouts.crypto import SHA256, SHA256_INITIAL, SHA256_K

_MASK = 0xFFFF_FFFF


def _rotr(value: int, bits: int) -> int:
    return (value >> bits | value << (32 - bits)) & _MASK


def compressed(state: tuple[int, ...], block: bytes) -> tuple[int, ...]:
    """Return the state after one block (FIPS 180-4 6.2.2)."""
    w = list(struct.unpack(">16I", block))
    for t in range(16, 64):
        s0 = _rotr(w[t - 15], 7) ^ _rotr(w[t - 15], 18) ^ w[t - 15] >> 3
        s1 = _rotr(w[t - 2], 17) ^ _rotr(w[t - 2], 19) ^ w[t - 2] >> 10
        w.append((s1 + w[t - 7] + s0 + w[t - 16]) & _MASK)
    a, b, c, d, e, f, g, h = state
    for t in range(64):
        t1 = h + (_rotr(e, 6) ^ _rotr(e, 11) ^ _rotr(e, 25)) + ((e & f) ^ (~e & g))
        t1 += SHA256_K[t] + w[t]
        t2 = (_rotr(a, 2) ^ _rotr(a, 13) ^ _rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
        a, b, c, d, e, f, g, h = (t1 + t2) & _MASK, a, b, c, (d + t1) & _MASK, e, f, g
    return tuple((s + v) & _MASK for s, v in zip(state, (a, b, c, d, e, f, g, h), strict=True))


@model
def sha256_compress(w: World, block: int) -> None:
    """Mix one block into the eight words and count it."""
    sha256 = w.g(SHA256)
    state = compressed(struct.unpack("<8I", bytes(sha256.state)), w.read(block, 64))
    sha256.state[:] = struct.pack("<8I", *state)
    sha256.length += 64


@model
def sha256_start(w: World) -> None:
    """The words of 5.3.3."""
    sha256 = w.g(SHA256)
    sha256.state[:] = struct.pack("<8I", *SHA256_INITIAL)
    sha256.length = 0


@model
def sha256_finish(w: World, message: int, length: int, digest: int) -> None:
    """Whole blocks where they lie, the padded rest from the tail; the words big-endian."""
    sha256 = w.g(SHA256)
    whole, rest = length // 64 * 64, length % 64
    for at in range(0, whole, 64):
        sha256_compress(w, message + at)
    size = 64 if rest < 56 else 128
    bits = 8 * (sha256.length + rest) % 2**64
    sha256.tail[:] = bytes(128)
    sha256.tail[:rest] = w.read(message + whole, rest)
    sha256.tail[rest] = 0x80
    sha256.tail[size - 8 : size] = bits.to_bytes(8, "big")
    for at in range(0, size, 64):
        sha256_compress(w, sha256.offset_of("tail") + at)
    w.write(digest, struct.pack(">8I", *struct.unpack("<8I", bytes(sha256.state))))
