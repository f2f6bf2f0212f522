"""Pieces of the routines that read records: numbers within bounds, words of certain characters."""

from firmware.fleet.tokens import SPACE, TEXT, number_take
from firmware.layouts.fleet import (
    BOOT_CHARS,
    NAME_CHARS,
    RECORD_FORMAT,
)
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R9,
    R11,
    R11D,
    R12,
    R12D,
    RAX,
    RCX,
    RDI,
    RSP,
    A,
    Asm,
    B,
    C,
    Label,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    mem32,
    mem64,
)
from toolchain.asm.assembler import STACK
from toolchain.layout.data import constant

NAME_CHAR, BOOT_CHAR = 1, 2
CHARS = constant(
    "fleet_chars",
    bytes(NAME_CHAR * (c in NAME_CHARS) | BOOT_CHAR * (c in BOOT_CHARS) for c in range(256)),
    "what may stand in a node's name, and in a boot",
)
COMPUTED = Region("nothing", "LEA only computes")


def four(text: bytes) -> int:
    """Return four characters as a doubleword compares them."""
    return int.from_bytes(text, "little")


def format_take(a: Asm, text: Reg64, size: Reg32, bad: Label) -> None:
    """R8 := the end, EDX := the separator; the format number is passed."""
    a.mov(size, size)
    a.lea(R8, mem8(text, index=RCX, ref=TEXT))
    a.mov(EDX, SPACE)
    a.call(number_take)
    a.j(C, bad)
    a.cmp(RAX, RECORD_FORMAT)
    a.j(NE, bad)


def small_take(a: Asm, bad: Label) -> None:
    """EAX := the next number, of 32 bits. Clobbers RCX and R9."""
    a.call(number_take)
    a.j(C, bad)
    a.mov(RCX, RAX)
    a.shr(RCX, 32)
    a.j(NZ, bad)


def numbers_take(a: Asm, count: int, bad: Label) -> None:
    """Take so many numbers of 32 bits into the locals; R12 counts."""
    a.xor(R12D, R12D)
    with a.loop() as each:
        small_take(a, bad)
        a.mov(mem32(RSP, index=R12, scale=4, ref=STACK), EAX)
        a.inc(R12D)
        a.cmp(R12D, count)
        a.again(B, each)


def within(a: Asm, least: int, most: int, bad: Label) -> None:
    """Refuse an EAX that is not in least..most. Clobbers ECX."""
    a.lea(ECX, mem64(RAX, -least, ref=COMPUTED))
    a.cmp(ECX, most - least)
    a.j(A, bad)


def every_char(a: Asm, kind: int, bad: Label) -> None:
    """Refuse a word RDI of R11D bytes with a character of another kind. Clobbers RAX, R9, R11."""
    a.lea(R9, CHARS.address)
    with a.loop() as each:
        a.movzx(EAX, mem8(RDI, -1, index=R11, ref=TEXT))
        a.test(mem8(R9, index=RAX, ref=CHARS), kind)
        a.j(Z, bad)
        a.dec(R11D)
        a.again(NZ, each)
