"""What the encoded message of an RSA signature must be: PKCS #1 v1.5 and PSS, for each hash.

The message of PKCS #1 v1.5 is built and compared, never parsed. That of PSS is unmasked where it
lies. Both judge what `rsa_recover_*` left in the work space.
"""

from __future__ import annotations

from collections.abc import Callable

from firmware.abi import CALLER_SAVED
from firmware.crypto.rsa_numbers import W
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.crypto.sha512 import (
    sha384_finish,
    sha384_start,
    sha512_finish,
    sha512_start,
    sha512_update,
)
from firmware.layouts.crypto import BUFFER_IN
from firmware.layouts.rsa import (
    NUMBER,
    PREFIX_BYTES,
    PSS_TRAILER,
    PSS_ZEROS,
    RSA_HASHES,
    RSA_PREFIXES,
    Rsa,
    RsaHash,
)
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    NE,
    NZ,
    R12,
    R12D,
    R13,
    R14,
    R15,
    R15D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    E,
    In,
    Out,
    Reg64,
    Routine,
    mem8,
    mem16,
    mem64,
    routine,
)

FUNCTIONS = {
    "sha256": (sha256_start, sha256_update, sha256_finish),
    "sha384": (sha384_start, sha512_update, sha384_finish),
    "sha512": (sha512_start, sha512_update, sha512_finish),
}
"""Start, update and finish of each hash."""
COUNTER_STEP = 1 << 24
"""One, in the last byte of a big-endian doubleword: no mask needs 256 blocks."""


def _pkcs1(h: RsaHash) -> Routine:
    def body(a: Asm, digest: Reg64) -> None:
        """Compare the encoded message with 00 01 FF ... FF 00 DigestInfo."""
        prefix = RSA_PREFIXES[h.name]
        a.mov(RDX, digest)
        a.lea(RDI, W.expected.address)
        a.mov(mem16(RDI, ref=NUMBER), 0x0100)
        a.add(RDI, 2)
        a.mov(ECX, W.size)
        a.sub(ECX, 3 + PREFIX_BYTES + h.size)
        a.mov(EAX, 0xFF)
        a.rep_stosb()
        a.mov(mem8(RDI, ref=NUMBER), 0)
        a.inc(RDI)
        a.lea(RSI, prefix.address)
        a.mov(ECX, PREFIX_BYTES)
        a.rep_movsb()
        a.mov(RSI, RDX)
        a.mov(ECX, h.size)
        a.rep_movsb()
        a.lea(RSI, W.expected.address)
        a.lea(RDI, W.em.address)
        a.mov(ECX, W.size)
        with a.block() as differ, a.loop() as bytes_:
            a.mov(AL, mem8(RSI, -1, index=RCX, ref=NUMBER))
            a.cmp(AL, mem8(RDI, -1, index=RCX, ref=NUMBER))
            a.leave(NE, differ)
            a.dec(ECX)
            a.again(NZ, bytes_)
            a.clc()
            a.ret()
        a.stc()
        a.ret()

    body.__name__ = f"rsa_pkcs1_{h.name}"
    return routine(
        inputs=[In(RSI, int, f"the digest; {h.size} bytes")],
        outputs=[Out(CF, "1 = refused")],
        clobbers=[RAX, RCX, RDX, RSI, RDI],
        reads=[Rsa.size, BUFFER_IN, NUMBER],
        writes=[NUMBER],
        source="RFC 8017 8.2.2, 9.2",
    )(body)


class _Pss:
    """Emits the parts of one check: RBX digest, R12 bytes of DB, R13 the message, R14 its H."""

    def __init__(self, a: Asm, h: RsaHash) -> None:
        self.a, self.h = a, h
        self.start, self.update, self.finish = FUNCTIONS[h.name]
        self.refused = a.label("refused")

    def begin(self) -> None:
        """Begin a hash."""
        self.a.lea(RDI, W.hash.state.address)
        self.a.call(self.start)

    def add(self, load: Callable[[], None], count: int) -> None:
        """Hash so many bytes; `load` brings their address to RSI."""
        load()
        self.a.lea(RDI, W.hash.state.address)
        self.a.mov(ECX, count)
        self.a.call(self.update)

    def end(self) -> None:
        """Finish the hash."""
        self.a.lea(RDI, W.hash.state.address)
        self.a.lea(RSI, W.digest.address)
        self.a.call(self.finish)

    def frame(self, digest: Reg64) -> None:
        """Refuse a message without the trailer, or with its top bit set."""
        a = self.a
        a.mov(RBX, digest)
        a.lea(R13, W.em.address)
        a.mov(R12D, W.size)
        a.cmp(mem8(R13, -1, index=R12, ref=NUMBER), PSS_TRAILER)
        a.jne(self.refused)
        a.cmp(mem8(R13, ref=NUMBER), 0x80)
        a.jae(self.refused)
        a.sub(R12D, self.h.size + 1)
        a.lea(R14, mem8(R13, index=R12, ref=NUMBER))

    def unmask(self) -> None:
        """DB := DB xor MGF1(H)."""
        a, h = self.a, self.h
        a.xor(R15D, R15D)
        a.mov(W.counter, 0)
        with a.loop() as blocks:
            self.begin()
            self.add(lambda: a.mov(RSI, R14), h.size)
            self.add(lambda: a.lea(RSI, W.counter), 4)
            self.end()
            a.add(W.counter, COUNTER_STEP)
            a.lea(RSI, W.digest.address)
            a.xor(ECX, ECX)
            with a.block() as done, a.loop() as bytes_:
                a.cmp(R15D, R12D)
                a.leave(E, done)
                a.mov(AL, mem8(RSI, index=RCX, ref=NUMBER))
                a.xor(mem8(R13, index=R15, ref=NUMBER), AL)
                a.inc(R15D)
                a.inc(ECX)
                a.cmp(ECX, h.size)
                a.again(B, bytes_)
            a.cmp(R15D, R12D)
            a.again(B, blocks)
        a.and_(mem8(R13, ref=NUMBER), 0x7F)

    def padding(self) -> None:
        """Refuse DB unless zeros and 01 come before a salt of the digest's size; R12 := the salt."""
        a = self.a
        a.sub(R12D, self.h.size)
        a.cmp(mem8(R13, -1, index=R12, ref=NUMBER), 1)
        a.jne(self.refused)
        a.lea(ECX, mem8(R12, -1, ref=NUMBER))
        with a.loop() as zeros:
            a.cmp(mem8(R13, -1, index=RCX, ref=NUMBER), 0)
            a.jne(self.refused)
            a.dec(ECX)
            a.again(NZ, zeros)
        a.add(R12, R13)

    def verdict(self) -> None:
        """Refuse unless H is the hash of eight zeros, the digest and the salt."""
        a, h = self.a, self.h
        self.begin()
        self.add(lambda: a.lea(RSI, PSS_ZEROS.address), PSS_ZEROS.size)
        self.add(lambda: a.mov(RSI, RBX), h.size)
        self.add(lambda: a.mov(RSI, R12), h.size)
        self.end()
        for n in range(0, h.size, 8):  # unrolled: the digest
            a.mov(RAX, W.digest.m64(n))
            a.cmp(RAX, mem64(R14, n, ref=NUMBER))
            a.jne(self.refused)
        a.clc()
        a.ret()
        a.place(self.refused)
        a.stc()
        a.ret()


def _pss(h: RsaHash) -> Routine:
    def body(a: Asm, digest: Reg64) -> None:
        """Check the encoded message as EMSA-PSS with MGF1 of the same hash."""
        p = _Pss(a, h)
        p.frame(digest)
        p.unmask()
        p.padding()
        p.verdict()

    body.__name__ = f"rsa_pss_{h.name}"
    return routine(
        inputs=[In(RSI, int, f"the digest; {h.size} bytes")],
        outputs=[Out(CF, "1 = refused")],
        clobbers=CALLER_SAVED,
        reads=[Rsa.size, Rsa.digest, NUMBER],
        writes=[NUMBER, Rsa.counter],
        calls=[*FUNCTIONS[h.name]],
        saves=[RBX, R12, R13, R14, R15],
        source="RFC 8017 8.1.2, 9.1.2, B.2.1; RFC 8446 4.2.3",
    )(body)


RSA_PKCS1 = {h.name: _pkcs1(h) for h in RSA_HASHES}
"""The checks of PKCS #1 v1.5 by hash."""
RSA_PSS = {h.name: _pss(h) for h in RSA_HASHES}
"""The checks of PSS by hash; the salt is as long as the digest."""
