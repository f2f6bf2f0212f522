"""X25519 (RFC 7748 5): Montgomery's ladder on one coordinate, the same steps for every scalar.

The field's routines come from `field25519`; one generator makes a variant for each level of the
processor. Everything secret lies in one work space, which is wiped at the end.
"""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.field25519 import FIELD25519, LEAST, TOP_BIT, N, least
from firmware.crypto.limbs import LEAF_SAVES, OUT, X, Y
from firmware.layouts.crypto import BUFFER_IN, BUFFER_OUT
from firmware.layouts.field import Level
from firmware.layouts.x25519 import X25519, X25519_BITS, X25519_BYTES, X25519_WORK
from toolchain.asm import (
    CF,
    CL,
    EAX,
    ECX,
    NE,
    NS,
    NZ,
    R8,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg64,
    mem64,
    routine,
)
from toolchain.asm.routine import Routine
from toolchain.layout.fields import Span

W = X25519_WORK.it
SECRET = [field for field in X25519.fields() if field.offset >= X25519.swapped.offset]
"""Everything but the address of the result and two counters."""
LOW_BITS = -8
"""A scalar is a multiple of 8 with bit 254 set; bit 255 never counts (RFC 7748 5)."""
# The powers of RFC 7748's exponentiation; each lies where the ladder left something it is done with.
Z2, Z9, Z11, Z5, Z10, Z20, Z50, Z100, T = W.a, W.b, W.c, W.d, W.e, W.aa, W.bb, W.x1, W.t


class _Ladder:
    """Emits the parts of one variant."""

    def __init__(self, a: Asm, level: Level) -> None:
        self.a, self.field = a, FIELD25519[level]

    def op(self, leaf: Routine, out: Span, x: Span, y: Span | None = None) -> None:
        """Call a leaf with addresses in the work space."""
        self.a.lea(OUT, out.address)
        self.a.lea(X, x.address)
        if y is not None:
            self.a.lea(Y, y.address)
        self.a.call(leaf)

    def mul(self, out: Span, x: Span, y: Span) -> None:
        """Out := x * y."""
        self.op(self.field.mul, out, x, y)

    def squares(self, out: Span, x: Span, count: int = 1) -> None:
        """Out := x, squared so many times."""
        self.op(self.field.sqr, out, x)
        if count == 1:
            return
        self.a.mov(W.left, count - 1)
        with self.a.loop() as top:
            self.op(self.field.sqr, out, out)
            self.a.dec(W.left)
            self.a.again(NZ, top)

    def begin(self, scalar: Reg64, point: Reg64) -> None:
        """Take clamped copies; the points are infinity, 1 : 0, and the one given, u : 1."""
        a = self.a
        a.mov(W.out, RDI)
        for n in range(N):  # unrolled: the limbs of both
            a.mov(RAX, mem64(scalar, 8 * n, ref=BUFFER_IN))
            a.mov(RCX, mem64(point, 8 * n, ref=BUFFER_IN))
            if n == 0:
                a.and_(RAX, LOW_BITS)
            if n == N - 1:
                a.btr(RAX, TOP_BIT)
                a.bts(RAX, TOP_BIT - 1)
                a.btr(RCX, TOP_BIT)
            a.mov(W.scalar.m64(8 * n), RAX)
            a.mov(W.x1.m64(8 * n), RCX)
            a.mov(W.x3.m64(8 * n), RCX)
        a.xor(EAX, EAX)
        a.mov(ECX, 1)
        for n in range(N):  # unrolled: the limbs of 1, 0 and 1
            one = RAX if n else RCX
            a.mov(W.x2.m64(8 * n), one)
            a.mov(W.z2.m64(8 * n), RAX)
            a.mov(W.z3.m64(8 * n), one)
        a.mov(W.swapped, RAX)

    def exchange(self) -> None:
        """Exchange the points when ZF = 0, with the same moves in either case."""
        a = self.a
        for p, q in ((W.x2, W.x3), (W.z2, W.z3)):
            for n in range(N):  # unrolled: the limbs of two coordinates
                a.mov(RAX, p.m64(8 * n))
                a.mov(RCX, q.m64(8 * n))
                a.mov(RDX, RAX)
                a.cmov(NE, RAX, RCX)
                a.cmov(NE, RCX, RDX)
                a.mov(p.m64(8 * n), RAX)
                a.mov(q.m64(8 * n), RCX)

    def choose(self) -> None:
        """ZF := whether the next bit of the scalar is the last one; remember the bit."""
        a = self.a
        a.mov(ECX, W.bit)
        a.mov(EAX, ECX)
        a.shr(EAX, 6)
        a.lea(R8, W.scalar.address)
        a.mov(RAX, X25519.at(R8, -X25519.scalar.offset).scalar.m64(index=RAX, scale=8))
        a.shr(RAX, CL)
        a.and_(EAX, 1)
        a.mov(RDX, W.swapped)
        a.mov(W.swapped, RAX)
        a.xor(RDX, RAX)

    def step(self) -> None:
        """Double one point and add both (RFC 7748 5, with its names)."""
        f, op = self.field, self.op
        op(f.butterfly, W.a, W.x2, W.z2)
        op(f.butterfly, W.c, W.x3, W.z3)
        self.mul(W.d, W.d, W.a)  # DA
        self.mul(W.c, W.c, W.b)  # CB
        self.squares(W.aa, W.a)
        self.squares(W.bb, W.b)
        op(f.butterfly, W.x3, W.d, W.c)
        self.squares(W.x3, W.x3)
        self.squares(W.z3, W.z3)
        self.mul(W.z3, W.z3, W.x1)
        op(f.sub, W.e, W.aa, W.bb)
        self.mul(W.x2, W.aa, W.bb)
        op(f.a24, W.t, W.e, W.aa)
        self.mul(W.z2, W.t, W.e)

    def invert(self) -> None:
        """T := 1 / z2 as z2 to the power of p - 2; 0 stays 0."""
        z = W.z2
        self.squares(Z2, z)
        self.squares(T, Z2, 2)
        self.mul(Z9, T, z)
        self.mul(Z11, Z9, Z2)
        self.squares(T, Z11)
        self.mul(Z5, T, Z9)  # 2^5 - 2^0
        # Each line doubles the run of ones in the exponent, or adds a shorter one.
        for out, run, count, onto in (
            (Z10, Z5, 5, Z5),
            (Z20, Z10, 10, Z10),
            (T, Z20, 20, Z20),
            (Z50, T, 10, Z10),
            (Z100, Z50, 50, Z50),
            (T, Z100, 100, Z100),
            (T, T, 50, Z50),
            (T, T, 5, Z11),
        ):
            self.squares(T, run, count)
            self.mul(out, T, onto)

    def finish(self) -> None:
        """Write the result, wipe the work space, tell whether the result is zero."""
        a = self.a
        a.mov(RDX, W.out)
        for n, limb in enumerate(LEAST):
            a.mov(mem64(RDX, 8 * n, ref=BUFFER_OUT), limb)
        for limb in LEAST[1:]:
            a.or_(LEAST[0], limb)
        a.lea(RDI, X25519_WORK.address)
        a.mov(ECX, X25519.SIZE // 8)
        a.xor(EAX, EAX)
        a.rep_stosq()
        a.cmp(LEAST[0], 1)


def _x25519(level: Level) -> Routine:
    field = FIELD25519[level]

    def body(a: Asm, out: Reg64, scalar: Reg64, point: Reg64) -> None:
        """Multiply a point by a scalar; an all-zero result is told, and TLS must refuse it."""
        ladder = _Ladder(a, level)
        ladder.begin(scalar, point)
        a.mov(W.bit, X25519_BITS - 1)
        with a.loop() as bits:
            ladder.choose()
            ladder.exchange()
            ladder.step()
            a.dec(W.bit)
            a.again(NS, bits)
        a.cmp(W.swapped, 0)
        ladder.exchange()
        ladder.invert()
        ladder.mul(T, T, W.x2)
        least(a, [T.m64(8 * n) for n in range(N)])
        ladder.finish()
        a.ret()

    body.__name__ = f"x25519_{level.value}"
    return routine(
        inputs=[
            In(RDI, int, f"where the {X25519_BYTES} bytes of the result go"),
            In(RSI, int, f"the scalar; {X25519_BYTES} bytes"),
            In(RDX, int, f"the point's u-coordinate; {X25519_BYTES} bytes"),
        ],
        outputs=[Out(CF, "1 = the result is zero: a point of small order, to be refused")],
        clobbers=CALLER_SAVED,
        reads=[X25519, BUFFER_IN],
        writes=[X25519, BUFFER_OUT],
        calls=[field.butterfly, field.mul, field.sqr, field.sub, field.a24],
        saves=LEAF_SAVES,
        secret=[*SECRET, BUFFER_IN, BUFFER_OUT],
        source="RFC 7748 5; RFC 8446 7.4.2",
    )(body)


x25519_adx = _x25519(Level.ADX)
x25519_base = _x25519(Level.BASE)
