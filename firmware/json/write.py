"""Numbers in outgoing texts."""

from firmware.layouts.websocket import TEXT_OUT
from toolchain.asm import (
    DL,
    EDX,
    NZ,
    R8,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    Asm,
    In,
    Out,
    Reg64,
    mem8,
    routine,
)
from toolchain.asm.assembler import STACK

DIGITS_MAX = 20


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
