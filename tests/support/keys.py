"""Keys of another library, and what they sign."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

if TYPE_CHECKING:
    from firmware.layouts.x509 import SignatureAlgorithm

HASHES = {"SHA256": hashes.SHA256(), "SHA384": hashes.SHA384(), "SHA512": hashes.SHA512()}


@functools.cache
def private(name: str) -> Any:
    """Return a key by its name. One of RSA with the exponent 3 takes few steps to verify with."""
    made = {
        "p256": lambda: ec.derive_private_key(77, ec.SECP256R1()),
        "p384": lambda: ec.derive_private_key(78, ec.SECP384R1()),
        "p256-other": lambda: ec.derive_private_key(79, ec.SECP256R1()),
        "p384-other": lambda: ec.derive_private_key(79, ec.SECP384R1()),
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "rsa-other": lambda: rsa.generate_private_key(65537, 2048),
        "rsa-3": lambda: rsa.generate_private_key(3, 2048),
        "rsa-3072": lambda: rsa.generate_private_key(65537, 3072),
    }
    return made[name]()


def spki(name: str) -> bytes:
    """Return the SubjectPublicKeyInfo of a key."""
    public = private(name).public_key()
    return bytes(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def fits(name: str, algorithm: SignatureAlgorithm) -> bool:
    """Tell whether a key signs with an algorithm."""
    return name.startswith("rsa") != algorithm.name.startswith("ECDSA")


def sign(name: str, algorithm: SignatureAlgorithm, message: bytes) -> bytes:
    """Return a signature; the salt of PSS is as long as the digest."""
    scheme, _, hash_ = algorithm.name.partition("_")
    digest = HASHES[hash_]
    if scheme == "ECDSA":
        return bytes(private(name).sign(message, ec.ECDSA(digest)))
    pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
    pad = pss if scheme == "PSS" else padding.PKCS1v15()
    return bytes(private(name).sign(message, pad, digest))
