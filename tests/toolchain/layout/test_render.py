"""Tables and NASM names of structs."""

import enum

from tests.support.forms import nasm
from toolchain.layout import Struct, array, be16, bytes_, enum8, nested, u32, u64
from toolchain.layout.render import Equ, enum_equs, nasm_include, struct_equs, struct_table


class Colour(enum.IntEnum):
    """What it looks like."""

    RED = 1
    GREEN = 7


class Inner(Struct):
    """Inside."""

    SIZE = 8
    low = u32(0, "first half")
    port = be16(4, "on the wire")


class Outer(Struct):
    """Outside.

    More.
    """

    SIZE = 0x40
    colour = enum8(0, Colour, "how it looks")
    inner = nested(8, Inner, "a struct")
    count = u64(0x10, "how many")
    raw = bytes_(0x18, 3, "bytes")
    rows = array(0x20, Inner, 2, "two of them")


def test_struct_table_shows_offset_size_name_type_doc():
    assert struct_table(Outer) == (
        "Outer: 0x40 bytes. Outside.\n"
        "  offset   size  name    type       meaning\n"
        "     0x0      1  colour  Colour:u8  how it looks\n"
        "     0x8      8  inner   Inner      a struct\n"
        "    0x10      8  count   u64        how many\n"
        "    0x18      3  raw     bytes[3]   bytes\n"
        "    0x20     16  rows    Inner[2]   two of them\n"
    )


def test_struct_table_nested_shows_inner_fields_at_outer_offsets():
    table = struct_table(Outer, nested=True)
    assert "     0x8      4  inner.low   u32" in table
    assert "     0xc      2  inner.port  be16" in table


def test_struct_equs_assemble_to_the_offsets():
    text = nasm_include(struct_equs(Outer)) + "db Outer.count, Outer.inner.port, Outer_size\n"
    assert nasm(text) == bytes([0x10, 0x0C, 0x40])


def test_enum_equs_take_the_members():
    assert enum_equs("COLOUR", Colour) == [
        Equ("COLOUR_RED", 1, "What it looks like."),
        Equ("COLOUR_GREEN", 7, "What it looks like."),
    ]
