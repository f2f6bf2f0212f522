"""Texts that the node writes: constants and numbers, into a buffer of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.text import TEXT_OUT
from toolchain.asm import (
    AL,
    DL,
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    A,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)
from toolchain.asm.assembler import STACK

if TYPE_CHECKING:
    from toolchain.layout import Data

DIGITS_MAX = 20
HEX_DIGITS = 8


def put(a: Asm, text: Data) -> None:
    """Copy a constant to RDI. Clobbers RCX and RSI."""
    a.lea(RSI, text.address)
    a.mov(ECX, text.size)
    a.rep_movsb()


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
        a.and_(EAX, 0x0F)
        a.add(AL, ord("0"))
        a.cmp(AL, ord("9"))
        with a.if_(A):
            a.add(AL, ord("a") - ord("9") - 1)
        a.stosb()
        a.dec(ECX)
        a.again(NZ, digits)
    a.ret()
