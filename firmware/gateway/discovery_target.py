"""Parts of a URL that discovery meets: its scheme, and what stands in a request line."""

from firmware.gateway.url import CHARS, TARGET_CHAR, URL
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
    RAX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(RSI, int, "path and query"),
        In(ECX, int, "their bytes"),
        In(RDI, int, "where they go"),
        In(R9D, int, "room there"),
    ],
    outputs=[
        Out(CF, "1 = a character that must not be, or too long"),
        Out(RDI, "the end of the copy"),
        Out(EDX, "1 = there is a query"),
    ],
    clobbers=[RAX, RCX, RSI, R8, R9, R10],
    reads=[URL, CHARS],
    writes=[URL],
    source="RFC 9112 3.2.1",
)
def discovery_target(a: Asm, text: Reg64, length: Reg32, to: Reg64, room: Reg32) -> None:
    """Copy what stands in a request line; a path that is left out is /."""
    chars, first = R10, R8D
    a.xor(EDX, EDX)
    a.lea(chars, CHARS.address)
    bad, slash, copy, done = map(a.label, ("bad", "slash", "copy", "done"))
    a.test(length, length)
    a.jz(slash)
    a.movzx(first, mem8(text, ref=URL))
    a.cmp(first, ord("/"))
    a.je(copy)
    a.place(slash)
    a.mov(mem8(to, ref=URL), ord("/"))
    a.inc(to)
    a.dec(room)
    a.place(copy)
    a.cmp(length, room)
    a.j(A, bad)
    a.test(length, length)
    a.jz(done)
    with a.loop() as letters:
        a.movzx(EAX, mem8(text, ref=URL))
        a.test(mem8(chars, index=RAX, ref=CHARS), TARGET_CHAR)
        a.jz(bad)
        a.cmp(EAX, ord("?"))
        with a.if_(E):
            a.mov(EDX, 1)
        a.mov(mem8(to, ref=URL), AL)
        a.inc(text)
        a.inc(to)
        a.dec(length)
        a.again(NZ, letters)
    a.place(done)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()
