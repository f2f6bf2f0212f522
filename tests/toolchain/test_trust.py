"""Trust anchors for a build: which certificates can be one, and what a person is told."""

import base64
import warnings
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.utils import CryptographyDeprecationWarning

from tests.support import certificates as c
from tests.support.chains import CA, SIGNS, ca, issue, root, validity
from toolchain.cli.trust import trust_store
from toolchain.trust import WEB_CORE, Trust, TrustError, choose, gather, read_anchor, read_pem

TODAY = datetime(2024, 6, 1, tzinfo=UTC)
LONG = validity("240101000000", "340101000000")


def pem(*encoded):
    return b"".join(
        b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(one) + b"-----END CERTIFICATE-----\n"
        for one in encoded
    )


def test_an_anchor_is_a_name_a_key_and_limits():
    subtree = c.der(c.SEQUENCE, c.der(0xA0, c.der(c.SEQUENCE, b"\x82\4test")))
    made = issue("A Root", "A Root", ca(2), SIGNS, c.extension(30, subtree), validity=LONG)
    anchor = read_anchor(made)
    assert anchor.subject == c.name("A Root")
    assert made.count(anchor.spki) == 1
    assert (anchor.path_length, anchor.constraints) == (2, subtree[2:])
    assert anchor.not_after == datetime(2034, 1, 1, tzinfo=UTC)
    assert anchor.label == "A Root"


def test_all_of_certifi_is_read_as_another_library_reads_it():
    bundle = Path(certifi.where()).read_bytes()
    trust = gather(bundle, "certifi", core=False, today=datetime.now(UTC))
    assert len(trust.anchors) > 100
    known = {}
    for encoded in read_pem(bundle, "certifi"):
        with warnings.catch_warnings():
            # Six roots in use have a serial number that is not positive.
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            made = x509.load_der_x509_certificate(encoded)
        known[made.subject.public_bytes()] = made
    for anchor in trust.anchors:
        made = known[anchor.subject]
        key = made.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        assert anchor.spki == key
        assert anchor.not_after == made.not_valid_after_utc
        basic = made.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert anchor.path_length == basic.path_length
        assert anchor.constraints == b""
    left = [note for note in trust.notes if "left out" in note]
    assert len(trust.anchors) + len(left) == len(known)


def test_the_web_core_fits_its_room_and_so_does_everything():
    """Decision 11: 16 KB and 92 KB."""
    bundle = Path(certifi.where()).read_bytes()
    name = f"certifi {metadata.version('certifi')}"
    now = datetime.now(UTC)
    core = gather(bundle, name, core=True, today=now)
    assert {anchor.organization for anchor in core.anchors} == set(WEB_CORE)
    assert len(trust_store(core)) <= 16 * 1024
    assert len(trust_store(gather(bundle, name, core=False, today=now))) <= 92 * 1024
    assert name.encode() in trust_store(core)[:0x60]
    assert core.digest in trust_store(core)[:0x60]


@pytest.mark.parametrize(
    ("name", "organization", "why"),
    [
        ("GTS Root R4", "Google Trust Services LLC", "Discord: its WE1 is issued by this one"),
        ("GTS Root R1", "Google Trust Services LLC", "Cloudflare: RSA chains of the same CA"),
        ("ISRG Root X1", "Internet Security Research Group", "Let's Encrypt: Cloudflare, Fluxer"),
        ("ISRG Root X2", "Internet Security Research Group", "the same, ECDSA"),
        ("SSL.com TLS ECC Root CA 2022", "SSL Corporation", "Cloudflare"),
        ("SSL.com TLS RSA Root CA 2022", "SSL Corporation", "Cloudflare"),
        ("Sectigo Public Server Authentication Root E46", "Sectigo Limited", "Cloudflare's backup"),
        (
            "USERTrust ECC Certification Authority",
            "The USERTRUST Network",
            "the same, older chains",
        ),
        ("DigiCert Global Root G2", "DigiCert Inc", "Cloudflare's zones that are not moved yet"),
    ],
)
def test_the_web_core_holds_the_authorities_of_the_real_services(name, organization, why):
    """Cloudflare, developer documentation, "Certificate authorities"; Discord is behind Cloudflare."""
    core = choose("web", (), datetime.now(UTC))
    found = [anchor for anchor in core.anchors if anchor.label == name]
    assert [anchor.organization for anchor in found] == [organization], why
    assert found[0].not_after > datetime.now(UTC) + timedelta(days=365), why


ODD = c.spki(c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2b6570"))), bytes(32))
REFUSED = {
    "not-a-ca": (issue("x", "x", validity=LONG), "x: it is not the certificate of a CA"),
    "no-ca-flag": (
        issue("x", "x", c.extension(19, c.der(c.SEQUENCE)), validity=LONG),
        "x: it is not the certificate of a CA",
    ),
    "no-basic": (issue("x", "x", SIGNS, validity=LONG), "x: it is not the certificate of a CA"),
    "usage": (
        issue("x", "x", CA, c.extension(15, c.der(c.BITS, b"\7\x80")), validity=LONG),
        "x: its keyUsage does not allow it to sign certificates",
    ),
    "usage-empty": (
        issue("x", "x", CA, c.extension(15, c.der(c.BITS, b"\0")), validity=LONG),
        "x: its keyUsage does not allow it to sign certificates",
    ),
    "critical": (
        issue("x", "x", CA, c.extension(32, b"", critical=True), validity=LONG),
        "x: its critical extension 551d20 is not known",
    ),
    "version-1": (
        issue("x", "x", CA, version=b"\xa0\3\2\1\0", validity=LONG).replace(b"\xa0\3\2\1\0", b""),
        "it is no certificate in DER",
    ),
    "no-der": (b"\x30\x05", "a certificate: it is no certificate in DER"),
    "empty": (b"", "a certificate: it is no certificate in DER"),
}


@pytest.mark.parametrize(("encoded", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_an_anchor_is_refused_by_name(encoded, message):
    with pytest.raises(TrustError, match=message):
        read_anchor(encoded)


def subtrees(tag, *bases):
    return c.der(tag, *(c.der(c.SEQUENCE, base) for base in bases))


NAMES = subtrees(0xA0, b"\x82\4test", b"\x82\0", c.der(0x87, bytes(4) + b"\xff\xe0\0\0"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (NAMES, None),
        (NAMES + subtrees(0xA1, c.der(0x87, bytes(32))), None),
        (NAMES + NAMES, "are not permitted and excluded ones"),
        (b"\xa2\0", "are not permitted and excluded ones"),
        (b"\xa0\0", "a list of its name constraints is empty"),
        (subtrees(0xA0, c.name("x")), "hold other things than host names and networks"),
        (subtrees(0xA0, b"\x82\5.test"), "hold other things"),
        (subtrees(0xA0, b"\x82\6*.test"), "hold other things"),
        (subtrees(0xA0, c.der(0x87, bytes(7))), "hold other things"),
        (subtrees(0xA0, c.der(0x87, bytes(4) + b"\xff\0\xff\0")), "hold other things"),
        (c.der(0xA0, c.der(c.SEQUENCE, b"\x82\0", b"\x80\1\0")), "hold other things"),
        (c.der(0xA0, b"\x30\5"), "it is no certificate in DER"),
    ],
)
def test_name_constraints_of_an_anchor_are_those_that_the_node_reads(value, message):
    made = issue("x", "x", CA, c.extension(30, c.der(c.SEQUENCE, value)), validity=LONG)
    if message is None:
        assert read_anchor(made).constraints == value
        return
    with pytest.raises(TrustError, match=message):
        read_anchor(made)


@pytest.mark.parametrize(
    "key",
    [
        ODD,
        c.spki(c.P256, b"\2" + bytes(32)),
        c.rsa_key((1 << 1023) + 1, 3),
        c.rsa_key(1 << 2047, 3),
    ],
)
def test_keys_that_the_node_cannot_use_are_refused(key):
    made = c.Fields(issuer=c.name("x"), subject=c.name("x"), key=key, extensions=[CA])
    with pytest.raises(TrustError, match=r"x: its (RSA )?key"):
        read_anchor(made.encode())


def test_a_certificate_of_the_bundle_that_cannot_be_an_anchor_is_left_out_with_a_note():
    bundle = pem(root("good", validity=LONG), issue("bad", "bad", validity=LONG))
    trust = gather(bundle, "bundle", core=False, today=TODAY)
    assert [anchor.label for anchor in trust.anchors] == ["good"]
    assert trust.notes == (
        "bundle: left out: bad: it is not the certificate of a CA (basicConstraints)",
    )


def test_an_anchor_that_ended_is_noted_in_a_bundle_and_refused_from_an_operator():
    old = pem(root("old", validity=validity("200101000000", "240531235959")))
    bundle = pem(root("good", validity=LONG)) + old
    trust = gather(bundle, "bundle", core=False, today=TODAY)
    assert trust.notes == ("old ended on 2024-05-31: nobody is trusted by it",)
    # The bytes are those of the day before.
    before = gather(bundle, "bundle", core=False, today=TODAY - timedelta(days=400))
    assert before.notes == ()
    assert trust_store(before) == trust_store(trust)
    with pytest.raises(TrustError, match=r"ca.pem: old ended on 2024-05-31. Give the CA's present"):
        gather(b"", "bundle", [("ca.pem", old)], core=False, today=TODAY)


def test_an_anchor_that_ends_within_90_days_is_warned_about():
    made = pem(root("soon", validity=validity("200101000000", "240829000000")))
    for day, count in ((TODAY, 1), (TODAY - timedelta(days=2), 0)):
        trust = gather(b"", "", [("ca.pem", made)], core=True, today=day)
        assert len(trust.notes) == count
    trust = gather(b"", "", [("ca.pem", made)], core=True, today=TODAY)
    assert trust.notes == ("soon ends on 2024-08-29, in 89 days",)


def test_extra_certificates_join_the_core_and_come_once():
    made = pem(root("mine", validity=LONG))
    bundle = pem(root("of nobody in particular", validity=LONG))
    extra = [("a.pem", made), ("b.pem", made)]
    trust = gather(bundle, "bundle 1", extra, core=True, today=TODAY)
    assert [anchor.label for anchor in trust.anchors] == ["mine"]
    assert trust.version == "bundle 1 + a.pem + b.pem"
    other = gather(bundle, "bundle 1", extra[:1], core=True, today=TODAY)
    assert trust.digest != other.digest


def test_certifi_is_taken_whole_in_its_core_or_not_at_all():
    extra = [("ca.pem", pem(root("mine", validity=LONG)))]
    version = f"certifi {metadata.version('certifi')}"
    found = {much: choose(much, extra, TODAY) for much in ("web", "all", "none")}
    assert [anchor.label for anchor in found["none"].anchors] == ["mine"]
    assert found["none"].version == "ca.pem"
    assert found["web"].version == found["all"].version == f"{version} + ca.pem"
    assert 1 < len(found["web"].anchors) < len(found["all"].anchors)
    assert {anchor.organization for anchor in found["web"].anchors} == {*WEB_CORE, ""}


def test_no_anchor_at_all_is_refused():
    with pytest.raises(TrustError, match="there is no anchor: no server could be trusted"):
        gather(pem(root("x", validity=LONG)), "bundle", core=True, today=TODAY)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"hello", "ca.pem holds no certificate. It must be PEM"),
        (
            b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
            "ca.pem: a certificate is not in base64",
        ),
        (pem(b"\x30\x00"), "ca.pem: a certificate: it is no certificate in DER"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(contents, message):
    with pytest.raises(TrustError, match=message):
        gather(b"", "", [("ca.pem", contents)], core=True, today=TODAY)


def test_a_store_is_the_same_whatever_the_order():
    one, other = (read_anchor(root(name, validity=LONG)) for name in ("one", "other"))
    stores = {
        trust_store(Trust(anchors, "v", bytes(32), ())) for anchors in ((one, other), (other, one))
    }
    assert len(stores) == 1
