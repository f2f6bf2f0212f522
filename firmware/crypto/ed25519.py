"""Ed25519 signatures (RFC 8032 5.1), the same steps for every key.

A comb makes multiples of the base point: five bits of a scalar at a time choose among 32 sums of its
multiples, all of which are read. The public key that a signature needs is never given by the caller:
it belongs to the key that `ed25519_key` made, as two signatures of a message under different public
keys would tell the private one. Everything secret lies in one work space, which is wiped at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from firmware.abi import CALLER_SAVED
from firmware.crypto.choose import choose
from firmware.crypto.ed25519_formulas import (
    ED25519_ADD,
    ED25519_AFFINE,
    ED25519_ANSWER,
    ED25519_DOUBLE,
    ED25519_NONCE,
    ED25519_START,
)
from firmware.crypto.field25519 import FIELD25519, TOP_BIT, field25519_least
from firmware.crypto.formula import interpreter
from firmware.crypto.inverse import INNER_CLOBBERS
from firmware.crypto.limbs import LEAF_SAVES, LIMB_BYTES
from firmware.crypto.montgomery import PRODUCTS, SUMS
from firmware.crypto.sha512 import sha512_finish, sha512_start, sha512_update
from firmware.crypto.x25519 import LOW_BITS
from firmware.layouts.crypto import BUFFER_OUT
from firmware.layouts.curves import ED25519_ORDER
from firmware.layouts.ed25519 import (
    ED25519_BYTES,
    ED25519_COMB,
    ED25519_NUMBERS,
    ED25519_WORK,
    SPACING,
    TEETH,
    Ed25519Key,
    Ed25519Work,
)
from firmware.layouts.field import Level
from toolchain.asm import (
    CL,
    EAX,
    ECX,
    EDX,
    NS,
    R8,
    R9D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Mem32,
    Mem64,
    Reg32,
    Reg64,
    mem8,
    mem64,
    routine,
)
from toolchain.asm.routine import Routine
from toolchain.layout import Data

W = ED25519_WORK.it
SECRET = [f for f in Ed25519Work.fields() if f.offset >= Ed25519Work.low.offset]
"""Everything but addresses and a counter."""
LIMBS = ED25519_BYTES // LIMB_BYTES
HASH = (sha512_start, sha512_update, sha512_finish)
_SOURCE = "RFC 8032 5.1"


# -- the same for every level ---------------------------------------------------------------------
@routine(
    inputs=[In(RDI, int, f"where the {ED25519_BYTES} bytes go")],
    clobbers=INNER_CLOBBERS,
    reads=[Ed25519Work.x, Ed25519Work.y],
    writes=[BUFFER_OUT],
    calls=[field25519_least],
    secret=[Ed25519Work.x, Ed25519Work.y, BUFFER_OUT],
    source="RFC 8032 5.1.2",
)
def ed25519_encode(a: Asm, out: Reg64) -> None:
    """Write the point of the work space, whose Z is 1: Y, and the lowest bit of X on top."""
    for coordinate in (W.x, W.y):  # unrolled: two coordinates
        a.lea(RSI, coordinate.address)
        a.call(field25519_least)
    for n in range(LIMBS):  # unrolled: the limbs
        a.mov(RAX, W.y.m64(LIMB_BYTES * n))
        if n == LIMBS - 1:
            a.mov(RCX, W.x.m64())
            a.shl(RCX, TOP_BIT)
            a.or_(RAX, RCX)
        a.mov(mem64(out, LIMB_BYTES * n, ref=BUFFER_OUT), RAX)
    a.ret()


# -- the parts of a variant -----------------------------------------------------------------------
def _run(a: Asm, formula: Routine, lines: Data) -> None:
    a.lea(RSI, lines.address)
    a.call(formula)


def _copy(a: Asm, limbs: int) -> None:
    """Copy limbs from RSI to RDI."""
    a.mov(ECX, limbs)
    a.rep_movsq()


def _begin(a: Asm) -> None:
    a.lea(RSI, ED25519_NUMBERS.address)
    a.lea(RDI, W.square.address)
    _copy(a, ED25519_NUMBERS.size // LIMB_BYTES)


def _hash(a: Asm, *parts: tuple[Mem64[int], int, int | Mem32[int]]) -> None:
    """Hash what pointers and offsets tell, so many bytes each, into `low` and `high`."""
    a.lea(RDI, W.hash.state.address)
    a.call(sha512_start)
    for pointer, offset, length in parts:  # unrolled: the parts
        a.lea(RDI, W.hash.state.address)
        a.mov(RSI, pointer)
        if offset:
            a.add(RSI, offset)
        a.mov(ECX, length)
        a.call(sha512_update)
    a.lea(RDI, W.hash.state.address)
    a.lea(RSI, W.low.address)
    a.call(sha512_finish)


def _wipe(a: Asm) -> None:
    a.lea(RDI, ED25519_WORK.address)
    a.mov(ECX, Ed25519Work.SIZE // LIMB_BYTES)
    a.xor(EAX, EAX)
    a.rep_stosq()


def _choose(a: Asm) -> None:
    """Add next the sum that five bits of the scalar name; every sum is read."""
    by = Ed25519Work.at(R8, -Ed25519Work.by.offset).by
    chosen = Ed25519Work.at(RDI, -Ed25519Work.plus.offset).plus
    a.lea(R8, W.by.address)
    a.mov(R9D, W.bit)
    a.add(R9D, (TEETH - 1) * SPACING)
    a.xor(EAX, EAX)
    with a.loop() as bits:
        a.mov(ECX, R9D)
        a.mov(EDX, ECX)
        a.shr(EDX, 3)
        a.movzx(EDX, by.m8(index=RDX))
        a.and_(ECX, 7)
        a.shr(EDX, CL)
        a.and_(EDX, 1)
        a.lea(EAX, mem8(RDX, index=RAX, scale=2, ref=ED25519_COMB))
        a.sub(R9D, SPACING)
        a.again(NS, bits)
    a.lea(RSI, ED25519_COMB.address)
    a.lea(RDI, W.plus.address)
    choose(
        a,
        [mem64(RSI, LIMB_BYTES * n, ref=ED25519_COMB) for n in range(LIMBS)],
        [chosen.m64(LIMB_BYTES * n) for n in range(LIMBS)],
        rows=1 << TEETH,
    )


@dataclass(frozen=True)
class Ed25519:
    """The routines of one level."""

    formula: Routine
    scalars: Routine
    multiply: Routine
    key: Routine
    sign: Routine


def _multiply(level: Level, formula: Routine) -> Routine:
    def body(a: Asm) -> None:
        """Multiply the base point by `by`, which has 255 bits; Z is 1 then."""
        _run(a, formula, ED25519_START)
        a.mov(W.bit, SPACING - 1)
        with a.loop() as bits:
            _run(a, formula, ED25519_DOUBLE)
            _choose(a)
            _run(a, formula, ED25519_ADD)
            a.dec(W.bit)
            a.again(NS, bits)
        _run(a, formula, ED25519_AFFINE)
        a.ret()

    body.__name__ = f"ed25519_multiply_{level.value}"
    return routine(
        clobbers=INNER_CLOBBERS,
        reads=[Ed25519Work.bit, Ed25519Work.by, ED25519_COMB],
        writes=[Ed25519Work.bit, Ed25519Work.plus],
        calls=[formula],
        secret=[Ed25519Work.by, Ed25519Work.plus],
        source="RFC 8032 5.1.4; comb: Lim, Lee 1994",
    )(body)


def _key(level: Level, multiply: Routine) -> Routine:
    def body(a: Asm, out: Reg64, seed: Reg64) -> None:
        """Make the key of a seed."""
        a.mov(W.key, out)
        a.mov(W.message, seed)
        _begin(a)
        _hash(a, (W.message, 0, ED25519_BYTES))
        top = W.low.m64(ED25519_BYTES - LIMB_BYTES)
        a.and_(W.low.m64(), LOW_BITS)
        a.mov(RAX, top)
        a.btr(RAX, TOP_BIT)
        a.bts(RAX, TOP_BIT - 1)
        a.mov(top, RAX)
        a.lea(RSI, W.low.address)
        a.lea(RDI, W.by.address)
        _copy(a, LIMBS)
        # Scalar and prefix lie in both as one.
        a.lea(RSI, W.low.address)
        a.mov(RDI, W.key)
        _copy(a, 2 * LIMBS)
        a.call(multiply)
        a.mov(RDI, W.key)
        a.add(RDI, Ed25519Key.public.offset)
        a.call(ed25519_encode)
        _wipe(a)
        a.ret()

    body.__name__ = f"ed25519_key_{level.value}"
    return routine(
        inputs=[
            In(RDI, int, "where Ed25519Key goes"),
            In(RSI, int, f"the seed; {ED25519_BYTES} random bytes"),
        ],
        clobbers=CALLER_SAVED,
        reads=[Ed25519Work.key, Ed25519Work.message, Ed25519Work.low],
        writes=[Ed25519Work],
        calls=[*HASH, multiply, ed25519_encode],
        saves=LEAF_SAVES,
        secret=SECRET,
        source="RFC 8032 5.1.5",
    )(body)


def _sign(level: Level, multiply: Routine, scalars: Routine) -> Routine:
    def body(a: Asm, out: Reg64, key: Reg64, message: Reg64, length: Reg32) -> None:
        """Sign a message."""
        a.mov(W.out, out)
        a.mov(W.key, key)
        a.mov(W.message, message)
        a.mov(W.length, length)
        _begin(a)
        _hash(a, (W.key, Ed25519Key.prefix.offset, ED25519_BYTES), (W.message, 0, W.length))
        _run(a, scalars, ED25519_NONCE)
        a.call(multiply)
        a.mov(RDI, W.out)
        a.call(ed25519_encode)
        _hash(
            a,
            (W.out, 0, ED25519_BYTES),
            (W.key, Ed25519Key.public.offset, ED25519_BYTES),
            (W.message, 0, W.length),
        )
        a.mov(RSI, W.key)
        a.lea(RDI, W.scalar.address)
        _copy(a, LIMBS)
        _run(a, scalars, ED25519_ANSWER)
        a.mov(RDI, W.out)
        a.add(RDI, ED25519_BYTES)
        a.lea(RSI, W.answer.address)
        _copy(a, LIMBS)
        _wipe(a)
        a.ret()

    body.__name__ = f"ed25519_sign_{level.value}"
    return routine(
        inputs=[
            In(RDI, int, f"where the {2 * ED25519_BYTES} bytes of the signature go; elsewhere"),
            In(RSI, int, "Ed25519Key of the signer, from `ed25519_key`"),
            In(RDX, int, "the message"),
            In(ECX, int, "its bytes; any number"),
        ],
        clobbers=CALLER_SAVED,
        reads=[Ed25519Work.out, Ed25519Work.key, Ed25519Work.message, Ed25519Work.length],
        writes=[Ed25519Work],
        calls=[*HASH, multiply, scalars, ed25519_encode],
        saves=LEAF_SAVES,
        secret=SECRET,
        source="RFC 8032 5.1.6",
    )(body)


def _ed25519(level: Level) -> Ed25519:
    field, order = FIELD25519[level], PRODUCTS[ED25519_ORDER.name, level]
    formula = interpreter(
        f"ed25519_formula_{level.value}",
        __name__,
        ED25519_WORK,
        {"*": field.mul, "^": field.sqr, "-": field.sub, "+-": field.butterfly},
    )
    scalars = interpreter(
        f"ed25519_scalars_{level.value}",
        __name__,
        ED25519_WORK,
        {"*": order.mul, "+": SUMS[ED25519_ORDER.name].add},
    )
    multiply = _multiply(level, formula)
    return Ed25519(
        formula, scalars, multiply, _key(level, multiply), _sign(level, multiply, scalars)
    )


ED25519 = {level: _ed25519(level) for level in Level}
"""The routines by level."""
ed25519_key_adx = ED25519[Level.ADX].key
ed25519_key_base = ED25519[Level.BASE].key
ed25519_sign_adx = ED25519[Level.ADX].sign
ed25519_sign_base = ED25519[Level.BASE].sign
