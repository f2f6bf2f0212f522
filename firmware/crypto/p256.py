"""Key agreement over P-256 (SP 800-56A 5.7.1.2, RFC 8446 7.4.2), the same steps for every scalar.

Complete formulas: no case of the group law is apart, whatever the points are. Four bits of the scalar
at a time choose among sixteen multiples, all of which are read. Everything secret lies in one work
space, which is wiped at the end. Code is kept short: only a HelloRetryRequest leads here.
"""

from __future__ import annotations

from dataclasses import dataclass

from firmware.abi import CALLER_SAVED
from firmware.crypto.choose import choose
from firmware.crypto.drbg import drbg_bytes
from firmware.crypto.formula import interpreter
from firmware.crypto.inverse import INNER_CLOBBERS
from firmware.crypto.limbs import LEAF_SAVES, LIMB_BYTES
from firmware.crypto.montgomery import PRODUCTS, SUMS
from firmware.crypto.p256_formulas import (
    P256_ADD,
    P256_AFFINE,
    P256_DOUBLE,
    P256_START,
    P256_TAKE,
)
from firmware.layouts.crypto import BUFFER_IN, BUFFER_OUT
from firmware.layouts.curves import P256
from firmware.layouts.ecdsa import CURVE_DATA
from firmware.layouts.field import Level
from firmware.layouts.p256 import (
    P256_BYTES,
    P256_NUMBERS,
    P256_SHARE_BYTES,
    P256_UNCOMPRESSED,
    P256_WORK,
    WINDOW,
    P256Point,
    P256Work,
)
from toolchain.asm import (
    CF,
    CL,
    EAX,
    ECX,
    NS,
    NZ,
    R8,
    R9,
    R10,
    R11,
    R12,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem64,
    routine,
)
from toolchain.asm.routine import Routine
from toolchain.layout import Data

W = P256_WORK.it
SECRET = [f for f in P256Work.fields() if f.offset >= P256Work.wrong.offset]
"""Everything but the address of the result and a counter."""
LIMBS = P256.field.count
BITS = 8 * P256_BYTES
_SOURCE = "Renes, Costello, Batina 2016 (ePrint 2015/1060), algorithms 4 and 6; RFC 8446 4.2.8.2"


# -- the same for every level ---------------------------------------------------------------------
@routine(
    inputs=[In(RSI, int, "a number, the least byte first; 32 bytes")],
    outputs=[Out(CF, "1 = it is no private key: 0, or the order or more")],
    clobbers=[RAX, R8, R9, R10, R11],
    reads=[BUFFER_IN, P256.order.limbs],
    secret=[BUFFER_IN],
    source="SP 800-56A 5.6.1.2.2: testing candidates",
)
def p256_scalar_refused(a: Asm, number: Reg64) -> None:
    """Tell whether a number is outside 1..n-1; nothing else of it is told."""
    limbs = (R8, R9, R10, R11)
    for n, limb in enumerate(limbs):  # unrolled: 0 becomes the largest of all
        a.mov(limb, mem64(number, LIMB_BYTES * n, ref=BUFFER_IN))
        (a.sbb if n else a.sub)(limb, 0 if n else 1)
    # n is odd: n - 1 differs in the lowest limb.
    a.mov(RAX, (P256.order.value - 1) & (1 << 64) - 1)
    a.sub(R8, RAX)
    for n, limb in enumerate(limbs[1:], 1):
        a.sbb(limb, P256.order.limbs.m64(LIMB_BYTES * n))
    a.cmc()
    a.ret()


@routine(
    inputs=[In(RDI, int, "where the 32 bytes go")],
    clobbers=CALLER_SAVED,
    calls=[drbg_bytes, p256_scalar_refused],
    saves=[R12],
    source="SP 800-56A 5.6.1.2.2",
)
def p256_draw(a: Asm, out: Reg64) -> None:
    """Draw a private key: whoever refuses candidates tells nothing of the one that stays."""
    a.mov(R12, out)
    with a.loop() as candidate:
        a.mov(RDI, R12)
        a.mov(ECX, P256_BYTES)
        a.call(drbg_bytes)
        a.mov(RSI, R12)
        a.call(p256_scalar_refused)
        a.again(C, candidate)
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "where it goes"),
        In(RSI, int, "what is turned round; elsewhere"),
        In(ECX, int, "its quadwords, 1 or more"),
    ],
    clobbers=[RAX, RCX, RDI],
    reads=[BUFFER_IN],
    writes=[BUFFER_OUT],
    secret=[BUFFER_IN, BUFFER_OUT],
    source="SEC 1 2.3.5 and 2.3.6: numbers have their highest byte first",
)
def p256_turned(a: Asm, out: Reg64, source: Reg64, count: Reg32) -> None:
    """Copy bytes in reverse order."""
    a.mov(ECX, count)  # the upper half may hold anything
    with a.loop() as words:
        a.mov(RAX, mem64(source, -LIMB_BYTES, index=RCX, scale=8, ref=BUFFER_IN))
        a.bswap(RAX)
        a.mov(mem64(out, ref=BUFFER_OUT), RAX)
        a.add(out, LIMB_BYTES)
        a.dec(ECX)
        a.again(NZ, words)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = it is no point")],
    clobbers=[RAX, RCX, RDX, RSI, RDI],
    reads=[P256Work.wrong, P256Work.y, P256Work.t0],
    secret=[P256Work.wrong, P256Work.y, P256Work.t0],
    source=_SOURCE,
)
def p256_share_refused(a: Asm) -> None:
    """Tell whether what was taken is no point: a coordinate is too large, or it is off the curve."""
    a.lea(RSI, W.y.address)
    a.lea(RDI, W.t0.address)
    y = P256Work.at(RSI, -P256Work.y.offset).y
    t0 = P256Work.at(RDI, -P256Work.t0.offset).t0
    a.mov(RAX, W.wrong)
    a.mov(ECX, 3 * LIMBS)
    with a.loop() as limbs:
        a.mov(RDX, y.m64(-LIMB_BYTES, index=RCX, scale=8))
        a.xor(RDX, t0.m64(-LIMB_BYTES, index=RCX, scale=8))
        a.or_(RAX, RDX)
        a.dec(ECX)
        a.again(NZ, limbs)
    a.neg(RAX)
    a.ret()


# -- the parts of a variant -----------------------------------------------------------------------
def _run(a: Asm, formula: Routine, lines: Data) -> None:
    a.lea(RSI, lines.address)
    a.call(formula)


def _begin(a: Asm, out: Reg64, scalar: Reg64) -> None:
    """Take the scalar and the numbers."""
    a.mov(W.out, out)
    a.lea(RDI, W.scalar.address)
    a.mov(RSI, scalar)
    a.mov(ECX, LIMBS)
    a.rep_movsq()
    # `square` lies behind the scalar.
    a.lea(RSI, P256_NUMBERS.address)
    a.mov(ECX, P256_NUMBERS.size // LIMB_BYTES)
    a.rep_movsq()


def _wipe(a: Asm) -> None:
    """Wipe the work space; no flag changes."""
    a.lea(RDI, P256_WORK.address)
    a.mov(ECX, P256Work.SIZE // LIMB_BYTES)
    a.mov(EAX, 0)
    a.rep_stosq()


def _choose(a: Asm) -> None:
    """Add next the multiple that four bits of the scalar name; every multiple is read."""
    scalar = P256Work.at(RSI, -P256Work.scalar.offset).scalar
    multiple, chosen = (
        [span.m64(LIMB_BYTES * n) for n in range(LIMBS)]
        for span in (
            P256Work.at(RSI, -P256Work.multiples.offset).multiples,
            P256Work.at(RDI, -P256Work.x2.offset).x2,
        )
    )
    a.mov(ECX, W.bit)
    a.mov(EAX, ECX)
    a.shr(EAX, 3)
    a.lea(RSI, W.scalar.address)
    a.movzx(EAX, scalar.m8(index=RAX))
    a.and_(ECX, 7)
    a.shr(EAX, CL)
    a.and_(EAX, (1 << WINDOW) - 1)
    a.lea(RSI, W.multiples.address)
    a.lea(RDI, W.x2.address)
    choose(a, multiple, chosen, rows=1 << WINDOW)


@dataclass(frozen=True)
class Agreement:
    """The routines of one level."""

    formula: Routine
    multiply: Routine
    public: Routine
    agree: Routine


def _agreement(level: Level) -> Agreement:
    products, sums = PRODUCTS[P256.field.name, level], SUMS[P256.field.name]
    formula = interpreter(
        f"p256_formula_{level.value}",
        __name__,
        P256_WORK,
        {"*": products.mul, "^": products.sqr, "+": sums.add, "-": sums.sub},
    )

    def multiply(a: Asm) -> None:
        """Multiply the second point, which has Z = 1, by the scalar; X and Y are numbers then."""
        _run(a, formula, P256_START)
        a.mov(W.bit, 0)
        with a.loop() as multiples:
            a.mov(ECX, W.bit)
            a.lea(RDI, W.multiples.address)
            a.add(RDI, RCX)
            a.lea(RSI, W.x1.address)
            a.mov(ECX, P256Point.SIZE // LIMB_BYTES)
            a.rep_movsq()
            _run(a, formula, P256_ADD)
            a.add(W.bit, P256Point.SIZE)
            a.cmp(W.bit, P256Work.multiples.size)
            a.again(B, multiples)
        _run(a, formula, P256_START)
        a.mov(W.bit, BITS - 1)
        with a.loop() as bits:
            _run(a, formula, P256_DOUBLE)
            a.test(W.bit, WINDOW - 1)
            with a.if_(Z):
                _choose(a)
                _run(a, formula, P256_ADD)
            a.dec(W.bit)
            a.again(NS, bits)
        _run(a, formula, P256_AFFINE)
        a.ret()

    multiply.__name__ = f"p256_multiply_{level.value}"
    multiplied = routine(
        clobbers=INNER_CLOBBERS,
        reads=[P256Work.bit, P256Work.scalar, P256Work.multiples],
        writes=[P256Work],
        calls=[formula],
        secret=SECRET,
        source=_SOURCE,
    )(multiply)

    def public(a: Asm, out: Reg64, scalar: Reg64) -> None:
        """Make the public key of a private one, as it goes into a key share."""
        _begin(a, out, scalar)
        a.lea(RSI, CURVE_DATA[P256.name].multiples.address)
        a.lea(RDI, W.x2.address)
        a.mov(ECX, 2 * LIMBS)
        a.rep_movsq()
        a.call(multiplied)
        a.mov(RDI, W.out)
        a.mov(mem8(RDI, ref=BUFFER_OUT), P256_UNCOMPRESSED)
        a.inc(RDI)
        a.lea(RSI, W.y.address)
        a.mov(ECX, 2 * LIMBS)
        a.call(p256_turned)
        _wipe(a)
        a.ret()

    def agree(a: Asm, out: Reg64, scalar: Reg64, share: Reg64) -> None:
        """Make what both keys give: X of the multiple of the peer's point, unless it is none."""
        refused = a.label("refused")
        a.movzx(EAX, mem8(share, ref=BUFFER_IN))
        a.xor(EAX, P256_UNCOMPRESSED)
        a.mov(W.wrong, RAX)
        a.mov(RBX, share)
        _begin(a, out, scalar)
        a.lea(RSI, mem8(RBX, 1, ref=BUFFER_IN))
        a.lea(RDI, W.y.address)
        a.mov(ECX, 2 * LIMBS)
        a.call(p256_turned)
        _run(a, formula, P256_TAKE)
        a.call(p256_share_refused)
        a.j(C, refused)
        a.call(multiplied)
        a.mov(RDI, W.out)
        a.lea(RSI, W.x.address)
        a.mov(ECX, LIMBS)
        a.call(p256_turned)
        a.clc()
        a.place(refused)
        _wipe(a)
        a.ret()

    key = In(RSI, int, f"the private key, from `p256_draw`; {P256_BYTES} bytes")
    for body in (public, agree):
        body.__name__ = f"p256_{body.__name__}_{level.value}"
    return Agreement(
        formula,
        multiplied,
        routine(
            inputs=[In(RDI, int, f"where the {P256_SHARE_BYTES} bytes go"), key],
            clobbers=CALLER_SAVED,
            reads=[P256Work.out],
            writes=[P256Work, BUFFER_OUT],
            calls=[multiplied, p256_turned],
            saves=LEAF_SAVES,
            secret=[*SECRET, BUFFER_OUT],
            source=_SOURCE,
        )(public),
        routine(
            inputs=[
                In(RDI, int, f"where the {P256_BYTES} bytes of the result go"),
                key,
                In(RDX, int, f"the peer's share; {P256_SHARE_BYTES} bytes"),
            ],
            outputs=[Out(CF, "1 = the share is refused: it is no point, or not as it must be")],
            clobbers=CALLER_SAVED,
            reads=[P256Work.out, BUFFER_IN],
            writes=[P256Work],
            calls=[formula, multiplied, p256_turned, p256_share_refused],
            saves=LEAF_SAVES,
            secret=[*SECRET, BUFFER_IN],
            source=_SOURCE,
        )(agree),
    )


P256_AGREEMENT = {level: _agreement(level) for level in Level}
"""The routines by level."""
p256_public_adx = P256_AGREEMENT[Level.ADX].public
p256_public_base = P256_AGREEMENT[Level.BASE].public
p256_agree_adx = P256_AGREEMENT[Level.ADX].agree
p256_agree_base = P256_AGREEMENT[Level.BASE].agree
