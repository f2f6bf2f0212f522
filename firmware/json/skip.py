"""The way over a body of which nothing is kept: sixty-four bytes at once, strings and brackets only.

What is judged there: strings (control characters, escapes, their end), and brackets (kind, balance,
depth). Everything else between two strings is skipped unread; firmware/docs/json.md lists what passes.
The masks below have one bit a byte, the first byte lowest.
"""

from firmware.json.grammar import CLASS_TABLE, RULE_TABLE
from firmware.json.places import P, Places
from firmware.layouts.json import (
    EVENTS_WITH_DATA,
    TEXT_IN,
    JsonBody,
    JsonField,
    JsonKind,
    JsonState,
)
from firmware.limits import JSON_DEPTH_MAX
from toolchain.asm import (
    AL,
    BE,
    CL,
    EAX,
    EBP,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R11D,
    R13,
    R14,
    R14D,
    R15D,
    RAX,
    RBP,
    RCX,
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
    E,
    Label,
    Region,
    Z,
    mem8,
    mem128,
)
from toolchain.layout.data import constant

BLOCK, LANE = 64, 16
NUMBERS = Region("nothing", "LEA only computes")
# '{' and '[' are 0x7B once bit 5 is set, '}' and ']' 0x7D. In a bracket bit 2 tells the ends from the
# starts, bit 5 objects from arrays.
BIT_OBJECT, BIT_END = 5, 2
PATTERNS = constant(
    "json_skip_patterns",
    b"".join(bytes([b]) * LANE for b in (1 << BIT_OBJECT, ord("{"), 0xFF & ~(ord("}") - ord("{")))),
    "how brackets are found: set bit 5, take 0x7B away, clear bit 1; nothing is left",
    align=16,
)
QUOTE, BACKSLASH, CONTROL = XMM3, XMM4, XMM5
"""As `json_feed` loads them."""
SET, TAKE, CLEAR, ZERO = XMM6, XMM7, XMM8, XMM9
LOWEST, ESCAPES = XMM10, XMM11
"""Over a block: the lowest byte of each column, and where a backslash is."""


def begin_skip(a: Asm, places: Places) -> None:
    """Skip the `d` that begins when it belongs to a dispatch of which nothing is kept.

    A discovery document keeps no string in the place of `t`, so its nested object is read.
    """
    read = a.label("read")
    with a.block() as kept:
        a.cmp(P.strict, 0)
        a.leave(NE, kept)
        a.cmp(P.kinds.m8(JsonField.OP), JsonKind.INTEGER)
        a.leave(NE, kept)
        a.cmp(P.values.m32(4 * JsonField.OP), 0)
        a.leave(NE, kept)
        a.cmp(P.kinds.m8(JsonField.T), JsonKind.STRING)
        a.leave(NE, kept)
        for name in EVENTS_WITH_DATA:  # unrolled: one test each, by doublewords that may overlap
            with a.block() as other:
                a.cmp(P.values.m32(4 * JsonField.T), len(name))
                a.leave(NE, other)
                starts = sorted({*range(0, len(name) - 3, 4), len(name) - 4})
                for at in starts:
                    a.cmp(P.t.m32(at), int.from_bytes(name[at : at + 4], "little"))
                    a.leave(NE, other)
                a.jmp(read)
        a.mov(P.body, JsonBody.SKIPPED)
        a.mov(P.field, JsonField.NONE)
        a.mov(P.is_key, 0)
        a.mov(EBP, JsonState.SKIP)
        a.jmp(places.loop)
    a.place(read)


def open_skipped(a: Asm, places: Places) -> None:
    """Take the bracket EAX that opens."""
    _push(a, places.deep)
    a.jmp(places.loop)


def close_skipped(a: Asm, places: Places) -> None:
    """Take the bracket EAX that closes."""
    _pop(a, places.syntax)
    with a.if_(E):
        a.mov(P.body, JsonBody.OTHER)
        a.mov(EBP, JsonState.AFTER)
    a.jmp(places.loop)


def _push(a: Asm, deep: Label) -> None:
    """Open by the bracket EAX."""
    a.cmp(R15D, JSON_DEPTH_MAX)
    a.jae(deep)
    a.shr(EAX, BIT_OBJECT)
    a.and_(EAX, 1)
    a.lea(R14, mem8(RAX, index=R14, scale=2, ref=NUMBERS))
    a.inc(R15D)


def _pop(a: Asm, mismatch: Label) -> None:
    """Close by the bracket EAX; ZF = that was the body's own."""
    a.shr(EAX, BIT_OBJECT)
    a.xor(EAX, R14D)
    a.test(AL, 1)
    a.jnz(mismatch)
    a.shr(R14, 1)
    a.dec(R15D)
    a.cmp(R15D, 1)


def skip_blocks(a: Asm, step: Label, done: Label, places: Places) -> None:
    """Run over the body: EBP is SKIP or STRING, `a.local(8, 8)` where the text begins.

    RDX quotes, then what is inside strings; R8 brackets; R10 bytes of this block; R11 ones when a
    string runs; RBP 1 = the block was cut before a byte for the table.
    """
    block, lanes, judged, special, short, mismatch, ended = map(
        a.label, ("block", "lanes", "judged", "special", "short", "mismatch", "ended")
    )
    a.cmp(mem8(RSI, ref=TEXT_IN), ord("\\"))
    a.je(step)
    a.lea(RAX, PATTERNS.address)
    for n, register in enumerate((SET, TAKE, CLEAR)):  # unrolled: three patterns
        a.movdqu(register, mem128(RAX, LANE * n, ref=PATTERNS))
    a.pxor(ZERO, ZERO)
    a.lea(R11D, mem8(RBP, -JsonState.SKIP, ref=NUMBERS))
    a.movsxd(R11, R11D)

    a.place(block)
    a.mov(R10, R13)
    a.sub(R10, RSI)
    with a.if_(Z):
        a.lea(EBP, mem8(R11, JsonState.SKIP, ref=NUMBERS))
        a.xor(R11D, R11D)
        a.jmp(done)
    a.mov(RAX, RSI)
    a.mov(ECX, BLOCK)
    a.sub(RCX, R10)
    with a.block() as whole:
        a.leave(BE, whole)
        # The last bytes are seen in the block that ends with them; what was read is shifted out.
        a.sub(RAX, RCX)
        a.cmp(RAX, a.local(8, 8))
        a.jb(short)
        a.jmp(lanes)
    a.mov(R10D, BLOCK)
    a.xor(ECX, ECX)
    a.place(lanes)
    _masks(a)
    a.shr(RDX, CL)
    a.shr(R8, CL)
    a.xor(EBP, EBP)
    a.movdqa(XMM0, LOWEST)
    a.pminub(LOWEST, CONTROL)
    a.pcmpeqb(LOWEST, XMM0)
    a.por(LOWEST, ESCAPES)
    a.pmovmskb(R9D, LOWEST)
    a.test(R9D, R9D)
    a.jnz(special)

    a.place(judged)
    _inside(a)
    a.mov(R11, RDX)
    a.sar(R11, BLOCK - 1)
    a.not_(RDX)
    a.and_(R8, RDX)
    _brackets(a, mismatch, ended, places)
    a.add(RSI, R10)
    a.test(EBP, EBP)
    a.jz(block)
    a.place(short)
    a.lea(EBP, mem8(R11, JsonState.SKIP, ref=NUMBERS))
    _table_again(a)
    a.jmp(step)

    a.place(special)
    _cut(a)
    a.jmp(judged)
    a.place(mismatch)
    a.mov(EBP, JsonState.SKIP)
    a.jmp(places.syntax)
    a.place(ended)
    a.lea(RSI, mem8(RSI, 1, index=RCX, ref=TEXT_IN))
    a.mov(P.body, JsonBody.OTHER)
    _table_again(a)
    a.mov(EBP, JsonState.AFTER)
    a.jmp(places.loop)


def _table_again(a: Asm) -> None:
    """Set the registers of `json_feed` as they are between two bytes."""
    a.lea(R8, CLASS_TABLE.address)
    a.lea(R9, RULE_TABLE.address)
    a.xor(R10D, R10D)
    a.xor(R11D, R11D)


def _masks(a: Asm) -> None:
    """RDX := quotes of the block at RAX, R8 := its brackets; LOWEST and ESCAPES for the rest."""
    for lane in reversed(range(BLOCK // LANE)):  # unrolled: the last lane first, it lies highest
        first = lane == BLOCK // LANE - 1
        quotes, brackets = (EDX, R8D) if first else (R9D, EBP)
        a.movdqu(XMM0, mem128(RAX, lane * LANE, ref=TEXT_IN))
        a.movdqa(XMM1, XMM0)
        a.movdqa(XMM2, XMM0)
        a.pcmpeqb(XMM1, BACKSLASH)
        if first:
            a.movdqa(LOWEST, XMM0)
            a.movdqa(ESCAPES, XMM1)
        else:
            a.pminub(LOWEST, XMM0)
            a.por(ESCAPES, XMM1)
        a.pcmpeqb(XMM2, QUOTE)
        a.pmovmskb(quotes, XMM2)
        a.por(XMM0, SET)
        a.psubb(XMM0, TAKE)
        a.pand(XMM0, CLEAR)
        a.pcmpeqb(XMM0, ZERO)
        a.pmovmskb(brackets, XMM0)
        if not first:
            a.shl(RDX, LANE)
            a.or_(RDX, R9)
            a.shl(R8, LANE)
            a.or_(R8, RBP)


def _inside(a: Asm) -> None:
    """RDX := bytes from each opening quote up to the closing one, by what R11 says of before."""
    for n in (1, 2, 4, 8, 16, 32):  # unrolled: each bit becomes the parity of all up to it
        a.mov(R9, RDX)
        a.shl(R9, n)
        a.xor(RDX, R9)
    a.xor(RDX, R11)


def _brackets(a: Asm, mismatch: Label, ended: Label, places: Places) -> None:
    """Open and close what R8 says, in order."""
    closing, again, next_ = map(a.label, ("closing", "again", "next"))
    a.test(R8, R8)
    a.jz(next_)
    a.place(again)
    a.bsf(RCX, R8)
    a.lea(RAX, mem8(R8, -1, ref=NUMBERS))
    a.and_(R8, RAX)
    a.movzx(EAX, mem8(RSI, index=RCX, ref=TEXT_IN))
    a.test(AL, 1 << BIT_END)
    a.jnz(closing)
    _push(a, places.deep)
    a.test(R8, R8)
    a.jnz(again)
    a.jmp(next_)
    a.place(closing)
    _pop(a, mismatch)
    a.je(ended)
    a.test(R8, R8)
    a.jnz(again)
    a.place(next_)


def _cut(a: Asm) -> None:
    """End the block before its first byte for the table: a backslash, or one below 0x20.

    R9 finds it; what is before RSI counts no more.
    """
    for lane in reversed(range(BLOCK // LANE)):  # unrolled: the last lane first, it lies highest
        first = lane == BLOCK // LANE - 1
        a.movdqu(XMM0, mem128(RAX, lane * LANE, ref=TEXT_IN))
        a.movdqa(XMM1, XMM0)
        a.movdqa(XMM2, XMM0)
        a.pminub(XMM0, CONTROL)
        a.pcmpeqb(XMM0, XMM1)
        a.pcmpeqb(XMM2, BACKSLASH)
        a.por(XMM0, XMM2)
        if first:
            a.pmovmskb(R9D, XMM0)
        else:
            a.pmovmskb(EBP, XMM0)
            a.shl(R9, LANE)
            a.or_(R9, RBP)
    a.xor(EBP, EBP)
    a.shr(R9, CL)
    with a.block() as none:
        a.test(R9, R9)  # a shift by nothing leaves the flags
        a.leave(Z, none)
        a.bsf(R10, R9)
        a.lea(RBP, mem8(R9, -1, ref=NUMBERS))
        a.not_(R9)
        a.and_(R9, RBP)
        a.and_(RDX, R9)
        a.and_(R8, R9)
        a.mov(EBP, 1)
