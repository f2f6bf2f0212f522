"""ML-KEM-768 (FIPS 203): parameters, tables, keys and the work space.

A polynomial lies in memory as 256 words, each the least residue modulo `Q`.
"""

from __future__ import annotations

from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, bytes_, u16
from toolchain.layout.data import constant

N, Q, K = 256, 3329, 3
ETA = 2
"""Both of FIPS 203's: how far from zero the coefficients of secrets and errors are."""
DU, DV, DT = 10, 4, 12
"""Bits of a coefficient in the ciphertext's two parts, and in an encapsulation key."""
ZETA = 17
"""A primitive 256th root of one."""
SYMBOL_BYTES = 32
SEED_BYTES = 2 * SYMBOL_BYTES
"""What a key pair is made from: d, z."""
POLY_BYTES = 2 * N
VECTOR_BYTES = K * POLY_BYTES
CODED_BYTES = {d: N * d // 8 for d in (DU, DV, DT)}
"""Bytes of a polynomial in d bits a coefficient."""
EK_BYTES = K * CODED_BYTES[DT] + SYMBOL_BYTES
CIPHERTEXT_BYTES = K * CODED_BYTES[DU] + CODED_BYTES[DV]
CODED_SLACK = 6
"""Bytes behind a coded polynomial that are read or zeroed with it."""
NOISE_BYTES = N * 2 * ETA // 8

MONTGOMERY = 1 << 16
"""Products are divided by it: a word's worth is what pmulhw drops."""
Q_INVERSE = pow(Q, -1, MONTGOMERY)


def _reversed(number: int) -> int:
    """Return seven bits in the opposite order (FIPS 203 4.3)."""
    return int(f"{number:07b}"[::-1], 2)


def _words(*values: int) -> bytes:
    return b"".join((value % (1 << 16)).to_bytes(2, "little") for value in values)


MLKEM_ZETAS = constant(
    "mlkem_zetas",
    _words(*(pow(ZETA, _reversed(n), Q) * MONTGOMERY % Q for n in range(N // 2))),
    "the powers of zeta in the order of FIPS 203 appendix A, times 2^16",
    align=64,
)
_HALF_ONE, _LAST_ONE = Q // 4 + 1, 3 * Q // 4
"""Compress_1 gives 1 from the one to the other."""
_LANES: dict[str, tuple[int, ...]] = {
    "q": 8 * (Q,),
    "q_inverse": 8 * (Q_INVERSE,),
    "one": 8 * (MONTGOMERY % Q,),
    "square": 8 * (MONTGOMERY**2 % Q,),
    "last": 8 * (pow(N // 2, -1, Q) * MONTGOMERY % Q,),
    "odd": 4 * (0, -1),
    "pairs": 8 * (0x5555,),
    "nibbles": 8 * (0x3333,),
    "bytes": 8 * (0x0F0F,),
    "eta": 8 * (ETA + 1,),
    "below": 8 * (_HALF_ONE - 1,),
    "above": 8 * (_LAST_ONE + 1,),
    "bits": tuple(1 << n for n in range(8)),
    "half": 8 * ((Q + 1) // 2,),
}
MLKEM_LANES = constant(
    "mlkem_lanes",
    b"".join(_words(*lanes) for lanes in _LANES.values()),
    "numbers for eight coefficients at a time",
    align=64,
)
LANES_AT = {name: 16 * n for n, name in enumerate(_LANES)}

POLY = Region("a polynomial", "256 words of the caller's, least residues modulo 3329")
CODED = Region("a coded polynomial", "32 d bytes of the caller's, and CODED_SLACK behind them")
XOF_OUT = Region("what SHAKE128 gives", "a block of it, in the state; made from a public seed")


class MlKemKey(Struct):
    """A key pair: the decapsulation key of FIPS 203 7.1, its parts ready for use."""

    SIZE = 0x1D00
    ek = bytes_(0x000, EK_BYTES, "the encapsulation key, as it is sent; public", align=16)
    hash = bytes_(0x4A0, SYMBOL_BYTES, "H(ek)", align=16)
    z = bytes_(0x4C0, SYMBOL_BYTES, "what a refused ciphertext gives", align=16)
    s = bytes_(0x4E0, VECTOR_BYTES, "the secret vector, transformed", align=16)
    a = bytes_(0xAE0, K * VECTOR_BYTES, "the matrix, transformed, row by row; public", align=16)


class MlKemWork(Struct):
    """Work space of the one operation that runs at a time; zeros between two of them."""

    SIZE = 0x1500
    y = bytes_(0x000, VECTOR_BYTES, "the ciphertext's u, then y", align=16)
    t = bytes_(0x600, VECTOR_BYTES, "t of the encapsulation key", align=16)
    sum = bytes_(0xC00, POLY_BYTES, "a polynomial of a product", align=16)
    noise = bytes_(0xE00, POLY_BYTES, "an error, v or the message as a polynomial", align=16)
    ciphertext = bytes_(0x1000, CIPHERTEXT_BYTES + CODED_SLACK, "what m and r give", align=8)
    seed = bytes_(0x1448, SYMBOL_BYTES, "sigma, or r: what noise is made from", align=8)
    message = bytes_(0x1468, SYMBOL_BYTES, "m", align=8)
    secret = bytes_(0x1488, SYMBOL_BYTES, "what the ciphertext gives when it is right", align=8)
    refused = bytes_(0x14A8, SYMBOL_BYTES, "what it gives when it is not", align=8)
    index = u16(0x14C8, "what is absorbed behind a seed")
    rho = bytes_(0x14D0, SYMBOL_BYTES, "what the matrix is made from; public", align=8)


MLKEM_WORK = Global("mlkem_work", MlKemWork, "work space of ML-KEM", align=64)
