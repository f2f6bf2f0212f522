"""HPKE in base mode (RFC 9180) with X25519, HKDF-SHA256 and ChaCha20-Poly1305: keys, labels, work space."""

from __future__ import annotations

import hashlib
import hmac

from firmware.layouts.aead import AEAD_TAG_BYTES, ChaChaPoly
from firmware.layouts.crypto import SHA256_DIGEST_BYTES
from firmware.layouts.x25519 import X25519_BYTES
from toolchain.layout import Global, Struct, bytes_, nested
from toolchain.layout.data import Data, constant

MODE_BASE = 0
KEM_ID, KDF_ID, AEAD_ID = 0x0020, 0x0001, 0x0003
"""DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305 (RFC 9180 7)."""
HPKE_ENC_BYTES = X25519_BYTES
HPKE_OVERHEAD = HPKE_ENC_BYTES + AEAD_TAG_BYTES
"""Bytes of a message more than of its text: the sender's public key before it, the tag behind."""
_KEY_BYTES, _NONCE_BYTES = 32, 12
_CONTEXT_BYTES = 1 + 2 * SHA256_DIGEST_BYTES
_LABEL_MAX = 32
"""Bytes of the longest constant before an info: length, version, suite, `shared_secret`."""

_VERSION = b"HPKE-v1"
_KEM_SUITE = b"KEM" + KEM_ID.to_bytes(2, "big")
_SUITE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (KEM_ID, KDF_ID, AEAD_ID))


def _extract(name: str, suite: bytes, label: bytes) -> Data:
    """What LabeledExtract puts before the keying material (RFC 9180 4)."""
    return constant(f"hpke_{name}", _VERSION + suite + label, f"label `{label.decode()}` of HPKE")


def _expand(name: str, suite: bytes, label: bytes, length: int) -> Data:
    """What LabeledExpand puts before the info (RFC 9180 4)."""
    made = length.to_bytes(2, "big") + _VERSION + suite + label
    if len(made) > _LABEL_MAX:
        raise ValueError(f"the label {label.decode()} is too long; raise _LABEL_MAX")
    return constant(f"hpke_{name}", made, f"label `{label.decode()}` of HPKE for {length} bytes")


HPKE_EAE_PRK = _extract("eae_prk", _KEM_SUITE, b"eae_prk")
HPKE_SHARED_SECRET = _expand("shared_secret", _KEM_SUITE, b"shared_secret", SHA256_DIGEST_BYTES)
HPKE_INFO_HASH = _extract("info_hash", _SUITE, b"info_hash")
HPKE_SECRET = _extract("secret", _SUITE, b"secret")
HPKE_KEY = _expand("key", _SUITE, b"key", _KEY_BYTES)
HPKE_BASE_NONCE = _expand("base_nonce", _SUITE, b"base_nonce", _NONCE_BYTES)
HPKE_CONTEXT_START = constant(
    "hpke_context_start",
    bytes([MODE_BASE]) + hmac.digest(b"", _VERSION + _SUITE + b"psk_id_hash", hashlib.sha256),
    "how every key_schedule_context of base mode begins: the mode, the hash of no psk_id",
)


class HpkeKeys(Struct):
    """A key pair of X25519."""

    SIZE = 0x40
    private = bytes_(0x00, X25519_BYTES, "the scalar, not clamped", align=8)
    public = bytes_(0x20, X25519_BYTES, "its public key", align=8)


class Hpke(Struct):
    """Work space of the one message that is being opened; zeros between two of them."""

    SIZE = 0x280
    key = nested(0x00, ChaChaPoly, "the key of the message")
    shared = bytes_(0x150, X25519_BYTES, "dh, then shared_secret, then key", align=16)
    prk = bytes_(0x170, SHA256_DIGEST_BYTES, "eae_prk, then secret", align=16)
    nonce = bytes_(0x190, _NONCE_BYTES, "base_nonce: the nonce of the first message", align=16)
    context = bytes_(0x1A0, _CONTEXT_BYTES, "kem_context, then key_schedule_context", align=16)
    info = bytes_(0x1F0, _LABEL_MAX + _CONTEXT_BYTES, "the info of an HKDF-Expand", align=16)


HPKE = Global("hpke", Hpke, "work space of HPKE", align=64)
