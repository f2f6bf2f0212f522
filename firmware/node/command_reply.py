"""Answers to commands over the bus: where one may go, and what it says."""

from firmware.abi import CALLER_SAVED
from firmware.bus.send import bus_close, bus_open
from firmware.layouts.bus import BUS_IN, BUS_LINE, BusLink, BusMessage
from firmware.layouts.commands import (
    ANSWER_RESERVE,
    ANSWERS_BYTES,
    COMMAND_LINE_MAX,
    COMMANDS,
    ERRORS,
    REPLY_PREFIXES,
    Commands,
)
from firmware.layouts.send import SendResult
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_IN, TEXT_OUT
from firmware.text import put, put_byte, put_crlf, put_decimal
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Region,
    Z,
    mem8,
    mem16,
    mem32,
    routine,
)
from toolchain.layout.data import constant

PUB = constant("command_pub", b"PUB ", "an answer")
DONE = constant("command_done", b'{"ok":true}', "it was done")
REFUSALS = {
    result: constant(
        f"command_{name}", b'{"ok":false,"err":"%b"}' % name.encode(), f"refused: {name}"
    )
    for result, name in ERRORS.items()
    if result is not SendResult.RATE_LIMITED
}
LIMITED = constant(
    "command_limited", b'{"ok":false,"err":"rate_limited","retry_after_ms":', "refused for now"
)
COMPUTED = Region("nothing", "LEA only computes")
LENGTH_BYTES = 4
"""Before each answer that waits."""


@routine(
    inputs=[
        In(EDX, int, "SendResult"),
        In(ECX, int, "milliseconds to wait when RATE_LIMITED"),
    ],
    clobbers=CALLER_SAVED,
    reads=[BusMessage.reply, BusMessage.reply_len, Commands.answers_end, TEXT_IN],
    writes=[Commands.answers_end, Commands.answers, TEXT_OUT],
    calls=[put_decimal],
    saves=[R12, R13, R14],
    source="firmware/docs/fleet.md#commands",
)
def command_answer(a: Asm, result: Reg32, wait: Reg32) -> None:
    """Lay an answer down to the message in hand; who asked for none, or when too many wait, hears nothing."""
    out, written = a.label("out"), a.label("written")
    a.mov(R12D, result)
    a.mov(R13D, wait)
    a.cmp(BUS_IN.it.reply_len, 0)
    a.je(out)
    a.mov(EAX, BUS_IN.it.reply_len)
    a.mov(ECX, COMMANDS.it.answers_end)
    a.lea(EDX, mem8(RCX, 2 * COMMAND_LINE_MAX, index=RAX, ref=COMPUTED))
    a.cmp(EDX, ANSWERS_BYTES)
    a.j(A, out)
    # The text first, further on: the line tells its length.
    a.lea(R14, COMMANDS.it.answers.address)
    a.lea(R14, mem8(R14, LENGTH_BYTES, index=RCX, ref=COMPUTED))
    a.lea(RDI, mem8(R14, COMMAND_LINE_MAX, index=RAX, ref=TEXT_OUT))
    for code, text in REFUSALS.items():  # unrolled: four texts
        a.cmp(R12D, code)
        with a.if_(E):
            put(a, text)
            a.jmp(written)
    a.cmp(R12D, SendResult.RATE_LIMITED)
    with a.if_(E):
        put(a, LIMITED)
        a.mov(EAX, R13D)
        a.call(put_decimal)
        put_byte(a, "}")
    with a.else_():
        put(a, DONE)
    a.place(written)
    a.mov(EAX, BUS_IN.it.reply_len)
    a.lea(RCX, mem8(R14, COMMAND_LINE_MAX, index=RAX, ref=TEXT_OUT))
    a.sub(RDI, RCX)
    a.mov(R12D, EDI)
    a.mov(R13, RCX)

    a.mov(RDI, R14)
    put(a, PUB)
    a.mov(RSI, BUS_IN.it.reply)
    a.mov(ECX, BUS_IN.it.reply_len)
    a.rep_movsb()
    put_byte(a, " ")
    a.mov(EAX, R12D)
    a.call(put_decimal)
    put_crlf(a)
    a.mov(RSI, R13)
    a.mov(ECX, R12D)
    a.rep_movsb()
    put_crlf(a)
    a.sub(RDI, R14)
    a.mov(mem32(R14, -LENGTH_BYTES, ref=TEXT_OUT), EDI)
    a.add(EDI, LENGTH_BYTES)
    a.add(COMMANDS.it.answers_end, EDI)
    a.place(out)
    a.ret()


@routine(
    inputs=[
        In(RBP, BusLink, "the link DATA, UP, with nothing half said"),
        In(RBX, ShardContext, "its workspace"),
    ],
    outputs=[Out(CF, "1 = some still wait for room")],
    clobbers=CALLER_SAVED,
    reads=[Commands.answers, Commands.answers_end, TEXT_IN],
    writes=[Commands.answers, Commands.answers_end, TEXT_OUT],
    calls=[bus_open, bus_close],
    saves=[R12, R13, R14],
    source="firmware/docs/fleet.md#commands",
)
def answers_send(a: Asm, link: BusLink, workspace: ShardContext) -> None:
    """Send the answers that wait, oldest first, as far as there is room; the rest moves to the front."""
    full, sent = a.label("full"), R14
    a.xor(R14D, R14D)
    with a.loop() as answers:
        a.cmp(R14D, COMMANDS.it.answers_end)
        a.leave(E, answers)
        a.lea(R13, COMMANDS.it.answers.address)
        a.add(R13, sent)
        a.mov(R12D, mem32(R13, ref=TEXT_IN))
        a.lea(ECX, mem8(R12, ANSWER_RESERVE, ref=COMPUTED))
        a.call(bus_open)
        a.j(C, full)
        a.lea(RSI, mem8(R13, LENGTH_BYTES, ref=TEXT_IN))
        a.mov(ECX, R12D)
        a.rep_movsb()
        a.call(bus_close)
        a.lea(sent, mem8(R12, LENGTH_BYTES, index=sent, ref=COMPUTED))
        a.jmp(answers.top)
    a.mov(COMMANDS.it.answers_end, 0)
    a.clc()
    a.ret()
    a.place(full)
    a.sub(COMMANDS.it.answers_end, R14D)
    a.mov(ECX, COMMANDS.it.answers_end)
    a.lea(RDI, COMMANDS.it.answers.address)
    a.mov(RSI, R13)
    a.rep_movsb()
    a.stc()
    a.ret()


@routine(
    outputs=[Out(CF, "1 = nobody may be answered there")],
    clobbers=[RAX, RCX],
    reads=[BusMessage.reply, BusMessage.reply_len, BUS_LINE],
    source="firmware/docs/fleet.md#commands",
)
def command_reply_judge(a: Asm) -> None:
    """Judge where an answer is wanted; where none is, nothing speaks against it."""
    good = a.label("good")
    a.mov(ECX, BUS_IN.it.reply_len)
    a.test(ECX, ECX)
    a.j(Z, good)
    a.mov(RAX, BUS_IN.it.reply)
    for prefix in REPLY_PREFIXES:  # unrolled: two prefixes
        with a.block() as other:
            a.cmp(ECX, len(prefix))
            a.leave(B, other)
            word = int.from_bytes(prefix[:4], "little")
            a.cmp(mem32(RAX, ref=BUS_LINE), word)
            a.leave(NE, other)
            if len(prefix) > 4:
                a.cmp(mem16(RAX, 4, ref=BUS_LINE), int.from_bytes(prefix[4:], "little"))
                a.leave(NE, other)
            a.jmp(good)
    a.stc()
    a.ret()
    a.place(good)
    a.clc()
    a.ret()
