"""The ChaCha20 block function."""

import struct

from emulator.effects import World, model

_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFF_FFFF


def key_stream(matrix: bytes) -> bytes:
    """Return the 64 bytes that RFC 8439 2.3 makes of a 64-byte matrix."""
    words = struct.unpack("<16I", matrix)
    state = list(words)
    for _ in range(10):
        for a, b, c, d in _COLUMNS + _DIAGONALS:
            for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                state[x] = (state[x] + state[y]) & 0xFFFF_FFFF
                state[z] = _rotate(state[z] ^ state[x], bits)
    total = [(s + w) & 0xFFFF_FFFF for s, w in zip(state, words, strict=True)]
    return struct.pack("<16I", *total)


@model
def chacha20_block(w: World, matrix: int, out: int) -> None:
    """Key stream of the matrix at `matrix` goes to `out`."""
    w.write(out, key_stream(w.read(matrix, 64)))
