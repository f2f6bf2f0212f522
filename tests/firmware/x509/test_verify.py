"""The signature of a certificate: every hash with every curve, and everything that does not fit."""

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from firmware.layouts.field import Level
from firmware.layouts.x509 import Certificate
from firmware.layouts.x509_chain import Chain
from firmware.x509.certificate import x509_parse
from firmware.x509.verify import x509_verify_signature_adx, x509_verify_signature_base
from tests.support import certificates as c
from tests.support.chains import CHAIN, REGIONS
from tests.support.lab import Lab

VERIFY = {Level.ADX: x509_verify_signature_adx, Level.BASE: x509_verify_signature_base}
LAB = Lab(*VERIFY.values(), x509_parse, slots=0, extra=REGIONS, semantics=False)
KEYS = {
    "p256": ec.derive_private_key(77, ec.SECP256R1()),
    "p384": ec.derive_private_key(78, ec.SECP384R1()),
}
HASHES = {"sha256": (c.ECDSA_SHA256, hashes.SHA256()), "sha384": (c.ECDSA_SHA384, hashes.SHA384())}
ZEROS = c.der(c.SEQUENCE, c.integer(0), c.integer(0))


def spki(key):
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def prepare(key, algorithm, sealed):
    """Parse a certificate with this signature into the chain, and one with the key beside it."""
    LAB.reset()
    found: list[int] = []
    for fields in (
        c.Fields(inside=algorithm, signature=c.der(c.BITS, b"\0", sealed)),
        c.Fields(key=key),
    ):
        encoded = fields.encode()
        start = LAB.machine.alloc(len(encoded), align=1)
        LAB.machine.write(start, encoded)
        at = CHAIN + Chain.certificates.offset + len(found) * Certificate.SIZE
        registers = {"rsi": start, "rcx": len(encoded), "rdi": at}
        assert LAB.machine.call("x509_parse", registers)["rax"] == 0
        found.append(at)
    return {"chain": CHAIN, "key": found[1] + Certificate.key.offset, "certificate": found[0]}


def freely(level, **given):
    registers = {"rdi": given["chain"], "rsi": given["key"], "rdx": given["certificate"]}
    return LAB.machine.call(VERIFY[level].name, registers, limit=20_000_000)["rax"] & 0xFFFF_FFFF


def signed(curve, hash_, message=None):
    algorithm, digest = HASHES[hash_]
    message = message or c.Fields(inside=algorithm).tbs()
    return algorithm, KEYS[curve].sign(message, ec.ECDSA(digest))


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("hash_", HASHES)
@pytest.mark.parametrize("curve", KEYS)
def test_signatures_of_another_library(curve, hash_, level):
    key = spki(KEYS[curve])
    algorithm, sealed = signed(curve, hash_)
    assert freely(level, **prepare(key, algorithm, sealed)) == 1
    _, other = signed(curve, hash_, b"another message")
    assert freely(level, **prepare(key, algorithm, other)) == 0
    stranger = ec.derive_private_key(79, KEYS[curve].curve)
    assert freely(level, **prepare(spki(stranger), algorithm, sealed)) == 0
    wrong = c.ECDSA_SHA384 if hash_ == "sha256" else c.ECDSA_SHA256
    assert freely(level, **prepare(key, wrong, sealed)) == 0


ODD = c.spki(c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2b6570"))), bytes(32))
REFUSED = {
    "p256-sha256": (spki(KEYS["p256"]), c.ECDSA_SHA256, ZEROS),
    "p256-sha384": (spki(KEYS["p256"]), c.ECDSA_SHA384, ZEROS),
    "p384-sha256": (spki(KEYS["p384"]), c.ECDSA_SHA256, ZEROS),
    "p384-sha384": (spki(KEYS["p384"]), c.ECDSA_SHA384, ZEROS),
    "trailing": (spki(KEYS["p256"]), c.ECDSA_SHA256, ZEROS + b"\0"),
    "empty": (spki(KEYS["p256"]), c.ECDSA_SHA256, b""),
    "rsa-algorithm": (spki(KEYS["p256"]), c.RSA_SHA256, ZEROS),
    "unknown-algorithm": (spki(KEYS["p256"]), c.der(c.SEQUENCE, c.der(c.OID, b"\x2a")), ZEROS),
    "rsa-key": (c.rsa_key((1 << 2047) + 1, 3), c.ECDSA_SHA256, ZEROS),
    "unknown-key": (ODD, c.ECDSA_SHA256, ZEROS),
}


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize(("key", "algorithm", "sealed"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_in_lockstep(key, algorithm, sealed, level):
    assert LAB.call(VERIFY[level], **prepare(key, algorithm, sealed)).outputs["eax"] == 0
