"""The envelope parser: one step per byte by table, sixteen bytes at once inside strings.

Registers: RSI next byte, R13 end, EBP state, R14 stack, R15D depth, RBX number, EDI "no u32",
R12 parser, R8 classes, R9 rules, R10 where the running string is kept (0 = it is not), R11D bytes
of it, the first local its room,
the second where the text begins. EAX and EDX are free.
"""

from firmware.json.actions import HANDLERS
from firmware.json.grammar import CLASS_TABLE, COLUMNS, FIRST_ACTION, RULE_TABLE
from firmware.json.places import P, Places
from firmware.json.skip import PATTERNS, skip_blocks
from firmware.json.strings import (
    DOCUMENT_FIELDS,
    DOCUMENT_NAMES,
    ESCAPES,
    KEPT_TEXT,
    NAMES,
    choose_key,
    choose_value,
    keep,
)
from firmware.layouts.json import (
    DUPLICATE_KEY,
    JSON_HEAD_BYTES,
    SYNTAX,
    TEXT_IN,
    TOO_DEEP,
    JsonBody,
    JsonParser,
    JsonState,
)
from toolchain.asm import (
    AE,
    AL,
    EAX,
    EBP,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R8,
    R9,
    R10,
    R11,
    R11D,
    R12,
    R13,
    R14,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    XMM0,
    XMM1,
    XMM2,
    XMM3,
    XMM4,
    XMM5,
    XMM6,
    XMM7,
    XMM8,
    XMM9,
    XMM10,
    XMM11,
    Asm,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Region,
    mem8,
    mem128,
    routine,
)
from toolchain.layout.data import constant

SPECIAL = constant(
    "json_special",
    b'"' * 16 + b"\\" * 16 + b"\x1f" * 16,
    "what ends the fast way through a string: quotes, backslashes, and bytes up to 0x1F",
    align=16,
)


HEAD = Region("the parser's head", "the first JSON_HEAD_BYTES of JsonParser")


@routine(
    inputs=[In(RDI, JsonParser, "the parser")],
    clobbers=[XMM0],
    writes=[HEAD],
    source="firmware/docs/json.md",
)
def json_reset(a: Asm, parser: JsonParser) -> None:
    """Forget the last message; kept texts stay as bytes without a length."""
    a.pxor(XMM0, XMM0)
    for at in range(0, JSON_HEAD_BYTES, 16):  # unrolled: for 128 bytes REP takes longer to begin
        a.movdqu(mem128(RDI, at, ref=HEAD), XMM0)
    a.ret()


@routine(
    inputs=[
        In(RDI, JsonParser, "the parser"),
        In(RSI, int, "the next part of the text"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(EAX, "why the text is refused; 0 = fine so far")],
    clobbers=[
        RCX, RDX, RSI, RDI, R8, R9, R10, R11, XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, XMM6, XMM7,
        XMM8, XMM9, XMM10, XMM11,
    ],
    reads=[TEXT_IN, CLASS_TABLE, RULE_TABLE, NAMES, SPECIAL, ESCAPES, PATTERNS,
        JsonParser, DOCUMENT_NAMES, DOCUMENT_FIELDS,
    ],
    writes=[JsonParser, KEPT_TEXT],
    saves=[RBX, RBP, R12, R13, R14, R15],
    stack=16,
    source="RFC 8259; firmware/docs/json.md",
)  # fmt: skip
def json_feed(a: Asm, parser: JsonParser, text: Reg64, length: Reg32) -> None:
    """Take a part of a message, cut anywhere."""
    step, done, fail = a.label("step"), a.label("done"), a.label("fail")
    loop, string, skip = map(a.label, ("loop", "string", "skip"))
    a.mov(R12, RDI)
    a.mov(EAX, P.error)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.ret()
    a.mov(ECX, ECX)
    a.lea(R13, mem8(text, index=RCX, ref=TEXT_IN))
    a.mov(a.local(8, 8), text)
    a.mov(EBP, P.state)
    a.mov(R14, P.stack)
    a.mov(R15D, P.depth)
    a.mov(RBX, P.number)
    a.mov(EDI, P.number_other)
    a.lea(R8, CLASS_TABLE.address)
    a.lea(R9, RULE_TABLE.address)
    a.lea(RAX, SPECIAL.address)
    for n, register in enumerate((XMM3, XMM4, XMM5)):  # unrolled: three patterns
        a.movdqu(register, mem128(RAX, 16 * n, ref=SPECIAL))
    a.cmp(P.is_key, 0)
    with a.if_(NE):
        choose_key(a)
    with a.else_():
        choose_value(a)
    a.mov(R11D, P.count)

    a.place(loop)
    a.cmp(RSI, R13)
    a.jae(done)
    a.lea(EAX, mem8(RBP, -JsonState.STRING, ref=TEXT_IN))
    a.cmp(EAX, JsonState.SKIP - JsonState.STRING)
    a.je(skip)
    a.jb(string)
    a.place(step)
    a.movzx(EAX, mem8(RSI, ref=TEXT_IN))
    a.movzx(EDX, mem8(R8, index=RAX, ref=CLASS_TABLE))
    a.mov(ECX, EBP)
    a.shl(ECX, COLUMNS.bit_length() - 1)
    a.add(ECX, EDX)
    a.movzx(EDX, mem8(R9, index=RCX, ref=RULE_TABLE))
    a.inc(RSI)
    with a.block() as action:
        a.cmp(EDX, FIRST_ACTION)
        a.leave(AE, action)
        a.mov(EBP, EDX)
        a.jmp(loop)

    # EAX = the byte, EDX = the action; the frequent ones first.
    labels = [a.label(code.name.lower()) for code, _ in HANDLERS]
    for (code, _), label in zip(HANDLERS, labels, strict=True):  # unrolled: one test each
        a.cmp(EDX, code)
        a.je(label)
    places = Places(a, loop)
    a.place(places.syntax)
    a.lea(EAX, mem8(RBP, SYNTAX.code, ref=TEXT_IN))
    a.jmp(fail)
    a.place(places.deep)
    a.mov(EAX, TOO_DEEP.code)
    a.jmp(fail)
    a.place(places.twice)
    a.lea(EAX, mem8(RDX, DUPLICATE_KEY.code, ref=TEXT_IN))
    a.place(fail)
    a.mov(P.error, EAX)
    a.ret()

    for (_, emit), label in zip(HANDLERS, labels, strict=True):
        a.place(label)
        emit(a, places)

    a.place(string)
    a.cmp(P.body, JsonBody.SKIPPED)
    with a.if_(NE):
        _inside_string(a, step, loop, done)
    a.place(skip)
    skip_blocks(a, step, done, places)

    a.place(done)
    a.mov(P.state, EBP)
    a.mov(P.stack, R14)
    a.mov(P.depth, R15D)
    a.mov(P.number, RBX)
    a.mov(P.number_other, EDI)
    a.mov(P.count, R11D)
    a.xor(EAX, EAX)
    a.ret()


def _inside_string(a: Asm, step: Label, loop: Label, done: Label) -> None:
    """Run to the next byte that means something in a string; keep what is wanted."""
    kept, short = a.label("kept"), a.label("short")
    a.test(R10, R10)
    a.jnz(kept)
    with a.loop() as skip:
        a.mov(RAX, R13)
        a.sub(RAX, RSI)
        a.cmp(RAX, 16)
        a.jb(short)
        a.movdqu(XMM0, mem128(RSI, ref=TEXT_IN))
        a.movdqa(XMM1, XMM0)
        a.movdqa(XMM2, XMM0)
        a.pminub(XMM0, XMM5)
        a.pcmpeqb(XMM0, XMM2)  # bytes up to 0x1F stay as they are under the minimum
        a.pcmpeqb(XMM1, XMM3)
        a.pcmpeqb(XMM2, XMM4)
        a.por(XMM0, XMM1)
        a.por(XMM0, XMM2)
        a.pmovmskb(EAX, XMM0)
        a.test(EAX, EAX)
        a.leave(NZ, skip)
        a.add(RSI, 16)
        a.jmp(skip.top)
    a.bsf(EAX, EAX)
    a.add(RSI, RAX)
    a.jmp(step)
    # The part may end right behind sixteen bytes that were skipped.
    a.place(short)
    a.test(RAX, RAX)
    a.jz(done)
    a.jmp(step)
    a.place(kept)
    a.mov(AL, mem8(RSI, ref=TEXT_IN))
    a.cmp(AL, 0x20)
    a.jb(step)
    a.cmp(AL, ord('"'))
    a.je(step)
    a.cmp(AL, ord("\\"))
    a.je(step)
    a.inc(RSI)
    keep(a)
    a.jmp(loop)
