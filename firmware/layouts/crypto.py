"""Work spaces of the cryptography: the random generator (decision 29), hashes, HMAC."""

from __future__ import annotations

from firmware.layouts.entropy import SAMPLE_BYTES
from toolchain.asm import Region
from toolchain.layout import Global, Struct, bytes_, nested, u8, u32, u64
from toolchain.layout.data import constant

CHACHA_BLOCK_BYTES = 64
CHACHA_KEY_BYTES = 32
CHACHA_CONSTANTS = b"expand 32-byte k"
DRBG_POOL_BYTES = 256
"""Four blocks a refill: 32 bytes become the next key, 224 are served."""
SHA1_DIGEST_BYTES = 20
SHA1_MESSAGE_MAX = 119
"""Two blocks hold 119 bytes, the padding byte and the length; an accept key needs 60."""
SHA256_DIGEST_BYTES = 32
SHA256_BLOCK_BYTES = 64
SHA256_ROUNDS = 64
SHA384_DIGEST_BYTES = 48
SHA512_DIGEST_BYTES = 64
SHA512_BLOCK_BYTES = 128
SHA512_ROUNDS = 80
BASE64_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

BUFFER_IN = Region("the input buffer", "owned by the caller, as long as the length says")
BUFFER_OUT = Region("the output buffer", "owned by the caller, as long as the contract says")


class Drbg(Struct):
    """State of the generator. Bytes that were served are gone: the pool holds zeros there."""

    SIZE = 0x1A0
    constants = bytes_(0x00, 16, "the ChaCha20 constants, written at every refill", align=16)
    key = bytes_(0x10, CHACHA_KEY_BYTES, "replaced by every refill", align=16)
    counter = u32(0x30, "block counter of the running refill")
    nonce = bytes_(0x34, 12, "always zero: no key serves two refills", align=4)
    pool = bytes_(0x40, DRBG_POOL_BYTES, "what can be served, at its end", align=16)
    available = u32(0x140, "bytes of the pool not yet served")
    seeded = u32(0x144, "times that entropy was mixed in; 0 = nothing random may be asked for")
    weak = u32(0x148, "1 = no source was ever credited: fit for plaintext only (`entropy=weak`)")
    sources = bytes_(0x14C, 4, "SourceState of each EntropySource", align=4)
    refills = u64(0x150, "pools made since boot")
    seed = bytes_(0x160, SAMPLE_BYTES, "what is about to be mixed in; zero otherwise", align=8)


DRBG = Global("drbg", Drbg, "the node's random generator", align=64)


class Sha1(Struct):
    """Work space of the one SHA-1 that runs at a time."""

    SIZE = 0xC0
    state = bytes_(0x00, SHA1_DIGEST_BYTES, "the five words, host order", align=4)
    blocks = bytes_(0x20, 128, "the padded message: one or two blocks", align=8)


SHA1 = Global("sha1", Sha1, "work space of SHA-1", align=64)


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % known for known in found):
            found.append(candidate)
        candidate += 1
    return found


def _root_fraction(number: int, root: int, bits: int) -> int:
    """Return the first bits of the fraction of a square or cube root, in whole numbers."""
    scaled, low, high = number << bits * root, 0, number << bits
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**root <= scaled else (low, middle - 1)
    return low & ((1 << bits) - 1)


SHA256_INITIAL = tuple(_root_fraction(prime, 2, 32) for prime in _primes(8))
"""FIPS 180-4 5.3.3: the square roots of the first eight primes."""
SHA256_K = tuple(_root_fraction(prime, 3, 32) for prime in _primes(SHA256_ROUNDS))
"""FIPS 180-4 4.2.2: the cube roots of the first sixty-four primes."""
SHA384_INITIAL = tuple(_root_fraction(prime, 2, 64) for prime in _primes(16)[8:])
"""FIPS 180-4 5.3.4: the square roots of the ninth to the sixteenth prime."""
SHA512_INITIAL = tuple(_root_fraction(prime, 2, 64) for prime in _primes(8))
"""FIPS 180-4 5.3.5: the square roots of the first eight primes."""
SHA512_K = tuple(_root_fraction(prime, 3, 64) for prime in _primes(SHA512_ROUNDS))
"""FIPS 180-4 4.2.3: the cube roots of the first eighty primes."""
SHA256_CONSTANTS = constant(
    "sha256_constants",
    b"".join(word.to_bytes(4, "little") for word in SHA256_K),
    "the round constants of SHA-256",
    align=64,
)
SHA256_SWAP = constant(
    "sha256_swap",
    bytes(4 * (n // 4) + 3 - n % 4 for n in range(16)),
    "for PSHUFB: the bytes of each of four words the other way round",
    align=16,
)
SHA512_CONSTANTS = constant(
    "sha512_constants",
    b"".join(word.to_bytes(8, "little") for word in SHA512_K),
    "the round constants of SHA-384 and SHA-512",
    align=64,
)


class Hash(Struct):
    """A message that is being hashed with any SHA-2. A copy gives the digest so far."""

    SIZE = 0xD0
    state = bytes_(0x00, 64, "the eight words, host order; SHA-256 uses the first half", align=16)
    length = u64(0x40, "bytes of the message so far")
    block = bytes_(0x50, SHA512_BLOCK_BYTES, "the end of the message that fills no block", align=16)


class Hmac(Struct):
    """Work space of the one HMAC that runs at a time (RFC 2104); wiped when its tag is made."""

    SIZE = 0x190
    hash = nested(0x00, Hash, "the inner hash, then the outer one")
    pad = bytes_(0xD0, SHA512_BLOCK_BYTES, "the key, a whole block, with a pad", align=16)
    inner = bytes_(0x150, SHA512_DIGEST_BYTES, "the inner digest", align=16)


HKDF_LABEL_MAX, HKDF_CONTEXT_MAX = 24, 64
"""Bytes of a label with its prefix, and of a context; TLS 1.3 needs 18 and 48."""


class Hkdf(Struct):
    """Work space of the one HKDF-Expand that runs at a time (RFC 5869 2.3)."""

    SIZE = 0xB0
    block = bytes_(0x00, SHA512_DIGEST_BYTES, "T(i), the block before; wiped at the end", align=16)
    counter = u8(0x40, "i")
    info = bytes_(
        0x50, 4 + HKDF_LABEL_MAX + HKDF_CONTEXT_MAX, "an HkdfLabel (RFC 8446 7.1)", align=16
    )


HASH = Global("hash", Hash, "work space of a hash that starts and ends in one turn", align=64)
HMAC = Global("hmac", Hmac, "work space of HMAC", align=64)
HKDF = Global("hkdf", Hkdf, "work space of HKDF", align=64)
