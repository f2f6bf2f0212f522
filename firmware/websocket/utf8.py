"""UTF-8 over a stream (RFC 3629 section 4): a table of states, and a fast way through ASCII."""

from firmware.layouts.websocket import FRAME_IN
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R9,
    RAX,
    RCX,
    RDX,
    RSI,
    XMM0,
    XMM1,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem128,
    routine,
)
from toolchain.layout.data import constant

# Byte classes by first and last byte. A class is a column of the table.
CLASSES = (
    (0x00, 0x7F), (0x80, 0x8F), (0x90, 0x9F), (0xA0, 0xBF), (0xC2, 0xDF), (0xE0, 0xE0),
    (0xE1, 0xEC), (0xED, 0xED), (0xEE, 0xEF), (0xF0, 0xF0), (0xF1, 0xF3), (0xF4, 0xF4),
)  # fmt: skip
COLUMNS = len(CLASSES) + 1
INVALID = len(CLASSES)
_TAIL = (1, 2, 3)
# Rows: state to {class: next state}; what is not listed is REJECT.
ACCEPT, REJECT, ONE, TWO, THREE, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(9)
RULES: dict[int, dict[int, int]] = {
    ACCEPT: {0: ACCEPT, 4: ONE, 5: AFTER_E0, 6: TWO, 7: AFTER_ED, 8: TWO,
             9: AFTER_F0, 10: THREE, 11: AFTER_F4},
    REJECT: {},
    ONE: dict.fromkeys(_TAIL, ACCEPT),
    TWO: dict.fromkeys(_TAIL, ONE),
    THREE: dict.fromkeys(_TAIL, TWO),
    AFTER_E0: {3: ONE},
    AFTER_ED: {1: ONE, 2: ONE},
    AFTER_F0: {2: TWO, 3: TWO},
    AFTER_F4: {1: TWO},
}  # fmt: skip
BLOCK, LANE = 64, 16
UTF8_ACCEPT = ACCEPT * COLUMNS
UTF8_REJECT = REJECT * COLUMNS


def _class_of(byte: int) -> int:
    for n, (first, last) in enumerate(CLASSES):
        if first <= byte <= last:
            return n
    return INVALID


CLASS_TABLE = constant("utf8_classes", bytes(map(_class_of, range(256))), "class of each byte")
STATE_TABLE = constant(
    "utf8_states",
    bytes(RULES[s].get(c, REJECT) * COLUMNS for s in RULES for c in range(COLUMNS)),
    "next state by state (a multiple of the row length) plus class",
)


@routine(
    inputs=[
        In(RSI, int, "the bytes"),
        In(ECX, int, "how many"),
        In(EAX, int, "state: UTF8_ACCEPT at the start of a text"),
    ],
    outputs=[Out(EAX, "state: UTF8_ACCEPT between characters, UTF8_REJECT for ever after a fault")],
    clobbers=[RCX, RDX, RSI, R8, R9, XMM0, XMM1],
    reads=[FRAME_IN, CLASS_TABLE, STATE_TABLE],
    source="RFC 3629 section 4",
)
def utf8_check(a: Asm, text: Reg64, length: Reg32, state: Reg32) -> None:
    """Carry the check of a text over some more bytes of it."""
    classes, states = R8, R9
    blocks, ascii_run, step, done = map(a.label, ("blocks", "ascii_run", "step", "done"))
    a.lea(classes, CLASS_TABLE.address)
    a.lea(states, STATE_TABLE.address)
    a.test(state, state)
    a.jnz(step)
    a.place(blocks)
    with a.loop() as ascii_blocks:
        a.cmp(length, BLOCK)
        a.leave(B, ascii_blocks)
        a.movdqu(XMM0, mem128(text, ref=FRAME_IN))
        for at in range(LANE, BLOCK, LANE):  # unrolled: a top bit in any lane
            a.movdqu(XMM1, mem128(text, at, ref=FRAME_IN))
            a.por(XMM0, XMM1)
        a.pmovmskb(EDX, XMM0)
        a.test(EDX, EDX)
        a.leave(NZ, ascii_blocks)
        a.add(text, BLOCK)
        a.sub(length, BLOCK)
        a.jmp(ascii_blocks.top)
    a.place(ascii_run)
    a.cmp(length, LANE)
    a.jb(step)
    a.movdqu(XMM0, mem128(text, ref=FRAME_IN))
    a.pmovmskb(EDX, XMM0)
    with a.block() as other:
        a.test(EDX, EDX)
        a.leave(NZ, other)
        a.add(text, LANE)
        a.sub(length, LANE)
        a.jmp(blocks)
    # Skip the ASCII bytes before the first other one.
    a.bsf(EDX, EDX)
    a.add(text, RDX)
    a.sub(length, EDX)
    a.place(step)
    a.sub(length, 1)
    a.jb(done)
    a.movzx(EDX, mem8(text, ref=FRAME_IN))
    a.inc(text)
    a.movzx(EDX, mem8(classes, index=RDX, ref=CLASS_TABLE))
    a.add(state, EDX)
    a.movzx(state, mem8(states, index=RAX, ref=STATE_TABLE))
    a.test(state, state)
    a.jnz(step)
    a.jmp(ascii_run)
    a.place(done)
    a.ret()
