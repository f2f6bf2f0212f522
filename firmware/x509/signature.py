"""ECDSA signatures as certificates and TLS carry them: two numbers in DER."""

from __future__ import annotations

from firmware.layouts.crypto import BUFFER_OUT
from firmware.layouts.der import Tag
from firmware.x509.der import der_open, der_unsigned, must_end, open_element
from toolchain.asm import (
    CF,
    EAX,
    EBP,
    ECX,
    EDX,
    NZ,
    R8,
    R8D,
    R12,
    R13,
    R14,
    R14D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)


@routine(
    inputs=[
        In(RSI, int, "the signature: DER of ECDSA-Sig-Value"),
        In(RDI, int, "its end; not before RSI"),
        In(RDX, int, "where r and s go, big-endian, each of the size below"),
        In(ECX, int, "bytes of a number, a multiple of 8"),
    ],
    outputs=[Out(CF, "1 = refused: no such DER, or a number that does not fit")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8],
    reads=[],
    writes=[BUFFER_OUT],
    calls=[der_open, der_unsigned],
    saves=[RBX, RBP, R12, R13, R14],
    source="RFC 3279 2.2.3; RFC 8446 4.2.3",
)
def ecdsa_signature_read(a: Asm, signature: Reg64, end: Reg64, out: Reg64, size: Reg32) -> None:
    """Read r and s; whether they are in range is for the verification."""
    bad = a.label("bad")
    a.mov(R12, end)
    a.mov(R13, out)
    a.mov(R14D, size)
    open_element(a, Tag.SEQUENCE, R12, bad)
    must_end(a, R12, bad)
    a.mov(EBP, 2)
    with a.loop() as numbers:
        open_element(a, Tag.INTEGER, R12, bad)
        a.mov(RBX, RDX)
        a.call(der_unsigned)
        a.j(C, bad)
        a.mov(EDX, R14D)
        a.sub(EDX, ECX)
        a.jb(bad)
        # Zeros before the number fill it up.
        a.mov(R8D, ECX)
        a.mov(ECX, EDX)
        a.mov(RDI, R13)
        a.xor(EAX, EAX)
        a.rep_stosb()
        a.mov(ECX, R8D)
        a.rep_movsb()
        a.mov(R13, RDI)
        a.mov(RSI, RBX)
        a.dec(EBP)
        a.again(NZ, numbers)
    a.mov(RDX, RSI)
    must_end(a, R12, bad)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()
