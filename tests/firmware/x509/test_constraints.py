"""Name constraints: what a CA may vouch for, and which constraints are refused as such."""

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.errors import describe
from firmware.layouts.x509 import Certificate
from firmware.layouts.x509_chain import COMPARED_MAX
from firmware.x509.certificate import x509_parse
from firmware.x509.constraints import x509_constrain
from firmware.x509.subtrees import x509_address_within, x509_dns_within, x509_mask_valid
from tests.support import certificates as c
from tests.support.lab import Lab

ROUTINES = (x509_constrain, x509_mask_valid, x509_dns_within, x509_address_within, x509_parse)
LAB = Lab(*ROUTINES, slots=0)
QUICK = Lab(*ROUTINES, slots=0, semantics=False)


def dns(text):
    return c.der(0x82, text.encode())


def ip(text):
    """Return an address, or a network with its mask behind it."""
    if "/" not in text:
        return c.der(0x87, ipaddress.ip_address(text).packed)
    network = ipaddress.ip_network(text)
    return c.der(0x87, network.network_address.packed, network.netmask.packed)


def subtrees(tag, bases):
    return c.der(tag, *(c.der(c.SEQUENCE, base) for base in bases)) if bases else b""


def parsed(lab, extension):
    """Parse a certificate with one extension; return its place and the error."""
    encoded = c.Fields(extensions=[extension]).encode()
    at, start = lab.machine.alloc(Certificate.SIZE), lab.machine.alloc(len(encoded))
    lab.machine.write(start, encoded)
    given = {"encoded": start, "length": len(encoded), "certificate": at}
    return at, lab.call(x509_parse, **given).outputs["eax"]


def constrain(lab, names, permitted=(), excluded=()):
    lab.reset()
    leaf, error = parsed(lab, c.extension(17, c.der(c.SEQUENCE, *names)))
    assert error == 0
    value = c.der(c.SEQUENCE, subtrees(0xA0, permitted), subtrees(0xA1, excluded))
    issuer, error = parsed(lab, c.extension(30, value))
    assert error == 0
    slice_ = lab.view(Certificate, issuer).constraints
    given = {"certificate": leaf, "constraints": slice_.start, "size": slice_.size}
    given["left"] = COMPARED_MAX
    error = lab.call(x509_constrain, **given).outputs["eax"]
    assert describe(error) in {"none", "x509.constraints"}
    return error == 0


CASES = [
    (["example.com"], ["example.com"], [], True),
    (["a.b.example.com"], ["example.com"], [], True),
    (["EXAMPLE.com"], ["example.COM"], [], True),
    (["notexample.com"], ["example.com"], [], False),
    (["com"], ["example.com"], [], False),
    (["other.test"], ["example.com", "other.test"], [], True),
    (["example.com", "other.test"], ["example.com"], [], False),
    (["example.com"], [""], [], True),
    (["example.com"], [], [""], False),
    (["example.com"], [], ["example.com"], False),
    (["a.example.com"], [], ["example.com"], False),
    (["aexample.com"], [], ["example.com"], True),
    (["example.com"], ["example.com"], ["example.com"], False),
    (["example.com"], ["com"], ["test"], True),
    (["not a name.com"], [], ["test"], False),
    # All that a wildcard stands for must be permitted, none of it excluded.
    (["*.example.com"], ["example.com"], [], True),
    (["*.example.com"], ["a.example.com"], [], False),
    (["*.example.com"], [], ["a.example.com"], False),
    (["*.example.com"], [], ["A.EXAMPLE.com"], False),
    (["*.example.com"], [], ["b.a.example.com"], True),
    (["*.example.com"], [], ["example.com"], False),
    (["*.example.com"], [], ["com"], False),
    (["*.example.com"], [], ["xexample.com"], True),
]


@pytest.mark.parametrize(("names", "permitted", "excluded", "good"), CASES)
def test_x509_constrain_host_names(names, permitted, excluded, good):
    got = constrain(LAB, map(dns, names), list(map(dns, permitted)), list(map(dns, excluded)))
    assert got is good


@pytest.mark.parametrize(
    ("names", "permitted", "excluded", "good"),
    [
        (["10.1.2.3"], ["10.0.0.0/8"], [], True),
        (["11.1.2.3"], ["10.0.0.0/8"], [], False),
        (["11.1.2.3"], ["10.0.0.0/8", "11.1.2.3/32"], [], True),
        (["10.1.2.3"], [], ["10.1.0.0/16"], False),
        (["10.2.2.3"], [], ["10.1.0.0/16"], True),
        (["10.1.2.3"], ["0.0.0.0/0"], [], True),
        (["2001:db8::1"], ["2001:db8::/32"], [], True),
        (["2001:db9::1"], ["2001:db8::/32"], [], False),
        (["2001:db8::1"], ["10.0.0.0/8"], [], False),
        (["10.0.0.1"], ["::/0"], [], False),
        (["10.0.0.1"], [], ["::/0"], True),
    ],
)
def test_x509_constrain_addresses(names, permitted, excluded, good):
    got = constrain(LAB, map(ip, names), list(map(ip, permitted)), list(map(ip, excluded)))
    assert got is good


def test_x509_constrain_passes_over_what_is_not_constrained():
    assert constrain(LAB, [ip("10.0.0.1")], [dns("example.com")], [])
    assert constrain(LAB, [dns("a.test")], [ip("10.0.0.0/8")], [ip("10.0.0.0/8")])
    assert constrain(LAB, [c.der(0x81, b"me@a.test")], [dns("example.com")], [])


def test_x509_constrain_without_constraints_allows_every_name():
    LAB.reset()
    leaf, _ = parsed(LAB, c.extension(17, c.der(c.SEQUENCE, dns("a.test"), ip("10.0.0.1"))))
    given = {"certificate": leaf, "constraints": LAB.put(b""), "size": 0, "left": 100}
    assert LAB.call(x509_constrain, **given).outputs["eax"] == 0


@pytest.mark.parametrize(
    ("left", "reason", "after"),
    [
        (COMPARED_MAX, "none", COMPARED_MAX - 68),
        (68, "none", 0),
        (67, "x509.budget", 0),
        (33, "x509.budget", 0),
        (0, "x509.budget", 0),
    ],
)
def test_x509_constrain_pays_for_each_name(left, reason, after):
    """Its own bytes and those of the constraints, whatever the name is."""
    LAB.reset()
    names = [dns("a.test"), c.der(0x81, b"a@test")]
    leaf, _ = parsed(LAB, c.extension(17, c.der(c.SEQUENCE, *names)))
    issuer, _ = parsed(LAB, c.extension(30, c.der(c.SEQUENCE, subtrees(0xA0, [dns("test")] * 3))))
    slice_ = LAB.view(Certificate, issuer).constraints
    assert (len(names[0]), len(names[1]), slice_.size) == (8, 8, 26)
    given = {"certificate": leaf, "constraints": slice_.start, "size": slice_.size, "left": left}
    got = LAB.call(x509_constrain, **given).outputs
    assert (describe(got["eax"]), got["edx"]) == (reason, after)


GOOD = subtrees(0xA0, [dns("example.com")])
VALUES = {
    "permitted": (GOOD, True),
    "excluded": (subtrees(0xA1, [dns("example.com")]), True),
    "both": (GOOD + subtrees(0xA1, [dns("a.example.com"), ip("10.0.0.0/8")]), True),
    "empty-name": (subtrees(0xA0, [dns("")]), True),
    "wrong-order": (subtrees(0xA1, [dns("a")]) + GOOD, False),
    "twice": (GOOD + GOOD, False),
    "null": (b"\xa0\0", False),
    "both-null": (b"\xa0\0\xa1\0", False),
    "null-excluded": (GOOD + b"\xa1\0", False),
    "unknown-part": (GOOD + b"\xa2\0", False),
    "cut": (b"\xa0\x05\x30\x03", False),
    "not-a-sequence": (c.der(0xA0, dns("a")), False),
    "no-base": (c.der(0xA0, c.der(c.SEQUENCE)), False),
    "cut-base": (c.der(0xA0, c.der(c.SEQUENCE, b"\x82\x05a")), False),
    "distance": (c.der(0xA0, c.der(c.SEQUENCE, dns("a"), b"\x80\1\0")), False),
    "directory": (subtrees(0xA0, [c.der(0xA4, c.name("x"))]), False),
    "mail": (subtrees(0xA1, [c.der(0x81, b"a.test")]), False),
    "leading-dot": (subtrees(0xA0, [dns(".example.com")]), False),
    "wildcard": (subtrees(0xA0, [dns("*.example.com")]), False),
    "no-name": (subtrees(0xA0, [dns("a b")]), False),
    "address-alone": (subtrees(0xA0, [ip("10.0.0.0")]), False),
    "odd-length": (subtrees(0xA0, [c.der(0x87, bytes(9))]), False),
    "mask-with-a-hole": (subtrees(0xA0, [c.der(0x87, bytes(4) + b"\xff\x00\xff\x00")]), False),
    "mask-in-a-byte": (subtrees(0xA0, [c.der(0x87, bytes(4) + b"\xff\xf4\0\0")]), False),
    "second-bad": (subtrees(0xA0, [dns("a"), dns(".")]), False),
}


@pytest.mark.parametrize(("value", "good"), VALUES.values(), ids=VALUES)
def test_x509_name_constraints_are_checked_when_read(value, good):
    LAB.reset()
    _, error = parsed(LAB, c.extension(30, c.der(c.SEQUENCE, value)))
    assert describe(error) == ("none" if good else "x509.extension(30)")


def test_x509_mask_valid_is_every_prefix_and_nothing_else():
    good = {ipaddress.ip_network(f"0.0.0.0/{n}").netmask.packed for n in range(33)}
    LAB.reset()
    for mask in [
        *good,
        b"\xfe\xff\0\0",
        b"\0\0\0\1",
        b"\xff\xfd\0\0",
        b"\x7f\0\0\0",
        b"\xff\0\x80\0",
    ]:
        got = LAB.call(x509_mask_valid, mask=LAB.put(mask), size=4).outputs["cf"]
        assert got == int(mask not in good)


NAME = st.text("ab.*", min_size=1, max_size=6)


@settings(max_examples=60)
@given(
    names=st.lists(NAME, min_size=1, max_size=2),
    base=st.text("ab.", max_size=5),
    flip=st.booleans(),
)
def test_x509_constrain_any_names_match_the_model(names, base, flip):
    if base.strip(".") == base and ".." not in base:
        which = {"excluded" if flip else "permitted": [dns(base)]}
        constrain(QUICK, [dns(f"{name}.a.b") for name in names], **which)


@settings(max_examples=60)
@given(data=st.data())
def test_x509_name_constraints_any_damage_matches_the_model(data):
    value = bytearray(c.der(c.SEQUENCE, VALUES["both"][0]))
    for _ in range(data.draw(st.integers(1, 2))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    QUICK.reset()
    parsed(QUICK, c.extension(30, bytes(value)))
