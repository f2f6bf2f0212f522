"""Key agreement over P-256: its work space, and the numbers that it begins with."""

from __future__ import annotations

from firmware.layouts.curves import P256
from toolchain.layout import Global, Struct, array, bytes_, ptr, u32, u64
from toolchain.layout.data import constant

P256_BYTES = 32
"""Of a coordinate, and of a scalar."""
P256_SHARE_BYTES = 1 + 2 * P256_BYTES
P256_UNCOMPRESSED = 4
"""SEC 1 2.3.3: a point with both coordinates begins so."""
WINDOW = 4
"""Bits of the scalar that are worked on at a time."""


class P256Point(Struct):
    """A point in homogeneous coordinates, (X / Z, Y / Z); infinity is 0 : 1 : 0."""

    SIZE = 0x60
    x = bytes_(0x00, 32, "X", align=8)
    y = bytes_(0x20, 32, "Y", align=8)
    z = bytes_(0x40, 32, "Z", align=8)


class P256Work(Struct):
    """Work space of the one key agreement that runs at a time; zeros between two of them.

    Elements are in Montgomery's form but for `unit` and where it says a number. `y`, `x`, `left` and
    `t0`, `t1`, `t2` are compared with each other as they lie.
    """

    SIZE = 0x900
    out = ptr(0x00, "where the result goes")
    bit = u32(0x08, "number of the scalar's bit that is being worked on; or an offset")
    wrong = u64(0x10, "0 = the peer's share begins as it must")
    scalar = bytes_(0x20, P256_BYTES, "the scalar, the least byte first", align=8)
    square = bytes_(0x40, 32, "the radix squared, as a number: enters Montgomery's form", align=8)
    one = bytes_(0x60, 32, "1", align=8)
    b = bytes_(0x80, 32, "the curve's constant", align=8)
    unit = bytes_(0xA0, 32, "1 as a number: leaves Montgomery's form", align=8)
    y = bytes_(0xC0, 32, "Y as a number", align=8)
    x = bytes_(0xE0, 32, "X as a number", align=8)
    left = bytes_(0x100, 32, "Y squared", align=8)
    t0 = bytes_(0x120, 32, "of a formula", align=8)
    t1 = bytes_(0x140, 32, "of a formula", align=8)
    t2 = bytes_(0x160, 32, "of a formula", align=8)
    t3 = bytes_(0x180, 32, "of a formula", align=8)
    t4 = bytes_(0x1A0, 32, "of a formula", align=8)
    t5 = bytes_(0x1C0, 32, "of a formula", align=8)
    x1 = bytes_(0x1E0, 32, "the sum so far: X", align=8)
    y1 = bytes_(0x200, 32, "its Y", align=8)
    z1 = bytes_(0x220, 32, "its Z", align=8)
    x2 = bytes_(0x240, 32, "what is added to it: X", align=8)
    y2 = bytes_(0x260, 32, "its Y", align=8)
    z2 = bytes_(0x280, 32, "its Z", align=8)
    multiples = array(0x300, P256Point, 1 << WINDOW, "the multiples 0 to 15 of the point")


P256_WORK = Global("p256_work", P256Work, "work space of key agreement over P-256", align=64)
_F = P256.field
P256_NUMBERS = constant(
    "p256_numbers",
    _F.form(_F.radix) + _F.form(1) + _F.form(P256.b) + _F.words(1),
    "what the work space of P-256 begins with: `square` to `unit`",
    align=8,
)
