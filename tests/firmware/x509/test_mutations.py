"""A good chain with any byte changed: never accepted unless another library accepts it too."""

import datetime
import functools
import random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tests.support import certificates as c
from tests.support.chains import HOST, NOW, REGIONS, store_of
from tests.support.lab import Lab
from tests.support.signatures import SIGNED_ROUTINES, SignedBench

BENCH = SignedBench(Lab(*SIGNED_ROUTINES, slots=0, extra=REGIONS, semantics=False), node=False)
WHEN = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
OTHER = b"*.b.test"
KEYS = {
    "root": ec.derive_private_key(7, ec.SECP384R1()),
    "issuer": ec.derive_private_key(8, ec.SECP256R1()),
    "leaf": ec.derive_private_key(9, ec.SECP256R1()),
}


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def made(subject, issuer):
    """Return a certificate of the web's profile."""
    key, signer = KEYS[subject].public_key(), KEYS[issuer]
    authority = subject != "leaf"
    uses = {5, 6} if authority else {0}
    builder = (
        x509.CertificateBuilder(name(issuer), name(subject), key, 0x1234567890ABCDEF)
        .not_valid_before(WHEN - datetime.timedelta(days=30))
        .not_valid_after(WHEN + datetime.timedelta(days=30))
        .add_extension(x509.KeyUsage(*(n in uses for n in range(9))), True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
        )
    )
    if authority:
        builder = builder.add_extension(x509.BasicConstraints(True, None), True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
    else:
        names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.DNSName(OTHER.decode())])
        builder = builder.add_extension(names, False).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False
        )
    return builder.sign(signer, hashes.SHA256())


@functools.cache
def chain():
    return tuple(made(*pair) for pair in (("leaf", "issuer"), ("issuer", "root"), ("root", "root")))


def oracle(leaf, issuer):
    """Return what the other library says: "none" or its reason."""
    try:
        verifier = (
            PolicyBuilder()
            .store(Store([chain()[2]]))
            .time(WHEN.replace(tzinfo=None))
            .build_server_verifier(x509.DNSName(HOST))
        )
        issuers = [x509.load_der_x509_certificate(issuer)]
        verifier.verify(x509.load_der_x509_certificate(leaf), issuers)
    except (VerificationError, ValueError, Warning) as problem:
        return str(problem)
    return "none"


def ours(leaf, issuer):
    BENCH.fresh()
    return BENCH.judge([leaf, issuer], store_of(chain()[2].public_bytes(Encoding.DER))).reason


def encoded():
    return [one.public_bytes(Encoding.DER) for one in chain()[:2]]


def test_the_chain_is_good_for_both():
    assert ours(*encoded()) == oracle(*encoded()) == "none"


@pytest.mark.parametrize("which", [0, 1], ids=["leaf", "issuer"])
def test_no_byte_of_a_good_chain_can_change(which):
    source = random.Random(which)
    accepted = 0
    for at in range(len(encoded()[which])):
        certificates = encoded()
        raw = bytearray(certificates[which])
        raw[at] ^= source.randrange(1, 256)
        certificates[which] = bytes(raw)
        if ours(*certificates) == "none":
            accepted += 1
            assert oracle(*certificates) == "none", (at, raw.hex())
    assert accepted == 0, "every byte is signed, part of a signature, or DER with one form"


def unread(which):
    """Return the places in a tbsCertificate of what is not read here.

    The other library asks for key identifiers, a positive serial, and ASCII in names of other
    hosts, and takes the subject apart; see docs/x509.md.
    """
    certificate, tbs = chain()[which], chain()[which].tbs_certificate_bytes
    places = set()
    for kind, number in ((x509.AuthorityKeyIdentifier, 35), (x509.SubjectKeyIdentifier, 14)):
        for found in certificate.extensions:
            if isinstance(found.value, kind):
                whole = c.extension(number, found.value.public_bytes())
                places |= set(range(tbs.index(whole), tbs.index(whole) + len(whole)))
    serial = c.integer(certificate.serial_number)
    subject = certificate.subject.public_bytes()
    places |= set(range(tbs.index(subject) + 2, tbs.index(subject) + len(subject)))
    if OTHER in tbs:
        places |= set(range(tbs.index(OTHER), tbs.index(OTHER) + len(OTHER)))
    return places | {tbs.index(serial) + 2}


@pytest.mark.parametrize(("which", "signer"), [(0, "issuer"), (1, "root")], ids=["leaf", "issuer"])
def test_a_changed_byte_that_is_signed_again_is_refused_where_the_other_refuses_it(which, signer):
    """Now nothing but the rules stands between a wrong certificate and trust."""
    source = random.Random(signer)
    tbs = chain()[which].tbs_certificate_bytes
    algorithm = encoded()[which][4 + len(tbs) :][: len(c.ECDSA_SHA256)]
    assert algorithm == c.ECDSA_SHA256
    accepted = 0
    for at in range(len(tbs)):
        raw = bytearray(tbs)
        raw[at] ^= source.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
        sealed = c.der(c.BITS, b"\0", KEYS[signer].sign(bytes(raw), ec.ECDSA(hashes.SHA256())))
        certificates = encoded()
        certificates[which] = c.der(c.SEQUENCE, bytes(raw), algorithm, sealed)
        if ours(*certificates) == "none":
            accepted += 1
            assert oracle(*certificates) == "none" or at in unread(which), (at, raw.hex())
    assert accepted > 10, "serial numbers, times and names may differ"
