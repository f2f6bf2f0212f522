"""The key schedule of TLS 1.3 (RFC 8446 7.1): its labels, and what of it never changes."""

from __future__ import annotations

import hashlib
import hmac

from firmware.layouts.crypto import SHA256_DIGEST_BYTES, SHA384_DIGEST_BYTES
from firmware.layouts.tls import RAW_KEY_MAX, SECRET_MAX, Suite
from toolchain.layout import Data
from toolchain.layout.data import constant

KEY_BYTES = {
    Suite.AES_128_GCM_SHA256: 16,
    Suite.AES_256_GCM_SHA384: 32,
    Suite.CHACHA20_POLY1305_SHA256: 32,
}
_HASHES = {SHA256_DIGEST_BYTES: "sha256", SHA384_DIGEST_BYTES: "sha384"}


def _label(name: str) -> Data:
    text = b"tls13 " + name.encode()
    return constant(
        "tls_label_" + name.replace(" ", "_"), bytes([len(text)]) + text, f"the label {name!r}"
    )


CLIENT_HANDSHAKE, SERVER_HANDSHAKE = _label("c hs traffic"), _label("s hs traffic")
CLIENT_DATA, SERVER_DATA = _label("c ap traffic"), _label("s ap traffic")
DERIVED, FINISHED_KEY, UPDATE = _label("derived"), _label("finished"), _label("traffic upd")
KEY, IV = _label("key"), _label("iv")


def _mac(size: int, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, _HASHES[size])


def _early(size: int) -> bytes:
    """Return the salt of the handshake secret: without a shared key from before it never changes."""
    early = _mac(size, bytes(size), bytes(size))
    empty = hashlib.new(_HASHES[size]).digest()
    info = size.to_bytes(2, "big") + (DERIVED.init or b"") + bytes([size]) + empty
    return _mac(size, early, info + b"\x01")


EMPTY_DIGESTS = {
    size: constant(f"tls_empty_{name}", hashlib.new(name).digest(), "the digest of nothing")
    for size, name in _HASHES.items()
}
EARLY_SALTS = {
    size: constant(
        f"tls_early_{name}", _early(size), "Derive-Secret of the early secret without a key"
    )
    for size, name in _HASHES.items()
}
ZEROS = constant("tls_zeros", bytes(SECRET_MAX), "keying material where there is none")
if max(KEY_BYTES.values()) > RAW_KEY_MAX:
    raise ValueError("TlsDirection.raw has no room for the longest key")
