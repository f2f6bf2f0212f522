"""Base64 with padding (RFC 4648 section 4), for the 16-byte key and the 20-byte digest."""

from firmware.layouts.crypto import BASE64_ALPHABET, BUFFER_IN, BUFFER_OUT
from toolchain.asm import (
    AL,
    EAX,
    ECX,
    EDX,
    R8,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)
from toolchain.layout.data import constant

ALPHABET = constant("base64_alphabet", BASE64_ALPHABET, "RFC 4648 table 1")
PAD = ord("=")


@routine(
    inputs=[
        In(RSI, int, "the bytes"),
        In(ECX, int, "how many"),
        In(RDI, int, "where the text goes"),
    ],
    outputs=[Out(RDI, "the first byte after the text")],
    clobbers=[RAX, RCX, RDX, RSI, R8],
    reads=[BUFFER_IN, ALPHABET],
    writes=[BUFFER_OUT],
    source="RFC 4648 section 4",
)
def base64_encode(a: Asm, source: Reg64, length: Reg32, text: Reg64) -> None:
    """Write the text of some bytes: four characters for three bytes, padded."""
    done = a.label("done")
    group, symbols, symbol = EDX, R8, EAX
    a.lea(symbols, ALPHABET.address)
    with a.loop() as triple:
        a.test(length, length)
        a.jz(done)
        # The group in big-endian order; bytes that are missing count as zero.
        a.movzx(group, mem8(source, ref=BUFFER_IN))
        a.shl(group, 16)
        a.cmp(length, 1)
        with a.if_(A):
            a.movzx(EAX, mem8(source, 1, ref=BUFFER_IN))
            a.shl(EAX, 8)
            a.or_(group, EAX)
        a.cmp(length, 2)
        with a.if_(A):
            a.movzx(EAX, mem8(source, 2, ref=BUFFER_IN))
            a.or_(group, EAX)
        for n, shift in enumerate((18, 12, 6, 0)):  # unrolled: four characters
            a.mov(symbol, group)
            if shift:
                a.shr(symbol, shift)
            a.and_(symbol, 0x3F)
            a.mov(AL, mem8(symbols, index=RAX, ref=ALPHABET))
            a.mov(mem8(text, n, ref=BUFFER_OUT), AL)
        a.cmp(length, 3)
        with a.if_(B):
            a.mov(mem8(text, 3, ref=BUFFER_OUT), PAD)
            a.cmp(length, 1)
            with a.if_(E):
                a.mov(mem8(text, 2, ref=BUFFER_OUT), PAD)
            a.mov(length, 3)
        a.add(source, 3)
        a.add(text, 4)
        a.sub(length, 3)
        a.jmp(triple.top)
    a.place(done)
    a.ret()
