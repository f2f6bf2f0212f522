"""Reading DER: one element at a time, never past the end of what it lies in."""

from firmware.layouts.der import DER_IN, DER_KNOWN, LENGTH_1, LENGTH_2, TAG_NUMBER
from toolchain.asm import (
    AL,
    CF,
    DX,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R9B,
    R10,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
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

ELEMENT = (
    Out(CF, "1 = refused"),
    Out(EAX, "its tag; 0 when refused"),
    Out(RSI, "its contents; the element itself when refused"),
    Out(RDX, "the end of its contents, where the next element is; 0 when refused"),
)


@routine(
    inputs=[
        In(RSI, int, "an element"),
        In(RDI, int, "end of what it lies in; not before RSI"),
    ],
    outputs=ELEMENT,
    clobbers=[RCX, R8],
    reads=[DER_IN],
    source="X.690 8.1, 10.1",
)
def der_read(a: Asm, element: Reg64, end: Reg64) -> None:
    """Take one element: a low tag, a definite length in its shortest form, all of it inside."""
    bad, one, inside = a.label("bad"), a.label("one"), a.label("inside")
    header = R8D
    a.mov(RCX, end)
    a.sub(RCX, element)
    a.cmp(RCX, 2)
    a.jb(bad)
    a.movzx(EAX, mem8(element, ref=DER_IN))
    a.mov(EDX, EAX)
    a.and_(EDX, TAG_NUMBER)
    a.cmp(EDX, TAG_NUMBER)
    a.je(bad)

    a.mov(header, 2)
    a.movzx(EDX, mem8(element, 1, ref=DER_IN))
    a.cmp(EDX, LENGTH_1 - 1)
    a.jb(inside)
    a.inc(header)
    a.cmp(EDX, LENGTH_1)
    a.je(one)
    a.inc(header)
    a.cmp(EDX, LENGTH_2)
    a.jne(bad)
    a.cmp(RCX, 4)
    a.jb(bad)
    a.movzx(EDX, mem16(element, 2, ref=DER_IN))
    a.rol(DX, 8)
    a.cmp(EDX, 0x100)
    a.jb(bad)
    a.jmp(inside)
    a.place(one)
    a.cmp(RCX, 3)
    a.jb(bad)
    a.movzx(EDX, mem8(element, 2, ref=DER_IN))
    a.cmp(EDX, 0x80)
    a.jb(bad)

    a.place(inside)
    a.sub(RCX, R8)
    a.cmp(RCX, RDX)
    a.jb(bad)
    a.add(RSI, R8)
    a.add(RDX, RSI)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "where the element must be"),
        In(RDI, int, "end of what it lies in; not before RSI"),
        In(EAX, int, "the tag it must have; 8 bits"),
    ],
    outputs=ELEMENT,
    clobbers=[RCX, R8],
    reads=[DER_IN],
    calls=[der_read],
    source="X.690 8.1, 10.1",
)
def der_open(a: Asm, element: Reg64, end: Reg64, tag: Reg32) -> None:
    """Take one element of a known tag."""
    bad = a.label("bad")
    a.cmp(element, end)
    a.jae(bad)
    a.cmp(AL, mem8(element, ref=DER_IN))
    a.jne(bad)
    a.jmp(der_read)
    a.place(bad)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "contents of an INTEGER"),
        In(RDX, int, "their end; not before RSI"),
    ],
    outputs=[
        Out(CF, "1 = refused: empty, negative, or not in its shortest form"),
        Out(RSI, "its first byte of weight; that of zero is zero"),
        Out(ECX, "bytes of the number, big-endian; 0 when refused"),
    ],
    clobbers=[RAX],
    reads=[DER_IN],
    source="X.690 8.3",
)
def der_unsigned(a: Asm, contents: Reg64, end: Reg64) -> None:
    """Take a number that is not negative."""
    bad, good = a.label("bad"), a.label("good")
    a.mov(RCX, end)
    a.sub(RCX, contents)
    a.jz(bad)
    a.movzx(EAX, mem8(contents, ref=DER_IN))
    a.cmp(EAX, 0x80)
    a.jae(bad)
    a.test(EAX, EAX)
    a.jnz(good)
    a.cmp(RCX, 1)
    a.je(good)
    # A zero byte before the number may only keep its top bit from being a sign.
    a.cmp(mem8(contents, 1, ref=DER_IN), 0x80)
    a.jb(bad)
    a.inc(RSI)
    a.dec(ECX)
    a.place(good)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(ECX, ECX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "contents of an INTEGER"),
        In(RDX, int, "their end; not before RSI"),
    ],
    outputs=[Out(CF, "1 = refused: no number below 2^32"), Out(EAX, "the number; 0 when refused")],
    clobbers=[RCX, RSI],
    reads=[DER_IN],
    calls=[der_unsigned],
    source="X.690 8.3",
)
def der_small(a: Asm, contents: Reg64, end: Reg64) -> None:
    """Take a number of at most 32 bits."""
    bad = a.label("bad")
    a.call(der_unsigned)
    a.j(C, bad)
    a.cmp(ECX, 4)
    a.j(A, bad)
    a.xor(EAX, EAX)
    with a.loop() as digits:
        a.shl(EAX, 8)
        a.mov(AL, mem8(RSI, ref=DER_IN))
        a.inc(RSI)
        a.dec(ECX)
        a.again(NZ, digits)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "bytes of the input"),
        In(RDX, int, "their end; not before RSI"),
        In(RDI, int, "a table of DER_KNOWN entries"),
    ],
    outputs=[Out(EAX, "the value of the entry with the same bytes; 0 = none")],
    clobbers=[RCX, RDI, R8, R9, R10],
    reads=[DER_IN, DER_KNOWN],
    source="X.690 8.19",
)
def der_known(a: Asm, contents: Reg64, end: Reg64, table: Reg64) -> None:
    """Look bytes up in a table of known ones."""
    found = a.label("found")
    size = R10
    a.mov(size, end)
    a.sub(size, contents)
    with a.loop() as entries:
        a.movzx(ECX, mem8(table, ref=DER_KNOWN))
        a.xor(EAX, EAX)
        a.test(ECX, ECX)
        a.j(Z, found)
        a.movzx(EAX, mem8(table, 1, ref=DER_KNOWN))
        a.add(table, 2)
        with a.block() as other:
            a.cmp(RCX, size)
            a.leave(NE, other)
            a.xor(R8D, R8D)
            with a.loop() as same:
                a.mov(R9B, mem8(contents, index=R8, ref=DER_IN))
                a.cmp(R9B, mem8(table, index=R8, ref=DER_KNOWN))
                a.leave(NE, other)
                a.inc(R8)
                a.cmp(R8, RCX)
                a.again(B, same)
            a.jmp(found)
        a.add(table, RCX)
        a.jmp(entries.top)
    a.place(found)
    a.ret()


def open_element(a: Asm, tag: int, end: Reg64, bad: Label) -> None:
    """Open the element at RSI, which must have a tag and lie before `end`; as `der_open`."""
    a.mov(RDI, end)
    a.mov(EAX, tag)
    a.call(der_open)
    a.j(C, bad)


def must_end(a: Asm, end: Reg64, bad: Label) -> None:
    """Refuse bytes between the element that was opened last and `end`."""
    a.cmp(RDX, end)
    a.jne(bad)
