"""Signatures: every algorithm with every key, and everything that does not fit."""

import pytest

from firmware.layouts.field import Level
from firmware.layouts.variants import VARIANTS, Variant
from firmware.layouts.x509 import Certificate, Slice
from firmware.layouts.x509 import SignatureAlgorithm as Algorithm
from firmware.layouts.x509_chain import Chain
from firmware.x509.certificate import x509_parse
from firmware.x509.verify import (
    x509_digest,
    x509_verify,
    x509_verify_adx,
    x509_verify_base,
    x509_verify_signature,
)
from tests.support import certificates as c
from tests.support.chains import CHAIN, REGIONS
from tests.support.keys import fits, sign, spki
from tests.support.lab import Lab

VERIFY = {Level.ADX: x509_verify_adx, Level.BASE: x509_verify_base}
LAB = Lab(
    *VERIFY.values(), x509_digest, x509_verify, x509_verify_signature, x509_parse,
    slots=0, extra=REGIONS, semantics=False,
)  # fmt: skip
LEVELS = pytest.mark.parametrize("level", list(Level))
CERTIFICATE_ALGORITHMS = {
    Algorithm.RSA_SHA256: c.RSA_SHA256,
    Algorithm.RSA_SHA384: c.RSA_SHA384,
    Algorithm.RSA_SHA512: c.RSA_SHA512,
    Algorithm.ECDSA_SHA256: c.ECDSA_SHA256,
    Algorithm.ECDSA_SHA384: c.ECDSA_SHA384,
}
ALGORITHMS = [algorithm for algorithm in Algorithm if algorithm]
MESSAGE = b"what is signed" * 20
ZEROS = c.der(c.SEQUENCE, c.integer(0), c.integer(0))


def put(contents):
    at = LAB.machine.alloc(len(contents) + 1, align=1)
    LAB.machine.write(at, contents + b"\0")
    return at


def parsed(number, **fields):
    """Parse a certificate into the chain; return where it is."""
    encoded = c.Fields(**fields).encode()
    at = CHAIN + Chain.certificates.offset + number * Certificate.SIZE
    registers = {"rsi": put(encoded), "rcx": len(encoded), "rdi": at}
    assert LAB.machine.call("x509_parse", registers)["rax"] == 0
    return at


def given(key, algorithm, sealed, message=MESSAGE):
    """Lay a key and a signature down; return the inputs of a verification."""
    LAB.reset()
    slice_ = LAB.machine.alloc(Slice.SIZE)
    view = LAB.view(Slice, slice_)
    view.start, view.size = put(sealed), len(sealed)
    return {
        "chain": CHAIN,
        "key": parsed(0, key=key) + Certificate.key.offset,
        "algorithm": algorithm,
        "message": put(message),
        "length": len(message),
        "signature": slice_,
    }


def freely(level, inputs):
    return LAB.free(VERIFY[level], **inputs)["rax"] & 0xFFFF_FFFF


@LEVELS
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
@pytest.mark.parametrize("name", ["p256", "p384", "rsa", "rsa-3072"])
def test_signatures_of_another_library(name, algorithm, level):
    if not fits(name, algorithm):
        assert freely(level, given(spki(name), algorithm, ZEROS)) == 0
        return
    key, sealed = spki(name), sign(name, algorithm, MESSAGE)
    assert freely(level, given(key, algorithm, sealed)) == 1
    assert freely(level, given(key, algorithm, sealed, MESSAGE[:-1])) == 0
    assert freely(level, given(key, algorithm, sign(name, algorithm, b"another"))) == 0
    flipped = sealed[:40] + bytes([sealed[40] ^ 1]) + sealed[41:]
    assert freely(level, given(key, algorithm, flipped)) == 0
    if name != "rsa-3072":
        assert freely(level, given(spki(f"{name}-other"), algorithm, sealed)) == 0
    for other in ALGORITHMS:
        if other != algorithm:
            assert freely(level, given(key, other, sealed)) == 0, other.name


RSA_ALGORITHMS = [a for a in ALGORITHMS if not a.name.startswith("ECDSA")]


@LEVELS
@pytest.mark.parametrize("algorithm", RSA_ALGORITHMS, ids=lambda a: a.name)
def test_rsa_in_lockstep(algorithm, level):
    sealed = sign("rsa-3", algorithm, MESSAGE)
    inputs = given(spki("rsa-3"), algorithm, sealed)
    assert LAB.call(VERIFY[level], **inputs).outputs["eax"] == 1


def test_a_message_that_is_another_is_refused_in_lockstep():
    sealed = sign("rsa-3", Algorithm.RSA_SHA256, MESSAGE)
    inputs = given(spki("rsa-3"), Algorithm.RSA_SHA256, sealed, b"")
    assert LAB.call(x509_verify_adx, **inputs).outputs["eax"] == 0


ODD = c.spki(c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2b6570"))), bytes(32))
RSA_KEY = c.rsa_key((1 << 2047) + 1, 3)
REFUSED = {
    "p256-sha256": (spki("p256"), Algorithm.ECDSA_SHA256, ZEROS),
    "p256-sha384": (spki("p256"), Algorithm.ECDSA_SHA384, ZEROS),
    "p384-sha256": (spki("p384"), Algorithm.ECDSA_SHA256, ZEROS),
    "p384-sha384": (spki("p384"), Algorithm.ECDSA_SHA384, ZEROS),
    "trailing": (spki("p256"), Algorithm.ECDSA_SHA256, ZEROS + b"\0"),
    "empty": (spki("p256"), Algorithm.ECDSA_SHA256, b""),
    "rsa-algorithm": (spki("p256"), Algorithm.RSA_SHA256, ZEROS),
    "pss-algorithm": (spki("p384"), Algorithm.PSS_SHA384, ZEROS),
    "unknown-algorithm": (spki("p256"), Algorithm.UNSUPPORTED, ZEROS),
    "beyond-the-algorithms": (RSA_KEY, max(Algorithm) + 1, bytes(256)),
    "rsa-unknown-algorithm": (RSA_KEY, Algorithm.UNSUPPORTED, bytes(256)),
    "rsa-key": (RSA_KEY, Algorithm.ECDSA_SHA256, ZEROS),
    "rsa-empty": (RSA_KEY, Algorithm.RSA_SHA512, b""),
    "rsa-short": (RSA_KEY, Algorithm.PSS_SHA256, bytes(255)),
    "rsa-too-large": (RSA_KEY, Algorithm.RSA_SHA384, b"\xff" * 256),
    "unknown-key": (ODD, Algorithm.ECDSA_SHA256, ZEROS),
    "unknown-key-rsa": (ODD, Algorithm.PSS_SHA512, bytes(256)),
}


@LEVELS
@pytest.mark.parametrize(("key", "algorithm", "sealed"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_in_lockstep(key, algorithm, sealed, level):
    inputs = given(key, algorithm, sealed)
    assert LAB.call(VERIFY[level], **inputs).outputs["eax"] == 0


@pytest.mark.parametrize("choice", list(Variant))
def test_what_boot_chose_is_used(choice):
    inputs = given(RSA_KEY, Algorithm.RSA_SHA256, b"")
    LAB.g(VARIANTS).signatures = choice
    assert LAB.call(x509_verify, **inputs).outputs["eax"] == 0


@pytest.mark.parametrize("algorithm", CERTIFICATE_ALGORITHMS, ids=lambda a: a.name)
def test_a_certificate_with_its_issuers_key(algorithm):
    name = "p256" if algorithm.name.startswith("ECDSA") else "rsa-3"
    inside = CERTIFICATE_ALGORITHMS[algorithm]
    tbs = c.Fields(inside=inside).tbs()
    for message, good in ((tbs, 1), (tbs + b"\0", 0)):
        LAB.reset()
        LAB.g(VARIANTS).signatures = Variant.FAST
        sealed = c.der(c.BITS, b"\0", sign(name, algorithm, message))
        certificate = parsed(1, inside=inside, signature=sealed)
        key = parsed(0, key=spki(name)) + Certificate.key.offset
        inputs = {"chain": CHAIN, "key": key, "certificate": certificate}
        free = LAB.free(x509_verify_signature, **inputs)["rax"] & 0xFFFF_FFFF
        assert free == good


def test_a_certificate_in_lockstep():
    tbs = c.Fields(inside=c.RSA_SHA256).tbs()
    LAB.reset()
    sealed = c.der(c.BITS, b"\0", sign("rsa-3", Algorithm.RSA_SHA256, tbs))
    certificate = parsed(1, inside=c.RSA_SHA256, signature=sealed)
    key = parsed(0, key=spki("rsa-3")) + Certificate.key.offset
    inputs = {"chain": CHAIN, "key": key, "certificate": certificate}
    assert LAB.call(x509_verify_signature, **inputs).outputs["eax"] == 1
