"""Signatures of certificates: verified by another library, and by the node's routine.

The other library gets the key as the parser kept it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from firmware.layouts.variants import Variant
from firmware.layouts.x509 import Certificate, KeyKind, PublicKey, SignatureAlgorithm
from firmware.x509.chain import x509_chain_begin
from firmware.x509.step import x509_chain_step
from firmware.x509.verify import x509_verify_signature
from tests.support.chains import CHAIN, Bench
from tests.support.variants import choose

if TYPE_CHECKING:
    from tests.support.lab import Lab

SIGNED_ROUTINES = (x509_chain_begin, x509_chain_step, x509_verify_signature)

HASHES: dict[SignatureAlgorithm, hashes.HashAlgorithm] = {
    SignatureAlgorithm.RSA_SHA256: hashes.SHA256(),
    SignatureAlgorithm.RSA_SHA384: hashes.SHA384(),
    SignatureAlgorithm.RSA_SHA512: hashes.SHA512(),
    SignatureAlgorithm.ECDSA_SHA256: hashes.SHA256(),
    SignatureAlgorithm.ECDSA_SHA384: hashes.SHA384(),
}
CURVES: dict[KeyKind, ec.EllipticCurve] = {
    KeyKind.P256: ec.SECP256R1(),
    KeyKind.P384: ec.SECP384R1(),
}


class SignedBench(Bench):
    """Judges chains whose signatures are real; its lab has SIGNED_ROUTINES.

    Args:
        lab: Where the routines are linked.
        node: Let the node's own routine verify too.
    """

    def __init__(self, lab: Lab, *, node: bool) -> None:
        super().__init__(lab, lockstep=False)
        self.node = node

    def verify(self, key: int, certificate: int) -> bool:
        """Tell whether a key has signed a certificate; both sides must agree."""
        good = self.elsewhere(key, certificate)
        if self.node:
            choose(self.lab, Variant.FAST)
            given = {"chain": CHAIN, "key": key, "certificate": certificate}
            assert self.call(x509_verify_signature, **given) == (int(good),)
        return good

    def elsewhere(self, key: int, certificate: int) -> bool:
        """Tell what the other library says."""
        signer: Any = self.lab.view(PublicKey, key)
        signed: Any = self.lab.view(Certificate, certificate)
        value, tbs, sealed = (
            self.lab.machine.read(part.start, part.size)
            for part in (signer.value, signed.tbs, signed.signature)
        )
        algorithm = SignatureAlgorithm(signed.signature_algorithm)
        digest = HASHES[algorithm]
        try:
            if signer.kind == KeyKind.RSA and algorithm.name.startswith("RSA"):
                numbers = rsa.RSAPublicNumbers(signer.exponent, int.from_bytes(value, "big"))
                numbers.public_key().verify(sealed, tbs, padding.PKCS1v15(), digest)
            elif signer.kind in CURVES and algorithm.name.startswith("ECDSA"):
                curve = CURVES[KeyKind(signer.kind)]
                point = ec.EllipticCurvePublicKey.from_encoded_point(curve, value)
                point.verify(sealed, tbs, ec.ECDSA(digest))
            else:
                return False
        except (InvalidSignature, ValueError):
            return False
        return True
