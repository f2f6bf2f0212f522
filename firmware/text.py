"""Small writers and readers of texts: constants, numbers, tokens, strings of JSON.

A writer takes RDI where its text goes and gives the first byte behind it; the caller has seen to room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.text import TEXT_IN, TEXT_OUT
from toolchain.asm import (
    AE,
    AL,
    CF,
    DL,
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R8D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem16,
    mem32,
    routine,
)
from toolchain.asm.assembler import STACK

if TYPE_CHECKING:
    from toolchain.layout import Data

SP, TAB = ord(" "), ord("\t")
CRLF, CRLF_TWICE = (int.from_bytes(text, "little") for text in (b"\r\n", b"\r\n\r\n"))
UNICODE = int.from_bytes(b"\\u00", "little")
DIGITS_MAX = 20
HEX_DIGITS = 8


def put(a: Asm, text: Data) -> None:
    """Copy a constant to RDI. Clobbers RCX and RSI."""
    a.lea(RSI, text.address)
    a.mov(ECX, text.size)
    a.rep_movsb()


def put_byte(a: Asm, byte: str) -> None:
    """Append one character at RDI."""
    a.mov(mem8(RDI, ref=TEXT_OUT), ord(byte))
    a.inc(RDI)


def put_crlf(a: Asm) -> None:
    """End a line at RDI."""
    a.mov(mem16(RDI, ref=TEXT_OUT), CRLF)
    a.add(RDI, 2)


def _hex_digit(a: Asm) -> None:
    """Write the low four bits of AL at RDI. AL changes."""
    a.and_(AL, 15)
    a.add(AL, ord("0"))
    a.cmp(AL, ord("9"))
    with a.if_(A):
        a.add(AL, ord("a") - ord("9") - 1)
    a.stosb()


@routine(
    inputs=[
        In(RDI, int, "where the digits go; up to 20 bytes"),
        In(RAX, int, "the number"),
    ],
    outputs=[Out(RDI, "the first byte after the digits")],
    clobbers=[RAX, RCX, RDX, RSI, R8],
    writes=[TEXT_OUT],
    stack=24,
    source="RFC 8259 section 6",
)
def put_decimal(a: Asm, text: Reg64, value: Reg64) -> None:
    """Write an unsigned number in decimal."""
    digit, ten = RCX, R8
    a.mov(ten, 10)
    a.mov(digit, DIGITS_MAX)
    with a.loop() as digits:
        a.xor(EDX, EDX)
        a.div(ten)
        a.add(DL, ord("0"))
        a.dec(digit)
        a.mov(mem8(RSP, index=digit, ref=STACK), DL)
        a.test(value, value)
        a.again(NZ, digits)
    a.lea(RSI, mem8(RSP, index=digit, ref=STACK))
    a.neg(digit)
    a.add(digit, DIGITS_MAX)  # RCX = how many digits there are
    a.rep_movsb()
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "where the digits go; 8 bytes"),
        In(EDX, int, "the number"),
    ],
    outputs=[Out(RDI, "the first byte after the digits")],
    clobbers=[RAX, RCX, RDX],
    writes=[TEXT_OUT],
    source="firmware/docs/layers.md#text",
)
def put_hex(a: Asm, text: Reg64, value: Reg32) -> None:
    """Write a doubleword as eight hexadecimal digits, lower case."""
    a.mov(ECX, HEX_DIGITS)
    with a.loop() as digits:
        a.rol(value, 4)
        a.mov(EAX, value)
        _hex_digit(a)
        a.dec(ECX)
        a.again(NZ, digits)
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "where it goes; up to six bytes for each"),
        In(RSI, int, "the bytes of a string"),
        In(ECX, int, "how many"),
    ],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[TEXT_IN],
    writes=[TEXT_OUT],
    source="RFC 8259 section 7",
)
def put_escaped(a: Asm, text: Reg64, source: Reg64, length: Reg32) -> None:
    """Write the inside of a JSON string; what may not stand there by itself is escaped."""
    with a.loop() as bytes_:
        plain, after = a.label("plain"), a.label("after")
        a.sub(length, 1)
        a.leave(B, bytes_)
        a.movzx(EAX, mem8(source, ref=TEXT_IN))
        a.inc(source)
        a.cmp(AL, SP)
        with a.if_(B):
            a.mov(EDX, EAX)
            a.mov(mem32(text, ref=TEXT_OUT), UNICODE)
            a.add(text, 4)
            a.shr(EAX, 4)
            a.add(AL, ord("0"))  # 0 or 1
            a.stosb()
            a.mov(EAX, EDX)
            _hex_digit(a)
            a.jmp(after)
        a.cmp(AL, ord('"'))
        with a.block() as escaped:
            a.leave(E, escaped)
            a.cmp(AL, ord("\\"))
            a.jne(plain)
        a.mov(mem8(text, ref=TEXT_OUT), ord("\\"))
        a.inc(text)
        a.place(plain)
        a.stosb()
        a.place(after)
        a.jmp(bytes_.top)
    a.ret()


@routine(
    inputs=[In(RSI, int, "where to look"), In(RDX, int, "where the text ends")],
    outputs=[Out(RSI, "the token"), Out(ECX, "its bytes; 0 = there is none")],
    clobbers=[RAX],
    reads=[TEXT_IN],
    source="firmware/docs/bus.md#tolerance",
)
def take_token(a: Asm, at: Reg64, end: Reg64) -> None:
    """Find the next run of bytes without blanks."""
    a.xor(ECX, ECX)
    with a.loop() as blanks:
        token = a.label("token")
        a.cmp(at, end)
        a.leave(AE, blanks)
        a.mov(AL, mem8(at, ref=TEXT_IN))
        a.cmp(AL, SP)
        with a.block() as blank:
            a.leave(E, blank)
            a.cmp(AL, TAB)
            a.jne(token)
        a.inc(at)
        a.jmp(blanks.top)
        a.place(token)
        with a.loop() as bytes_:
            a.inc(ECX)
            a.lea(RAX, mem8(at, index=RCX, ref=TEXT_IN))
            a.cmp(RAX, end)
            a.leave(AE, blanks)
            a.mov(AL, mem8(RAX, ref=TEXT_IN))
            a.cmp(AL, SP)
            a.leave(E, blanks)
            a.cmp(AL, TAB)
            a.leave(E, blanks)
            a.jmp(bytes_.top)
    a.ret()


@routine(
    inputs=[In(RSI, int, "text"), In(ECX, int, "its bytes")],
    outputs=[Out(CF, "1 = not a number of a quadword in digits"), Out(RAX, "the number")],
    clobbers=[RCX, RDX, RSI, R8],
    reads=[TEXT_IN],
    source="firmware/docs/bus.md#tolerance",
)
def take_decimal(a: Asm, text: Reg64, length: Reg32) -> None:
    """Read an unsigned number that consists of digits alone."""
    bad = a.label("bad")
    a.xor(EAX, EAX)
    a.test(length, length)
    a.jz(bad)
    with a.loop() as digits:
        a.mov(R8D, 10)
        a.mul(R8)
        a.j(C, bad)
        a.movzx(EDX, mem8(text, ref=TEXT_IN))
        a.sub(EDX, ord("0"))
        a.cmp(EDX, 9)
        a.j(A, bad)
        a.add(RAX, RDX)
        a.j(C, bad)
        a.inc(text)
        a.dec(length)
        a.again(NZ, digits)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()
