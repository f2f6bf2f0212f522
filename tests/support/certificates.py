"""Certificates for tests: field by field as DER, so that every one can be wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

SEQUENCE, SET, INTEGER, BITS, OCTETS, OID, BOOLEAN = 0x30, 0x31, 2, 3, 4, 6, 1


def der(tag: int, *parts: bytes) -> bytes:
    """Return an element in strict DER."""
    body = b"".join(parts)
    size = len(body)
    if size < 128:
        return bytes([tag, size]) + body
    raw = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 128 + len(raw)]) + raw + body


TRUE, FALSE = der(BOOLEAN, b"\xff"), der(BOOLEAN, b"\0")


def integer(value: int) -> bytes:
    """Return an INTEGER."""
    return der(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def name(text: str) -> bytes:
    """Return a name with one common name; an empty one for an empty text."""
    if not text:
        return der(SEQUENCE)
    common = der(SEQUENCE, der(OID, b"\x55\x04\x03"), der(0x0C, text.encode()))
    return der(SEQUENCE, der(SET, common))


def extension(number: int | bytes, value: bytes, *, critical: bool = False) -> bytes:
    """Return an extension of id-ce by its number, or any by the contents of its OID."""
    oid = number if isinstance(number, bytes) else b"\x55\x1d" + bytes([number])
    flag = der(BOOLEAN, b"\xff") if critical else b""
    return der(SEQUENCE, der(OID, oid), flag, der(OCTETS, value))


ECDSA_SHA256 = der(SEQUENCE, der(OID, bytes.fromhex("2a8648ce3d040302")))
ECDSA_SHA384 = der(SEQUENCE, der(OID, bytes.fromhex("2a8648ce3d040303")))
RSA_SHA256 = der(SEQUENCE, der(OID, bytes.fromhex("2a864886f70d01010b")), b"\5\0")
RSA_SHA384 = der(SEQUENCE, der(OID, bytes.fromhex("2a864886f70d01010c")), b"\5\0")
RSA_SHA512 = der(SEQUENCE, der(OID, bytes.fromhex("2a864886f70d01010d")), b"\5\0")
P256 = der(
    SEQUENCE, der(OID, bytes.fromhex("2a8648ce3d0201")), der(OID, bytes.fromhex("2a8648ce3d030107"))
)
P384 = der(
    SEQUENCE, der(OID, bytes.fromhex("2a8648ce3d0201")), der(OID, bytes.fromhex("2b81040022"))
)
RSA = der(SEQUENCE, der(OID, bytes.fromhex("2a864886f70d010101")), b"\5\0")
SERVER_AUTH, CLIENT_AUTH = (
    der(OID, bytes.fromhex("2b06010505070301")),
    der(OID, bytes.fromhex("2b06010505070302")),
)


def spki(algorithm: bytes, key: bytes, unused: int = 0) -> bytes:
    """Return a SubjectPublicKeyInfo."""
    return der(SEQUENCE, algorithm, der(BITS, bytes([unused]), key))


def rsa_key(modulus: int, exponent: int) -> bytes:
    """Return a SubjectPublicKeyInfo of an RSA key."""
    return spki(RSA, der(SEQUENCE, integer(modulus), integer(exponent)))


POINT = bytes([4]) + bytes(range(64))


@dataclass
class Fields:
    """Everything in a certificate, each part whole as DER."""

    version: bytes = b"\xa0\x03\x02\x01\x02"
    serial: bytes = integer(77)
    inside: bytes = ECDSA_SHA256
    issuer: bytes = name("the issuer")
    validity: bytes = der(SEQUENCE, der(0x17, b"240101000000Z"), der(0x17, b"250101000000Z"))
    subject: bytes = name("the subject")
    key: bytes = spki(P256, POINT)
    unique: bytes = b""
    extensions: list[bytes] = field(default_factory=list)
    outside: bytes | None = None
    signature: bytes = der(BITS, b"\0", b"not verified here")
    behind: bytes = b""

    def tbs(self) -> bytes:
        """Return what is signed."""
        more = der(0xA3, der(SEQUENCE, *self.extensions)) if self.extensions else b""
        return der(
            SEQUENCE,
            *(self.version, self.serial, self.inside, self.issuer, self.validity, self.subject),
            *(self.key, self.unique, more),
        )

    def encode(self) -> bytes:
        """Return the certificate."""
        outside = self.inside if self.outside is None else self.outside
        return der(SEQUENCE, self.tbs(), outside, self.signature) + self.behind
