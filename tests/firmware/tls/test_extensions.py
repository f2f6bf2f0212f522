"""Extensions of a server: every type in every place, twice, and cut at every byte."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.errors import describe
from firmware.layouts.tls import Extension
from firmware.layouts.tls_arena import Place
from firmware.tls.extensions import tls_extensions
from tests.support.tls import TlsBench

BENCH = TlsBench(tls_extensions)
# RFC 8446 4.2, read off its table for a client that offers what ours offers.
MAY = {
    Place.SERVER_HELLO: {43, 51},
    Place.RETRY: {43, 44, 51},
    Place.ENCRYPTED: {0, 10, 16},
    Place.ENTRY: set(),
}
OURS = {0, 10, 13, 16, 43, 51}


def extension(kind, value=b""):
    return kind.to_bytes(2, "big") + len(value).to_bytes(2, "big") + value


def walked(block, place):
    """Return whether the lengths add up, and the error."""
    BENCH.reset()
    given_ = BENCH.message(block)
    got = BENCH.call(tls_extensions, first=given_["body"], length=len(block), place=place)
    return not got["cf"], got["r9d"]


def value_of(kind):
    row = BENCH.arena.found[kind]
    at = BENCH.arena.address_ + row.offset
    return BENCH.lab.machine.read(at, row.length) if row.length else b""


@pytest.mark.parametrize("place", MAY)
def test_every_type_in_every_place(place):
    for kind in [*range(70), 255, 256, 0x0A0A, 0x8000, 0xFF01, 0xFFFF]:
        fine, error = walked(extension(kind, b"v"), place)
        assert fine
        if kind in MAY[place]:
            assert error == 0
        elif kind in OURS:
            assert describe(error) == "tls.extension_misplaced" + (f"({kind})" if kind else "")
        else:
            assert describe(error) == f"tls.extension_unsolicited({kind})"


def test_a_request_may_carry_anything():
    block = b"".join(extension(kind, b"x") for kind in (13, 47, 5, 18, 0x0A0A, 0xFFFF))
    assert walked(block, Place.REQUEST) == (True, 0)
    assert value_of(13) == b"x"


def test_values_are_noted_where_they_lie():
    block = extension(43, b"\x03\x04") + extension(51, b"share") + extension(44)
    assert walked(block, Place.RETRY) == (True, 0)
    assert (value_of(43), value_of(51), value_of(44)) == (b"\x03\x04", b"share", b"")
    assert BENCH.arena.found[44].offset
    assert not BENCH.arena.found[0].offset


def test_twice_is_refused_and_the_first_fault_counts():
    fine, error = walked(extension(43) + extension(51) + extension(43), Place.SERVER_HELLO)
    assert (fine, describe(error)) == (True, "tls.extension_twice(43)")
    fine, error = walked(extension(99) + extension(43) * 2, Place.SERVER_HELLO)
    assert (fine, describe(error)) == (True, "tls.extension_unsolicited(99)")
    assert walked(extension(13) * 2, Place.REQUEST)[1] != 0


def test_a_block_cut_anywhere_does_not_add_up():
    block = extension(43, b"\x03\x04") + extension(51, b"share")
    borders = {0, 6, len(block)}
    for cut in range(len(block) + 1):
        assert walked(block[:cut], Place.SERVER_HELLO)[0] == (cut in borders)


@settings(max_examples=60)
@given(
    items=st.lists(
        st.tuples(st.sampled_from([*Extension, 2, 63, 64, 0xFFFF]), st.binary(max_size=6)),
        max_size=6,
    ),
    rest=st.binary(max_size=5),
    place=st.sampled_from(Place),
)
def test_any_block(items, rest, place):
    walked(b"".join(extension(kind, value) for kind, value in items) + rest, place)
