"""Valid inputs to begin with: certificates of the web's profile, and what a server says."""

from __future__ import annotations

import datetime
import functools
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support import certificates as c
from tests.support.tls import DATE, NAME

_WHEN = datetime.datetime.fromtimestamp(DATE, datetime.UTC)
LEAF_KEY = ec.derive_private_key(9, ec.SECP256R1())
_KEYS: dict[str, ec.EllipticCurvePrivateKey] = {
    "root": ec.derive_private_key(7, ec.SECP384R1()),
    "issuer": ec.derive_private_key(8, ec.SECP256R1()),
    "leaf": LEAF_KEY,
}
LEAF_POINT = LEAF_KEY.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _network(text: str) -> x509.IPAddress:
    return x509.IPAddress(ipaddress.ip_network(text))


_LIMITS = x509.NameConstraints(
    [x509.DNSName("example"), x509.DNSName("b.test"), _network("10.0.0.0/8")],
    [x509.DNSName("b.example"), _network("10.1.0.0/16"), _network("2001:db8::/32")],
)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@functools.cache
def certificate(subject: str, issuer: str) -> bytes:
    """Return a certificate as DER; the same bytes every time, so that a finding can be repeated."""
    key, signer = _KEYS[subject].public_key(), _KEYS[issuer]
    authority = subject != "leaf"
    days = datetime.timedelta(days=60)
    builder = x509.CertificateBuilder(
        _name(issuer), _name(subject), key, 0x1234567890ABCDEF, _WHEN - days, _WHEN + days
    )
    uses = {5, 6} if authority else {0}
    builder = builder.add_extension(x509.KeyUsage(*(n in uses for n in range(9))), critical=True)
    if authority:
        path = 0 if subject == "issuer" else None
        builder = builder.add_extension(x509.BasicConstraints(True, path), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
    else:
        names = x509.SubjectAlternativeName(
            [
                x509.DNSName(NAME.decode()),
                x509.DNSName("*.b.test"),
                x509.IPAddress(ipaddress.ip_address("10.0.0.2")),
            ]
        )
        builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    if subject == "issuer":
        builder = builder.add_extension(_LIMITS, critical=True)
    made = builder.sign(signer, hashes.SHA256(), ecdsa_deterministic=True)
    return made.public_bytes(Encoding.DER)


def chain() -> list[bytes]:
    """Return leaf and issuer."""
    return [certificate("leaf", "issuer"), certificate("issuer", "root")]


def root() -> bytes:
    """Return the certificate where the chain ends."""
    return certificate("root", "root")


def certificates() -> list[bytes]:
    """Return certificates that the parser takes, of every kind of key and with every extension."""
    rsa = c.rsa_key((1 << 2047) + 1, 65537)
    plain = c.Fields().encode()
    rich = c.Fields(key=rsa, inside=c.RSA_SHA384)
    rich.extensions = [
        c.extension(19, c.der(c.SEQUENCE, c.der(c.BOOLEAN, b"\xff"), c.integer(3)), critical=True),
        c.extension(15, c.der(c.BITS, b"\1\6"), critical=True),
        c.extension(37, c.der(c.SEQUENCE, c.SERVER_AUTH, c.CLIENT_AUTH)),
        c.extension(17, c.der(c.SEQUENCE, c.der(0x82, b"a.example"), c.der(0x87, b"\x0a\0\0\2"))),
    ]
    return [plain, rich.encode(), *chain(), root()]


@dataclass(frozen=True)
class Inner:
    """A record before it is sealed."""

    kind: int
    content: bytes
    padding: int = 0


def packed(*records: Inner) -> bytes:
    """Return records as an input: type, padding and content of each, lengths before them."""
    return b"".join(
        bytes([one.kind, one.padding]) + len(one.content).to_bytes(2, "big") + one.content
        for one in records
    )


def unpacked(data: bytes) -> list[Inner]:
    """Return the records of an input; what does not add up is cut."""
    found = []
    while len(data) >= 4:
        size = int.from_bytes(data[2:4], "big")
        found.append(Inner(data[0], data[4 : 4 + size], data[1]))
        data = data[4 + size :]
    return found
