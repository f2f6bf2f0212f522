"""A certificate as the parser leaves it, what is supported, and every reason to refuse one."""

from __future__ import annotations

import enum

from firmware.errors import DETAILS, Layer, Site, site
from firmware.layouts.der import known_table
from firmware.layouts.tls_sites import (
    CERTIFICATE_BAD,
    CERTIFICATE_EARLY,
    CERTIFICATE_EXPIRED,
    CERTIFICATE_NAME,
    CERTIFICATE_PIN,
    CERTIFICATE_UNKNOWN,
    CERTIFICATE_UNSUPPORTED,
)
from toolchain.layout import Struct, enum32, flags32, nested, ptr, u32, u64
from toolchain.layout.data import constant

UTC_PIVOT = 50
"""A UTCTime year from here on is of the 20th century (RFC 5280 4.1.2.5.1)."""
GENERALIZED_FROM = 2050
"""First year that is written in four digits (RFC 5280 4.1.2.5)."""
MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
DAYS_BEFORE = constant(
    "days_before",
    b"".join(sum(MONTHS[:n]).to_bytes(2, "little") for n in range(len(MONTHS) + 1)),
    "days of a common year before each month, and of the whole",
    align=2,
)
"""One word a month, and one for the year's end."""

RSA_BYTES_MIN, RSA_BYTES_MAX = 256, 512
"""Of a modulus whose top bit is set: 2048 to 4096 bits."""
RSA_EXPONENT_MIN = 3
P256_BYTES, P384_BYTES = 32, 48
"""Of a coordinate."""
P256_POINT_BYTES, P384_POINT_BYTES = 1 + 2 * P256_BYTES, 1 + 2 * P384_BYTES
UNCOMPRESSED = 0x04
"""First byte of an uncompressed point (SEC 1 2.3.3)."""
VERSION_3 = bytes.fromhex("a003020102")
"""The whole version field of the one version that has extensions."""


class KeyKind(enum.IntEnum):
    """What a public key is. UNSUPPORTED: another algorithm, curve or size."""

    UNSUPPORTED = 0
    RSA = 1
    P256 = 2
    P384 = 3


class SignatureAlgorithm(enum.IntEnum):
    """What is signed with: certificates by the first five, handshakes by ECDSA and PSS."""

    UNSUPPORTED = 0
    RSA_SHA256 = 1
    RSA_SHA384 = 2
    RSA_SHA512 = 3
    ECDSA_SHA256 = 4
    ECDSA_SHA384 = 5
    PSS_SHA256 = 6
    PSS_SHA384 = 7
    PSS_SHA512 = 8


ECDSA = (SignatureAlgorithm.ECDSA_SHA256, SignatureAlgorithm.ECDSA_SHA384)
"""Those of P-256 and P-384; all others are of RSA."""
SIGNATURE_HASHES: dict[str, tuple[SignatureAlgorithm, ...]] = {
    "sha256": (
        SignatureAlgorithm.RSA_SHA256,
        SignatureAlgorithm.ECDSA_SHA256,
        SignatureAlgorithm.PSS_SHA256,
    ),
    "sha384": (
        SignatureAlgorithm.RSA_SHA384,
        SignatureAlgorithm.ECDSA_SHA384,
        SignatureAlgorithm.PSS_SHA384,
    ),
    "sha512": (SignatureAlgorithm.RSA_SHA512, SignatureAlgorithm.PSS_SHA512),
}
"""The algorithms that each hash serves."""


class CertificateFlag(enum.IntFlag):
    """What a certificate says."""

    CA = 1
    KEY_USAGE = 2
    EXTENDED_KEY_USAGE = 4
    SERVER_AUTH = 8


class KeyUsage(enum.IntFlag):
    """Bits of the first byte of keyUsage that count here (RFC 5280 4.2.1.3)."""

    DIGITAL_SIGNATURE = 0x80
    KEY_CERT_SIGN = 0x04


class Extension(enum.IntEnum):
    """Last number of an OID in id-ce: those that are acted on (RFC 5280 4.2.1)."""

    KEY_USAGE = 15
    SUBJECT_ALT_NAME = 17
    BASIC_CONSTRAINTS = 19
    NAME_CONSTRAINTS = 30
    EXTENDED_KEY_USAGE = 37


ID_CE = bytes.fromhex("551d")
"""2.5.29, as the contents of an OID begin; one more byte is the extension."""
ID_CE_MAX = 63
"""Highest number that is told apart when an extension comes twice."""


class GeneralName(enum.IntEnum):
    """Tags of names in SAN and name constraints (RFC 5280 4.2.1.6)."""

    DNS = 0x82
    IP = 0x87


IPV4_BYTES, IPV6_BYTES = 4, 16
"""Of an iPAddress (RFC 5280 4.2.1.6); a constraint has a mask of the same length behind it."""
GENERAL_NAMES = (0xA0, 0x81, 0x82, 0xA3, 0xA4, 0xA5, 0x86, 0x87, 0x88)
"""Tags of all kinds of names: some are constructed, the others are not."""

_ECDSA, _PKCS1, _NULL = "06082a8648ce3d0403", "06092a864886f70d0101", "0500"
SIGNATURE_ALGORITHMS = known_table(
    "x509_signature_algorithms",
    {
        bytes.fromhex(_ECDSA + "02"): SignatureAlgorithm.ECDSA_SHA256,
        bytes.fromhex(_ECDSA + "03"): SignatureAlgorithm.ECDSA_SHA384,
        bytes.fromhex(_PKCS1 + "0b" + _NULL): SignatureAlgorithm.RSA_SHA256,
        bytes.fromhex(_PKCS1 + "0c" + _NULL): SignatureAlgorithm.RSA_SHA384,
        bytes.fromhex(_PKCS1 + "0d" + _NULL): SignatureAlgorithm.RSA_SHA512,
    },
    "contents of an AlgorithmIdentifier, parameters included (RFC 5758 3.2, RFC 4055 5)",
)
_EC_KEY = "06072a8648ce3d0201"
KEY_ALGORITHMS = known_table(
    "x509_key_algorithms",
    {
        bytes.fromhex(_EC_KEY + "06082a8648ce3d030107"): KeyKind.P256,
        bytes.fromhex(_EC_KEY + "06052b81040022"): KeyKind.P384,
        bytes.fromhex(_PKCS1 + "01" + _NULL): KeyKind.RSA,
    },
    "contents of an AlgorithmIdentifier, parameters included (RFC 5480 2.1.1, RFC 3279 2.3.1)",
)
PURPOSES = known_table(
    "x509_purposes",
    {bytes.fromhex("2b06010505070301"): CertificateFlag.SERVER_AUTH},
    "contents of OIDs in extKeyUsage (RFC 5280 4.2.1.12)",
)


class Slice(Struct):
    """A run of somebody else's bytes; counts as long as those stay where they are."""

    SIZE = 0x10
    start = ptr(0x00, "first byte")
    size = u32(0x08, "bytes")


class PublicKey(Struct):
    """A key that can verify, from a certificate or an anchor."""

    SIZE = 0x18
    kind = enum32(0x00, KeyKind, "what it is")
    exponent = u32(0x04, "RSA: odd, at least 3")
    value = nested(
        0x08, Slice, "RSA: the modulus, big-endian, odd, top bit set; EC: 0x04, X, Y, not checked"
    )


class Certificate(Struct):
    """One certificate, read. Slices point into its bytes."""

    SIZE = 0x110
    der = nested(0x00, Slice, "all of it")
    tbs = nested(0x10, Slice, "tbsCertificate with its header: what is signed")
    serial = nested(0x20, Slice, "contents of serialNumber, not empty")
    issuer = nested(0x30, Slice, "the name with its header")
    subject = nested(0x40, Slice, "the name with its header")
    spki = nested(0x50, Slice, "subjectPublicKeyInfo with its header")
    signature = nested(0x60, Slice, "the signature's bytes")
    names = nested(0x70, Slice, "contents of subjectAltName's SEQUENCE; size 0 = there is none")
    constraints = nested(0x80, Slice, "contents of nameConstraints' SEQUENCE; size 0 = none")
    not_before = u64(0x90, "seconds since 1970, signed")
    not_after = u64(0x98, "seconds since 1970, signed; the last second that counts")
    key = nested(0xA0, PublicKey, "the subject's")
    signature_algorithm = enum32(0xB8, SignatureAlgorithm, "what it is signed with")
    flags = flags32(0xBC, CertificateFlag, "see CertificateFlag")
    key_usage = flags32(0xC0, KeyUsage, "first byte of keyUsage; counts with KEY_USAGE")
    path_length = u32(0xC4, "pathLenConstraint; PATH_ANY = none")
    seen = u64(0xC8, "bit per extension of id-ce that came")
    error = u32(0xD0, "why it cannot be used; 0 = it can")


PATH_ANY = 0xFFFF_FFFF
"""`path_length` of a certificate that limits nothing."""

_X = Layer.X509
NOT_DER = site(_X, 1, "not_der", "no certificate in strict DER; detail: offset of the element")
VERSION = site(_X, 2, "version", "a certificate of another version than 3")
ALGORITHMS_DIFFER = site(
    _X, 3, "algorithms_differ", "the signed algorithm differs from the one outside"
)
TIME = site(_X, 4, "time", "no strict time in the validity; detail: its offset")
EXTENSION = site(_X, 5, "extension", "a malformed extension; detail: last number in id-ce, or 0")
DUPLICATE = site(_X, 6, "duplicate", "an extension twice; detail: last number in id-ce")
CRITICAL = site(
    _X, 7, "critical", "an unknown critical extension; detail: last number in id-ce, or 0"
)
CONSTRAINTS = site(
    _X, 8, "constraints", "a name outside of a CA's nameConstraints; detail: which certificate"
)

LIST = site(_X, 9, "list", "a certificate list whose lengths do not add up, or an empty one")
TOO_MANY = site(_X, 10, "too_many", "more certificates than are taken")
EXPIRED = site(
    _X, 11, "expired", "a certificate is no longer valid; detail: which, 255 = the anchor"
)
EARLY = site(_X, 12, "early", "a certificate is not valid yet: is the clock right? detail: which")
NAME = site(_X, 13, "name", "the certificate is not for this host")
KEY = site(_X, 14, "key", "a key of an unsupported kind or size; detail: which certificate")
LEAF_IS_CA = site(_X, 15, "leaf_is_ca", "the server's certificate is that of a CA")
NOT_CA = site(_X, 16, "not_ca", "an issuer is no CA; detail: which certificate")
KEY_USAGE = site(
    _X, 17, "key_usage", "keyUsage does not allow what the key does here; detail: which certificate"
)
PURPOSE = site(
    _X, 18, "purpose", "extKeyUsage is there without serverAuth; detail: which certificate"
)
PATH_LENGTH = site(
    _X, 19, "path_length", "more intermediates than a CA allows; detail: which certificate"
)
UNKNOWN_ISSUER = site(_X, 20, "unknown_issuer", "no path leads to an anchor")
ALGORITHM = site(
    _X, 21, "algorithm", "signed with an unsupported algorithm; detail: which certificate"
)
SIGNATURE = site(_X, 22, "signature", "a signature is wrong; detail: which certificate")
BUDGET = site(_X, 23, "budget", "too many steps, signatures or names for one chain")
PIN = site(_X, 24, "pin", "no key on a path to an anchor is pinned")

VERDICTS: dict[Site, Site] = {
    NOT_DER: CERTIFICATE_BAD,
    VERSION: CERTIFICATE_UNSUPPORTED,
    ALGORITHMS_DIFFER: CERTIFICATE_BAD,
    TIME: CERTIFICATE_BAD,
    EXTENSION: CERTIFICATE_BAD,
    DUPLICATE: CERTIFICATE_BAD,
    CRITICAL: CERTIFICATE_UNSUPPORTED,
    CONSTRAINTS: CERTIFICATE_BAD,
    LIST: CERTIFICATE_BAD,
    TOO_MANY: CERTIFICATE_BAD,
    EXPIRED: CERTIFICATE_EXPIRED,
    EARLY: CERTIFICATE_EARLY,
    NAME: CERTIFICATE_NAME,
    KEY: CERTIFICATE_UNSUPPORTED,
    LEAF_IS_CA: CERTIFICATE_BAD,
    NOT_CA: CERTIFICATE_BAD,
    KEY_USAGE: CERTIFICATE_UNSUPPORTED,
    PURPOSE: CERTIFICATE_UNSUPPORTED,
    PATH_LENGTH: CERTIFICATE_BAD,
    UNKNOWN_ISSUER: CERTIFICATE_UNKNOWN,
    ALGORITHM: CERTIFICATE_UNSUPPORTED,
    SIGNATURE: CERTIFICATE_BAD,
    BUDGET: CERTIFICATE_UNKNOWN,
    PIN: CERTIFICATE_PIN,
}
"""What each reason is for the connection: the failure of TLS, which has the alert."""
_REASONS = {reason.number: reason.name for reason in VERDICTS}


def _why(detail: int) -> str:
    """Return a reason by its name, and what it is about: a certificate's number, or its own detail."""
    return f"{_REASONS.get(detail >> 8, detail >> 8)}, {detail & 0xFF}"


DETAILS |= dict.fromkeys(VERDICTS.values(), _why)
X509_VERDICTS = constant(
    "x509_verdicts",
    bytes([0, *(VERDICTS[s].number for s in sorted(VERDICTS, key=lambda s: s.number))]),
    "number of the TLS site by the number of ours; those begin at 1 and leave none out",
)
