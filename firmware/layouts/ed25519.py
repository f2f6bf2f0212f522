"""Ed25519 (RFC 8032 5.1): keys, the work space of signing, and the multiples of the base point."""

from __future__ import annotations

from firmware.layouts.crypto import Hash
from firmware.layouts.curves import ED25519_ORDER
from toolchain.layout import Global, Struct, bytes_, nested, ptr, u32
from toolchain.layout.data import constant

ED25519_BYTES = 32
"""Of a seed, a public key, a scalar, and half a signature."""
TEETH, SPACING = 5, 51
"""The comb: five bits of a scalar, 51 apart, choose among the sums of five multiples. 255 bits."""
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_Y = 4 * pow(5, -1, _P) % _P
_Affine = tuple[int, int]


def _base() -> _Affine:
    """RFC 8032 5.1: y is 4/5, x is even (5.1.3 takes the root)."""
    square = (_Y * _Y - 1) * pow(_D * _Y * _Y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if x * x % _P != square:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    return (_P - x if x & 1 else x), _Y


def ed25519_added(p: _Affine, q: _Affine) -> _Affine:
    """Return the sum of two affine points (RFC 8032 5.1.4). For tables made at build time."""
    product = _D * p[0] * q[0] * p[1] * q[1] % _P
    x = (p[0] * q[1] + q[0] * p[1]) * pow(1 + product, -1, _P) % _P
    y = (p[1] * q[1] + p[0] * q[0]) * pow(1 - product, -1, _P) % _P
    return x, y


ED25519_BASE = _base()


def _comb() -> bytes:
    """Return the sums: y + x, y - x, 2dxy of each."""
    tooth, sums = ED25519_BASE, [(0, 1)]
    for _ in range(TEETH):
        sums += [ed25519_added(one, tooth) for one in sums]
        for _ in range(SPACING):
            tooth = ed25519_added(tooth, tooth)
    rows = [(y + x, y - x, 2 * _D * x * y) for x, y in sums]
    return b"".join((n % _P).to_bytes(ED25519_BYTES, "little") for row in rows for n in row)


ED25519_COMB = constant("ed25519_comb", _comb(), "sums of multiples of the base point", align=64)


class Ed25519Key(Struct):
    """What a seed is made into: a private key, and the public one that belongs to it."""

    SIZE = 0x60
    scalar = bytes_(0x00, ED25519_BYTES, "the scalar, a multiple of 8 with bit 254 set", align=8)
    prefix = bytes_(0x20, ED25519_BYTES, "what nonces are hashed with", align=8)
    public = bytes_(0x40, ED25519_BYTES, "the public key, as it is given to others", align=8)


class Ed25519Work(Struct):
    """Work space of the one signature that is made at a time; zeros between two of them.

    `low` to `answer`, `square` and `cube` are numbers modulo the order; the rest is of the field.
    """

    SIZE = 0x440
    out = ptr(0x00, "where the signature goes")
    key = ptr(0x08, "Ed25519Key that is made or signs")
    message = ptr(0x10, "what is signed")
    length = u32(0x18, "its bytes")
    bit = u32(0x1C, "number of the scalar's bit that is being worked on")
    low = bytes_(0x20, 32, "a digest, its lower half", align=8)
    high = bytes_(0x40, 32, "its upper half", align=8)
    by = bytes_(
        0x60, 32, "what multiplies the base point: the scalar of a key, or a nonce", align=8
    )
    scalar = bytes_(0x80, 32, "the scalar of the key", align=8)
    hashed = bytes_(0xA0, 32, "the digest of all that is signed, in Montgomery's form", align=8)
    answer = bytes_(0xC0, 32, "second half of the signature", align=8)
    square = bytes_(0xE0, 32, "the radix squared", align=8)
    cube = bytes_(0x100, 32, "its third power", align=8)
    one = bytes_(0x120, 32, "1, of the field and as a number", align=8)
    x = bytes_(0x140, 32, "the sum so far: X", align=8)
    y = bytes_(0x160, 32, "its Y", align=8)
    z = bytes_(0x180, 32, "its Z", align=8)
    t = bytes_(0x1A0, 32, "its XY / Z", align=8)
    plus = bytes_(0x1C0, 32, "what is added to it: y + x", align=8)
    minus = bytes_(0x1E0, 32, "y - x", align=8)
    twice = bytes_(0x200, 32, "2dxy", align=8)
    a = bytes_(0x220, 32, "of a formula, as all that follow", align=8)
    b = bytes_(0x240, 32, "behind a: gets differences", align=8)
    c = bytes_(0x260, 32, "of a formula", align=8)
    f = bytes_(0x280, 32, "behind c", align=8)
    h = bytes_(0x2A0, 32, "of a formula", align=8)
    e = bytes_(0x2C0, 32, "behind h", align=8)
    s = bytes_(0x2E0, 32, "of a formula", align=8)
    v = bytes_(0x300, 32, "behind s", align=8)
    hash = nested(0x340, Hash, "SHA-512 of what has secrets in it")


ED25519_WORK = Global("ed25519_work", Ed25519Work, "work space of Ed25519", align=64)
_L = ED25519_ORDER
ED25519_NUMBERS = constant(
    "ed25519_numbers",
    b"".join(_L.words(n % _L.value) for n in (_L.radix**2, _L.radix**3, 1)),
    "what the work space of Ed25519 begins with: `square`, `cube`, `one`",
    align=8,
)
