"""Extensions: the known ones are read strictly, and an unknown one may not be critical."""

import pytest

from firmware.layouts.x509 import CertificateFlag
from tests.support import certificates as c
from tests.support.parsed import Parsed, reason, with_extensions

EXTENSIONS = {
    "unknown": (c.extension(b"\x2a\x03", b"x"), "none"),
    "unknown-critical": (c.extension(b"\x2a\x03", b"x", critical=True), "critical"),
    "policies-critical": (c.extension(32, b"x", critical=True), "critical(32)"),
    "id-ce-beyond": (c.extension(200, b"x", critical=True), "critical(200)"),
    "id-ce-longer": (c.extension(b"\x55\x1d\x81\x01", b"x", critical=True), "critical"),
    "other-arc": (c.extension(b"\x55\x04\x13", b"x", critical=True), "critical"),
    "critical-false": (
        c.der(c.SEQUENCE, c.der(c.OID, b"\x55\x1d\x0e"), c.FALSE, b"\4\0"),
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
    "bc-ca": (c.extension(19, c.der(c.SEQUENCE, c.TRUE)), "none"),
    "bc-false": (c.extension(19, c.der(c.SEQUENCE, c.FALSE)), "extension(19)"),
    "bc-long": (c.extension(19, c.der(c.SEQUENCE, c.der(c.BOOLEAN, b"\0\xff"))), "extension(19)"),
    "bc-length-alone": (c.extension(19, c.der(c.SEQUENCE, c.integer(1))), "extension(19)"),
    "bc-negative": (c.extension(19, c.der(c.SEQUENCE, c.TRUE, c.integer(-1))), "extension(19)"),
    "bc-huge": (c.extension(19, c.der(c.SEQUENCE, c.TRUE, c.integer(1 << 32))), "extension(19)"),
    "bc-more": (
        c.extension(19, c.der(c.SEQUENCE, c.TRUE, c.integer(1), b"\5\0")),
        "extension(19)",
    ),
    "bc-other": (c.extension(19, c.der(c.SEQUENCE, c.TRUE, b"\5\0")), "extension(19)"),
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
