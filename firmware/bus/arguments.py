"""What the line before a message and its header say: words, sizes, a status, the request that it answers."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.bus import (
    BUS,
    BUS_IN,
    BUS_LINE,
    SKIPPED_MAX,
    TOKENS_MAX,
    BusMessage,
    Token,
    Verb,
)
from firmware.layouts.bus_sites import ARGUMENTS, MESSAGE_TOO_LONG
from firmware.text import CRLF_TWICE, SP, take_decimal, take_token
from toolchain.asm import (
    AE,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
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
    mem8,
    mem32,
    mem64,
    routine,
)

CR, DOT = ord("\r"), ord(".")
NATS_1_0 = int.from_bytes(b"NATS/1.0", "little")
HEADER_LEAST = len(b"NATS/1.0\r\n\r\n")
LEAST_WORDS = 3
"""Of MSG: subject, subscription, bytes."""
STATUS_AT, STATUS_DIGITS = len(b"NATS/1.0 "), 3


@routine(
    inputs=[In(RSI, int, "the arguments of a line"), In(RDX, int, "their end")],
    outputs=[Out(EAX, "words; in `Bus.tokens`"), Out(CF, "1 = more than TOKENS_MAX")],
    clobbers=[RCX, RDI, RSI, R8],
    writes=[Token],
    calls=[take_token],
    source="firmware/docs/bus.md#tolerance",
)
def bus_tokens(a: Asm, at: Reg64, end: Reg64) -> None:
    """Split the arguments of a line."""
    many, row = a.label("many"), Token.at(RDI)
    a.lea(RDI, BUS.it.tokens.address)
    a.xor(R8D, R8D)
    with a.loop() as words:
        a.call(take_token)
        a.test(ECX, ECX)
        a.leave(E, words)
        a.cmp(R8D, TOKENS_MAX)
        a.j(AE, many)
        a.mov(row.text, at)
        a.mov(row.length, ECX)
        a.add(RDI, Token.SIZE)
        a.inc(R8D)
        a.add(at, RCX)
        a.jmp(words.top)
    a.mov(EAX, R8D)
    a.clc()
    a.ret()
    a.place(many)
    a.mov(EAX, R8D)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RSI, int, "subject of an inbox"), In(ECX, int, "its bytes, at least 1")],
    outputs=[Out(EAX, "number of the request that it answers; 0 = it has none")],
    clobbers=CALLER_SAVED,
    reads=[BUS_LINE],
    calls=[take_decimal],
    source="firmware/docs/bus.md#requests",
)
def bus_inbox_number(a: Asm, subject: Reg64, length: Reg32) -> None:
    """Read the last token of an inbox as a number."""
    none, dot = a.label("none"), a.label("dot")
    a.mov(EAX, length)
    with a.loop() as back:
        a.cmp(mem8(subject, -1, index=RAX, ref=BUS_LINE), DOT)
        a.j(E, dot)
        a.dec(EAX)
        a.again(NE, back)
    a.place(dot)
    a.add(subject, RAX)
    a.sub(length, EAX)
    a.call(take_decimal)
    a.j(C, none)
    a.mov(RCX, RAX)
    a.shr(RCX, 32)
    a.j(NE, none)
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "a header block"),
        In(ECX, int, "its bytes, all of them readable"),
    ],
    outputs=[Out(EAX, "status of its first line; 0 = none"), Out(CF, "1 = no header block")],
    clobbers=[RCX, RDX],
    reads=[BUS_LINE],
    source="NATS ADR-4",
)
def bus_header(a: Asm, header: Reg64, length: Reg32) -> None:
    """Judge the frame of a header block: its first line and its end."""
    bad, good = a.label("bad"), a.label("good")
    digit = EDX
    a.xor(EAX, EAX)
    a.cmp(length, HEADER_LEAST)
    a.j(B, bad)
    a.mov(RDX, NATS_1_0)
    a.cmp(RDX, mem64(header, ref=BUS_LINE))
    a.j(NE, bad)
    a.mov(ECX, length)
    a.cmp(mem32(header, -4, index=RCX, ref=BUS_LINE), CRLF_TWICE)
    a.j(NE, bad)
    a.cmp(mem8(header, STATUS_AT - 1, ref=BUS_LINE), CR)
    a.j(E, good)
    a.cmp(mem8(header, STATUS_AT - 1, ref=BUS_LINE), SP)
    a.j(NE, bad)
    a.sub(length, STATUS_AT + STATUS_DIGITS + 4)
    a.j(B, bad)
    for n in range(STATUS_DIGITS):  # unrolled: three digits
        a.movzx(digit, mem8(header, STATUS_AT + n, ref=BUS_LINE))
        a.sub(digit, ord("0"))
        a.cmp(digit, 9)
        a.j(A, bad)
        a.imul(EAX, EAX, 10)
        a.add(EAX, digit)
    a.place(good)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


def _number(a: Asm, token: Token, wrong: Label) -> None:
    """RAX := the number that a token is."""
    a.mov(RSI, token.text)
    a.mov(ECX, token.length)
    a.call(take_decimal)
    a.j(C, wrong)


@routine(
    inputs=[
        In(RSI, int, "the arguments of MSG or HMSG"),
        In(RDX, int, "their end"),
        In(EAX, int, "Verb: MSG or HMSG"),
    ],
    outputs=[Out(EAX, "an error; 0 = they are in BUS_IN")],
    clobbers=CALLER_SAVED,
    reads=[Token, BusMessage.body_len],
    writes=[
        BusMessage.subject, BusMessage.subject_len, BusMessage.reply, BusMessage.reply_len,
        BusMessage.sid, BusMessage.header_len, BusMessage.body_len,
    ],
    calls=[bus_tokens, take_decimal],
    saves=[R12, R13, R14],
    source="NATS client protocol, MSG and HMSG",
)  # fmt: skip
def bus_arguments(a: Asm, at: Reg64, end: Reg64, verb: Reg32) -> None:
    """Read what a message's line says: subject, subscription, perhaps a reply, sizes."""
    got, first = BUS_IN.it, [Token.at(R14, n * Token.SIZE) for n in range(3)]
    wrong, long_, back = a.label("wrong"), a.label("long"), a.label("back")
    # HMSG has one word more.
    a.mov(R12D, verb)
    a.sub(R12D, Verb.MSG)
    a.call(bus_tokens)
    a.j(C, wrong)
    a.lea(R14, BUS.it.tokens.address)
    a.mov(R13D, EAX)
    a.sub(EAX, LEAST_WORDS)
    a.sub(EAX, R12D)
    a.cmp(EAX, 1)
    a.j(A, wrong)
    a.mov(ECX, 0)
    a.mov(RDX, first[2].text)
    with a.if_(E):
        a.mov(ECX, first[2].length)
    a.mov(got.reply, RDX)
    a.mov(got.reply_len, ECX)
    a.mov(RDX, first[0].text)
    a.mov(got.subject, RDX)
    a.mov(ECX, first[0].length)
    a.mov(got.subject_len, ECX)
    _number(a, first[1], wrong)
    a.mov(got.sid, EAX)
    a.shr(RAX, 32)
    a.j(NE, wrong)

    # The bytes of all are the last word, those of the headers the one before.
    a.shl(R13D, 4)
    a.add(R13, R14)
    _number(a, Token.at(R13, -Token.SIZE), wrong)
    a.cmp(RAX, SKIPPED_MAX)
    a.j(A, long_)
    a.mov(got.body_len, EAX)
    a.xor(EAX, EAX)
    a.test(R12D, R12D)
    with a.if_(NE):
        _number(a, Token.at(R13, -2 * Token.SIZE), wrong)
        a.mov(ECX, got.body_len)
        a.cmp(RAX, RCX)
        a.j(A, wrong)
    a.mov(got.header_len, EAX)
    a.sub(got.body_len, EAX)
    a.xor(EAX, EAX)
    a.ret()
    a.place(long_)
    a.mov(EAX, MESSAGE_TOO_LONG.code)
    a.jmp(back)
    a.place(wrong)
    a.mov(EAX, ARGUMENTS.code)
    a.place(back)
    a.ret()
