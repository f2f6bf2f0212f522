"""Points in lockstep: every case of the group law, and the sum of two multiples from their digits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.crypto.multiply import POINT_SUMS, signed_digits
from firmware.crypto.points import POINTS
from firmware.layouts.curves import CURVES
from firmware.layouts.ecdsa import DIGITS_MAX, ECDSA, WIDTH_BASE, WIDTH_KEY
from firmware.layouts.field import Level
from tests.support.lab import Lab

LAB = Lab(
    *POINT_SUMS.values(), *(r for p in POINTS.values() for r in vars(p).values()), semantics=False
)
VARIANTS = pytest.mark.parametrize(
    ("curve", "level"), [(c, level) for c in CURVES for level in Level],
    ids=[f"{c.name}-{level.value}" for c in CURVES for level in Level],
)  # fmt: skip


def times(curve, k, point=None):
    """Return a multiple of a point, of the base point by default; None is infinity."""
    total, power = None, curve.base if point is None else point
    while k:
        if k & 1:
            total = curve.added(total, power)
        power = curve.added(power, power)
        k >>= 1
    return total


def lay(curve, number, point, z=1):
    """Lay a point down as the first or second one of the work space."""
    m, work = curve.field, LAB.g(ECDSA)
    x, y = point or (1, 1)
    z = z if point else 0
    for name, value in (("x", x * z * z), ("y", y * z**3), ("z", z)):
        getattr(work, f"{name}{number}")[:] = m.form(value % m.value).ljust(48, b"\0")


@VARIANTS
@pytest.mark.parametrize("affine", [False, True])
def test_every_case_of_an_addition(curve, level, affine):
    points = POINTS[curve.name, level]
    add = points.add_affine if affine else points.add
    minus = curve.order.value - 5
    for first, second in ((3, 5), (0, 5), (5, 5), (minus, 5), (5, 1), (minus, minus)):
        LAB.reset()
        lay(curve, 1, times(curve, first), z=0x1234_5678 << 40)
        lay(curve, 2, times(curve, second), z=1 if affine else 0x9ABC_DEF0)
        LAB.call(add)  # the model knows the group law


@VARIANTS
def test_doubling_a_point_and_infinity(curve, level):
    for multiple in (1, 7, 0):
        LAB.reset()
        lay(curve, 1, times(curve, multiple), z=3)
        LAB.call(POINTS[curve.name, level].double)


def digits(curve, scalar, width):
    """Return the digits that `signed_digits` writes."""
    found, place = bytearray(DIGITS_MAX), 0
    while scalar:
        if scalar & 1:
            digit = scalar % (1 << width)
            digit -= (1 << width) if digit >> width - 1 else 0
            found[place] = digit & 0xFF
            scalar -= digit
        scalar >>= 1
        place += 1
    return bytes(found)


@VARIANTS
@pytest.mark.parametrize(
    ("u1", "u2", "key"), [(127, 35, 0xC0FFEE), (0, 31, 2), (5, 5, 1), (5, 5, -1), (0, 0, 3)]
)
def test_sums_of_small_multiples(curve, level, u1, u2, key):
    # A key that is the base point, or its opposite, makes sums meet and vanish.
    LAB.reset()
    work = LAB.g(ECDSA)
    work.digits1[:] = digits(curve, u1, WIDTH_BASE)
    work.digits2[:] = digits(curve, u2, WIDTH_KEY)
    lay(curve, 2, times(curve, key % curve.order.value))
    LAB.call(POINT_SUMS[curve.name, level])


DIGIT_LAB = Lab(signed_digits)


@settings(max_examples=60)
@given(data=st.data())
def test_digits_of_any_number(data):
    limbs = data.draw(st.integers(1, 6))
    limb = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
    number = b"".join(data.draw(limb).to_bytes(8, "little") for _ in range(limbs))
    width = data.draw(st.integers(2, 7))
    DIGIT_LAB.reset()
    out = DIGIT_LAB.machine.alloc(DIGITS_MAX)
    where = DIGIT_LAB.put(number + bytes(8))
    DIGIT_LAB.call(signed_digits, number=where, digits=out, width=width, bits=64 * limbs)
    raw = DIGIT_LAB.machine.read(out, DIGITS_MAX)
    digits = [byte - 256 if byte > 127 else byte for byte in raw]
    assert sum(digit << n for n, digit in enumerate(digits)) == int.from_bytes(number, "little")
    assert all(digit == 0 or digit & 1 for digit in digits)
    assert all(abs(digit) < 1 << width - 1 for digit in digits)
    assert all(not any(digits[n + 1 : n + width]) for n, digit in enumerate(digits) if digit)
