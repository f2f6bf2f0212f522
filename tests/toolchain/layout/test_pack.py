"""Bytes of structs: what is packed comes back, and what does not fit is refused by name."""

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.layout import (
    Struct,
    array,
    be16,
    bytes_,
    enum8,
    flags8,
    nested,
    u8,
    u16,
    u32,
    u64,
)
from toolchain.layout.pack import PackError, pack, unpack


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


class Bits(enum.IntFlag):
    A = 1
    B = 2


class Inner(Struct):
    SIZE = 4
    low = u16(0, "low")
    high = u16(2, "high")


class Outer(Struct):
    SIZE = 0x30
    byte = u8(0x00, "a byte")
    colour = enum8(0x01, Colour, "an enum")
    port = be16(0x02, "as on the wire")
    word = u32(0x04, "a doubleword")
    wide = u64(0x08, "a quadword")
    bits = flags8(0x10, Bits, "flags")
    inner = nested(0x14, Inner, "a struct inside")
    rows = array(0x18, Inner, 2, "two structs")
    text = bytes_(0x20, 6, "bytes")


def test_pack_lays_fields_at_their_offsets():
    made = pack(
        Outer,
        {
            "byte": 0xAB,
            "colour": Colour.BLUE,
            "port": 0x1234,
            "word": 0x01020304,
            "inner": {"high": 7},
            "rows": [{"low": 1}, {"low": 2}],
            "text": b"abc",
        },
    )
    assert made[:8] == bytes([0xAB, 2, 0x12, 0x34, 4, 3, 2, 1])
    assert made[0x14:0x18] == bytes([0, 0, 7, 0])
    assert made[0x18:0x20] == bytes([1, 0, 0, 0, 2, 0, 0, 0])
    assert made[0x20:] == b"abc" + bytes(13)
    assert len(made) == Outer.SIZE


def test_unpack_gives_members_and_keeps_numbers_without_one():
    contents = bytearray(pack(Outer, {"colour": Colour.RED, "bits": Bits.A | Bits.B}))
    assert unpack(Outer, contents)["colour"] is Colour.RED
    assert unpack(Outer, contents)["bits"] == Bits.A | Bits.B
    contents[1] = 9
    assert unpack(Outer, contents)["colour"] == 9


@given(
    st.fixed_dictionaries(
        {
            "byte": st.integers(0, 255),
            "colour": st.sampled_from(Colour),
            "port": st.integers(0, 0xFFFF),
            "word": st.integers(0, 0xFFFF_FFFF),
            "wide": st.integers(0, 2**64 - 1),
            "bits": st.sampled_from([Bits(0), Bits.A, Bits.B, Bits.A | Bits.B]),
            "inner": st.fixed_dictionaries(
                {"low": st.integers(0, 0xFFFF), "high": st.integers(0, 0xFFFF)}
            ),
            "rows": st.lists(
                st.fixed_dictionaries(
                    {"low": st.integers(0, 0xFFFF), "high": st.integers(0, 0xFFFF)}
                ),
                min_size=2,
                max_size=2,
            ),
            "text": st.binary(min_size=6, max_size=6),
        }
    )
)
def test_unpack_reverses_pack(values):
    assert unpack(Outer, pack(Outer, values)) == values


def test_partial_leaves_out_what_is_cut():
    head = pack(Outer, {"word": 5, "wide": 6})[:0x0C]
    assert unpack(Outer, head, partial=True) == {"byte": 0, "colour": 0, "port": 0, "word": 5}
    with pytest.raises(PackError, match="Outer has 48 bytes; 12 were given"):
        unpack(Outer, head)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"wrod": 1}, "Outer has no field 'wrod'; its fields are byte, colour, port, word"),
        ({"byte": 256}, "Outer.byte holds 0 to 255; the value is outside"),
        ({"word": -1}, "Outer.word holds 0 to 4294967295; the value is outside"),
        ({"word": "1"}, "Outer.word takes a number, not str"),
        ({"text": b"1234567"}, "Outer.text holds 6 bytes; the value has 7"),
        ({"text": 5}, "Outer.text takes bytes, not int"),
        ({"inner": 5}, "Outer.inner takes a dict of its fields, not int"),
        ({"rows": [{}, {}, {}]}, "Outer.rows holds 8 bytes; the value has 12"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(values, message):
    with pytest.raises(PackError) as caught:
        pack(Outer, values)
    assert message in str(caught.value)


def test_a_refused_number_is_not_repeated():
    with pytest.raises(PackError) as caught:
        pack(Outer, {"byte": 123456})
    assert "123456" not in str(caught.value)
