"""One signature of a certificate."""

from collections.abc import Callable

from emulator.effects import World
from emulator.models.crypto.ecdsa import ECDSA_MODELS
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.crypto.sha512 import sha384_finish, sha384_start, sha512_update
from emulator.models.crypto.variants import variant
from emulator.models.x509.signature import ecdsa_signature_read
from firmware.layouts.field import Level
from firmware.layouts.x509 import Certificate, KeyKind, PublicKey, SignatureAlgorithm
from firmware.layouts.x509_chain import Chain

_HASHES = {
    SignatureAlgorithm.ECDSA_SHA256: (sha256_start, sha256_update, sha256_finish, 32),
    SignatureAlgorithm.ECDSA_SHA384: (sha384_start, sha512_update, sha384_finish, 48),
}
_CURVES = {KeyKind.P256: ("p256", 32), KeyKind.P384: ("p384", 48)}


def _of(level: Level) -> Callable[..., int]:
    def verify(w: World, chain: int, key: int, certificate: int) -> int:
        """RFC 5758 3.2: any of the hashes with any of the curves, r and s in DER."""
        kept, signer = w.view(Chain, chain), w.view(PublicKey, key)
        signed = w.view(Certificate, certificate)
        if signer.kind not in _CURVES or signed.signature_algorithm not in _HASHES:
            return 0
        curve, size = _CURVES[signer.kind]
        start, update, finish, digest_size = _HASHES[signed.signature_algorithm]
        work, digest = kept.hash.address_, kept.offset_of("signed")
        start(w, work)
        update(w, work, signed.tbs.start, signed.tbs.size)
        finish(w, work, digest)
        sealed, numbers = signed.signature, kept.offset_of("numbers")
        if ecdsa_signature_read(w, sealed.start, sealed.start + sealed.size, numbers, size):
            return 0
        point = signer.value.start + 1
        model = ECDSA_MODELS[curve, level]
        return 1 - model(w, point, numbers, digest, digest_size)

    return variant(f"x509_verify_signature_{level.value}", verify)


VERIFY_MODELS = {level: _of(level) for level in Level}
"""The models by level."""
