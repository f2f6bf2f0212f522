"""Points of P-256 and P-384 in Jacobian coordinates, for public data: the formulas and their emitter.

A formula is text, one field operation a line, on names of the work space; the lines are emitted as
calls of the field's leaves. What does not depend on the line before stands between lines that do: a
product takes the processor longer than it keeps it busy. Infinity, equal and opposite points are told
apart explicitly, as whoever signs may have chosen them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firmware.crypto.inverse import INNER_CLOBBERS
from firmware.crypto.limbs import LIMB_BYTES, OUT, X, Y
from firmware.crypto.montgomery import PRODUCTS, SUMS
from firmware.layouts.curves import CURVES, Curve
from firmware.layouts.ecdsa import CURVE_DATA, ECDSA, Ecdsa
from firmware.layouts.field import Level
from toolchain.asm import EAX, RAX, Asm, Mem64, Z, routine
from toolchain.asm.routine import Routine
from toolchain.layout import Data
from toolchain.layout.fields import Span

W = ECDSA.it
DOUBLE = """
t0 = z1 ^ 2
t1 = x1 + t0
t2 = y1 ^ 2
t0 = x1 - t0
t1 = t0 * t1
t3 = t2 ^ 2
t4 = t1 / 2
t2 = t2 * x1
t1 = t1 + t4
z1 = z1 * y1
t5 = t1 ^ 2
t5 = t5 - t2
x1 = t5 - t2
t2 = t2 - x1
t1 = t2 * t1
y1 = t1 - t3
"""
"""t1 = 3/2 (x - z^2)(x + z^2), t2 = xy^2, t3 = y^4: a = -3, four products and four squares. Z = yz is half
of what is usual, so that little has to be doubled."""
DIFFERENCES = """
t0 = z2 ^ 2
t1 = z1 ^ 2
t2 = x1 * t0
t3 = x2 * t1
t3 = t3 - t2
t1 = t1 * z1
t0 = t0 * z2
z1 = z1 * z2
t4 = y1 * t0
t5 = y2 * t1
t5 = t5 - t4
"""
"""t2 = U1, t3 = H = U2 - U1, t4 = S1, t5 = R = S2 - S1."""
DIFFERENCES_AFFINE = """
t0 = z1 ^ 2
t1 = t0 * z1
t3 = x2 * t0
t3 = t3 - x1
t5 = y2 * t1
t5 = t5 - y1
"""
"""The same where z2 = 1: U1 = x1 and S1 = y1."""
SUM = """
t0 = t3 ^ 2
z1 = z1 * t3
t1 = t5 ^ 2
t2 = {u1} * t0
t3 = t0 * t3
t4 = {s1} * t3
t1 = t1 - t3
t1 = t1 - t2
x1 = t1 - t2
t2 = t2 - x1
t5 = t2 * t5
y1 = t5 - t4
"""
"""X = R^2 - H^3 - 2 U1 H^2, Y = R (U1 H^2 - X) - S1 H^3, Z = Z1 Z2 H."""
_SOURCE = "SEC 1 2.2.1; explicit formulas for a = -3 in Jacobian coordinates"


def emit(a: Asm, curve: Curve, level: Level, formula: str) -> None:
    """Emit a formula as calls."""
    products, sums = PRODUCTS[curve.field.name, level], SUMS[curve.field.name]
    leaves = {"*": products.mul, "+": sums.add, "-": sums.sub}
    alone = {"^": products.sqr, "/": sums.half}
    for line in formula.strip().split("\n"):
        out, _, x, sign, y = line.split()
        a.lea(OUT, slot(curve, out).address)
        a.lea(X, slot(curve, x).address)
        if sign in alone:
            a.call(alone[sign])
            continue
        a.lea(Y, slot(curve, y).address)
        a.call(leaves[sign])


def slot(curve: Curve, name: str) -> Span | Data:
    """Return a field of the work space, or a constant of the curve, by its name in a formula."""
    found: Span | Data = getattr(W if hasattr(Ecdsa, name) else CURVE_DATA[curve.name], name)
    return found


def limbs_of(curve: Curve, place: Span | Data) -> list[Mem64[int]]:
    """Return the limbs of an element."""
    return [place.m64(LIMB_BYTES * n) for n in range(curve.field.count)]


def copy(a: Asm, curve: Curve, target: Span, source: Sequence[Mem64[int]]) -> None:
    """Copy an element, through RAX."""
    for word, limb in zip(limbs_of(curve, target), source, strict=True):
        a.mov(RAX, limb)
        a.mov(word, RAX)


def clear(a: Asm, curve: Curve, target: Span) -> None:
    """Set an element to zero."""
    a.xor(EAX, EAX)
    for word in limbs_of(curve, target):
        a.mov(word, RAX)


def zero(a: Asm, curve: Curve, place: Span) -> None:
    """ZF := whether an element is zero."""
    first, *rest = limbs_of(curve, place)
    a.mov(RAX, first)
    for limb in rest:
        a.or_(RAX, limb)
    a.test(RAX, RAX)


def _calls(curve: Curve, level: Level, *formulas: str) -> list[Routine]:
    products, sums = PRODUCTS[curve.field.name, level], SUMS[curve.field.name]
    by_sign = {
        "*": products.mul, "^": products.sqr, "+": sums.add, "-": sums.sub, "/": sums.half,
    }  # fmt: skip
    signs = {line.split()[3] for formula in formulas for line in formula.strip().split("\n")}
    return [by_sign[sign] for sign in sorted(signs)]


def _double(curve: Curve, level: Level) -> Routine:
    def body(a: Asm) -> None:
        """Double the sum; infinity stays infinity."""
        emit(a, curve, level, DOUBLE)
        a.ret()

    body.__name__ = f"{curve.name}_point_double_{level.value}"
    return routine(clobbers=INNER_CLOBBERS, calls=_calls(curve, level, DOUBLE), source=_SOURCE)(
        body
    )


def _add(curve: Curve, level: Level, double: Routine, *, affine: bool) -> Routine:
    differences = DIFFERENCES_AFFINE if affine else DIFFERENCES
    rest = SUM.format(u1="x1", s1="y1") if affine else SUM.format(u1="t2", s1="t4")

    def body(a: Asm) -> None:
        """Add the second point, which is not infinity, to the sum, whatever that is."""
        zero(a, curve, W.z1)
        with a.if_(Z):
            # Infinity and the point are the point.
            for target, source in ((W.x1, W.x2), (W.y1, W.y2)):
                copy(a, curve, target, limbs_of(curve, source))
            one = CURVE_DATA[curve.name].one if affine else W.z2
            copy(a, curve, W.z1, limbs_of(curve, one))
            a.ret()
        emit(a, curve, level, differences)
        zero(a, curve, W.t3)
        with a.if_(Z):
            zero(a, curve, W.t5)
            with a.if_(Z):
                # The points are equal; the product of both Z has no meaning for that.
                for target, source in ((W.x1, W.x2), (W.y1, W.y2)):
                    copy(a, curve, target, limbs_of(curve, source))
                one = CURVE_DATA[curve.name].one if affine else W.z2
                copy(a, curve, W.z1, limbs_of(curve, one))
                a.jmp(double)
            # Opposite points are infinity together.
            clear(a, curve, W.z1)
            a.ret()
        emit(a, curve, level, rest)
        a.ret()

    body.__name__ = f"{curve.name}_point_add{'_affine' if affine else ''}_{level.value}"
    fields = [Ecdsa.x2, Ecdsa.y2, Ecdsa.z1, Ecdsa.t3, Ecdsa.t5]
    constants = [CURVE_DATA[curve.name].one] if affine else [Ecdsa.z2]
    return routine(
        clobbers=INNER_CLOBBERS,
        reads=[*fields, *constants],
        writes=[Ecdsa.x1, Ecdsa.y1, Ecdsa.z1],
        calls=[*_calls(curve, level, differences, rest), double],
        source=_SOURCE,
    )(body)


@dataclass(frozen=True)
class Points:
    """The routines on points of one curve at one level, on the work space of ECDSA."""

    double: Routine
    add: Routine
    add_affine: Routine


def _points(curve: Curve, level: Level) -> Points:
    double = _double(curve, level)
    return Points(
        double,
        _add(curve, level, double, affine=False),
        _add(curve, level, double, affine=True),
    )


POINTS = {(curve.name, level): _points(curve, level) for curve in CURVES for level in Level}
"""The routines by curve and level."""
