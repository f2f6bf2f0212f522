"""Tokens of records, reply subjects and answers: numbers, words, one separator between two of them.

RSI is the place in the text, R8 its end. A separator stands between two tokens and nowhere else; a
number has no leading zero. What breaks that makes the whole text unreadable.
"""

from firmware.layouts.fleet import (
    ACK_PREFIX,
)
from toolchain.asm import (
    AE,
    AL,
    CF,
    CL,
    DL,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R11D,
    R12,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Region,
    mem8,
    routine,
)
from toolchain.layout.data import constant

TEXT = Region("a text of the bus", "where its owner keeps it, bounded by its end")
CONSTANT = Region("a constant", "its bytes, bounded by its length")
DIGITS_MAX = 19
"""No number of so many digits leaves 64 bits."""
ACK = constant("fleet_ack_prefix", ACK_PREFIX, "how the reply subject of a delivery begins")
ERROR = constant("fleet_error_key", b'"error":', "what an answer has that refuses")
DOT, SPACE, PLUS = ord("."), ord(" "), ord("+")


@routine(
    inputs=[In(RSI, int, "the text"), In(R8, int, "its end")],
    outputs=[
        Out(CF, "1 = no number stands here"),
        Out(RAX, "the number"),
        Out(RSI, "what follows it"),
    ],
    clobbers=[RCX, R9],
    reads=[TEXT],
    source="firmware/docs/fleet.md#records",
)
def digits_take(a: Asm, text: Reg64, end: Reg64) -> None:
    """Take a decimal number without leading zeros, whatever follows it."""
    count, bad, out = R9D, a.label("bad"), a.label("out")
    a.xor(EAX, EAX)
    a.xor(count, count)
    with a.loop() as digits:
        a.cmp(text, end)
        a.leave(AE, digits)
        a.movzx(ECX, mem8(text, ref=TEXT))
        a.sub(ECX, ord("0"))
        a.cmp(ECX, 9)
        a.leave(A, digits)
        # A zero that came before is a leading one.
        with a.block() as fine:
            a.test(count, count)
            a.leave(E, fine)
            a.test(RAX, RAX)
            a.j(E, bad)
        a.inc(count)
        a.cmp(count, DIGITS_MAX)
        a.j(A, bad)
        a.imul(RAX, RAX, 10)
        a.add(RAX, RCX)
        a.inc(text)
        a.jmp(digits.top)
    a.cmp(count, 1)  # CF = 1 without a digit
    a.jmp(out)
    a.place(bad)
    a.stc()
    a.place(out)
    a.ret()


def _end_token(a: Asm, text: Reg64, end: Reg64, bad: Label, *, found: bool = False) -> None:
    """Pass the separator DL behind a token, which another token has to follow; CF = 0.

    A separator that was `found` already is not looked at again.
    """
    with a.block() as last:
        a.cmp(text, end)
        a.leave(E, last)
        if not found:
            a.cmp(mem8(text, ref=TEXT), DL)
            a.j(NE, bad)
        a.inc(text)
        a.cmp(text, end)
        a.j(E, bad)
    a.clc()


@routine(
    inputs=[
        In(RSI, int, "the text"),
        In(R8, int, "its end"),
        In(EDX, int, "the separator, a character"),
    ],
    outputs=[
        Out(CF, "1 = no number stands here, or not alone"),
        Out(RAX, "the number"),
        Out(RSI, "the next token, or the end"),
    ],
    clobbers=[RCX, R9],
    reads=[TEXT],
    calls=[digits_take],
    source="firmware/docs/fleet.md#records",
)
def number_take(a: Asm, text: Reg64, end: Reg64, separator: Reg32) -> None:
    """Take a number and the separator behind it."""
    bad = a.label("bad")
    a.call(digits_take)
    a.j(C, bad)
    _end_token(a, text, end, bad)
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the text"),
        In(R8, int, "its end"),
        In(EDX, int, "the separator, a character"),
    ],
    outputs=[
        Out(CF, "1 = no word stands here, or it does not end as one"),
        Out(RDI, "the word"),
        Out(ECX, "its bytes"),
        Out(RSI, "the next token, or the end"),
    ],
    reads=[TEXT],
    source="firmware/docs/fleet.md#records",
)
def word_take(a: Asm, text: Reg64, end: Reg64, separator: Reg32) -> None:
    """Take printable characters up to the separator, and the separator behind them."""
    bad = a.label("bad")
    a.mov(RDI, text)
    with a.loop() as letters:
        a.cmp(text, end)
        a.leave(AE, letters)
        a.mov(CL, mem8(text, ref=TEXT))
        a.cmp(CL, DL)
        a.leave(E, letters)
        a.sub(CL, 0x21)
        a.cmp(CL, 0x7F - 0x21)
        a.j(AE, bad)
        a.inc(text)
        a.jmp(letters.top)
    a.mov(RCX, text)
    a.sub(RCX, RDI)
    a.j(E, bad)
    _end_token(a, text, end, bad, found=True)
    a.ret()
    a.place(bad)
    a.xor(ECX, ECX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "a text"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "another"),
        In(EDX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = they differ")],
    clobbers=[RAX, RCX],
    reads=[TEXT, CONSTANT],
    source="firmware/docs/fleet.md#records",
)
def text_differs(a: Asm, text: Reg64, size: Reg32, other: Reg64, length: Reg32) -> None:
    """Compare two texts."""
    differs = a.label("differs")
    a.cmp(size, length)
    a.j(NE, differs)
    with a.loop() as each:
        a.sub(size, 1)
        a.leave(B, each)
        a.mov(AL, mem8(text, index=RCX, ref=TEXT))
        a.cmp(AL, mem8(other, index=RCX, ref=CONSTANT))
        a.again(E, each)
        a.place(differs)
        a.stc()
        a.ret()
    a.clc()
    a.ret()


@routine(
    inputs=[In(RSI, int, "the reply subject of a delivery"), In(ECX, int, "its bytes")],
    outputs=[
        Out(CF, "1 = it is not what a delivery has"),
        Out(RAX, "stream sequence, from 1"),
        Out(R10, "consumer sequence, from 1"),
        Out(R11, "deliveries that are pending"),
    ],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9],
    calls=[text_differs, word_take, number_take],
    saves=[R12],
    source="firmware/docs/fleet.md#watch",
)
def ack_take(a: Asm, reply: Reg64, size: Reg32) -> None:
    """Read the sequences of a delivery from its reply subject."""
    bad = a.label("bad")
    a.mov(size, size)
    a.lea(R8, mem8(reply, index=RCX, ref=TEXT))
    a.sub(size, ACK.size)
    a.j(B, bad)
    a.mov(ECX, ACK.size)
    a.lea(RDI, ACK.address)
    a.mov(EDX, ECX)
    a.call(text_differs)
    a.j(C, bad)
    a.add(RSI, ACK.size)
    a.mov(EDX, DOT)
    a.call(word_take)  # the consumer's name
    a.j(C, bad)
    a.call(number_take)  # times delivered
    a.j(C, bad)
    a.call(number_take)
    a.j(C, bad)
    a.test(RAX, RAX)
    a.j(E, bad)
    a.mov(R12, RAX)
    a.call(number_take)
    a.j(C, bad)
    a.test(RAX, RAX)
    a.j(E, bad)
    a.mov(R10, RAX)
    a.call(number_take)  # the server's clock
    a.j(C, bad)
    a.call(number_take)
    a.j(C, bad)
    a.cmp(RSI, R8)
    a.j(NE, bad)
    a.mov(R11, RAX)
    a.mov(RAX, R12)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.xor(R10D, R10D)
    a.xor(R11D, R11D)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "an answer, JSON"),
        In(R8, int, "its end"),
        In(RDI, int, "a key, its quotes and its colon"),
        In(EDX, int, "its bytes, at least 1"),
    ],
    outputs=[Out(CF, "1 = it is not there"), Out(RSI, "what follows it")],
    clobbers=[RAX, RCX, R9],
    reads=[TEXT, CONSTANT],
    source="firmware/docs/fleet.md#answers",
)
def key_find(a: Asm, text: Reg64, end: Reg64, key: Reg64, length: Reg32) -> None:
    """Find a key: no string holds one, because a quote inside a string is escaped."""
    a.mov(R9, end)
    a.mov(EAX, length)
    a.sub(R9, RAX)  # the last place where it may begin
    with a.loop() as places:
        a.cmp(text, R9)
        a.leave(A, places)
        a.xor(ECX, ECX)
        with a.block() as other:
            with a.loop() as each:
                a.mov(AL, mem8(text, index=RCX, ref=TEXT))
                a.cmp(AL, mem8(key, index=RCX, ref=CONSTANT))
                a.leave(NE, other)
                a.inc(ECX)
                a.cmp(ECX, length)
                a.again(B, each)
            a.add(text, RCX)
            a.clc()
            a.ret()
        a.inc(text)
        a.jmp(places.top)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "an answer, JSON"),
        In(R8, int, "its end"),
        In(RDI, int, "a key, its quotes and its colon"),
        In(EDX, int, "its bytes, at least 1"),
    ],
    outputs=[Out(CF, "1 = it is not there, or no number"), Out(RAX, "the number")],
    clobbers=[RCX, RSI, R9],
    reads=[TEXT],
    calls=[key_find, digits_take],
    source="firmware/docs/fleet.md#answers",
)
def key_number(a: Asm, text: Reg64, end: Reg64, key: Reg64, length: Reg32) -> None:
    """Read the number behind a key; servers differ in whether a space stands between them."""
    missing = a.label("missing")
    a.call(key_find)
    a.j(C, missing)
    with a.loop() as spaces:
        a.cmp(text, end)
        a.leave(AE, spaces)
        a.cmp(mem8(text, ref=TEXT), SPACE)
        a.leave(NE, spaces)
        a.inc(text)
        a.jmp(spaces.top)
    a.jmp(digits_take)
    a.place(missing)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()
