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

from firmware.errors import describe
from firmware.layouts.x509 import (
    PATH_ANY,
    Certificate,
    CertificateFlag,
    KeyKind,
    KeyUsage,
    PublicKey,
    SignatureAlgorithm,
)
from firmware.x509.certificate import x509_extension, x509_parse, x509_same
from firmware.x509.key import x509_key
from tests.support import certificates as c
from tests.support.lab import Lab

LAB = Lab(x509_parse, x509_extension, x509_same, x509_key, slots=0)
QUICK = Lab(x509_parse, slots=0, semantics=False)


class Parsed:
    """A certificate that went through the parser."""

    def __init__(self, encoded, *, first=False, lab=LAB):
        lab.reset()
        self.lab, self.at = lab, lab.machine.alloc(Certificate.SIZE)
        start = lab.put(encoded, first=first)
        given = {"encoded": start, "length": len(encoded), "certificate": self.at}
        self.error = lab.call(x509_parse, **given).outputs["eax"]
        self.view = lab.view(Certificate, self.at)
        assert self.view.error == self.error

    def slice(self, name):
        found = getattr(self.view, name)
        return self.lab.machine.read(found.start, found.size)


def reason(fields):
    encoded = fields.encode() if isinstance(fields, c.Fields) else fields
    return describe(Parsed(encoded, lab=QUICK).error)


def with_extensions(*extensions, **fields):
    return c.Fields(extensions=list(extensions), **fields)


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


ODD_2048 = (1 << 2047) + 1
KEYS = [
    (c.spki(c.P256, c.POINT), KeyKind.P256),
    (c.spki(c.P384, b"\4" + bytes(96)), KeyKind.P384),
    (c.spki(c.P256, b"\2" + bytes(32)), 0),  # compressed
    (c.spki(c.P256, b"\3" + bytes(64)), 0),
    (c.spki(c.P384, b"\4" + bytes(64)), 0),
    (c.spki(c.P256, b""), 0),
    (c.spki(c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2b6570"))), bytes(32)), 0),
    # Explicit parameters instead of a named curve.
    (
        c.spki(
            c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2a8648ce3d0201")), b"\x30\0"), c.POINT
        ),
        0,
    ),
    (c.rsa_key(ODD_2048, 65537), KeyKind.RSA),
    (c.rsa_key(ODD_2048, 3), KeyKind.RSA),
    (c.rsa_key((1 << 4095) + 1, 0xFFFF_FFFF), KeyKind.RSA),
    (c.rsa_key(ODD_2048, 1), 0),
    (c.rsa_key(ODD_2048, 65536), 0),
    (c.rsa_key(ODD_2048, 1 << 32 | 1), 0),
    (c.rsa_key(ODD_2048, -3), 0),
    (c.rsa_key(ODD_2048 - 1, 65537), 0),
    (c.rsa_key((1 << 2046) + 1, 65537), 0),  # 2047 bits
    (c.rsa_key((1 << 2039) + 1, 65537), 0),
    (c.rsa_key((1 << 4103) + 1, 65537), 0),
    (c.spki(c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2a864886f70d010101"))), b"x"), 0),
]


@pytest.mark.parametrize(("key", "kind"), KEYS)
def test_x509_parse_keys(key, kind):
    got = Parsed(c.Fields(key=key).encode())
    assert (got.error, got.view.key.kind) == (0, kind)


BAD_KEYS = [
    b"\x30\0",
    c.der(c.SEQUENCE, c.P256),
    c.der(c.SEQUENCE, c.P256, c.der(c.BITS)),
    c.spki(c.P256, c.POINT, unused=1),
    c.der(c.SEQUENCE, c.P256, c.der(c.BITS, b"\0", c.POINT), b"\5\0"),
    c.der(c.SEQUENCE, c.P256, c.der(c.OCTETS, b"\0", c.POINT)),
    c.spki(c.RSA, b""),
    c.spki(c.RSA, b"\x30\0"),
    c.spki(c.RSA, c.der(c.SEQUENCE, c.integer(-5), c.integer(3))),
    c.spki(c.RSA, c.der(c.SEQUENCE, c.integer(ODD_2048))),
    c.spki(c.RSA, c.der(c.SEQUENCE, c.integer(ODD_2048), c.integer(3)) + b"\0"),
    c.spki(c.RSA, c.der(c.SEQUENCE, c.integer(ODD_2048), c.integer(3), c.integer(3))),
    c.spki(c.RSA, c.der(c.SEQUENCE, c.der(c.INTEGER, bytes(2), b"\x80"), c.integer(3))),
]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_x509_parse_malformed_keys_are_refused(key):
    fields = c.Fields(key=key)
    at = fields.encode().index(fields.subject) + len(fields.subject)
    assert reason(fields) == f"x509.not_der({at})"


@pytest.mark.parametrize("info", [*BAD_KEYS, b"", b"\5\0", c.rsa_key(ODD_2048, 3) + b"\0"])
@pytest.mark.parametrize("first", [False, True], ids=["ends", "begins"])
def test_x509_key_alone_is_refused_as_well(info, first):
    LAB.reset()
    key, at = LAB.machine.alloc(PublicKey.SIZE), LAB.put(info, first=first)
    LAB.machine.write(key, bytes(PublicKey.SIZE))
    assert LAB.call(x509_key, info=at, end=at + len(info), key=key).outputs["cf"] == 1


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


TRUE, FALSE = c.der(c.BOOLEAN, b"\xff"), c.der(c.BOOLEAN, b"\0")
EXTENSIONS = {
    "unknown": (c.extension(b"\x2a\x03", b"x"), "none"),
    "unknown-critical": (c.extension(b"\x2a\x03", b"x", critical=True), "critical"),
    "policies-critical": (c.extension(32, b"x", critical=True), "critical(32)"),
    "id-ce-beyond": (c.extension(200, b"x", critical=True), "critical(200)"),
    "id-ce-longer": (c.extension(b"\x55\x1d\x81\x01", b"x", critical=True), "critical"),
    "other-arc": (c.extension(b"\x55\x04\x13", b"x", critical=True), "critical"),
    "critical-false": (
        c.der(c.SEQUENCE, c.der(c.OID, b"\x55\x1d\x0e"), FALSE, b"\4\0"),
        "extension(14)",
    ),
    "critical-one": (
        c.der(c.SEQUENCE, c.der(c.OID, b"\x55\x1d\x0e"), c.der(c.BOOLEAN, b"\1"), b"\4\0"),
        "extension(14)",
    ),
    "critical-long": (
        c.der(c.SEQUENCE, c.der(c.OID, b"\x55\x1d\x0e"), c.der(c.BOOLEAN, b"\xff\xff"), b"\4\0"),
        "extension(14)",
    ),
    "critical-cut": (
        c.der(c.SEQUENCE, c.der(c.OID, b"\x55\x1d\x0e"), b"\1\5"),
        "extension(14)",
    ),
    "no-oid": (c.der(c.SEQUENCE, b"\4\0"), "extension"),
    "oid-empty": (c.extension(b"", b""), "extension"),
    "no-value": (c.der(c.SEQUENCE, c.der(c.OID, b"\x55\x1d\x0e")), "extension(14)"),
    "value-tag": (c.der(c.SEQUENCE, c.der(c.OID, b"\x55\x1d\x0e"), b"\5\0"), "extension(14)"),
    "trailing": (
        c.der(c.SEQUENCE, c.der(c.OID, b"\x55\x1d\x0e"), b"\4\0\5\0"),
        "extension(14)",
    ),
    "not-a-sequence": (b"\5\0", "extension"),
    # basicConstraints
    "bc-no-ca": (c.extension(19, c.der(c.SEQUENCE)), "none"),
    "bc-ca": (c.extension(19, c.der(c.SEQUENCE, TRUE)), "none"),
    "bc-false": (c.extension(19, c.der(c.SEQUENCE, FALSE)), "extension(19)"),
    "bc-long": (c.extension(19, c.der(c.SEQUENCE, c.der(c.BOOLEAN, b"\0\xff"))), "extension(19)"),
    "bc-length-alone": (c.extension(19, c.der(c.SEQUENCE, c.integer(1))), "extension(19)"),
    "bc-negative": (c.extension(19, c.der(c.SEQUENCE, TRUE, c.integer(-1))), "extension(19)"),
    "bc-huge": (c.extension(19, c.der(c.SEQUENCE, TRUE, c.integer(1 << 32))), "extension(19)"),
    "bc-more": (
        c.extension(19, c.der(c.SEQUENCE, TRUE, c.integer(1), b"\5\0")),
        "extension(19)",
    ),
    "bc-other": (c.extension(19, c.der(c.SEQUENCE, TRUE, b"\5\0")), "extension(19)"),
    "bc-trailing": (c.extension(19, c.der(c.SEQUENCE) + b"\0"), "extension(19)"),
    "bc-empty": (c.extension(19, b""), "extension(19)"),
    # keyUsage
    "ku-two-bytes": (c.extension(15, c.der(c.BITS, b"\7\x80\x80")), "none"),
    "ku-three-bytes": (c.extension(15, c.der(c.BITS, b"\7\x80\x80\x80")), "extension(15)"),
    "ku-zero": (c.extension(15, c.der(c.BITS, b"\0\0")), "extension(15)"),
    "ku-trailing-zero": (c.extension(15, c.der(c.BITS, b"\4\x20")), "extension(15)"),
    "ku-unused-set": (c.extension(15, c.der(c.BITS, b"\6\x20")), "extension(15)"),
    "ku-empty": (c.extension(15, c.der(c.BITS, b"\0")), "extension(15)"),
    "ku-nothing": (c.extension(15, c.der(c.BITS)), "extension(15)"),
    "ku-tag": (c.extension(15, c.der(c.OCTETS, b"\7\x80")), "extension(15)"),
    "ku-trailing": (c.extension(15, c.der(c.BITS, b"\7\x80") + b"\0"), "extension(15)"),
    # extKeyUsage
    "eku": (c.extension(37, c.der(c.SEQUENCE, c.CLIENT_AUTH)), "none"),
    "eku-tag-outside": (c.extension(37, b"\5\0"), "extension(37)"),
    "eku-empty": (c.extension(37, c.der(c.SEQUENCE)), "extension(37)"),
    "eku-oid-empty": (c.extension(37, c.der(c.SEQUENCE, b"\6\0")), "extension(37)"),
    "eku-tag": (c.extension(37, c.der(c.SEQUENCE, b"\5\0")), "extension(37)"),
    "eku-trailing": (c.extension(37, c.der(c.SEQUENCE, c.CLIENT_AUTH) + b"\0"), "extension(37)"),
    # subjectAltName
    "san-kinds": (
        c.extension(
            17,
            c.der(
                c.SEQUENCE,
                b"\xa0\0",
                b"\x81\0",
                b"\xa3\0",
                b"\xa4\0",
                b"\xa5\0",
                b"\x86\0",
                b"\x88\0",
            ),
        ),
        "none",
    ),
    "san-ipv6": (c.extension(17, c.der(c.SEQUENCE, c.der(0x87, bytes(16)))), "none"),
    "san-ip": (c.extension(17, c.der(c.SEQUENCE, c.der(0x87, bytes(5)))), "extension(17)"),
    "san-empty": (c.extension(17, c.der(c.SEQUENCE)), "extension(17)"),
    "san-primitive": (c.extension(17, c.der(c.SEQUENCE, b"\x80\0")), "extension(17)"),
    "san-constructed": (c.extension(17, c.der(c.SEQUENCE, b"\xa2\0")), "extension(17)"),
    "san-number": (c.extension(17, c.der(c.SEQUENCE, b"\x89\0")), "extension(17)"),
    "san-class": (c.extension(17, c.der(c.SEQUENCE, b"\x16\0")), "extension(17)"),
    "san-application": (c.extension(17, c.der(c.SEQUENCE, b"\x42\0")), "extension(17)"),
    "san-cut": (c.extension(17, c.der(c.SEQUENCE, b"\x82\5ab")), "extension(17)"),
    "san-trailing": (c.extension(17, c.der(c.SEQUENCE, b"\x82\0") + b"\0"), "extension(17)"),
    "san-tag": (c.extension(17, b"\5\0"), "extension(17)"),
    # nameConstraints
    "nc-empty": (c.extension(30, c.der(c.SEQUENCE)), "extension(30)"),
    "nc-trailing": (c.extension(30, c.der(c.SEQUENCE, b"\xa0\0") + b"\0"), "extension(30)"),
    "nc-tag": (c.extension(30, b"\5\0"), "extension(30)"),
}


@pytest.mark.parametrize(("given", "wanted"), EXTENSIONS.values(), ids=EXTENSIONS)
def test_x509_parse_extensions(given, wanted):
    got = reason(with_extensions(c.extension(35, b"before"), given))
    assert got == (wanted if wanted == "none" else f"x509.{wanted}")


@pytest.mark.parametrize("number", [14, 15, 17, 19, 30, 32, 37, 63])
def test_x509_parse_an_extension_twice_is_refused(number):
    values = {
        15: c.der(c.BITS, b"\7\x80"),
        17: c.der(c.SEQUENCE, b"\x82\0"),
        19: c.der(c.SEQUENCE),
        30: c.der(c.SEQUENCE, c.der(0xA0, c.der(c.SEQUENCE, b"\x82\0"))),
        37: c.der(c.SEQUENCE, c.SERVER_AUTH),
    }
    one = c.extension(number, values.get(number, b""))
    between = c.extension(31, b"")
    assert reason(with_extensions(one, between, one)) == f"x509.duplicate({number})"


def test_x509_parse_any_extended_key_usage_is_not_server_auth():
    anything = c.der(c.OID, bytes.fromhex("551d2500"))
    got = Parsed(with_extensions(c.extension(37, c.der(c.SEQUENCE, anything))).encode())
    assert got.view.flags == CertificateFlag.EXTENDED_KEY_USAGE


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
    c.extension(19, c.der(c.SEQUENCE, TRUE, c.integer(3))),
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
