"""ECDSA verification: its work space, and what of the curves lies in the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.curves import CURVES, Curve
from toolchain.asm import Region
from toolchain.layout import Global, Struct, array, bytes_, ptr, u32
from toolchain.layout.data import constant

if TYPE_CHECKING:
    from toolchain.layout import Data

LIMBS_MAX = 6
WIDTH_BASE, WIDTH_KEY = 7, 5
"""Bits that a digit of a scalar spans: of the base point's, whose multiples are in the image, and of
the key's, whose multiples are made anew."""
DIGITS_MAX = 400
HASH_BYTES_MAX = 64
SCALAR = Region("a scalar", "in the work space, eight bytes of zeros behind it")
DIGITS = Region("its digits", "in the work space, DIGITS_MAX signed bytes")


class Point(Struct):
    """A point in Jacobian coordinates, (X / Z^2, Y / Z^3); Z = 0 is infinity. Montgomery's form."""

    SIZE = 0x90
    x = bytes_(0x00, 48, "X", align=8)
    y = bytes_(0x30, 48, "Y", align=8)
    z = bytes_(0x60, 48, "Z", align=8)


class Ecdsa(Struct):
    """Work space of the one verification that runs at a time; nothing in it is secret."""

    SIZE = 0xB40
    bit = u32(0x00, "number of the digits that are being worked on")
    x1 = bytes_(0x10, 48, "the sum so far: X", align=8)
    y1 = bytes_(0x40, 48, "its Y", align=8)
    z1 = bytes_(0x70, 48, "its Z; 0 = infinity", align=8)
    x2 = bytes_(0xA0, 48, "what is added to it: X", align=8)
    y2 = bytes_(0xD0, 48, "its Y", align=8)
    z2 = bytes_(0x100, 48, "its Z", align=8)
    t0 = bytes_(0x130, 48, "of a formula", align=8)
    t1 = bytes_(0x160, 48, "of a formula", align=8)
    t2 = bytes_(0x190, 48, "of a formula", align=8)
    t3 = bytes_(0x1C0, 48, "of a formula", align=8)
    t4 = bytes_(0x1F0, 48, "of a formula", align=8)
    t5 = bytes_(0x220, 48, "of a formula", align=8)
    r = bytes_(0x250, 48, "first half of the signature", align=8)
    s = bytes_(0x280, 48, "second half", align=8)
    e = bytes_(0x2B0, 48, "the hash as a number", align=8)
    u1 = bytes_(0x2E0, 64, "multiple of the base point; zeros behind it", align=8)
    u2 = bytes_(0x320, 64, "multiple of the key; zeros behind it", align=8)
    digits1 = bytes_(0x360, DIGITS_MAX, "signed digits of u1, one for each bit")
    digits2 = bytes_(0x4F0, DIGITS_MAX, "signed digits of u2")
    multiples = array(0x680, Point, 1 << (WIDTH_KEY - 2), "odd multiples of the key")
    hash = bytes_(0xB00, 48, "the hash, cut to the size of the order or filled up", align=8)


ECDSA = Global("ecdsa", Ecdsa, "work space of ECDSA verification", align=64)


class Inversion(Struct):
    """Work space of the one inversion that runs at a time; wiped, for it may be of a secret."""

    SIZE = 0x340
    out = ptr(0x00, "where the inverse goes")
    bit = u32(0x08, "lowest of the exponent's four bits that are being worked on")
    value = bytes_(0x10, 48, "the power so far", align=8)
    powers = bytes_(0x40, 16 * 48, "the powers 0 to 15 of what is inverted; 0 is not used", align=8)


INVERSION = Global("inversion", Inversion, "work space of inversions", align=64)
POWER_BYTES = 48


def _base_multiples(curve: Curve) -> bytes:
    """Return the odd multiples of the base point, affine, Montgomery's form: X, Y, X, ..."""
    point: tuple[int, int] | None = curve.base
    twice = curve.added(point, point)
    found = b""
    for _ in range(1 << (WIDTH_BASE - 2)):
        if point is None:
            raise AssertionError("a small multiple of the base point is infinity")
        found += b"".join(curve.field.form(coordinate) for coordinate in point)
        point = curve.added(point, twice)
    return found


class CurveData:
    """Constants of one curve in the image, in Montgomery's form unless said otherwise.

    Attributes:
        multiples: Odd multiples of the base point, affine.
        one: 1 modulo the field's prime.
        three: 3.
        b: The curve's constant.
        square: The radix squared modulo the field's prime, as it is: multiplying by it enters the form.
        square_order: The same modulo the order.
        zero: As many zeros as a point has.
        less_two: Exponents that invert, as they are, by modulus.
    """

    def __init__(self, curve: Curve) -> None:
        f, n, name = curve.field, curve.order, curve.name

        def declared(what: str, contents: bytes, doc: str) -> Data:
            return constant(f"{name}_{what}", contents, doc, align=8)

        self.multiples = declared("multiples", _base_multiples(curve), "odd multiples of the base")
        self.one = declared("one", f.form(1), "1 in Montgomery's form")
        self.three = declared("three", f.form(3), "3 in Montgomery's form")
        self.b = declared("b", f.form(curve.b), "the curve's constant")
        self.square = declared("square", f.form(f.radix), "enters Montgomery's form")
        self.square_order = declared("square_order", n.form(n.radix), "the same for scalars")
        self.zero = declared("zero", bytes(f.size), "0")
        self.less_two = {
            m.name: constant(f"{m.name}_less_two", m.words(m.value - 2), "inverts", align=8)
            for m in (f, n)
        }


CURVE_DATA = {curve.name: CurveData(curve) for curve in CURVES}
"""The constants by curve."""
