"""SHA-2 by the words of FIPS 180-4, for either size of a word."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from emulator.effects import World
from firmware.layouts.crypto import SHA256_K, SHA512_K, Hash


@dataclass(frozen=True)
class Words:
    """The functions of FIPS 180-4 4.1 over words of `bits`."""

    bits: int
    constants: tuple[int, ...]
    sums: tuple[tuple[int, int, int], tuple[int, int, int]]
    mixes: tuple[tuple[int, int, int], tuple[int, int, int]]

    @property
    def block(self) -> int:
        """Bytes of a block."""
        return 2 * self.bits

    @property
    def form(self) -> str:
        """The letter of a word for `struct`."""
        return "I" if self.bits == 32 else "Q"

    def rotr(self, value: int, by: int) -> int:
        """Turn right."""
        return (value >> by | value << (self.bits - by)) & ((1 << self.bits) - 1)

    def sum(self, which: int, x: int) -> int:
        """The big sigma."""
        first, second, third = self.sums[which]
        return self.rotr(x, first) ^ self.rotr(x, second) ^ self.rotr(x, third)

    def mix(self, which: int, x: int) -> int:
        """The small sigma."""
        first, second, shift = self.mixes[which]
        return self.rotr(x, first) ^ self.rotr(x, second) ^ x >> shift


SHORT = Words(32, SHA256_K, ((2, 13, 22), (6, 11, 25)), ((7, 18, 3), (17, 19, 10)))
LONG = Words(64, SHA512_K, ((28, 34, 39), (14, 18, 41)), ((1, 8, 7), (19, 61, 6)))


def compressed(words: Words, state: tuple[int, ...], block: bytes) -> tuple[int, ...]:
    """Return the state after one block (FIPS 180-4 6.2.2 and 6.4.2)."""
    mask = (1 << words.bits) - 1
    w = list(struct.unpack(f">16{words.form}", block))
    for t in range(16, len(words.constants)):
        w.append((words.mix(1, w[t - 2]) + w[t - 7] + words.mix(0, w[t - 15]) + w[t - 16]) & mask)
    a, b, c, d, e, f, g, h = state
    for t, constant in enumerate(words.constants):
        t1 = h + words.sum(1, e) + ((e & f) ^ (~e & g)) + constant + w[t]
        t2 = words.sum(0, a) + ((a & b) ^ (a & c) ^ (b & c))
        a, b, c, d, e, f, g, h = (t1 + t2) & mask, a, b, c, (d + t1) & mask, e, f, g
    return tuple((s + v) & mask for s, v in zip(state, (a, b, c, d, e, f, g, h), strict=True))


def start(w: World, work: int, initial: tuple[int, ...], words: Words) -> None:
    """The words of 5.3, and no byte yet."""
    found = w.view(Hash, work)
    found.state[: words.bits] = struct.pack(f"<8{words.form}", *initial)
    found.length = 0


def blocks(w: World, work: int, message: int, count: int, words: Words) -> int:
    """Mix whole blocks in, one after another; return where they end."""
    found = w.view(Hash, work)
    state = struct.unpack(f"<8{words.form}", found.state[: words.bits])
    for n in range(count):
        state = compressed(words, state, w.read(message + n * words.block, words.block))
        found.state[: words.bits] = struct.pack(f"<8{words.form}", *state)
    return message + count * words.block


Blocks = Callable[[World, int, int, int], int]


def update(w: World, work: int, message: int, length: int, words: Words, mix: Blocks) -> None:
    """Fill the block that has begun, mix whole ones where they lie, keep the rest."""
    found = w.view(Hash, work)
    begun = found.length % words.block
    found.length += length
    if begun:
        taken = min(words.block - begun, length)
        found.block[begun : begun + taken] = w.read(message, taken)
        if begun + taken < words.block:
            return
        mix(w, work, found.offset_of("block"), 1)
        message, length = message + taken, length - taken
    whole, rest = divmod(length, words.block)
    if whole:
        mix(w, work, message, whole)
    found.block[:rest] = w.read(message + whole * words.block, rest)


def finish(w: World, work: int, digest: int, size: int, words: Words, mix: Blocks) -> None:
    """Pad (5.1), mix the last one or two blocks, write the words big-endian; nothing stays."""
    found = w.view(Hash, work)
    begun, size_at = found.length % words.block, words.block - words.bits // 4
    found.block[begun : words.block] = b"\x80" + bytes(words.block - begun - 1)
    if begun >= size_at:
        mix(w, work, found.offset_of("block"), 1)
        found.block[:size_at] = bytes(size_at)
    found.block[size_at : words.block] = (8 * found.length).to_bytes(words.bits // 4, "big")
    mix(w, work, found.offset_of("block"), 1)
    state = struct.unpack(f"<8{words.form}", found.state[: words.bits])
    w.write(digest, struct.pack(f">8{words.form}", *state)[:size])
    found.wipe()
