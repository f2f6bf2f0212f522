"""Signatures over a message, of certificates and of handshakes."""

from collections.abc import Callable

from emulator.effects import World, model
from emulator.models.crypto.chosen import level_of
from emulator.models.crypto.ecdsa import ECDSA_MODELS
from emulator.models.crypto.rsa import RECOVER_MODELS
from emulator.models.crypto.rsa_encodings import PKCS1_MODELS, PSS_MODELS
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.crypto.sha512 import (
    sha384_finish,
    sha384_start,
    sha512_finish,
    sha512_start,
    sha512_update,
)
from emulator.models.crypto.variants import variant
from emulator.models.x509.signature import ecdsa_signature_read
from firmware.layouts.field import Level
from firmware.layouts.rsa import RSA
from firmware.layouts.x509 import Certificate, KeyKind, PublicKey, SignatureAlgorithm, Slice
from firmware.layouts.x509_chain import Chain

_HASHES = {
    "SHA256": (sha256_start, sha256_update, sha256_finish, 32),
    "SHA384": (sha384_start, sha512_update, sha384_finish, 48),
    "SHA512": (sha512_start, sha512_update, sha512_finish, 64),
}
_CURVES = {KeyKind.P256: ("p256", 32), KeyKind.P384: ("p384", 48)}


def _parts(algorithm: int) -> tuple[str, str]:
    """Return the scheme and the hash by the algorithm's name."""
    known = algorithm in set(SignatureAlgorithm) and algorithm != SignatureAlgorithm.UNSUPPORTED
    scheme, _, hash_ = SignatureAlgorithm(algorithm).name.partition("_") if known else ("", "", "")
    return scheme, hash_


@model
def x509_digest(w: World, chain: int, algorithm: int, message: int, length: int) -> int:
    """The hash that the algorithm's name says."""
    _, hash_ = _parts(algorithm)
    if not hash_:
        return 0
    kept = w.view(Chain, chain)
    start, update, finish, size = _HASHES[hash_]
    start(w, kept.hash.address_)
    update(w, kept.hash.address_, message, length)
    finish(w, kept.hash.address_, kept.offset_of("signed"))
    return size


def _of(level: Level) -> Callable[..., int]:
    def verify(
        w: World, chain: int, key: int, algorithm: int, message: int, length: int, signature: int
    ) -> int:
        """RSA keys sign by PKCS #1 and PSS, points of either curve by ECDSA with either hash."""
        kept, signer, sealed = (
            w.view(Chain, chain),
            w.view(PublicKey, key),
            w.view(Slice, signature),
        )
        scheme, hash_ = _parts(algorithm)
        if (signer.kind not in _CURVES) if scheme == "ECDSA" else (signer.kind != KeyKind.RSA):
            return 0
        size = x509_digest(w, chain, algorithm, message, length)
        digest = kept.offset_of("signed")
        if not size:
            return 0
        if scheme == "ECDSA":
            curve, number = _CURVES[signer.kind]
            end, numbers = sealed.start + sealed.size, kept.offset_of("numbers")
            if ecdsa_signature_read(w, sealed.start, end, numbers, number):
                return 0
            point = signer.value.start + 1
            return 1 - ECDSA_MODELS[curve, level](w, point, numbers, digest, size)
        given = w.g(RSA).key
        given.modulus, given.size = signer.value.start, signer.value.size
        given.exponent = signer.exponent
        if RECOVER_MODELS[level](w, given.address_, sealed.start, sealed.size):
            return 0
        checks = PSS_MODELS if scheme == "PSS" else PKCS1_MODELS
        return 1 - checks[hash_.lower()](w, digest)

    return variant(f"x509_verify_{level.value}", verify)


VERIFY_MODELS = {level: _of(level) for level in Level}
"""The models by level."""


@model
def x509_verify(
    w: World, chain: int, key: int, algorithm: int, message: int, length: int, signature: int
) -> int:
    """What boot chose."""
    chosen = VERIFY_MODELS[level_of(w, "signatures")]
    return int(chosen(w, chain, key, algorithm, message, length, signature))


@model
def x509_verify_signature(w: World, chain: int, key: int, certificate: int) -> int:
    """RFC 5280 6.1.3 a 1: over tbsCertificate."""
    signed = w.view(Certificate, certificate)
    sealed, algorithm = signed.offset_of("signature"), signed.signature_algorithm
    return int(x509_verify(w, chain, key, algorithm, signed.tbs.start, signed.tbs.size, sealed))
