"""The times in a certificate as seconds since 1970 (RFC 5280 4.1.2.5)."""

from firmware.layouts.der import DER_IN, Tag
from firmware.layouts.x509 import DAYS_BEFORE, GENERALIZED_FROM, UTC_PIVOT
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R11D,
    RAX,
    RCX,
    RDX,
    RSI,
    RSP,
    A,
    Asm,
    B,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    routine,
)
from toolchain.asm.assembler import STACK

PAIRS = 6
"""Year of the century, month, day, hour, minute, second."""
UTC_BYTES, GENERALIZED_BYTES = 13, 15
EPOCH_DAYS = 365 * 1970 + 1969 // 4 - 1969 // 100 + 1969 // 400
"""Days before 1970, counted as below."""
MINUTES_AND_SECONDS = ((3, 23), (4, 59), (5, 59))
"""Pair and its greatest value; RFC 5280 has no leap seconds."""


@routine(
    inputs=[
        In(RSI, int, "contents of the time"),
        In(RDX, int, "their end; not before RSI"),
        In(EAX, int, "the tag"),
    ],
    outputs=[
        Out(
            CF, "1 = refused: no UTCTime to 2049 or GeneralizedTime from 2050 on, to the second, Z"
        ),
        Out(RAX, "seconds since 1970, signed; 0 when refused"),
    ],
    clobbers=[RCX, RDX, RSI, R8, R9, R10, R11],
    reads=[DER_IN, DAYS_BEFORE],
    stack=8,
    source="RFC 5280 4.1.2.5",
)
def x509_time(a: Asm, contents: Reg64, end: Reg64, tag: Reg32) -> None:
    """Read a time of the real calendar."""
    year, month, day, leap = R8D, R9D, R10D, R11D
    bad, pairs, general = a.label("bad"), a.label("pairs"), a.label("general")
    a.sub(RDX, RSI)
    a.xor(year, year)
    a.cmp(tag, Tag.GENERALIZED_TIME)
    a.je(general)
    a.cmp(tag, Tag.UTC_TIME)
    a.jne(bad)
    a.cmp(RDX, UTC_BYTES)
    a.jne(bad)
    a.jmp(pairs)
    a.place(general)
    a.cmp(RDX, GENERALIZED_BYTES)
    a.jne(bad)
    _digits(a, bad)
    a.cmp(EAX, GENERALIZED_FROM // 100)
    a.jb(bad)
    a.imul(year, EAX, 100)

    a.place(pairs)
    a.xor(EDX, EDX)
    with a.loop() as each:
        _digits(a, bad)
        a.mov(mem8(RSP, index=RDX, ref=STACK), AL)
        a.inc(EDX)
        a.cmp(EDX, PAIRS)
        a.again(B, each)
    a.cmp(mem8(RSI, ref=DER_IN), ord("Z"))
    a.jne(bad)
    for pair, most in MINUTES_AND_SECONDS:  # unrolled: three pairs
        a.cmp(a.local(1, pair), most)
        a.j(A, bad)

    # A year of two digits lies in 1950..2049; one of four digits must lie behind them.
    a.movzx(EAX, a.local(1, 0))
    a.test(year, year)
    with a.if_(Z):
        a.cmp(EAX, UTC_PIVOT)
        with a.if_(B):
            a.add(EAX, 100)
        a.add(EAX, 1900)
        a.mov(year, EAX)
    with a.else_():
        a.add(year, EAX)
        a.cmp(year, GENERALIZED_FROM)
        a.j(B, bad)

    # Centuries before this one, rounded down; a year that ends one is leap only when 16 divides it.
    a.mov(EAX, year)
    a.dec(EAX)
    a.xor(EDX, EDX)
    a.mov(ECX, 100)
    a.div(ECX)
    a.mov(ECX, EAX)
    a.xor(leap, leap)
    with a.block() as common:
        a.test(year, 3)
        a.leave(NZ, common)
        a.cmp(EDX, 99)
        with a.if_(E):
            a.test(year, 15)
            a.leave(NZ, common)
        a.inc(leap)

    # Month and day; February has its leap day.
    a.movzx(month, a.local(1, 1))
    a.dec(month)
    a.cmp(month, 11)
    a.j(A, bad)
    a.lea(RDX, DAYS_BEFORE.address)
    a.lea(RDX, mem8(RDX, index=R9, scale=2, ref=DAYS_BEFORE))
    a.movzx(EAX, mem16(RDX, 2, ref=DAYS_BEFORE))
    a.movzx(EDX, mem16(RDX, ref=DAYS_BEFORE))
    a.sub(EAX, EDX)
    a.cmp(month, 1)
    with a.if_(E):
        a.add(EAX, leap)
    a.movzx(day, a.local(1, 2))
    a.dec(day)
    a.cmp(day, EAX)
    a.jae(bad)
    a.add(day, EDX)
    a.cmp(month, 1)
    with a.if_(A):
        a.add(day, leap)

    # Whole years: 365 days each, a leap day every 4th, none every 100th, one every 400th.
    a.sub(day, ECX)
    a.shr(ECX, 2)
    a.add(day, ECX)
    a.imul(EAX, year, 365)
    a.add(day, EAX)
    a.dec(year)
    a.shr(year, 2)
    a.add(day, year)
    a.sub(day, EPOCH_DAYS)
    a.movsxd(RAX, day)
    for pair, count in ((3, 24), (4, 60), (5, 60)):  # unrolled: hours, minutes, seconds
        a.imul(RAX, RAX, count)
        a.movzx(EDX, a.local(1, pair))
        a.add(RAX, RDX)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


def _digits(a: Asm, bad: Label) -> None:
    """EAX := the number of two digits at RSI, which goes on behind them."""
    a.movzx(EAX, mem8(RSI, ref=DER_IN))
    a.sub(EAX, ord("0"))
    a.cmp(EAX, 9)
    a.j(A, bad)
    a.movzx(ECX, mem8(RSI, 1, ref=DER_IN))
    a.sub(ECX, ord("0"))
    a.cmp(ECX, 9)
    a.j(A, bad)
    a.imul(EAX, EAX, 10)
    a.add(EAX, ECX)
    a.add(RSI, 2)
