"""The DER reader: every small input, any bytes, and never a byte outside of them."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.der import known_table
from firmware.x509.der import der_known, der_open, der_read, der_small, der_unsigned
from tests.support.lab import Lab

TABLE = known_table("test_known", {b"\x06\x01\x2a": 7, b"\x06\x01": 8, b"\x06\x01\x2b": 9}, "")
LAB = Lab(der_read, der_open, der_unsigned, der_small, der_known, slots=0)
QUICK = Lab(der_read, der_unsigned, slots=0, semantics=False)


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()
    QUICK.reset()


def read(contents, *, first=False, lab=LAB):
    at = lab.put(contents, first=first)
    got = lab.call(der_read, element=at, end=at + len(contents)).outputs
    if got["cf"]:
        assert (got["eax"], got["rsi"], got["rdx"]) == (0, at, 0)
        return None
    return got["eax"], got["rsi"] - at, got["rdx"] - at


@pytest.mark.parametrize("first", [False, True], ids=["ends", "begins"])
@pytest.mark.parametrize(
    ("contents", "wanted"),
    [
        (b"\x30\x00", (0x30, 2, 2)),
        (b"\x02\x01\x05", (0x02, 2, 3)),
        (b"\x02\x01\x05\x05\x00", (0x02, 2, 3)),
        (b"\x04\x7f" + bytes(127), (0x04, 2, 129)),
        (b"\x04\x81\x80" + bytes(128), (0x04, 3, 131)),
        (b"\x04\x81\xff" + bytes(255), (0x04, 3, 258)),
        (b"\x04\x82\x01\x00" + bytes(256), (0x04, 4, 260)),
        (b"\x1e\x00", (0x1E, 2, 2)),
        (b"", None),
        (b"\x30", None),
        (b"\x02\x01", None),  # no contents
        (b"\x30\x80\x00\x00", None),  # indefinite
        (b"\x04\x81\x7f" + bytes(127), None),  # fits the short form
        (b"\x04\x82\x00\xff" + bytes(255), None),  # fits one byte
        (b"\x04\x83\x01\x00\x00" + bytes(200), None),  # 64 KiB and more
        (b"\x04\x84\x00\x00\x00\x01\x00", None),
        (b"\x04\xff" + bytes(200), None),
        (b"\x04\x81", None),
        (b"\x04\x82\x01", None),
        (b"\x04\x81\x80" + bytes(127), None),
        (b"\x04\x82\x01\x00" + bytes(255), None),
        (b"\x1f\x01\x00", None),  # a high tag
        (b"\xbf\x00", None),
        (b"\xff\x00", None),
    ],
)
def test_der_read(contents, wanted, first):
    assert read(contents, first=first) == wanted


def test_der_read_the_longest_contents():
    at = LAB.machine.alloc(0x1_0010)
    LAB.machine.write(at, b"\x04\x82\xff\xff")
    for end in (at + 0x1_0003, at + 0x1_0002):
        got = LAB.call(der_read, element=at, end=end).outputs
        assert got["cf"] == int(end != at + 0x1_0003)


def test_der_read_every_tag():
    for tag in range(256):
        assert (read(bytes([tag, 0])) is None) == (tag & 0x1F == 0x1F)


def test_der_read_every_length_of_a_small_input():
    """Each first length byte with each second one, over inputs of up to five bytes."""
    interesting = (0, 1, 2, 3, 0x7F, 0x80, 0x81, 0x82, 0x83, 0xFE, 0xFF)
    for size in (2, 3, 4, 5):
        for head in itertools.product((0x30, 0x1F), interesting, (0, 1, 0x7F, 0x80), (0, 2)):
            contents = (bytes(head) + b"\0")[:size]
            read(contents, lab=QUICK, first=bool(size & 1))


@settings(max_examples=150)
@given(contents=st.binary(max_size=300), first=st.booleans())
def test_der_read_any_bytes_match_the_model(contents, first):
    read(contents, first=first)


@pytest.mark.parametrize(
    ("contents", "tag", "good"),
    [
        (b"\x30\x00", 0x30, True),
        (b"\x31\x00", 0x30, False),
        (b"\x30\x01", 0x30, False),
        (b"\x1f\x00", 0x1F, False),
        (b"", 0x30, False),
    ],
)
def test_der_open(contents, tag, good):
    at = LAB.put(contents)
    got = LAB.call(der_open, element=at, end=at + len(contents), tag=tag).outputs
    assert (got["cf"], got["eax"]) == ((0, tag) if good else (1, 0))
    assert got["rsi"] == at + 2 * good


NUMBERS = {
    b"\0": 0,
    b"\x01": 1,
    b"\x7f": 127,
    b"\0\x80": 128,
    b"\0\xff": 255,
    b"\x01\0": 256,
    b"\x7f\xff\xff\xff": 0x7FFF_FFFF,
    b"\0\xff\xff\xff\xff": 0xFFFF_FFFF,
    b"\x01\0\0\0\0": 1 << 32,
    b"": None,
    b"\x80": None,
    b"\xff": None,
    b"\0\0": None,
    b"\0\x7f": None,
    b"\xff\x80": None,
}


@pytest.mark.parametrize(("contents", "number"), NUMBERS.items())
def test_der_numbers(contents, number):
    at = LAB.put(contents)
    got = LAB.call(der_unsigned, contents=at, end=at + len(contents)).outputs
    assert got["cf"] == int(number is None)
    if number is not None:
        assert int.from_bytes(LAB.machine.read(got["rsi"], got["ecx"]), "big") == number
    small = LAB.call(der_small, contents=at, end=at + len(contents)).outputs
    fits = number is not None and number < 1 << 32
    assert (small["cf"], small["eax"]) == ((0, number) if fits else (1, 0))


def test_der_unsigned_every_two_bytes():
    for first, second in itertools.product((0, 1, 0x7F, 0x80, 0xFF), range(0, 256, 15)):
        at = QUICK.put(bytes([first, second]))
        QUICK.call(der_unsigned, contents=at, end=at + 2)


@given(contents=st.binary(max_size=8), first=st.booleans())
def test_der_numbers_any_bytes_match_the_model(contents, first):
    at = LAB.put(contents, first=first)
    for routine in (der_unsigned, der_small):
        LAB.call(routine, contents=at, end=at + len(contents))


@pytest.mark.parametrize(
    ("contents", "value"),
    [
        (b"\x06\x01\x2a", 7),
        (b"\x06\x01\x2b", 9),
        (b"\x06\x01", 8),
        (b"\x06\x01\x2c", 0),
        (b"\x05\x01\x2a", 0),
        (b"\x06", 0),
        (b"", 0),
        (b"\x06\x01\x2a\0", 0),
    ],
)
def test_der_known(contents, value):
    at, table = LAB.put(contents), LAB.machine.alloc(TABLE.size)
    LAB.machine.write(table, TABLE.init or b"")
    got = LAB.call(der_known, contents=at, end=at + len(contents), table=table).outputs
    assert got["eax"] == value


@pytest.mark.parametrize("entry", [(b"", 1), (bytes(256), 1), (b"a", 0), (b"a", 256)])
def test_a_table_refuses_what_fits_no_entry(entry):
    with pytest.raises(ValueError, match=r"bad: [0-9a]* with value \d+ fits no entry"):
        known_table("bad", dict([entry]), "")
