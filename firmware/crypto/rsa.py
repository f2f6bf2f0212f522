"""RSA's public operation: the encoded message that a signature of 2048 to 4096 bits stands for.

What the message must be is the matter of `rsa_encodings`. Everything is public.
"""

from __future__ import annotations

from collections.abc import Callable

from firmware.abi import CALLER_SAVED
from firmware.crypto.limbs import LEAF_SAVES, LIMB_BYTES
from firmware.crypto.rsa_numbers import CHUNK_BYTES, ENTER, MULTIPLY, W
from firmware.layouts.crypto import BUFFER_IN
from firmware.layouts.field import Level
from firmware.layouts.rsa import (
    NUMBER,
    RSA_BYTES_MAX,
    RSA_BYTES_MIN,
    RSA_EXPONENT_MIN,
    Rsa,
    RsaKey,
)
from toolchain.asm import (
    AL,
    CF,
    DL,
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R9,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    Routine,
    Z,
    mem8,
    mem64,
    routine,
)
from toolchain.layout.fields import Span


class _Recovery:
    """Emits the parts of one variant; `refused` is where every failure ends."""

    def __init__(self, a: Asm, level: Level) -> None:
        self.a, self.level = a, level
        self.refused = a.label("refused")

    def check(self) -> None:
        """Refuse sizes and exponents out of bounds, an even modulus, one without its top bit."""
        a, key = self.a, RsaKey.at(RDI)
        a.mov(EAX, key.size)
        a.cmp(EAX, ECX)
        a.jne(self.refused)
        a.mov(ECX, EAX)  # the upper half may hold anything
        a.cmp(EAX, RSA_BYTES_MIN)
        a.jb(self.refused)
        a.cmp(EAX, RSA_BYTES_MAX)
        a.j(A, self.refused)
        a.mov(W.size, EAX)
        # Whole chunks of limbs.
        a.add(EAX, CHUNK_BYTES - 1)
        a.shr(EAX, 6)
        a.shl(EAX, 3)
        a.mov(W.limbs, EAX)
        a.mov(EDX, key.exponent)
        a.cmp(EDX, RSA_EXPONENT_MIN)
        a.jb(self.refused)
        a.test(DL, 1)
        a.jz(self.refused)
        a.mov(W.exponent, EDX)
        a.mov(RDX, key.modulus)
        a.cmp(mem8(RDX, ref=BUFFER_IN), 0x80)
        a.jb(self.refused)
        a.test(mem8(RDX, -1, index=RCX, ref=BUFFER_IN), 1)
        a.jz(self.refused)

    def take(self, target: Span, source: Reg64) -> None:
        """Read a big-endian number of `size` bytes; RSI is kept."""
        a = self.a
        a.lea(RDI, target.address)
        a.mov(R8, RDI)
        a.mov(ECX, RSA_BYTES_MAX // LIMB_BYTES)
        a.xor(EAX, EAX)
        a.rep_stosq()
        a.mov(ECX, W.size)
        with a.loop() as bytes_:
            a.mov(AL, mem8(source, -1, index=RCX, ref=BUFFER_IN))
            a.mov(mem8(R8, ref=NUMBER), AL)
            a.inc(R8)
            a.dec(ECX)
            a.again(NZ, bytes_)

    def below(self) -> None:
        """Refuse a signature that is not below the modulus."""
        a = self.a
        a.mov(ECX, W.limbs)
        a.lea(RSI, W.signature.address)
        a.lea(RDX, W.modulus.address)
        a.clc()
        with a.loop() as limbs:
            a.mov(RAX, mem64(RSI, ref=NUMBER))
            a.sbb(RAX, mem64(RDX, ref=NUMBER))
            a.lea(RSI, mem8(RSI, LIMB_BYTES, ref=NUMBER))
            a.lea(RDX, mem8(RDX, LIMB_BYTES, ref=NUMBER))
            a.dec(ECX)  # keeps CF
            a.again(NZ, limbs)
        a.jae(self.refused)

    def invert(self) -> None:
        """Find minus one over the modulus modulo 2^64: each step doubles the bits that are right."""
        a = self.a
        a.mov(RDX, W.modulus.m64())
        a.lea(RAX, mem8(RDX, index=RDX, scale=2, ref=NUMBER))
        a.xor(RAX, 2)  # five bits
        for _ in range(4):  # unrolled: 10, 20, 40, 80 bits
            a.mov(RCX, RAX)
            a.imul(RCX, RDX)
            a.neg(RCX)
            a.add(RCX, 2)
            a.imul(RAX, RCX)
        a.neg(RAX)
        a.mov(W.inverse, RAX)

    def product(self, out: Span, x: Span, y: Span) -> None:
        """Out := x * y / radix."""
        a = self.a
        a.lea(RDI, out.address)
        a.lea(RSI, x.address)
        a.lea(RBX, y.address)
        a.call(MULTIPLY[self.level])

    def turns(self, body: Callable[[], None]) -> None:
        """Run the body as often as `left` says, at least once."""
        with self.a.loop() as top:
            body()
            self.a.dec(W.left)
            self.a.again(NZ, top)

    def enter(self) -> None:
        """Bring the signature into Montgomery's form."""
        self.a.lea(RDI, W.base.address)
        self.a.lea(RSI, W.signature.address)
        self.a.call(ENTER[self.level])

    def raise_(self) -> None:
        """Power := signature to the exponent, out of Montgomery's form by its last factor."""
        a = self.a
        a.lea(RSI, W.base.address)
        a.lea(RDI, W.power.address)
        a.mov(ECX, W.limbs)
        a.rep_movsq()
        a.mov(EAX, W.exponent)
        a.bsr(ECX, EAX)
        a.dec(ECX)
        a.mov(W.left, ECX)
        with a.block() as last:
            a.leave(Z, last)  # an exponent of two bits has no bit between
            self.turns(self.bit)
        self.product(W.power, W.power, W.power)
        self.product(W.power, W.power, W.signature)

    def bit(self) -> None:
        """Square, and multiply where the exponent has a bit."""
        a = self.a
        self.product(W.power, W.power, W.power)
        a.mov(ECX, W.left)
        a.mov(EAX, W.exponent)
        a.bt(EAX, ECX)
        with a.if_(B):
            self.product(W.power, W.power, W.base)

    def write(self) -> None:
        """Write the power big-endian."""
        a = self.a
        a.mov(ECX, W.size)
        a.lea(RSI, W.power.address)
        a.lea(RDI, W.em.address)
        with a.loop() as bytes_:
            a.mov(AL, mem8(RSI, -1, index=RCX, ref=NUMBER))
            a.mov(mem8(RDI, ref=NUMBER), AL)
            a.inc(RDI)
            a.dec(ECX)
            a.again(NZ, bytes_)


def _recover(level: Level) -> Routine:
    def body(a: Asm, key: RsaKey, signature: Reg64, size: Reg32) -> None:
        """Write the encoded message of a signature, which the checks of `rsa_encodings` judge."""
        r = _Recovery(a, level)
        r.check()
        a.mov(R9, signature)
        r.take(W.modulus, RDX)
        r.take(W.signature, R9)
        r.below()
        r.invert()
        r.enter()
        r.raise_()
        r.write()
        a.clc()
        a.ret()
        a.place(r.refused)
        a.stc()
        a.ret()

    body.__name__ = f"rsa_recover_{level.value}"
    return routine(
        inputs=[
            In(RDI, RsaKey, "the key"),
            In(RSI, int, "the signature, big-endian"),
            In(ECX, int, "its bytes"),
        ],
        outputs=[Out(CF, "1 = refused: no key of ours, or no signature of its size and range")],
        clobbers=CALLER_SAVED,
        reads=[RsaKey, Rsa, BUFFER_IN, NUMBER],
        writes=[Rsa, NUMBER],
        calls=[MULTIPLY[level], ENTER[level]],
        saves=LEAF_SAVES,
        source="RFC 8017 5.2.2",
    )(body)


rsa_recover_adx = _recover(Level.ADX)
rsa_recover_base = _recover(Level.BASE)
