"""The curves P-256 and P-384 (NIST SP 800-186 3.2.1): their numbers, as residues and as limbs.

The order of Ed25519's base point is here too, as another modulus of Montgomery's arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.layout.data import constant

if TYPE_CHECKING:
    from toolchain.layout import Data

LIMB_BITS, LIMB_BYTES = 64, 8


@dataclass(frozen=True)
class Modulus:
    """A prime whose residues are held in Montgomery's form, x * 2^(64 limbs) mod value.

    Attributes:
        name: Part of the names of its routines and constants.
        value: The prime; of the curves here its top bit is set.
        count: Limbs.
        limbs: The prime in the image.
    """

    name: str
    value: int
    count: int
    limbs: Data

    @property
    def radix(self) -> int:
        """What a residue is multiplied by in Montgomery's form."""
        return 1 << LIMB_BITS * self.count

    @property
    def size(self) -> int:
        """Bytes of a residue."""
        return LIMB_BYTES * self.count

    @property
    def negative_inverse(self) -> int:
        """Minus one over the prime, modulo 2^64: makes the lowest limb vanish."""
        return -pow(self.value, -1, 1 << LIMB_BITS) % (1 << LIMB_BITS)

    def words(self, residue: int) -> bytes:
        """Return a number below the prime as it lies in memory."""
        return residue.to_bytes(self.size, "little")

    def form(self, residue: int) -> bytes:
        """Return a number in Montgomery's form as it lies in memory."""
        return self.words(residue * self.radix % self.value)


def modulus(name: str, value: int, count: int) -> Modulus:
    """Declare a modulus and its limbs."""
    raw = value.to_bytes(LIMB_BYTES * count, "little")
    return Modulus(name, value, count, constant(f"{name}_limbs", raw, "the modulus", align=8))


@dataclass(frozen=True)
class Curve:
    """y^2 = x^3 - 3x + b over a prime field, with a base point of prime order.

    Attributes:
        name: Part of the names of its routines.
        field: The modulus of coordinates.
        order: The modulus of scalars.
        b: The curve's constant.
        base: Coordinates of the base point.
    """

    name: str
    field: Modulus
    order: Modulus
    b: int
    base: tuple[int, int]

    def added(self, p: tuple[int, int] | None, q: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the sum of two affine points; None is infinity. For tables made at build time."""
        if p is None or q is None:
            return q if p is None else p
        m = self.field.value
        if p[0] == q[0]:
            if (p[1] + q[1]) % m == 0:
                return None
            slope = 3 * (p[0] * p[0] - 1) * pow(2 * p[1], -1, m)
        else:
            slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, m)
        x = (slope * slope - p[0] - q[0]) % m
        return x, (slope * (p[0] - x) - p[1]) % m


P256 = Curve(
    "p256",
    modulus("p256", 2**256 - 2**224 + 2**192 + 2**96 - 1, 4),
    modulus("p256n", 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551, 4),
    0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    (
        0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
        0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
    ),
)
P384 = Curve(
    "p384",
    modulus("p384", 2**384 - 2**128 - 2**96 + 2**32 - 1, 6),
    modulus(
        "p384n",
        0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
        6,
    ),
    0xB3312FA7E23EE7E4988E056BE3F82D19181D9C6EFE8141120314088F5013875AC656398D8A2ED19D2A85C8EDD3EC2AEF,
    (
        0xAA87CA22BE8B05378EB1C71EF320AD746E1D3B628BA79B9859F741E082542A385502F25DBF55296C3A545E3872760AB7,
        0x3617DE4A96262C6F5D9E98BF9292DC29F8F41DBD289A147CE9DA3113B5F0B8C00A60B1CE1D7E819D7A431D7C90EA0E5F,
    ),
)
CURVES = (P256, P384)
ED25519_ORDER = modulus("ed25519n", 2**252 + 27742317777372353535851937790883648493, 4)
"""RFC 8032 5.1: the order of the base point."""
MODULI = (*(m for c in CURVES for m in (c.field, c.order)), ED25519_ORDER)
"""Everything that products are reduced by."""
