"""A public key as a certificate or an anchor holds it (RFC 5280 4.1.2.7)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.der import DER_IN, Tag
from firmware.layouts.x509 import (
    KEY_ALGORITHMS,
    P256_POINT_BYTES,
    P384_POINT_BYTES,
    RSA_BYTES_MAX,
    RSA_BYTES_MIN,
    RSA_EXPONENT_MIN,
    UNCOMPRESSED,
    KeyKind,
    PublicKey,
    Slice,
)
from firmware.x509.der import der_known, der_open, der_small, der_unsigned, must_end, open_element
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    R12,
    R13,
    R14,
    R14D,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg64,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(RSI, int, "subjectPublicKeyInfo with its header"),
        In(RDX, int, "its end"),
        In(RDI, PublicKey, "where the key goes; zeroed"),
    ],
    outputs=[Out(CF, "1 = malformed; a key of another kind is UNSUPPORTED")],
    clobbers=CALLER_SAVED,
    reads=[DER_IN, Slice.start, Slice.size],
    writes=[PublicKey.kind, PublicKey.exponent, Slice.start, Slice.size],
    calls=[der_open, der_known, der_unsigned, der_small],
    saves=[R12, R13, R14],
    source="RFC 5480 2, RFC 8017 A.1.1",
)
def x509_key(a: Asm, info: Reg64, end: Reg64, key: PublicKey) -> None:
    """Read a public key: RSA of 2048 to 4096 bits, or an uncompressed point of P-256 or P-384."""
    kept = PublicKey.at(R12)
    bad, rsa, good, keep = a.label("bad"), a.label("rsa"), a.label("good"), a.label("keep")
    a.mov(R12, RDI)
    a.mov(R13, end)
    open_element(a, Tag.SEQUENCE, R13, bad)
    must_end(a, R13, bad)
    open_element(a, Tag.SEQUENCE, R13, bad)
    a.lea(RDI, KEY_ALGORITHMS.address)
    a.call(der_known)
    a.mov(R14D, EAX)
    a.mov(RSI, RDX)
    open_element(a, Tag.BIT_STRING, R13, bad)
    must_end(a, R13, bad)
    # A whole number of bytes.
    a.mov(RCX, R13)
    a.sub(RCX, RSI)
    a.jz(bad)
    a.cmp(mem8(RSI, ref=DER_IN), 0)
    a.jne(bad)
    a.inc(RSI)
    a.dec(ECX)

    a.cmp(R14D, KeyKind.RSA)
    a.je(rsa)
    a.test(R14D, R14D)
    a.j(Z, good)
    a.mov(EAX, P256_POINT_BYTES)
    a.mov(EDX, P384_POINT_BYTES)
    a.cmp(R14D, KeyKind.P384)
    a.cmov(E, EAX, EDX)
    a.cmp(ECX, EAX)
    a.jne(good)
    a.cmp(mem8(RSI, ref=DER_IN), UNCOMPRESSED)
    a.jne(good)
    a.place(keep)
    a.mov(kept.kind, R14D)
    a.mov(kept.value.start, RSI)
    a.mov(kept.value.size, ECX)
    a.place(good)
    a.clc()
    a.ret()

    a.place(rsa)
    open_element(a, Tag.SEQUENCE, R13, bad)
    must_end(a, R13, bad)
    open_element(a, Tag.INTEGER, R13, bad)
    a.mov(R14, RDX)
    a.call(der_unsigned)
    a.j(C, bad)
    a.mov(kept.value.start, RSI)
    a.mov(kept.value.size, ECX)
    a.mov(RSI, R14)
    open_element(a, Tag.INTEGER, R13, bad)
    must_end(a, R13, bad)
    a.call(der_small)
    a.mov(kept.exponent, EAX)
    # An exponent of more than 32 bits came as 0: even, so no key of ours.
    a.mov(RSI, kept.value.start)
    a.mov(ECX, kept.value.size)
    with a.block() as other:
        a.cmp(EAX, RSA_EXPONENT_MIN)
        a.leave(B, other)
        a.test(EAX, 1)
        a.leave(Z, other)
        a.cmp(ECX, RSA_BYTES_MIN)
        a.leave(B, other)
        a.cmp(ECX, RSA_BYTES_MAX)
        a.leave(A, other)
        a.cmp(mem8(RSI, ref=DER_IN), 0x80)
        a.leave(B, other)
        a.test(mem8(RSI, -1, index=RCX, ref=DER_IN), 1)
        a.leave(Z, other)
        a.mov(kept.kind, KeyKind.RSA)
    a.jmp(good)
    a.place(bad)
    a.stc()
    a.ret()
