"""What the fleet writes to NATS: a watch, and a record that replaces a known revision."""

from firmware.layouts.bus import BUS, Bus
from firmware.layouts.fleet import (
    CREATE_BODY,
    FLEET,
    STREAM,
    Fleet,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.text import TEXT_OUT
from firmware.text import put, put_decimal
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem16,
    routine,
)
from toolchain.layout.data import Data, constant


def _text(name: str, contents: bytes) -> Data:
    return constant("fleet_text_" + name, contents, "a part of what the fleet writes")


UNSUB, SUB, INBOX, WATCH = (
    _text("unsub", b"UNSUB "),
    _text("sub", b"SUB "),
    _text("inbox", b"_I."),
    _text("watch", b"_W."),
)
CREATE = _text("create", b"PUB $JS.API.CONSUMER.CREATE." + STREAM + b" ")
BODY = tuple(_text(f"create_{n}", part) for n, part in enumerate(CREATE_BODY))
LINE_END = int.from_bytes(b"\r\n", "little")


def put_end(a: Asm) -> None:
    """End a line."""
    a.mov(mem16(RDI, ref=TEXT_OUT), LINE_END)
    a.add(RDI, 2)


def put_char(a: Asm, char: str) -> None:
    """Append one character."""
    a.mov(mem8(RDI, ref=TEXT_OUT), ord(char))
    a.inc(RDI)


@routine(
    inputs=[In(RDI, int, "where it goes; up to NAME_MAX + 10 bytes")],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RCX, RSI],
    reads=[Bus.node_len],
    writes=[TEXT_OUT],
    source="firmware/docs/fleet.md#watch",
)
def put_us(a: Asm, text: Reg64) -> None:
    """Write node and boot as tokens of a subject, each with its dot."""
    a.lea(RSI, BUS.it.node.address)
    a.movzx(ECX, BUS.it.node_len)
    a.rep_movsb()
    put_char(a, ".")
    a.lea(RSI, BUS.it.boot_text.address)
    a.mov(ECX, BUS.it.boot_text.size)
    a.rep_movsb()
    put_char(a, ".")
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "where it goes; up to NAME_MAX + 25 bytes"),
        In(EAX, int, "number of the request"),
    ],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RAX, RCX, RDX, RSI, R8],
    writes=[TEXT_OUT],
    calls=[put_us, put_decimal],
    source="firmware/docs/bus.md#names",
)
def put_inbox(a: Asm, text: Reg64, number: Reg32) -> None:
    """Write the subject to which CONTROL's request is answered."""
    put(a, INBOX)
    a.call(put_us)
    put_char(a, "c")
    put_char(a, ".")
    a.mov(number, number)
    a.jmp(put_decimal)


@routine(
    inputs=[
        In(RDI, int, "where it goes; up to WATCH_TEXT_MAX bytes"),
        In(EAX, int, "number of the request"),
        In(EDX, int, "subscription of the last watch on this connection; 0 = there was none"),
    ],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RAX, RCX, RDX, RSI, R8],
    reads=[Fleet.resyncs, Fleet.watch_sid, FleetConfig.bot_len],
    writes=[TEXT_OUT],
    calls=[put_us, put_inbox, put_decimal],
    saves=[R12, R13, R14],
    source="firmware/docs/fleet.md#watch",
)
def watch_text(a: Asm, text: Reg64, request: Reg32, last: Reg32) -> None:
    """Write SUB of the literal subject, and only then the request for what delivers there."""
    subject, subject_bytes = R12, R13D
    a.mov(R14D, request)
    a.test(last, last)
    with a.if_(NZ):
        a.mov(subject_bytes, last)
        put(a, UNSUB)
        a.mov(EAX, subject_bytes)
        a.call(put_decimal)
        put_end(a)
    put(a, SUB)
    a.mov(subject, RDI)
    put(a, WATCH)
    a.call(put_us)
    a.mov(EAX, FLEET.it.resyncs)
    a.call(put_decimal)
    a.mov(R13, RDI)
    a.sub(R13, subject)
    put_char(a, " ")
    a.mov(EAX, FLEET.it.watch_sid)
    a.call(put_decimal)
    put_end(a)

    put(a, CREATE)
    a.mov(EAX, R14D)
    a.call(put_inbox)
    put_char(a, " ")
    a.movzx(EAX, FLEET_CONFIG.it.bot_len)
    a.add(EAX, subject_bytes)
    a.add(EAX, sum(part.size for part in BODY))
    a.call(put_decimal)
    put_end(a)
    put(a, BODY[0])
    a.mov(RSI, subject)
    a.mov(ECX, subject_bytes)
    a.rep_movsb()
    put(a, BODY[1])
    a.lea(RSI, FLEET_CONFIG.it.bot.address)
    a.movzx(ECX, FLEET_CONFIG.it.bot_len)
    a.rep_movsb()
    put(a, BODY[2])
    put_end(a)
    a.ret()
