"""ECDSA signatures in DER: read strictly, right-aligned."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.x509.signature import ecdsa_signature_read
from tests.support.lab import Lab

LAB = Lab(ecdsa_signature_read, slots=0)


def read(contents, size=32):
    """Return r and s; None when refused. Nothing is mapped behind the signature."""
    LAB.reset()
    out = LAB.machine.alloc(2 * size)
    at = LAB.put(contents)
    found = LAB.call(ecdsa_signature_read, signature=at, end=at + len(contents), out=out, size=size)
    raw = LAB.machine.read(out, 2 * size)
    return None if found.outputs["cf"] else tuple(
        int.from_bytes(half, "big") for half in (raw[:size], raw[size:])
    )  # fmt: skip


def integer(value):
    raw = value.to_bytes(value.bit_length() // 8 + 1, "big")
    return bytes([2, len(raw)]) + raw


def signature(*parts):
    body = b"".join(parts)
    long = bytes([0x81]) if len(body) > 127 else b""
    return b"\x30" + long + bytes([len(body)]) + body


@pytest.mark.parametrize("size", [32, 48])
@pytest.mark.parametrize(("r", "s"), [(0, 0), (1, 127), (128, 255), (2**255, 2**256 - 1)])
def test_numbers_of_any_length_are_filled_up(size, r, s):
    assert read(signature(integer(r), integer(s)), size) == (r, s)


def test_the_longest_numbers_of_p384():
    n = 2**384 - 1
    assert read(signature(integer(n), integer(n - 1)), 48) == (n, n - 1)


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"\x30",
        b"\x30\x00",
        signature(integer(1)),
        signature(integer(1), integer(2), integer(3)),
        signature(integer(1), integer(2)) + b"\0",
        signature(integer(1), integer(2), b"\5\0"),
        signature(b"\2\0", integer(2)),
        signature(integer(1), b"\2\0"),
        signature(b"\2\1\x80", integer(2)),  # negative
        signature(b"\2\2\0\1", integer(2)),  # not the shortest form
        signature(b"\2\x81\1\1", integer(2)),  # a length that is not the shortest
        b"\x30\x81\6" + integer(1) + integer(2),
        b"\x30\x80" + integer(1) + integer(2) + b"\0\0",  # indefinite length
        b"\x31\6" + integer(1) + integer(2),
        signature(b"\3\1\1", integer(2)),
        signature(integer(2**256), integer(2)),
        signature(integer(1), integer(2**264)),
        signature(integer(1), integer(2))[:-1],
    ],
)
def test_anything_else_is_refused(contents):
    assert read(contents) is None


@settings(max_examples=60)
@given(data=st.data())
def test_a_changed_byte_never_reads_past_the_end(data):
    good = bytearray(signature(integer(2**255 + 7), integer(2**200)))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] = data.draw(st.integers(0, 255))
    read(bytes(good[: data.draw(st.integers(0, len(good)))]))
