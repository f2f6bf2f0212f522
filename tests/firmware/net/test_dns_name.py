"""Names in DNS messages: every pointer rule, every bound."""

import pytest
from dnslib import DNSLabel, DNSRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.net.dns_name import dns_expand, dns_parse_quad, dns_same_name
from tests.support.lab import Lab

LAB = Lab(dns_parse_quad, dns_expand, dns_same_name)


def put(contents):
    address = LAB.machine.alloc(len(contents) + 1)
    LAB.machine.write(address, contents or b"\0")
    return address


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (b"10.0.2.2", "0a000202"),
        (b"255.255.255.255", "ffffffff"),
        (b"0.0.0.0", "00000000"),
        (b"1.2.3", None),
        (b"1.2.3.4.5", None),
        (b"1.2.3.256", None),
        (b"1..2.3", None),
        (b".1.2.3", None),
        (b"1.2.3.", None),
        (b"a.2.3.4", None),
        (b"1.2.3.4x", None),
        (b"", None),
        (b"4294967295.1.1.1", None),
        (b"1.1.1.4294967295", None),
        (b"/.1.1.1", None),
    ],
)
def test_dns_parse_quad(text, address):
    got = LAB.call(dns_parse_quad, text=put(text), length=len(text)).outputs
    assert got["cf"] == int(address is None)
    if address is not None:
        assert got["eax"] == int.from_bytes(bytes.fromhex(address), "little")


def expand(message, start):
    text = LAB.machine.alloc(256)
    got = LAB.call(
        dns_expand, message=put(message), length=len(message), start=start, text=text
    ).outputs
    return got["cf"], LAB.machine.read(text, got["eax"]) if got["eax"] else b"", got["edx"]


def test_dns_expand_reads_what_dnslib_writes():
    packet = bytes(DNSRecord.question("Gateway.Example.TEST").pack())
    assert expand(packet, 12) == (0, b"gateway.example.test", len(packet) - 4)


@pytest.mark.parametrize(
    ("message", "start", "wanted"),
    [
        (b"\0" * 12 + b"\1a\0" + b"\1B\xc0\x0c", 15, (0, b"b.a", 19)),
        (b"\xc0\x00", 0, (1, b"", 0)),  # points at itself
        (b"\xc0\x02\1a\0", 0, (1, b"", 0)),  # forward pointer
        (b"\1a\xc0\x00", 0, (1, b"", 0)),  # back to its own start
        (b"\0" * 2 + b"\1a\xc0\x06\1b\xc0\x02", 6, (1, b"", 0)),  # two that chase each other
        (b"\xc0", 0, (1, b"", 0)),  # half a pointer
        (b"\1", 0, (1, b"", 0)),  # label past the end
        (b"\1a", 0, (1, b"", 0)),  # no end
        (b"\x40" + b"a" * 64 + b"\0", 0, (1, b"", 0)),  # reserved label type
        (b"\3a.b\0", 0, (1, b"", 0)),  # a dot inside a label
        (b"\0", 0, (0, b"", 1)),  # the root
        (b"", 0, (1, b"", 0)),
        ((b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"b" * 61 + b"\0", 0, None),  # 253 bytes of text
        ((b"\x3f" + b"a" * 63) * 4 + b"\0", 0, (1, b"", 0)),  # 255 with dots: 256 in wire form
    ],
)
def test_dns_expand_bounds(message, start, wanted):
    got = expand(message, start)
    if wanted is None:
        assert got[0] == 0
        assert len(got[1]) == 253
    else:
        assert got[0] == wanted[0]
        if not wanted[0]:
            assert got == wanted


@settings(max_examples=80, deadline=None)
@given(message=st.binary(max_size=60), start=st.integers(0, 62))
def test_dns_expand_any_bytes_matches_model(message, start):
    LAB.reset()
    expand(message, start)


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.text("abcXYZ019-_@[`{", min_size=1, max_size=9), min_size=1, max_size=4),
    prefix=st.integers(0, 9),
)
def test_dns_expand_any_name_equals_dnslib(labels, prefix):
    LAB.reset()
    name = ".".join(labels)
    wire = b"".join(bytes([len(x)]) + x.encode() for x in labels) + b"\0"
    message = b"\0" * prefix + wire
    assert expand(message, prefix) == (0, name.lower().encode(), len(message))
    assert DNSLabel(name) == DNSLabel(name.lower())


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        (b"a.b", b"A.b", 1),
        (b"a.b", b"a.c", 0),
        (b"a", b"ab", 0),
        (b"", b"", 1),
        (b"[", b"{", 0),
        (b"a@", b"A`", 0),
    ],
)
def test_dns_same_name(name, other, same):
    got = LAB.call(
        dns_same_name, name=put(name), length=len(name), other=put(other), other_length=len(other)
    )
    assert got.outputs["zf"] == same
