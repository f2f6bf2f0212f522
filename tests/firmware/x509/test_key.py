"""Public keys: which kinds are known, and which encodings are refused."""

import pytest

from firmware.layouts.x509 import KeyKind, PublicKey
from firmware.x509.key import x509_key
from tests.support import certificates as c
from tests.support.parsed import LAB, Parsed, reason

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
