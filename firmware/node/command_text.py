"""What a command says: `{"op":3,"d":{...}}` or `{"op":"restart"}`, blanks where JSON has them."""

from firmware.layouts.commands import COMMAND_TEXT, OP_RESTART
from toolchain.asm import (
    AE,
    AL,
    BE,
    CF,
    EAX,
    ECX,
    NE,
    R8,
    R8D,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)

BLANKS = b" \t\r\n"
OP_MAX = 99
RESTART = b'"restart"'


def _read(a: Asm, bad: Label) -> None:
    """AL := the byte at RSI, which lies before RDX."""
    a.cmp(RSI, RDX)
    a.j(AE, bad)
    a.mov(AL, mem8(RSI, ref=COMMAND_TEXT))


def _expect(a: Asm, text: bytes, bad: Label) -> None:
    """Pass over a text at RSI. AL changes."""
    for byte in text:  # unrolled: a few bytes
        _read(a, bad)
        a.cmp(AL, byte)
        a.j(NE, bad)
        a.inc(RSI)


def _blanks(a: Asm) -> None:
    """Pass over blanks at RSI. AL changes."""
    with a.loop() as each:
        blank = a.label("blank")
        a.cmp(RSI, RDX)
        a.leave(AE, each)
        a.mov(AL, mem8(RSI, ref=COMMAND_TEXT))
        for byte in BLANKS:  # unrolled: four
            a.cmp(AL, byte)
            a.j(E, blank)
        a.leave(NE, each)
        a.place(blank)
        a.inc(RSI)
        a.jmp(each.top)


@routine(
    inputs=[In(RSI, int, "the command"), In(ECX, int, "its bytes")],
    outputs=[
        Out(CF, "1 = it is none"),
        Out(EAX, "opcode, OP_MAX + 1 when it is larger; OP_RESTART for a restart"),
        Out(RSI, "the body: JSON for `d`; the end when there is none"),
        Out(ECX, "its bytes"),
    ],
    clobbers=[RDX, R8],
    reads=[COMMAND_TEXT],
    source="firmware/docs/fleet.md#commands",
)
def command_parse(a: Asm, text: Reg64, length: Reg32) -> None:
    """Find opcode and body; whether the body is JSON is for the send path to judge."""
    bad, number, body, restart = map(a.label, ("bad", "number", "body", "restart"))
    op = R8D
    a.mov(ECX, length)
    a.lea(RDX, mem8(RSI, index=RCX, ref=COMMAND_TEXT))
    # The object's own end: the last byte that is no blank.
    with a.loop() as trailing:
        again = a.label("again")
        a.cmp(RDX, RSI)
        a.j(BE, bad)
        a.dec(RDX)
        a.movzx(EAX, mem8(RDX, ref=COMMAND_TEXT))
        for byte in BLANKS:  # unrolled: four
            a.cmp(EAX, byte)
            a.j(E, again)
        a.leave(NE, trailing)
        a.place(again)
        a.jmp(trailing.top)
    a.cmp(EAX, ord("}"))
    a.j(NE, bad)

    _blanks(a)
    for token in (b"{", b'"op"', b":"):  # unrolled: three tokens
        _expect(a, token, bad)
        _blanks(a)
    _read(a, bad)
    a.cmp(AL, ord('"'))
    a.j(E, restart)
    a.xor(op, op)
    a.sub(AL, ord("0"))
    a.cmp(AL, 9)
    a.j(A, bad)
    a.place(number)
    a.movzx(EAX, AL)
    a.imul(op, op, 10)
    a.add(op, EAX)
    a.mov(EAX, OP_MAX + 1)
    a.cmp(op, EAX)
    a.cmov(A, op, EAX)
    a.inc(RSI)
    _read(a, bad)
    a.sub(AL, ord("0"))
    a.cmp(AL, 9)
    a.j(BE, number)
    _blanks(a)
    for token in (b",", b'"d"', b":"):  # unrolled: three tokens
        _expect(a, token, bad)
        _blanks(a)
    a.jmp(body)
    a.place(restart)
    _expect(a, RESTART, bad)
    _blanks(a)
    a.mov(op, OP_RESTART)
    a.cmp(RSI, RDX)
    a.j(NE, bad)
    a.place(body)
    a.mov(EAX, op)
    a.mov(RCX, RDX)
    a.sub(RCX, RSI)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.xor(ECX, ECX)
    a.stc()
    a.ret()
