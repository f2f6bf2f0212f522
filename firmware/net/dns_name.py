"""Names: dotted quads, names inside DNS messages, comparison without regard to case."""

from firmware.layouts.dns import DNS_TEXT_MAX, MESSAGE, NAME
from toolchain.asm import (
    AE,
    CF,
    DL,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
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
    RDI,
    RDX,
    RSI,
    ZF,
    A,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

LABEL_MAX = 63
POINTER = 0xC0


@routine(
    inputs=[In(RSI, int, "text"), In(ECX, int, "its bytes")],
    outputs=[Out(CF, "1 = no dotted quad"), Out(EAX, "the address, as on the wire")],
    clobbers=[RCX, RDX, RDI, RSI, R8, R9],
    reads=[NAME],
    source="RFC 3986 3.2.2",
)
def dns_parse_quad(a: Asm, text: Reg64, length: Reg32) -> None:
    """Read an IPv4 address in four decimal numbers."""
    none = 0xFFFF_FFFF
    address, value, dots = EAX, R8D, R9D
    bad = a.label("bad")
    a.xor(address, address)
    a.mov(value, none)
    a.xor(dots, dots)
    a.test(length, length)
    a.jz(bad)
    with a.loop() as top:
        a.movzx(EDX, mem8(RSI, 0, ref=NAME))
        a.inc(RSI)
        a.cmp(EDX, ord("."))
        with a.if_(Z):
            # A number ends: the first octet ends up in the lowest byte.
            a.cmp(value, none)
            a.j(Z, bad)
            a.shr(address, 8)
            a.shl(value, 24)
            a.or_(address, value)
            a.mov(value, none)
            a.inc(dots)
        with a.else_():
            a.sub(EDX, ord("0"))
            a.cmp(EDX, 9)
            a.j(A, bad)
            a.xor(EDI, EDI)
            a.cmp(value, none)
            a.cmov(Z, value, EDI)
            a.imul(value, value, 10)
            a.add(value, EDX)
            a.cmp(value, 255)
            a.j(A, bad)
        a.dec(ECX)
        a.again(NZ, top)
    a.cmp(dots, 3)
    a.jne(bad)
    a.cmp(value, none)
    a.j(Z, bad)
    a.shr(address, 8)
    a.shl(value, 24)
    a.or_(address, value)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the message"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "where the name starts"),
        In(RDI, int, "buffer of 256 bytes"),
    ],
    outputs=[
        Out(CF, "1 = malformed"),
        Out(EAX, "bytes of text"),
        Out(EDX, "where the message goes on behind the name"),
    ],
    clobbers=[R8, R9, R10, R11],
    reads=[MESSAGE],
    writes=[NAME],
    source="RFC 1035 4.1.4",
)
def dns_expand(a: Asm, message: Reg64, length: Reg32, start: Reg32, text: Reg64) -> None:
    """Write a name as lower-case dotted text; pointers may only go backwards."""
    here, behind, limit, used = R8D, R9D, R10D, R11D
    bad, finish = a.label("bad"), a.label("finish")
    a.mov(here, start)
    a.xor(behind, behind)
    a.mov(limit, start)
    a.xor(used, used)
    with a.loop() as top:
        a.cmp(here, length)
        a.j(AE, bad)
        a.movzx(EAX, mem8(RSI, index=R8, ref=MESSAGE))
        a.inc(here)
        a.test(EAX, EAX)
        a.jz(finish)
        a.cmp(EAX, POINTER)
        with a.if_(AE):
            a.cmp(here, length)
            a.j(AE, bad)
            a.and_(EAX, 0x3F)
            a.shl(EAX, 8)
            a.movzx(EDX, mem8(RSI, index=R8, ref=MESSAGE))
            a.or_(EAX, EDX)
            a.inc(here)
            a.test(behind, behind)
            a.cmov(Z, behind, here)
            # Each pointer must lead before the last one, so that a loop cannot exist.
            a.cmp(EAX, limit)
            a.j(AE, bad)
            a.mov(limit, EAX)
            a.mov(here, EAX)
            a.jmp(top.top)
        a.cmp(EAX, LABEL_MAX)
        a.j(A, bad)
        a.lea(EDX, mem8(R8, index=RAX, ref=MESSAGE))
        a.cmp(EDX, length)
        a.j(A, bad)
        a.lea(EDX, mem8(R11, 1, index=RAX, ref=NAME))
        a.cmp(EDX, DNS_TEXT_MAX)
        a.j(A, bad)
        a.test(used, used)
        with a.if_(NZ):
            a.mov(mem8(RDI, index=R11, ref=NAME), ord("."))
            a.inc(used)
        with a.loop() as byte:
            a.movzx(EDX, mem8(RSI, index=R8, ref=MESSAGE))
            a.inc(here)
            # A dot inside a label would read like two labels.
            a.cmp(EDX, ord("."))
            a.j(Z, bad)
            _lower(a)
            a.mov(mem8(RDI, index=R11, ref=NAME), DL)
            a.inc(used)
            a.dec(EAX)
            a.again(NZ, byte)
        a.jmp(top.top)
    a.place(finish)
    a.mov(EAX, used)
    a.mov(EDX, behind)
    a.test(EDX, EDX)
    a.cmov(Z, EDX, here)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.stc()
    a.ret()


def _lower(a: Asm) -> None:
    """Make the letter in EDX small."""
    small = a.label("small")
    a.cmp(EDX, ord("A"))
    a.j(B, small)
    a.cmp(EDX, ord("Z"))
    a.j(A, small)
    a.or_(EDX, 0x20)
    a.place(small)


@routine(
    inputs=[
        In(RSI, int, "a name in lower case"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "another name, any case"),
        In(EDX, int, "its bytes"),
    ],
    outputs=[Out(ZF, "1 = the same name")],
    clobbers=[RAX, RCX, RDX, RDI, RSI],
    reads=[NAME],
    source="RFC 4343",
)
def dns_same_name(a: Asm, name: Reg64, length: Reg32, other: Reg64, other_length: Reg32) -> None:
    """Compare two names without regard to ASCII case."""
    differ, same = a.label("differ"), a.label("same")
    a.cmp(length, other_length)
    a.j(NE, differ)
    a.test(length, length)
    a.j(Z, same)
    with a.loop() as top:
        a.movzx(EDX, mem8(RDI, 0, ref=NAME))
        _lower(a)
        a.movzx(EAX, mem8(RSI, 0, ref=NAME))
        a.cmp(EAX, EDX)
        a.j(NE, differ)
        a.inc(RSI)
        a.inc(RDI)
        a.dec(ECX)
        a.again(NZ, top)
    a.place(same)
    a.xor(EAX, EAX)
    a.ret()
    a.place(differ)
    a.mov(EAX, 1)
    a.test(EAX, EAX)
    a.ret()
