"""Keccak-f[1600] and the four sponges on it that ML-KEM needs (FIPS 202)."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.layout import Global, Struct, bytes_, u32
from toolchain.layout.data import constant

SIDE, ROUNDS = 5, 24
"""A state is five by five lanes of 64 bits; lane (x, y) lies at 8 (5 y + x)."""
STATE_BYTES = 8 * SIDE * SIDE


@dataclass(frozen=True)
class Sponge:
    """One of the functions of FIPS 202 6.

    Attributes:
        rate: Bytes of a block.
        suffix: What stands behind a message: its own bits, then the first one of the padding.
    """

    rate: int
    suffix: int


SHA3_256 = Sponge(136, 0x06)
SHA3_512 = Sponge(72, 0x06)
SHAKE128 = Sponge(168, 0x1F)
SHAKE256 = Sponge(136, 0x1F)
PADDING_END = 0x80
"""The last bit of pad10*1 (FIPS 202 5.1), in the last byte of a block."""


def _round_constants() -> tuple[int, ...]:
    """Return what iota adds (FIPS 202 3.2.5): bits of a shift register of eight, at 2^j - 1."""
    register, bits = 1, []
    for _ in range(7 * ROUNDS):
        bits.append(register & 1)
        register <<= 1
        register ^= 0x171 * (register >> 8)
    return tuple(
        sum(bits[7 * turn + j] << (1 << j) - 1 for j in range(7)) for turn in range(ROUNDS)
    )


def _rotations() -> dict[tuple[int, int], int]:
    """Return by how much rho turns each lane (FIPS 202 3.2.2)."""
    found, x, y = {(0, 0): 0}, 1, 0
    for t in range(ROUNDS):
        found[x, y] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % SIDE
    return found


ROUND_CONSTANTS = _round_constants()
ROTATIONS = _rotations()
KECCAK_ROUNDS = constant(
    "keccak_rounds",
    b"".join(word.to_bytes(8, "little") for word in ROUND_CONSTANTS),
    "the round constants of Keccak-f[1600]",
    align=64,
)


class Keccak(Struct):
    """Work space of the one sponge that runs at a time; what it gives lies in `state`."""

    SIZE = 0x1A0
    state = bytes_(
        0x00,
        2 * STATE_BYTES,
        "the lanes; behind them, what every second round makes of them",
        align=8,
    )
    filled = u32(0x190, "bytes of the block that were absorbed")
    rate = u32(0x194, "bytes of a block")


KECCAK = Global("keccak", Keccak, "work space of SHA-3 and SHAKE", align=64)
