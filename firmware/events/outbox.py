"""The outbox: publications in order, kept until the stream has acknowledged them.

A connection to NATS that is lost costs nothing: what waits is sent again, and the stream knows it by its
Nats-Msg-Id. The ring is mapped twice in a row, so a publication is always one run of bytes.
"""

from firmware.abi import CALLER_SAVED
from firmware.bus.names import put_bot, put_node
from firmware.layouts.bus import BUS, Bus
from firmware.layouts.events import EventStream
from firmware.layouts.fleet_config import FleetConfig
from firmware.layouts.node import CoreState, core
from firmware.layouts.outbox import (
    ENTRIES,
    HEAD_MAX,
    OUTBOX,
    OUTBOX_RING,
    EntryState,
    Outbox,
    OutboxEntry,
)
from firmware.layouts.shard import Session, ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.limits import OUTBOX_BYTES
from firmware.text import CRLF, put, put_byte, put_crlf, put_decimal
from toolchain.asm import (
    AE,
    AL,
    CF,
    DL,
    EAX,
    EBP,
    ECX,
    EDI,
    EDX,
    NZ,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
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
    A,
    Asm,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    Region,
    mem8,
    mem16,
    mem64,
    routine,
)
from toolchain.layout import Data
from toolchain.layout.data import constant

LINE_MAX = 512
"""The control line; the headers lie behind it until both are put together."""
ENTRY_SHIFT = OutboxEntry.SIZE.bit_length() - 1
NAME = constant("token_characters", bytes(
    byte if (chr(byte).isalnum() and byte < 128) or byte in b"_-" else ord("_") for byte in range(256)
), "a character of a name as it stands in a subject")  # fmt: skip
SUBJECT = constant("publish_subject", b"HPUB shardfw.", "an event's subject begins")
EVENTS_TOKEN = constant("publish_token", b".ev.", "what tells events from commands")
INBOX = constant("publish_inbox", b" _I.", "where the acknowledgement goes")
INBOX_DATA = constant("publish_link", b".d.", "the inbox of the link DATA")
HEADERS = constant("publish_headers", b"NATS/1.0\r\nNats-Msg-Id: ", "headers begin")
FENCE = constant("publish_fence", b"\r\nShardfw: g=", "the node's own header: generation")
NODE = constant("publish_node", b" n=", "name of the node")
TOTAL = constant("publish_total", b" t=", "shards of the whole bot")
SEQUENCE = constant("publish_sequence", b" s=", "sequence of the dispatch")
END = constant("publish_end", b"\r\n\r\n", "headers end")
MESSAGE = Region("a message", "in the receive ring or an assembly buffer, as long as was told")
COMPUTED = Region("nothing", "LEA only computes")
OUT = OUTBOX.it


@routine(
    inputs=[In(ECX, int, "bytes of a body")],
    outputs=[Out(CF, "1 = not now")],
    clobbers=[RAX],
    reads=[Outbox.first, Outbox.next, Outbox.end, Outbox.freed],
    source="firmware/docs/events.md#outbox",
)
def outbox_room(a: Asm, length: Reg32) -> None:
    """Tell whether a publication with that much body has room, in bytes and in entries."""
    full = a.label("full")
    a.mov(EAX, OUT.next)
    a.sub(EAX, OUT.first)
    a.cmp(EAX, ENTRIES)
    a.j(AE, full)
    a.mov(EAX, length)
    a.add(RAX, OUT.end)
    a.sub(RAX, OUT.freed)
    a.cmp(RAX, OUTBOX_BYTES - HEAD_MAX)
    a.j(A, full)
    a.clc()
    a.ret()
    a.place(full)
    a.stc()
    a.ret()


def _put_number(a: Asm, before: Data, value: Reg32) -> None:
    """Copy a constant, then a number that outlives RAX, RCX, RDX, RSI, R8."""
    put(a, before)
    a.mov(EAX, value)
    a.call(put_decimal)


@routine(
    inputs=[
        In(RDI, int, "where it goes"),
        In(RDX, int, "the name"),
        In(ECX, int, "its bytes, at least one"),
    ],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[NAME, TEXT_OUT],
    writes=[TEXT_OUT],
    source="firmware/docs/events.md#subjects",
)
def put_token(a: Asm, text: Reg64, name: Reg64, length: Reg32) -> None:
    """Write a name as one token of a subject: what is no letter, digit, `_` or `-` becomes `_`."""
    a.lea(RSI, NAME.address)
    with a.loop() as letters:
        a.movzx(EAX, mem8(name, ref=TEXT_OUT))
        a.mov(AL, mem8(RSI, index=RAX, ref=NAME))
        a.mov(mem8(text, ref=TEXT_OUT), AL)
        a.inc(name)
        a.inc(text)
        a.dec(length)
        a.again(NZ, letters)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(R12D, int, "bytes of the body"),
        In(R13D, int, "its sequence"),
        In(R14, int, "the event's name"),
        In(R15D, int, "its bytes, at least one"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.shard_id,
        ShardContext.shard_total,
        Session.session_id,
        Session.session_id_len,
        EventStream.fence,
        Outbox.next,
        Outbox.notice,
        Outbox.head,
        FleetConfig.bot,
        FleetConfig.bot_len,
        Bus.node,
        Bus.node_len,
        Bus.boot_text,
    ],
    writes=[Outbox.head, Outbox.head_len, TEXT_OUT],
    calls=[put_decimal, put_token],
    saves=[RBP],
    source="firmware/docs/events.md#publications",
)
def outbox_head(
    a: Asm, shard: ShardContext, length: Reg32, sequence: Reg32, name: Reg64, name_len: Reg32
) -> None:
    """Write control line and headers of a publication; its reply subject ends with its number."""
    bytes_ = EBP
    # The headers first: the control line tells their length.
    a.lea(RDI, OUT.head.m8(LINE_MAX))
    put(a, HEADERS)
    own, numbered = a.label("own"), a.label("numbered")
    a.cmp(OUT.notice, 0)
    a.jne(own)
    a.lea(RSI, shard.session.session_id.address)
    a.mov(ECX, shard.session.session_id_len)
    a.rep_movsb()
    a.mov(EAX, sequence)
    a.jmp(numbered)
    a.place(own)
    a.mov(RAX, BUS.it.boot_text.m64())
    a.mov(mem64(RDI, ref=TEXT_OUT), RAX)
    a.add(RDI, 8)
    a.mov(EAX, OUT.next)
    a.place(numbered)
    put_byte(a, "-")
    a.call(put_decimal)
    a.mov(bytes_, shard.events.fence)
    _put_number(a, FENCE, bytes_)
    put(a, NODE)
    put_node(a)
    a.mov(bytes_, shard.shard_total)
    _put_number(a, TOTAL, bytes_)
    _put_number(a, SEQUENCE, sequence)
    put(a, END)
    a.lea(RAX, OUT.head.m8(LINE_MAX))
    a.sub(RDI, RAX)
    a.mov(bytes_, EDI)

    a.lea(RDI, OUT.head.address)
    put(a, SUBJECT)
    put_bot(a)
    put(a, EVENTS_TOKEN)
    a.mov(EAX, shard.shard_id)
    a.call(put_decimal)
    put_byte(a, ".")
    a.mov(RDX, name)
    a.mov(ECX, name_len)
    a.call(put_token)
    put(a, INBOX)
    put_node(a)
    put_byte(a, ".")
    a.mov(RAX, BUS.it.boot_text.m64())
    a.mov(mem64(RDI, ref=TEXT_OUT), RAX)
    a.add(RDI, 8)
    a.mov(R8D, OUT.next)
    put(a, INBOX_DATA)
    a.mov(EAX, R8D)
    a.call(put_decimal)
    put_byte(a, " ")
    a.mov(EAX, bytes_)
    a.call(put_decimal)
    put_byte(a, " ")
    a.lea(EAX, mem8(RBP, index=R12, ref=COMPUTED))
    a.call(put_decimal)
    put_crlf(a)

    a.lea(RSI, OUT.head.m8(LINE_MAX))
    a.mov(ECX, bytes_)
    a.rep_movsb()
    a.lea(RAX, OUT.head.address)
    a.sub(RDI, RAX)
    a.mov(OUT.head_len, EDI)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "the body"),
        In(ECX, int, "its bytes"),
        In(R8D, int, "its sequence"),
        In(RDX, int, "the event's name"),
        In(R9D, int, "its bytes, at least one"),
    ],
    outputs=[Out(CF, "1 = no room")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.slot,
        ShardContext.connection,
        CoreState.now,
        Outbox.base,
        Outbox.head,
        Outbox.head_len,
        Outbox.next,
        Outbox.end,
        MESSAGE,
    ],
    writes=[Outbox.next, Outbox.end, Outbox.published, OutboxEntry, OUTBOX_RING],
    calls=[outbox_room, outbox_head],
    saves=[RBP, R12, R13, R14, R15],
    source="firmware/docs/events.md#outbox",
)
def outbox_publish(
    a: Asm,
    shard: ShardContext,
    body: Reg64,
    length: Reg32,
    sequence: Reg32,
    name: Reg64,
    name_len: Reg32,
) -> None:
    """Queue one publication, whole."""
    entry = OutboxEntry.at(RAX)
    a.mov(RBP, body)
    a.mov(R12D, length)
    a.mov(R13D, sequence)
    a.mov(R14, name)
    a.mov(R15D, name_len)
    a.call(outbox_room)
    with a.if_(C):
        a.ret()
    a.call(outbox_head)
    a.mov(RDI, OUT.end)
    a.and_(EDI, OUTBOX_BYTES - 1)
    a.add(RDI, OUT.base)
    a.mov(EDX, OUT.head_len)
    a.lea(RSI, OUT.head.address)
    a.mov(ECX, EDX)
    a.rep_movsb()
    a.mov(RSI, RBP)
    a.mov(ECX, R12D)
    a.rep_movsb()
    a.mov(mem16(RDI, ref=OUTBOX_RING), CRLF)
    a.lea(EDX, mem8(RDX, 2, index=R12, ref=COMPUTED))
    a.add(RDX, OUT.end)
    a.mov(OUT.end, RDX)

    a.mov(ECX, OUT.next)
    a.inc(OUT.next)
    a.and_(ECX, ENTRIES - 1)
    a.shl(ECX, ENTRY_SHIFT)
    a.lea(RAX, OUT.entries.address)
    a.add(RAX, RCX)
    a.mov(entry.end, RDX)
    a.mov(RDX, core.now)
    a.mov(entry.queued_at, RDX)
    a.mov(entry.sequence, R13D)
    a.mov(EDX, shard.connection)
    a.mov(entry.connection, EDX)
    a.mov(DL, shard.slot)
    a.mov(entry.slot, DL)
    a.mov(entry.state, EntryState.WAITING)
    a.inc(OUT.published)
    a.clc()
    a.ret()
