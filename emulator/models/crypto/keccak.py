"""SHA-3 and SHAKE by FIPS 202: the step mappings on lanes A[x, y]."""

from __future__ import annotations

import struct

from emulator.effects import World, model
from firmware.layouts.keccak import KECCAK, Sponge

_MASK = 2**64 - 1
_FORM = "<25Q"
_SIDE = range(5)
Lanes = dict[tuple[int, int], int]


def _turned(lane: int, by: int) -> int:
    return (lane << by | lane >> (64 - by)) & _MASK


def theta(lanes: Lanes) -> Lanes:
    """3.2.1."""
    c = {x: lanes[x, 0] ^ lanes[x, 1] ^ lanes[x, 2] ^ lanes[x, 3] ^ lanes[x, 4] for x in _SIDE}
    d = {x: c[(x - 1) % 5] ^ _turned(c[(x + 1) % 5], 1) for x in _SIDE}
    return {(x, y): lane ^ d[x] for (x, y), lane in lanes.items()}


def rho(lanes: Lanes) -> Lanes:
    """3.2.2."""
    turned = {(0, 0): lanes[0, 0]}
    x, y = 1, 0
    for t in range(24):
        turned[x, y] = _turned(lanes[x, y], (t + 1) * (t + 2) // 2 % 64)
        x, y = y, (2 * x + 3 * y) % 5
    return turned


def pi(lanes: Lanes) -> Lanes:
    """3.2.3."""
    return {(x, y): lanes[(x + 3 * y) % 5, x] for x in _SIDE for y in _SIDE}


def chi(lanes: Lanes) -> Lanes:
    """3.2.4."""
    return {
        (x, y): lane ^ (lanes[(x + 1) % 5, y] ^ _MASK) & lanes[(x + 2) % 5, y]
        for (x, y), lane in lanes.items()
    }


def _bit(t: int) -> int:
    """rc(t), algorithm 5."""
    register = [1, 0, 0, 0, 0, 0, 0, 0]
    for _ in range(t % 255):
        register = [0, *register]
        for place in (0, 4, 5, 6):
            register[place] ^= register[8]
        register = register[:8]
    return register[0]


_CONSTANTS = [sum(_bit(j + 7 * n) << 2**j - 1 for j in range(7)) for n in range(24)]


def rounds(state: bytes) -> list[bytes]:
    """Return the state after each of the 24 rounds (3.3)."""
    words = struct.unpack(_FORM, state)
    lanes = {(x, y): words[5 * y + x] for y in _SIDE for x in _SIDE}
    found = []
    for constant in _CONSTANTS:
        lanes = chi(pi(rho(theta(lanes))))
        lanes[0, 0] ^= constant
        found.append(struct.pack(_FORM, *(lanes[x, y] for y in _SIDE for x in _SIDE)))
    return found


@model
def keccak_f1600(w: World) -> None:
    """The rounds, every second one beside the state."""
    state = w.g(KECCAK).state
    for n, lanes in enumerate(rounds(state[:200])):
        place = 0 if n % 2 else 200
        state[place : place + 200] = lanes


@model
def keccak_start(w: World, rate: int) -> None:
    """A state of zeros."""
    keccak = w.g(KECCAK)
    keccak.rate, keccak.filled = rate, 0
    keccak.state[:200] = bytes(200)


@model
def keccak_absorb(w: World, message: int, length: int) -> None:
    """Each byte into the block; a whole block is permuted."""
    keccak = w.g(KECCAK)
    for n in range(length):
        keccak.state[keccak.filled] ^= w.u8(message + n)
        keccak.filled += 1
        if keccak.filled == keccak.rate:
            keccak.filled = 0
            keccak_f1600(w)


@model
def keccak_finish(w: World, suffix: int) -> None:
    """The suffix behind the message, a one at the end of the block."""
    keccak = w.g(KECCAK)
    keccak.state[keccak.filled] ^= suffix & 0xFF
    keccak.state[keccak.rate - 1] ^= 0x80
    keccak_f1600(w)


def hashed(w: World, sponge: Sponge, *parts: tuple[int, int]) -> int:
    """Give a sponge the parts of a message, as addresses and bytes; return where its output is."""
    keccak_start(w, sponge.rate)
    for address, length in parts:
        keccak_absorb(w, address, length)
    keccak_finish(w, sponge.suffix)
    return int(w.g(KECCAK).offset_of("state"))
