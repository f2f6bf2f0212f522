"""Numbers, digit by digit: what is kept of them is an integer or thousandths, of 32 bits.

The registers are those of `firmware.json.feed`; EAX is the byte.
"""

from firmware.json.places import P, Places, begin_value
from firmware.layouts.json import FRACTION_FULL, NUMBER_BEYOND, JsonKind, JsonState
from toolchain.asm import (
    AL,
    EAX,
    EBP,
    EBX,
    EDI,
    EDX,
    NZ,
    RAX,
    RBX,
    RDX,
    RSI,
    A,
    Asm,
    E,
)  # fmt: skip


def digit(a: Asm, places: Places) -> None:
    """Append the digit EAX to the running number."""
    a.sub(EAX, ord("0"))
    a.imul(RBX, RBX, 10)
    a.add(RBX, RAX)
    a.mov(RAX, RBX)
    a.shr(RAX, 32)
    with a.if_(NZ):
        a.mov(EDI, NUMBER_BEYOND)
        a.xor(EBX, EBX)
    a.mov(EBP, JsonState.INTEGER)
    a.jmp(places.loop)


def number(a: Asm, places: Places) -> None:
    """Begin a number with the digit or sign EAX."""
    begin_value(a, JsonKind.NUMBER, places)
    a.xor(EDI, EDI)
    a.xor(EBX, EBX)
    a.mov(EBP, JsonState.ZERO)
    a.sub(EAX, ord("0"))
    a.jz(places.loop)
    with a.if_(A):
        a.mov(EBX, EAX)
        a.mov(EBP, JsonState.INTEGER)
        a.jmp(places.loop)
    a.mov(EDI, NUMBER_BEYOND)
    a.mov(EBP, JsonState.MINUS)
    a.jmp(places.loop)


def number_end(a: Asm, places: Places) -> None:
    """Keep the number that ended if it is wanted and fits."""
    a.dec(RSI)  # the byte that ends the number has a meaning of its own
    a.mov(EBP, JsonState.AFTER)
    a.mov(EDX, P.field)
    a.test(EDX, EDX)
    a.jz(places.loop)
    a.mov(EAX, JsonKind.INTEGER)
    a.test(EDI, EDI)
    with a.if_(NZ):
        a.cmp(EDI, FRACTION_FULL)
        a.j(A, places.loop)
        # Thousandths, however many digits there were.
        with a.loop() as digits:
            a.leave(E, digits)
            a.imul(RBX, RBX, 10)
            a.inc(EDI)
            a.cmp(EDI, FRACTION_FULL)
            a.jmp(digits.top)
        a.mov(RAX, RBX)
        a.shr(RAX, 32)
        a.jnz(places.loop)
        a.mov(EAX, JsonKind.DECIMAL)
    a.mov(P.kinds.m8(index=RDX), AL)
    a.mov(P.values.m32(index=RDX, scale=4), EBX)
    a.jmp(places.loop)


def not_integer(a: Asm, places: Places) -> None:
    """Take the point or the exponent letter EAX."""
    exponent = a.label("exponent")
    a.cmp(EAX, ord("."))
    a.jne(exponent)
    a.mov(EBP, JsonState.POINT)
    a.test(EDI, EDI)
    a.jnz(places.loop)
    a.inc(EDI)
    a.jmp(places.loop)
    a.place(exponent)
    a.mov(EDI, NUMBER_BEYOND)
    a.mov(EBP, JsonState.EXPONENT)
    a.jmp(places.loop)


def fraction(a: Asm, places: Places) -> None:
    """Append the digit EAX behind the point; from the fourth on they are only checked."""
    a.mov(EBP, JsonState.FRACTION)
    a.cmp(EDI, FRACTION_FULL)
    a.jae(places.loop)
    a.sub(EAX, ord("0"))
    a.imul(RBX, RBX, 10)
    a.add(RBX, RAX)
    a.inc(EDI)
    a.jmp(places.loop)
