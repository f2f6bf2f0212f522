"""Verification of ECDSA signatures over P-256 and P-384 (FIPS 186-5 6.4.2). All data is public.

The x of u1 * G + u2 * Q is compared with r as X = r * Z^2, without an inversion.
"""

from __future__ import annotations

from dataclasses import dataclass

from firmware.abi import CALLER_SAVED
from firmware.crypto.inverse import INNER_CLOBBERS, INVERSES
from firmware.crypto.limbs import LEAF_SAVES, LIMB_BYTES, LIMBS, OUT, X, Y
from firmware.crypto.montgomery import PRODUCTS, SUMS
from firmware.crypto.multiply import POINT_SUMS, signed_digits
from firmware.crypto.points import POINTS, W, clear, emit, limbs_of, zero
from firmware.layouts.crypto import BUFFER_IN
from firmware.layouts.curves import P256, P384, Curve, Modulus
from firmware.layouts.ecdsa import (
    CURVE_DATA,
    HASH_BYTES_MAX,
    WIDTH_BASE,
    WIDTH_KEY,
    Ecdsa,
)
from firmware.layouts.field import Level
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    In,
    Label,
    Mem64,
    Out,
    Reg32,
    Reg64,
    mem64,
    routine,
)
from toolchain.asm.routine import Routine
from toolchain.layout import Data
from toolchain.layout.fields import Span

_SOURCE = "FIPS 186-5 6.4.2; SEC 1 4.1.4"


class _Verifier:
    """Emits the parts of one variant; `refused` is where every failure ends."""

    def __init__(self, a: Asm, curve: Curve, level: Level) -> None:
        self.a, self.curve, self.level = a, curve, level
        self.data, self.points = CURVE_DATA[curve.name], POINTS[curve.name, level]
        self.count = curve.field.count
        self.size, self.bits = curve.field.size, 8 * curve.field.size
        self.refused: Label = a.label("refused")

    def emit(self, formula: str) -> None:
        """Emit field operations."""
        emit(self.a, self.curve, self.level, formula)

    def limbs(self, place: Span | Data) -> list[Mem64[int]]:
        """Return the limbs of a number or element."""
        return limbs_of(self.curve, place)

    # -- taking the inputs ------------------------------------------------------------------------
    def take(self, target: Span, source: Reg64, offset: int) -> None:
        """Read a big-endian number."""
        for n, limb in enumerate(self.limbs(target)):
            at = offset + self.size - LIMB_BYTES * (n + 1)
            self.a.mov(RAX, mem64(source, at, ref=BUFFER_IN))
            self.a.bswap(RAX)
            self.a.mov(limb, RAX)

    def take_hash(self) -> None:
        """E := the hash, from RDX and ECX: its leftmost bits, as many as the order has."""
        a = self.a
        clear(a, self.curve, W.hash)
        a.mov(ECX, ECX)  # the upper half may hold anything
        a.cmp(ECX, self.size)
        with a.if_(A):
            a.mov(ECX, self.size)
        a.mov(RSI, RDX)
        a.lea(RDI, W.hash.m8(self.size))
        a.sub(RDI, RCX)
        a.rep_movsb()
        for target, source in zip(self.limbs(W.e), reversed(self.limbs(W.hash)), strict=True):
            a.mov(RAX, source)
            a.bswap(RAX)
            a.mov(target, RAX)

    def below(self, place: Span, modulus: Modulus) -> None:
        """Refuse a number that is not below the modulus."""
        a = self.a
        for n, (limb, word) in enumerate(
            zip(self.limbs(place), self.limbs(modulus.limbs), strict=True)
        ):
            a.mov(RAX, limb)
            (a.sbb if n else a.sub)(RAX, word)
        a.jae(self.refused)

    def check_ranges(self) -> None:
        """Refuse r or s outside 1..n-1, and coordinates that are not least residues."""
        for place in (W.r, W.s):
            zero(self.a, self.curve, place)
            self.a.jz(self.refused)
            self.below(place, self.curve.order)
        for place in (W.x2, W.y2):
            self.below(place, self.curve.field)

    def check_on_curve(self) -> None:
        """Bring the key into Montgomery's form; refuse it unless y^2 = x^3 - 3x + b."""
        self.emit(ON_CURVE)
        self.compare(W.t0, W.t1)
        self.a.jnz(self.refused)

    def compare(self, place: Span, other: Span) -> None:
        """ZF := whether two elements are equal."""
        a = self.a
        for n, (x, y) in enumerate(zip(self.limbs(place), self.limbs(other), strict=True)):
            target = RCX if n else RAX
            a.mov(target, x)
            a.xor(target, y)
            if n:
                a.or_(RAX, RCX)
        a.test(RAX, RAX)

    # -- the multiples ----------------------------------------------------------------------------
    def scalars(self) -> None:
        """u1 := e / s and u2 := r / s modulo the order, and their digits."""
        a, order = self.a, self.curve.order
        products = PRODUCTS[order.name, self.level]
        a.lea(OUT, W.s.address)
        a.lea(X, W.s.address)
        a.lea(Y, self.data.square_order.address)
        a.call(products.mul)
        a.lea(OUT, W.s.address)
        a.lea(X, W.s.address)
        a.call(INVERSES[order.name, self.level])
        for target, source, digits, width in (
            (W.u1, W.e, W.digits1, WIDTH_BASE),
            (W.u2, W.r, W.digits2, WIDTH_KEY),
        ):
            # One factor is in Montgomery's form, so the product is not.
            a.lea(OUT, target.address)
            a.lea(X, source.address)
            a.lea(Y, W.s.address)
            a.call(products.mul)
            a.xor(EAX, EAX)
            a.mov(target.m64(self.size), RAX)
            a.lea(RSI, target.address)
            a.lea(RDI, digits.address)
            a.mov(ECX, width)
            a.mov(EDX, self.bits)
            a.call(signed_digits)

    # -- the verdict ------------------------------------------------------------------------------
    def judge(self) -> None:
        """Accept when the sum's x is r modulo the order: X is r * Z^2, or (r + n) * Z^2."""
        a, c = self.a, self.curve
        accepted = a.label("accepted")
        zero(a, c, W.z1)
        a.jz(self.refused)
        self.emit("t0 = z1 ^ 2")
        self.emit(CANDIDATE)
        self.compare(W.t1, W.x1)
        a.jz(accepted)
        limbs = LIMBS[: self.count]
        for n, (limb, word, more) in enumerate(
            zip(limbs, self.limbs(W.r), self.limbs(c.order.limbs), strict=True)
        ):
            a.mov(limb, word)
            (a.adc if n else a.add)(limb, more)
        a.jb(self.refused)  # no coordinate is that large
        for limb, word in zip(limbs, self.limbs(W.r), strict=True):
            a.mov(word, limb)
        self.below(W.r, c.field)
        self.emit(CANDIDATE)
        self.compare(W.t1, W.x1)
        a.jnz(self.refused)
        a.place(accepted)
        a.clc()
        a.ret()
        a.place(self.refused)
        a.stc()
        a.ret()


ON_CURVE = """
x2 = x2 * square
y2 = y2 * square
t0 = x2 ^ 2
t0 = t0 - three
t0 = t0 * x2
t0 = t0 + b
t1 = y2 ^ 2
"""
"""t0 = x^3 - 3x + b, t1 = y^2."""
CANDIDATE = """
t1 = r * square
t1 = t1 * t0
"""
"""What X is when its point has the x-coordinate r."""


@dataclass(frozen=True)
class _Steps:
    """What a verification of one variant is made of, once the inputs are in range."""

    scalars: Routine
    sum: Routine
    judge: Routine


def _steps(curve: Curve, level: Level) -> _Steps:
    field, order = PRODUCTS[curve.field.name, level], PRODUCTS[curve.order.name, level]

    def scalars(a: Asm) -> None:
        """u1 := e / s and u2 := r / s modulo the order, as digits."""
        _Verifier(a, curve, level).scalars()
        a.ret()

    def judge(a: Asm) -> None:
        """Accept when the sum's x is r modulo the order: X is r * Z^2, or (r + n) * Z^2."""
        _Verifier(a, curve, level).judge()

    for body in (scalars, judge):
        body.__name__ = f"ecdsa_{curve.name}_{body.__name__}_{level.value}"
    return _Steps(
        scalars=routine(
            clobbers=INNER_CLOBBERS,
            writes=[Ecdsa.u1, Ecdsa.u2],
            calls=[order.mul, INVERSES[curve.order.name, level], signed_digits],
            source=_SOURCE,
        )(scalars),
        sum=POINT_SUMS[curve.name, level],
        judge=routine(
            outputs=[Out(CF, "1 = refused")],
            clobbers=INNER_CLOBBERS,
            reads=[Ecdsa, curve.field.limbs, curve.order.limbs],
            writes=[Ecdsa.r],
            calls=[field.mul, field.sqr],
            source=_SOURCE,
        )(judge),
    )


def _verify(curve: Curve, level: Level) -> Routine:
    products, sums = PRODUCTS[curve.field.name, level], SUMS[curve.field.name]
    steps, size = _steps(curve, level), curve.field.size

    def body(a: Asm, key: Reg64, signature: Reg64, hash_: Reg64, length: Reg32) -> None:
        """Verify a signature of a hash; every key and signature is judged as if an enemy made it."""
        v = _Verifier(a, curve, level)
        v.take(W.x2, key, 0)
        v.take(W.y2, key, size)
        v.take(W.r, signature, 0)
        v.take(W.s, signature, size)
        v.take_hash()
        v.check_ranges()
        v.check_on_curve()
        a.call(steps.scalars)
        a.call(steps.sum)
        a.call(steps.judge)
        a.ret()
        a.place(v.refused)
        a.stc()
        a.ret()

    body.__name__ = f"ecdsa_{curve.name}_verify_{level.value}"
    return routine(
        inputs=[
            In(RDI, int, f"the key: X and Y, big-endian; {2 * size} bytes"),
            In(RSI, int, f"the signature: r and s, big-endian; {2 * size} bytes"),
            In(RDX, int, "the hash of what is signed"),
            In(ECX, int, f"its bytes, at most {HASH_BYTES_MAX}"),
        ],
        outputs=[Out(CF, "1 = refused")],
        clobbers=CALLER_SAVED,
        reads=[Ecdsa, BUFFER_IN, curve.field.limbs, curve.order.limbs],
        writes=[Ecdsa],
        calls=[products.mul, products.sqr, sums.add, sums.sub, *vars(steps).values()],
        saves=LEAF_SAVES,
        source=_SOURCE,
    )(body)


ecdsa_p256_verify_adx = _verify(P256, Level.ADX)
ecdsa_p256_verify_base = _verify(P256, Level.BASE)
ecdsa_p384_verify_adx = _verify(P384, Level.ADX)
ecdsa_p384_verify_base = _verify(P384, Level.BASE)
