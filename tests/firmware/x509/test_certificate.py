"""What the parser keeps of a certificate, and what it refuses with which reason."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.x509 import PATH_ANY, CertificateFlag, KeyKind, KeyUsage, SignatureAlgorithm
from firmware.x509.certificate import x509_same
from tests.support import certificates as c
from tests.support.parsed import LAB, QUICK, Parsed, reason, with_extensions


def test_x509_parse_keeps_every_part():
    names = c.der(c.SEQUENCE, c.der(0x82, b"gateway.test"), c.der(0x87, b"\x0a\0\0\1"))
    subtrees = c.der(c.SEQUENCE, c.der(0xA0, c.der(c.SEQUENCE, c.der(0x82, b"test"))))
    purposes = c.der(c.SEQUENCE, c.CLIENT_AUTH, c.SERVER_AUTH)
    fields = with_extensions(
        c.extension(14, c.der(c.OCTETS, b"key id")),
        c.extension(15, c.der(c.BITS, b"\5\xa0"), critical=True),
        c.extension(17, names),
        c.extension(19, c.der(c.SEQUENCE, c.der(c.BOOLEAN, b"\xff"), c.integer(3)), critical=True),
        c.extension(30, subtrees, critical=True),
        c.extension(37, purposes),
        c.extension(bytes.fromhex("2b06010505070101"), b"anything"),
    )
    got = Parsed(fields.encode())
    assert got.error == 0
    assert got.slice("der") == fields.encode()
    assert got.slice("tbs") == fields.tbs()
    assert got.slice("serial") == b"\x4d"
    assert got.slice("issuer") == fields.issuer
    assert got.slice("subject") == fields.subject
    assert got.slice("spki") == fields.key
    assert got.slice("signature") == b"not verified here"
    assert got.slice("names") == names[2:]
    assert got.slice("constraints") == subtrees[2:]
    assert (got.view.not_before, got.view.not_after) == (1704067200, 1735689600)
    assert (got.view.key.kind, got.view.path_length) == (KeyKind.P256, 3)
    assert got.view.flags == CertificateFlag(15)
    assert got.view.key_usage == KeyUsage.DIGITAL_SIGNATURE | 0x20
    assert got.view.signature_algorithm == SignatureAlgorithm.ECDSA_SHA256
    value = got.view.key.value
    assert LAB.machine.read(value.start, value.size) == c.POINT


def test_x509_parse_without_extensions_says_nothing():
    got = Parsed(c.Fields().encode())
    assert (got.error, got.view.flags, got.view.path_length) == (0, 0, PATH_ANY)
    assert (got.view.names.size, got.view.constraints.size) == (0, 0)


@pytest.mark.parametrize(
    ("algorithm", "wanted"),
    [
        (c.ECDSA_SHA256, SignatureAlgorithm.ECDSA_SHA256),
        (c.ECDSA_SHA384, SignatureAlgorithm.ECDSA_SHA384),
        (c.RSA_SHA256, SignatureAlgorithm.RSA_SHA256),
        (c.RSA_SHA384, SignatureAlgorithm.RSA_SHA384),
        (c.RSA_SHA512, SignatureAlgorithm.RSA_SHA512),
        (c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2a864886f70d010105")), b"\5\0"), 0),
        # Without NULL, and with one where none belongs.
        (c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2a864886f70d01010b"))), 0),
        (c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2a8648ce3d040302")), b"\5\0"), 0),
    ],
)
def test_x509_parse_signature_algorithms(algorithm, wanted):
    got = Parsed(c.Fields(inside=algorithm).encode())
    assert (got.error, got.view.signature_algorithm) == (0, wanted)


GOOD = c.Fields()
SHORT = c.der(c.SEQUENCE, c.der(0x17, b"240101000000Z"))
LONG = c.der(c.SEQUENCE, *[c.der(0x17, b"240101000000Z")] * 3)
MALFORMED = {
    "empty": (b"", "not_der"),
    "cut": (GOOD.encode()[:-1], "not_der"),
    "trailing": (c.Fields(behind=b"\0"), "not_der"),
    "trailing-inside": (
        c.der(c.SEQUENCE, GOOD.tbs(), GOOD.inside, GOOD.signature, b"\5\0"),
        "not_der",
    ),
    "no-tbs": (c.der(c.SEQUENCE, c.ECDSA_SHA256), "not_der"),
    "no-parts": (c.der(c.SEQUENCE), "not_der"),
    "no-algorithm": (c.der(c.SEQUENCE, GOOD.tbs()), "not_der"),
    "no-version": (c.Fields(version=b""), "version"),
    "version-1": (c.Fields(version=b"\xa0\x03\x02\x01\x00"), "version"),
    "version-2": (c.Fields(version=b"\xa0\x03\x02\x01\x01"), "version"),
    "tbs-too-short": (
        c.der(c.SEQUENCE, c.der(c.SEQUENCE, b"\xa0\x03\x02\x01"), GOOD.inside, GOOD.signature),
        "not_der",
    ),
    "serial-empty": (c.Fields(serial=b"\2\0"), "not_der"),
    "serial-long": (c.Fields(serial=b"\2\2\0\1"), "not_der"),
    "serial-long-negative": (c.Fields(serial=b"\2\2\xff\x80"), "not_der"),
    "serial-missing": (c.Fields(serial=b""), "not_der"),
    "algorithms": (c.Fields(outside=c.ECDSA_SHA384), "algorithms_differ"),
    "algorithm-longer": (c.Fields(outside=c.RSA_SHA256), "algorithms_differ"),
    "algorithm-missing": (c.Fields(inside=b"", outside=c.RSA_SHA256), "algorithms_differ"),
    "algorithm-other": (c.Fields(inside=b"\5\0", outside=c.RSA_SHA256), "not_der"),
    "signature-empty": (c.Fields(signature=b"\3\0"), "not_der"),
    "signature-bits": (c.Fields(signature=b"\3\2\4\x10"), "not_der"),
    "signature-octets": (c.Fields(signature=b"\4\2\0\x10"), "not_der"),
    "issuer-empty": (c.Fields(issuer=b"\x30\0"), "not_der"),
    "issuer-missing": (c.Fields(issuer=b"\5\0"), "not_der"),
    "validity-none": (c.Fields(validity=b"\5\0"), "not_der"),
    "validity-empty": (c.Fields(validity=c.der(c.SEQUENCE)), "not_der"),
    "validity-short": (c.Fields(validity=SHORT), "not_der"),
    "validity-long": (c.Fields(validity=LONG), "not_der"),
    "time": (c.Fields(validity=LONG.replace(b"0Z", b"00")), "time"),
    "subject": (c.Fields(subject=b"\5\0"), "not_der"),
    "no-key": (c.Fields(key=b""), "not_der"),
    "unique": (c.Fields(unique=b"\x81\2\0\1"), "not_der"),
    "extensions-empty": (c.Fields(unique=c.der(0xA3, b"\x30\0")), "extension"),
    "extensions-none": (c.Fields(unique=b"\xa3\0"), "not_der"),
    "extensions-twice": (
        c.Fields(unique=c.der(0xA3, b"\x30\0"), extensions=[c.extension(14, b"")]),
        "not_der",
    ),
    "extensions-trailing": (
        c.Fields(unique=c.der(0xA3, c.der(c.SEQUENCE, c.extension(14, b"")), b"\5\0")),
        "not_der",
    ),
}


@pytest.mark.parametrize(("fields", "wanted"), MALFORMED.values(), ids=MALFORMED)
def test_x509_parse_malformed_is_refused(fields, wanted):
    assert reason(fields).split("(")[0] == f"x509.{wanted}"


@pytest.mark.parametrize("serial", [b"\2\1\0", b"\2\1\xff", b"\2\2\0\x80", b"\2\2\xff\x7f"])
def test_x509_parse_takes_any_serial_in_its_shortest_form(serial):
    assert reason(c.Fields(serial=serial)) == "none"


def test_x509_parse_names_the_place_of_what_is_wrong():
    encoded = c.Fields(subject=b"\5\0").encode()
    at = encoded.index(b"\5\0")
    assert reason(encoded) == f"x509.not_der({at})"


def made_by_cryptography(key):
    """Return a certificate as another library writes one."""
    names = [x509.NameAttribute(x509.NameOID.COMMON_NAME, "A Root")]
    builder = (
        x509.CertificateBuilder(x509.Name(names), x509.Name(names), key.public_key(), 0x1234567890)
        .not_valid_before(datetime.datetime(2024, 2, 29, 12))
        .not_valid_after(datetime.datetime(2055, 1, 1))
        .add_extension(x509.BasicConstraints(True, 0), True)
        .add_extension(
            x509.KeyUsage(*(n in {0, 5, 6} for n in range(9))),
            True,
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("a.test")]), False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )
    return builder.sign(key, hashes.SHA256())


KEYED = {
    "p256": (ec.derive_private_key(5, ec.SECP256R1()), KeyKind.P256),
    "p384": (ec.derive_private_key(5, ec.SECP384R1()), KeyKind.P384),
    "rsa": (rsa.generate_private_key(65537, 2048), KeyKind.RSA),
}


@pytest.mark.parametrize(("key", "kind"), KEYED.values(), ids=KEYED)
def test_x509_parse_reads_what_another_library_writes(key, kind):
    made = made_by_cryptography(key)
    encoded = made.public_bytes(Encoding.DER)
    got = Parsed(encoded)
    assert got.error == 0
    assert got.slice("tbs") == made.tbs_certificate_bytes
    assert got.slice("subject") == got.slice("issuer") == made.subject.public_bytes()
    assert got.slice("signature") == made.signature
    assert got.view.not_before == made.not_valid_before_utc.timestamp()
    assert got.view.not_after == made.not_valid_after_utc.timestamp()
    assert (got.view.key.kind, got.view.path_length) == (kind, 0)
    assert got.view.key_usage == KeyUsage.DIGITAL_SIGNATURE | KeyUsage.KEY_CERT_SIGN | 2
    if kind == KeyKind.RSA:
        numbers, value = key.public_key().public_numbers(), got.view.key.value
        raw = LAB.machine.read(value.start, value.size)
        assert (int.from_bytes(raw, "big"), got.view.key.exponent) == (numbers.n, numbers.e)


SAMPLE = with_extensions(
    c.extension(15, c.der(c.BITS, b"\5\xa0"), critical=True),
    c.extension(17, c.der(c.SEQUENCE, c.der(0x82, b"a.test"), c.der(0x87, bytes(4)))),
    c.extension(19, c.der(c.SEQUENCE, c.TRUE, c.integer(3))),
    c.extension(30, c.der(c.SEQUENCE, c.der(0xA0, c.der(c.SEQUENCE, c.der(0x82, b"t"))))),
    c.extension(37, c.der(c.SEQUENCE, c.SERVER_AUTH)),
).encode()


@pytest.mark.parametrize("first", [False, True], ids=["ends", "begins"])
def test_x509_parse_at_every_cut(first):
    """A certificate that ends early is refused, and no byte outside of it is looked at."""
    for cut in range(0, len(SAMPLE), 3):
        assert Parsed(SAMPLE[:cut], first=first, lab=QUICK).error != 0


@settings(max_examples=70)
@given(data=st.data())
def test_x509_parse_any_damage_matches_the_model(data):
    raw = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(
            st.one_of(st.sampled_from([0, 1, 2, 0x30, 0x7F, 0x80, 0xFF]), st.integers(0, 255))
        )
    Parsed(bytes(raw), first=data.draw(st.booleans()), lab=QUICK)


@settings(max_examples=40)
@given(one=st.binary(max_size=9), other=st.binary(max_size=9))
def test_x509_same(one, other):
    LAB.reset()
    for second in (other, one):
        at = LAB.machine.alloc(16)
        LAB.machine.write(at, second or b"\0")
        given = {"one": LAB.put(one), "size": len(one), "other": at, "other_size": len(second)}
        assert LAB.call(x509_same, **given).outputs["zf"] == int(one == second)
