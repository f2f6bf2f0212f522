"""RSA verification (RFC 8017): its work space and the encodings of hashes."""

from __future__ import annotations

from dataclasses import dataclass

from firmware.layouts.crypto import Hash
from toolchain.asm import Region
from toolchain.layout import Global, Struct, bytes_, nested, u32, u64
from toolchain.layout.data import constant

RSA_BYTES_MIN, RSA_BYTES_MAX = 256, 512
"""Of a modulus whose top bit is set."""
RSA_EXPONENT_MIN = 3
CHUNK_LIMBS = 8
"""Limbs that the inner loops take at once; a modulus is filled up with zeros to a multiple."""
NUMBER = Region("an RSA number", "limbs in the work space, as many as `Rsa.limbs` says")
PREFIX_BYTES = 19
PSS_TRAILER = 0xBC


class RsaKey(Struct):
    """A public key as the caller has it."""

    SIZE = 0x10
    modulus = u64(0x00, "the modulus, big-endian: odd, top bit set")
    size = u32(0x08, "its bytes, RSA_BYTES_MIN..RSA_BYTES_MAX")
    exponent = u32(0x0C, "odd, at least RSA_EXPONENT_MIN")


class Rsa(Struct):
    """Work space of the one verification that runs at a time; nothing in it is secret."""

    SIZE = 0xF00
    limbs = u32(0x00, "limbs of a number, a multiple of CHUNK_LIMBS")
    size = u32(0x04, "bytes of the modulus and of the encoded message")
    inverse = u64(0x08, "minus one over the modulus, modulo 2^64")
    exponent = u32(0x10, "the exponent")
    left = u32(0x14, "turns of a loop that are left")
    counter = u32(0x18, "MGF1's counter, big-endian as it is hashed")
    modulus = bytes_(0x40, RSA_BYTES_MAX, "the modulus", align=8)
    signature = bytes_(0x240, RSA_BYTES_MAX, "the signature as a number", align=8)
    base = bytes_(0x440, RSA_BYTES_MAX, "the signature in Montgomery's form", align=8)
    power = bytes_(0x640, RSA_BYTES_MAX, "its power so far", align=8)
    em = bytes_(0x840, RSA_BYTES_MAX, "the encoded message, big-endian", align=8)
    expected = bytes_(0xA40, RSA_BYTES_MAX, "what PKCS #1 v1.5 makes of the hash", align=8)
    hash = nested(0xC40, Hash, "the hash of PSS")
    digest = bytes_(0xD10, 64, "what it gives", align=8)
    key = nested(0xD50, RsaKey, "the key, for callers that have it in another form")


RSA = Global("rsa", Rsa, "work space of RSA verification", align=64)


@dataclass(frozen=True)
class RsaHash:
    """A hash as RSA signatures use it.

    Attributes:
        name: Of its routines.
        size: Bytes of a digest, and of the salt of PSS (RFC 8446 4.2.3).
        prefix: DER of DigestInfo before the digest, NULL included (RFC 8017 9.2, note 1).
    """

    name: str
    size: int
    prefix: bytes


def _prefix(last: int, size: int) -> bytes:
    oid = bytes([0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, last])
    algorithm = b"\x30\x0d" + oid + b"\x05\x00"
    return bytes([0x30, len(algorithm) + 2 + size]) + algorithm + bytes([0x04, size])


RSA_HASHES = (
    RsaHash("sha256", 32, _prefix(1, 32)),
    RsaHash("sha384", 48, _prefix(2, 48)),
    RsaHash("sha512", 64, _prefix(3, 64)),
)
RSA_PREFIXES = {
    h.name: constant(f"rsa_prefix_{h.name}", h.prefix, f"DigestInfo of {h.name}")
    for h in RSA_HASHES
}
PSS_ZEROS = constant("pss_zeros", bytes(8), "padding1 of EMSA-PSS")
