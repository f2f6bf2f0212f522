"""What the fleet writes to NATS: a watch, and a record that replaces a known revision."""

from typing import Any

from firmware.bus.names import put_boot, put_bot, put_node
from firmware.bus.send import bus_put_inbox
from firmware.layouts.bus import Bus, BusLink
from firmware.layouts.fleet import (
    CREATE_BODY,
    FLEET,
    FLEET_OUT,
    KEY_PREFIX,
    KEY_ROOM,
    STREAM,
    Fleet,
    HeldSlot,
    Outgoing,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.text import TEXT_OUT
from firmware.text import put, put_byte, put_crlf, put_decimal
from toolchain.asm import (
    EAX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)
from toolchain.layout.data import Data, constant


def _text(name: str, contents: bytes) -> Data:
    return constant("fleet_text_" + name, contents, "a part of what the fleet writes")


UNSUB, SUB, WATCH, PUBLISH = (
    _text("unsub", b"UNSUB "),
    _text("sub", b"SUB "),
    _text("watch", b"_W."),
    _text("publish", b"HPUB "),
)
EXPECTED = _text("expected", b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: ")
LEASE, TICKET, BUDGET = (
    _text("lease", b"lease."),
    _text("ticket", b"ident."),
    _text("budget", b"budget"),
)
PREFIX = _text("key", KEY_PREFIX)
ROOM = _text("room", KEY_ROOM)
HELD, FREE, FORMAT = (
    _text("held", b"1 held "),
    _text("free", b"1 free - - "),
    _text("format", b"1 "),
)
CREATE = _text("create", b"PUB $JS.API.CONSUMER.CREATE." + STREAM + b".")
FILTER = _text("filter", b"." + KEY_PREFIX)
FILTER_END = _text("filter_end", KEY_ROOM + b"> ")
BODY = tuple(_text(f"create_{n}", part) for n, part in enumerate(CREATE_BODY))


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
    put_node(a)
    put_byte(a, ".")
    put_boot(a)
    put_byte(a, ".")
    a.ret()


@routine(
    inputs=[
        In(RBP, BusLink, "CONTROL"),
        In(RDI, int, "where it goes; up to WATCH_TEXT_MAX bytes"),
        In(EAX, int, "number of the request"),
        In(EDX, int, "subscription of the last watch on this connection; 0 = there was none"),
    ],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RAX, RCX, RDX, RSI, R8],
    reads=[Fleet.resyncs, Fleet.watch_sid, FleetConfig.bot_len, Bus.node_len],
    writes=[TEXT_OUT],
    calls=[put_us, bus_put_inbox, put_decimal],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/fleet.md#watch",
)
def watch_text(a: Asm, link: BusLink, text: Reg64, request: Reg32, last: Reg32) -> None:
    """Write SUB of the literal subject, and only then the request for what delivers there."""
    subject, subject_bytes, name = R12, R13D, R15
    a.mov(R14D, request)
    a.test(last, last)
    with a.if_(NZ):
        a.mov(subject_bytes, last)
        put(a, UNSUB)
        a.mov(EAX, subject_bytes)
        a.call(put_decimal)
        put_crlf(a)
    put(a, SUB)
    a.mov(subject, RDI)
    put(a, WATCH)
    a.call(put_us)
    a.mov(EAX, FLEET.it.resyncs)
    a.call(put_decimal)
    a.mov(R13, RDI)
    a.sub(R13, subject)
    put_byte(a, " ")
    a.mov(EAX, FLEET.it.watch_sid)
    a.call(put_decimal)
    put_crlf(a)

    # The filter stands in the subject, so that permissions bound what is read; so does a name, without dots.
    put(a, CREATE)
    a.mov(name, RDI)
    put_node(a)
    put_byte(a, "-")
    put_boot(a)
    put_byte(a, "-")
    a.mov(EAX, FLEET.it.resyncs)
    a.call(put_decimal)
    put(a, FILTER)
    put_bot(a)
    put(a, FILTER_END)
    a.call(bus_put_inbox)
    a.mov(EAX, R14D)
    a.call(put_decimal)
    put_byte(a, " ")
    a.movzx(EAX, FLEET_CONFIG.it.bot_len)
    a.add(EAX, subject_bytes)
    a.add(EAX, subject_bytes)
    a.add(EAX, sum(part.size for part in BODY) - WATCH.size)
    a.call(put_decimal)
    put_crlf(a)
    put(a, BODY[0])
    a.mov(RSI, name)
    a.mov(ECX, subject_bytes)
    a.sub(ECX, WATCH.size)
    a.rep_movsb()
    put(a, BODY[1])
    a.mov(RSI, subject)
    a.mov(ECX, subject_bytes)
    a.rep_movsb()
    put(a, BODY[2])
    put_bot(a)
    put(a, BODY[3])
    put_crlf(a)
    a.ret()


@routine(
    inputs=[In(RSI, int, "the rest of the key"), In(ECX, int, "its bytes")],
    outputs=[Out(RDI, "behind it, in FLEET_OUT.key")],
    clobbers=[RCX, RSI],
    reads=[FleetConfig.bot_len],
    writes=[Outgoing.key],
    saves=[R12, R13],
    source="firmware/docs/fleet.md#records",
)
def key_begin(a: Asm, rest: Reg64, length: Reg32) -> None:
    """Begin the key of a record: `$KV.shardfw.<bot>.ctl.` and what follows."""
    a.mov(R12, rest)
    a.mov(R13D, length)
    a.lea(RDI, FLEET_OUT.it.key.address)
    put(a, PREFIX)
    put_bot(a)
    put(a, ROOM)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.rep_movsb()
    a.ret()


def key_end(a: Asm) -> None:
    """Note that the key ends at RDI. Clobbers RAX."""
    a.lea(RAX, FLEET_OUT.it.key.address)
    a.sub(RDI, RAX)
    a.mov(FLEET_OUT.it.key_len, EDI)


def value_end(a: Asm) -> None:
    """Note that the value ends at RDI. Clobbers RAX."""
    a.lea(RAX, FLEET_OUT.it.value.address)
    a.sub(RDI, RAX)
    a.mov(FLEET_OUT.it.value_len, EDI)


@routine(
    inputs=[In(RDI, int, "where it goes; up to NAME_MAX + 10 bytes")],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RCX, RSI],
    reads=[Bus.node_len],
    writes=[TEXT_OUT],
    source="firmware/docs/fleet.md#records",
)
def put_holder(a: Asm, text: Reg64) -> None:
    """Write node and boot as words of a record, each with its space."""
    put_node(a)
    put_byte(a, " ")
    put_boot(a)
    put_byte(a, " ")
    a.ret()


@routine(
    inputs=[
        In(RBX, HeldSlot, "the slot"),
        In(EDX, int, "number of the operation"),
        In(ECX, int, "1 = it is held, 0 = it is free again"),
    ],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8],
    reads=[
        HeldSlot.slot,
        HeldSlot.generation,
        HeldSlot.duration_ms,
        HeldSlot.epoch,
        HeldSlot.start,
        HeldSlot.count,
        HeldSlot.total,
    ],
    writes=[Outgoing.key_len, Outgoing.value_len, TEXT_OUT],
    calls=[key_begin, put_holder, put_decimal],
    saves=[R12, R13],
    source="firmware/docs/fleet.md#records",
)
def lease_text(a: Asm, held: HeldSlot, op: Reg32, claimed: Reg32) -> None:
    """Write key and value of a lease into FLEET_OUT."""
    a.mov(R12D, op)
    a.mov(R13D, claimed)
    a.lea(RSI, LEASE.address)
    a.mov(ECX, LEASE.size)
    a.call(key_begin)
    a.movzx(EAX, held.slot)
    a.call(put_decimal)
    key_end(a)

    a.lea(RDI, FLEET_OUT.it.value.address)
    a.test(R13D, R13D)
    with a.if_(NZ):
        put(a, HELD)
        a.call(put_holder)
        a.mov(R13D, held.duration_ms)
    with a.else_():
        put(a, FREE)
    numbers: tuple[Any, ...] = (
        held.generation, R12D, R13D, held.epoch, held.start, held.count, held.total,
    )  # fmt: skip
    for n, number in enumerate(numbers):  # seven numbers, unrolled
        if n:
            put_byte(a, " ")
        a.mov(EAX, number)
        a.call(put_decimal)
    value_end(a)
    a.ret()
