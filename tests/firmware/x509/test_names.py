"""Host names: which ones are names, and which certificate is whose."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.x509 import Certificate
from firmware.x509.certificate import x509_parse
from firmware.x509.names import x509_dns_valid, x509_match_dns, x509_match_host, x509_same_text
from tests.support import certificates as c
from tests.support.lab import Lab

LAB = Lab(
    x509_dns_valid, x509_match_dns, x509_match_host, x509_same_text, x509_parse, slots=0
)  # fmt: skip
QUICK = Lab(x509_match_host, x509_match_dns, x509_parse, slots=0, semantics=False)


def put(lab, text):
    at = lab.machine.alloc(len(text) or 1, align=1)
    lab.machine.write(at, text or b"\0")
    return at


@pytest.mark.parametrize("first", [False, True], ids=["ends", "begins"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"gateway.discord.gg", 0),
        (b"localhost", 0),
        (b"_service.a-b.EXAMPLE", 0),
        (b"xn--n3h.com", 0),
        (b"1.2.3.com", 0),
        (b"3com", 0),
        (b"*.discord.gg", 1),
        (b"*.a.b", 1),
        (b"a" * 63 + b".test", 0),
        (b".".join([b"a" * 63] * 3) + b"." + b"b" * 61, 0),
        (b".".join([b"a" * 63] * 3) + b"." + b"b" * 62, None),
        (b"a" * 64 + b".test", None),
        (b"*.gg", None),
        (b"*.", None),
        (b"*", None),
        (b"*a.discord.gg", None),
        (b"a*.discord.gg", None),
        (b"a.*.discord.gg", None),
        (b"*.*.discord.gg", None),
        (b"discord.gg.", None),
        (b".discord.gg", None),
        (b"discord..gg", None),
        (b"-a.gg", None),
        (b"a-.gg", None),
        (b"a.gg-", None),
        (b"1.2.3.4", None),
        (b"a.123", None),
        (b"a b.gg", None),
        (b"a/b.gg", None),
        (b"a@b.gg", None),
        (b"a[b.gg", None),
        (b"a`b.gg", None),
        (b"a{b.gg", None),
        (b"a:b.gg", None),
        (b"\xe9.gg", None),
        (b"a\0.gg", None),
        (b"", None),
    ],
)
def test_x509_dns_valid(text, wanted, first):
    LAB.reset()
    got = LAB.call(x509_dns_valid, text=LAB.put(text, first=first), size=len(text)).outputs
    assert (got["cf"], got["eax"]) == ((1, 0) if wanted is None else (0, wanted))


MATCHES = [
    (b"gateway.discord.gg", b"gateway.discord.gg", True),
    (b"GateWay.Discord.GG", b"gateway.discord.gg", True),
    (b"gateway.discord.gg", b"GATEWAY.DISCORD.GG", True),
    (b"*.discord.gg", b"gateway.discord.gg", True),
    (b"*.discord.gg", b"x.DISCORD.gg", True),
    (b"*.discord.gg", b"discord.gg", False),
    (b"*.discord.gg", b"a.b.discord.gg", False),
    (b"*.discord.gg", b".discord.gg", False),
    (b"*.discord.gg", b"discord", False),
    (b"*.discord.gg", b"a.discord.g", False),
    (b"gateway.discord.gg", b"gateway.discord.g", False),
    (b"gateway.discord.gg", b"gatewax.discord.gg", False),
    (b"g*.discord.gg", b"gateway.discord.gg", False),
    (b"*", b"discord", False),
    (b"*.gg", b"discord.gg", False),
    (b"discord.gg.", b"discord.gg", False),
    (b"gateway.discord.gg\0", b"gateway.discord.gg", False),
    (b"a[b.gg", b"a{b.gg", False),
    (b"a@.gg", b"a`.gg", False),
]


@pytest.mark.parametrize(("name", "host", "wanted"), MATCHES)
def test_x509_match_dns(name, host, wanted):
    LAB.reset()
    given = {"name": LAB.put(name), "size": len(name)}
    got = LAB.call(x509_match_dns, **given, host=put(LAB, host), host_size=len(host)).outputs
    assert got["cf"] == int(wanted)


def named(lab, names, host):
    """Return whether a certificate with these subjectAltNames is the host's."""
    lab.reset()
    fields = c.Fields()
    if names:
        fields.extensions.append(c.extension(17, c.der(c.SEQUENCE, *names)))
    encoded, at = fields.encode(), lab.machine.alloc(Certificate.SIZE)
    given = {"encoded": lab.put(encoded), "length": len(encoded), "certificate": at}
    assert lab.call(x509_parse, **given).outputs["eax"] == 0
    given = {"certificate": at, "host": put(lab, host), "size": len(host)}
    return bool(lab.call(x509_match_host, **given).outputs["cf"])


def dns(text):
    return c.der(0x82, text)


def ip(*parts):
    return c.der(0x87, bytes(parts))


@pytest.mark.parametrize(
    ("names", "host", "wanted"),
    [
        ([dns(b"other.test"), dns(b"gateway.test")], b"gateway.test", True),
        ([dns(b"other.test")], b"gateway.test", False),
        ([], b"the subject", False),
        ([ip(10, 0, 0, 1)], b"10.0.0.1", True),
        ([ip(10, 0, 0, 2), ip(10, 0, 0, 1)], b"10.0.0.1", True),
        ([ip(10, 0, 0, 2)], b"10.0.0.1", False),
        ([dns(b"10.0.0.1")], b"10.0.0.1", False),
        ([ip(*bytes(12), 10, 0, 0, 1)], b"10.0.0.1", False),
        ([c.der(0x81, b"gateway.test"), c.der(0x86, b"gateway.test")], b"gateway.test", False),
        ([ip(*b"test")], b"test", False),
        ([dns(b""), dns(b"bad name"), dns(b"*.test.example")], b"a.test.example", True),
    ],
)
def test_x509_match_host(names, host, wanted):
    assert named(LAB, names, host) is wanted


LABEL = st.text("aB-_.*0", min_size=0, max_size=5).map(str.encode)


@settings(max_examples=60)
@given(names=st.lists(LABEL, max_size=3), host=LABEL)
def test_x509_match_host_any_names_match_the_model(names, host):
    if host:
        named(QUICK, [dns(name + b".aB.a") for name in names], host + b".Ab.A")


@settings(max_examples=40)
@given(data=st.binary(max_size=12), first=st.booleans())
def test_x509_dns_valid_any_bytes_match_the_model(data, first):
    LAB.reset()
    LAB.call(x509_dns_valid, text=LAB.put(data, first=first), size=len(data))


@settings(max_examples=40)
@given(one=st.text("aAzZ@[`{", max_size=5), other=st.text("aAzZ@[`{", max_size=5))
def test_x509_same_text(one, other):
    LAB.reset()
    for second in (other, one.swapcase()):
        a, b = one.encode(), second.encode()
        given = {"one": LAB.put(a), "size": len(a), "other": put(LAB, b), "other_size": len(b)}
        assert LAB.call(x509_same_text, **given).outputs["zf"] == int(a.lower() == b.lower())
