"""CertificateVerify by `cryptography`, under any scheme and for anybody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

if TYPE_CHECKING:
    from tests.support.tls_peer import Identity

_HASHES = {2: hashes.SHA1(), 4: hashes.SHA256(), 5: hashes.SHA384(), 6: hashes.SHA512()}  # noqa: S303
_PSS = {0x0804: 4, 0x0805: 5, 0x0806: 6}


def sign(shown: Identity, scheme: int, label: str, transcript: bytes) -> bytes:
    """Sign a transcript with a server's key (RFC 8446 4.4.3).

    Args:
        shown: Whose key.
        scheme: SignatureScheme.
        label: server or client.
        transcript: Its hash.
    """
    text = b" " * 64 + f"TLS 1.3, {label} CertificateVerify\0".encode() + transcript
    key = serialization.load_pem_private_key(Path(shown.key).read_bytes(), None)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(text, ec.ECDSA(_HASHES[scheme >> 8]))
    assert isinstance(key, rsa.RSAPrivateKey)
    if scheme in _PSS:
        digest = _HASHES[_PSS[scheme]]
        return key.sign(text, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
    return key.sign(text, padding.PKCS1v15(), _HASHES[scheme >> 8])
