"""The node's random generator (decision 29): ChaCha20 with fast key erasure."""

from __future__ import annotations

from toolchain.asm import Region
from toolchain.layout import Global, Struct, bytes_, ptr, u32, u64
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
BASE64_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

BUFFER_IN = Region("the input buffer", "owned by the caller, as long as the length says")
BUFFER_OUT = Region("the output buffer", "owned by the caller, as long as the contract says")


class Drbg(Struct):
    """State of the generator. Bytes that were served are gone: the pool holds zeros there."""

    SIZE = 0x180
    constants = bytes_(0x00, 16, "the ChaCha20 constants, written at every refill", align=16)
    key = bytes_(0x10, CHACHA_KEY_BYTES, "replaced by every refill", align=16)
    counter = u32(0x30, "block counter of the running refill")
    nonce = bytes_(0x34, 12, "always zero: no key serves two refills", align=4)
    pool = bytes_(0x40, DRBG_POOL_BYTES, "what can be served, at its end", align=16)
    available = u32(0x140, "bytes of the pool not yet served")
    seeded = u32(0x144, "times that entropy was mixed in; 0 = nothing random may be asked for")
    weak = u32(0x148, "1 = no hardware entropy: fit for plaintext only (`entropy=weak`)")
    refills = u64(0x150, "pools made since boot")
    source = ptr(0x158, "the routine that gathers hardware entropy; chosen by CPUID")
    seed = bytes_(0x160, CHACHA_KEY_BYTES, "what is about to be mixed in; zero otherwise", align=8)


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


def _root_fraction(number: int, root: int) -> int:
    """Return the first 32 bits of the fraction of a square or cube root, in whole numbers."""
    scaled, low, high = number << 32 * root, 0, number << 32
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**root <= scaled else (low, middle - 1)
    return low & 0xFFFF_FFFF


SHA256_INITIAL = tuple(_root_fraction(prime, 2) for prime in _primes(8))
"""FIPS 180-4 5.3.3: the square roots of the first eight primes."""
SHA256_K = tuple(_root_fraction(prime, 3) for prime in _primes(SHA256_ROUNDS))
"""FIPS 180-4 4.2.2: the cube roots of the first sixty-four primes."""
SHA256_CONSTANTS = constant(
    "sha256_constants",
    b"".join(word.to_bytes(4, "little") for word in SHA256_K),
    "the round constants of SHA-256",
    align=64,
)


class Sha256(Struct):
    """Work space of the one SHA-256 that runs at a time."""

    SIZE = 0xC0
    state = bytes_(0x00, SHA256_DIGEST_BYTES, "the eight words, host order", align=4)
    length = u64(0x20, "bytes that are mixed into the state")
    tail = bytes_(0x40, 2 * SHA256_BLOCK_BYTES, "the last one or two blocks, padded", align=8)


class Hmac(Struct):
    """Work space of the one HMAC-SHA-256 that runs at a time (RFC 2104)."""

    SIZE = 0x60
    pad = bytes_(0x00, SHA256_BLOCK_BYTES, "the key with the inner or the outer pad", align=8)
    inner = bytes_(
        0x40, SHA256_DIGEST_BYTES, "the inner digest, right behind the outer pad", align=8
    )


SHA256 = Global("sha256", Sha256, "work space of SHA-256", align=64)
HMAC = Global("hmac", Hmac, "work space of HMAC-SHA-256", align=64)
