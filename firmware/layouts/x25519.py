"""X25519: the work space of Montgomery's ladder (RFC 7748)."""

from __future__ import annotations

from toolchain.layout import Global, Struct, bytes_, u32, u64
from toolchain.layout.data import constant


class X25519(Struct):
    """Work space of the one X25519 that runs at a time; zeros between two of them."""

    SIZE = 0x1E0
    out = u64(0x00, "where the result goes")
    bit = u32(0x08, "number of the scalar's bit that is being worked on")
    left = u32(0x0C, "squarings that are left")
    swapped = u64(0x10, "1 = the two points are exchanged")
    scalar = bytes_(0x20, 32, "the scalar, clamped", align=8)
    x1 = bytes_(0x40, 32, "the u-coordinate given", align=8)
    x2 = bytes_(0x60, 32, "the first point: U", align=8)
    z2 = bytes_(0x80, 32, "its W", align=8)
    x3 = bytes_(0xA0, 32, "the second point: U", align=8)
    z3 = bytes_(0xC0, 32, "its W", align=8)
    a = bytes_(0xE0, 32, "x2 + z2", align=8)
    b = bytes_(0x100, 32, "x2 - z2", align=8)
    c = bytes_(0x120, 32, "x3 + z3", align=8)
    d = bytes_(0x140, 32, "x3 - z3", align=8)
    aa = bytes_(0x160, 32, "a squared", align=8)
    bb = bytes_(0x180, 32, "b squared", align=8)
    e = bytes_(0x1A0, 32, "their difference", align=8)
    t = bytes_(0x1C0, 32, "what has no name", align=8)


X25519_WORK = Global("x25519_work", X25519, "work space of X25519", align=64)
X25519_BYTES = 32
X25519_BITS = 255
X25519_BASE_POINT = constant(
    "x25519_base_point",
    (9).to_bytes(X25519_BYTES, "little"),
    "the base point of Curve25519 (RFC 7748 4.1)",
    align=8,
)
