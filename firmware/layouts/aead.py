"""Keys of the authenticated ciphers of TLS 1.3: AES-GCM, ChaCha20-Poly1305."""

from __future__ import annotations

from firmware.layouts.crypto import CHACHA_BLOCK_BYTES, CHACHA_CONSTANTS
from toolchain.asm import Region
from toolchain.layout import Struct, bytes_, u32
from toolchain.layout.data import constant

AES_BLOCK_BYTES = 16
AES128_KEY_BYTES, AES256_KEY_BYTES = 16, 32
AES128_ROUNDS, AES256_ROUNDS = 10, 14
AEAD_NONCE_BYTES = 12
AEAD_TAG_BYTES = 16
GCM_WIDTH = 8
"""Blocks that are encrypted and hashed together."""
GCM_POWERS = GCM_WIDTH + 1
"""The rest of a message has up to eight blocks, and the lengths come behind them."""

GHASH_FACTORS, GHASH_CLASSES = 6, 4
"""Without PCLMULQDQ: products by Karatsuba's rule, forwards and reversed, each of four by four."""

AEAD_TEXT = Region("the text", "in place; the caller's, with 16 bytes behind it for the tag")
AEAD_AAD = Region("the additional data", "the caller's, as long as the contract says; not secret")
AEAD_NONCE = Region("the nonce", "the caller's, 12 bytes; not secret")
AEAD_KEY = Region("the key", "the caller's, as long as the contract says")


class AesGcm(Struct):
    """What a key of AES-GCM was made into. Which routines made it must also use it.

    With AES-NI: round keys as FIPS 197 has them, the last of either key size at the same place. A
    power of H is a block read as a big-endian number and divided by x, so that a reflected product
    needs no shift; `halves` are the exclusive ors of its two halves, for Karatsuba's product.
    """

    SIZE = 0x220
    keys = bytes_(0x00, 16 * (AES256_ROUNDS + 1), "round keys; the last one is entry 14", align=16)
    powers = bytes_(0xF0, 16 * GCM_POWERS, "H, H^2, ... H^9", align=16)
    halves = bytes_(0x180, 16 * GCM_POWERS, "the halves of each, added", align=16)
    rounds = u32(0x210, "10 with a key of 16 bytes, 14 with one of 32")


class AesGcmSoft(Struct):
    """The same without AES-NI; as long, so that one place serves either.

    Round keys have their bytes ordered by rows, and all but the first carry the 0x63 of the S-box.
    """

    SIZE = AesGcm.SIZE
    keys = bytes_(0x00, 16 * (AES256_ROUNDS + 1), "round keys, one behind the other", align=16)
    factors = bytes_(
        0xF0,
        8 * GHASH_FACTORS * GHASH_CLASSES,
        "six factors of GHASH's products; of each, every fourth bit, from bit 0, 1, 2 and 3 on",
        align=16,
    )
    rounds = u32(0x210, "10 with a key of 16 bytes, 14 with one of 32")


SLICE_CONSTANTS = constant(
    "slice_constants",
    b"".join(bytes([1 << bit]) * 16 for bit in range(8))
    + b"\x55" * 16
    + b"\x33" * 16
    + b"\x0f" * 16
    + (bytes(4) + b"\xff" * 4) * 2
    + b"\x63" * 16
    + b"\xff" * 16
    + bytes(16),
    "each bit of a byte; lower halves of groups of 2, 4, 8 bits; odd rows; 0x63; a window",
    align=64,
)
BITS_AT, HALVES_AT, ODD_ROWS_AT, AFFINE_AT, SLICE_KEEP_AT = 0, 128, 176, 192, 208


class ChaChaPoly(Struct):
    """A key of ChaCha20-Poly1305, as the matrix of RFC 8439 2.3, and the work space of its use."""

    SIZE = 0x150
    matrix = bytes_(
        0x00, CHACHA_BLOCK_BYTES, "rows: constants, key, key, block counter and nonce", align=16
    )
    stream = bytes_(0x40, 4 * CHACHA_BLOCK_BYTES, "four blocks of key stream; wiped", align=16)
    pad = bytes_(0x140, 16, "what Poly1305 adds at the end; wiped", align=16)


CHACHA_TABLE = constant(
    "chacha_table",
    CHACHA_CONSTANTS
    + b"".join(n.to_bytes(4, "little") for n in range(4))
    + (1).to_bytes(16, "little")
    + b"\xff" * 16
    + bytes(16),
    "the first row, counters of four lanes, one, a window of sixteen bytes that are kept",
    align=64,
)
CHACHA_ROW_AT, CHACHA_LANES_AT, CHACHA_ONE_AT, CHACHA_KEEP_AT = 0, 16, 32, 48

GCM_CONSTANTS = constant(
    "gcm_constants",
    bytes(range(15, -1, -1))
    + (1).to_bytes(16, "little")
    + (0xC2 << 56).to_bytes(16, "little")
    + b"\xff" * 16
    + bytes(16),
    "byte reversal, one, the polynomial of GHASH, a window of sixteen bytes that are kept",
    align=64,
)
REVERSE_AT, ONE_AT, POLYNOMIAL_AT, KEEP_AT = 0, 16, 32, 48
