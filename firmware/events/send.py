"""One event in chunks: begun, handed on as it arrives, ended with a verdict; and notices.

The header of the next datagram lies in the shard's `EventStream`; each listener gets a copy with its
own stream and number.
"""

from firmware.abi import CALLER_SAVED
from firmware.events.notices import notice_publish
from firmware.events.subscribers import events_expire
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.events import (
    EVENT_BODY_MAX,
    EVENT_MAGIC,
    EVENT_SUBSCRIBERS,
    EVENTS,
    PAYLOAD,
    EventHeader,
    EventKind,
    Events,
    EventStream,
    EventSubscriber,
    Verdict,
)
from firmware.layouts.json import JsonParser
from firmware.layouts.log import EVENTS_RAW, LogState
from firmware.layouts.log_line import Level
from firmware.layouts.net import OUT
from firmware.layouts.nic import NIC, Nic, Virtqueue
from firmware.layouts.outbox import OUTBOX, Outbox
from firmware.layouts.shard import ShardContext
from firmware.log import at_level, log, log_write
from firmware.net.udp import udp_finish, udp_to
from firmware.nic.queue import nic_reclaim
from toolchain.asm import (
    AE,
    AL,
    BE,
    CF,
    CL,
    DL,
    EAX,
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
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg8,
    Reg32,
    Reg64,
    Z,
    routine,
)


@routine(
    outputs=[Out(CF, "1 = what is free belongs to others")],
    clobbers=CALLER_SAVED,
    reads=[Nic.tx_free_count, Virtqueue.buffers],
    calls=[nic_reclaim],
    source="firmware/docs/events.md#transmit-buffers",
)
def events_room(a: Asm) -> None:
    """Say whether more than half of the transmit buffers are free."""
    a.mov(EAX, NIC.it.tx.buffers)
    a.shr(EAX, 1)
    a.cmp(EAX, NIC.it.tx_free_count)
    with a.if_(AE):
        # Buffers that the card is done with are taken back only when somebody asks.
        a.call(nic_reclaim)
        a.mov(EAX, NIC.it.tx.buffers)
        a.shr(EAX, 1)
        a.cmp(EAX, NIC.it.tx_free_count)
    a.cmc()  # CF was 1 when more are free
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; its stream holds the header"),
        In(RBP, EventSubscriber, "who is told"),
        In(R14D, int, "its place"),
        In(R12, int, "the body"),
        In(R13D, int, "its bytes, at most EVENT_BODY_MAX"),
    ],
    outputs=[Out(CF, "1 = lost")],
    clobbers=CALLER_SAVED,
    reads=[
        EventStream.header,
        EventStream.numbers,
        EventHeader.name_len,
        JsonParser.t,
        PAYLOAD,
        ConfigBlob.diagnostics_port,
        EventSubscriber.mac,
        EventSubscriber.stream,
        EventSubscriber.ip,
        EventSubscriber.port,
    ],
    writes=[EventSubscriber.sent, EventSubscriber.lost, EventHeader, OUT],
    calls=[events_room, udp_to, udp_finish],
    saves=[R15],
    source="firmware/docs/events.md#datagrams",
)
def events_datagram(
    a: Asm,
    shard: ShardContext,
    listener: EventSubscriber,
    place: Reg32,
    body: Reg64,
    length: Reg32,
) -> None:
    """Send one chunk to one listener, unless the buffers that are left belong to others."""
    lost = a.label("lost")
    header = EventHeader.at(R15)
    a.call(events_room)
    a.j(C, lost)
    a.lea(RSI, listener.mac.address)
    a.call(udp_to)
    a.j(C, lost)
    a.mov(R15, RDI)
    a.lea(RSI, shard.events.header.magic)
    a.mov(ECX, EventHeader.SIZE // 8)
    a.rep_movsq()
    a.mov(RAX, listener.stream)
    a.mov(header.stream, RAX)
    a.mov(EAX, place)
    a.mov(RAX, shard.events.numbers.m64(index=RAX, scale=8))
    a.mov(header.number, RAX)
    a.mov(RSI, body)
    a.mov(ECX, length)
    a.rep_movsb()
    a.lea(RSI, shard.gateway.parser.t.address)
    a.movzx(ECX, shard.events.header.name_len)
    a.rep_movsb()
    a.inc(listener.sent)
    a.mov(EDX, listener.ip)
    a.mov(ECX, EDI)
    a.sub(ECX, R15D)
    a.movzx(R8D, CONFIG.it.diagnostics_port)
    a.movzx(R9D, listener.port)
    a.call(udp_finish)
    a.clc()
    a.ret()
    a.place(lost)
    a.inc(listener.lost)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; its stream holds the header"),
        In(RSI, int, "the body"),
        In(ECX, int, "its bytes, at most EVENT_BODY_MAX"),
    ],
    clobbers=CALLER_SAVED,
    reads=[EventStream.open],
    writes=[EventStream.open, EventHeader.length, EventHeader.chunk, EventHeader.offset],
    calls=[events_datagram],
    saves=[RBP, R12, R13, R14],
    source="firmware/docs/events.md#datagrams",
)
def events_chunk(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Send one chunk to all who get the event; whom it does not reach gets no more of it."""
    stream = shard.events
    a.mov(R12, body)
    a.mov(R13D, length)
    a.mov(stream.header.length, R13D)
    a.lea(RBP, EVENTS.it.subscribers.address)
    a.xor(R14D, R14D)
    with a.loop() as places:
        a.mov(ECX, R14D)
        a.mov(EAX, 1)
        a.shl(EAX, CL)
        a.test(stream.open, EAX)
        with a.if_(NZ):
            a.call(events_datagram)
            with a.if_(C):
                a.mov(ECX, R14D)
                a.mov(EAX, 1)
                a.shl(EAX, CL)
                a.not_(EAX)
                a.and_(stream.open, EAX)
        a.add(RBP, EventSubscriber.SIZE)
        a.inc(R14D)
        a.cmp(R14D, EVENT_SUBSCRIBERS)
        a.again(B, places)
    a.inc(stream.header.chunk)
    a.add(stream.header.offset, R13D)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; an event runs"),
        In(RSI, int, "the next part of its payload"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(RSI, "what is left of it"), Out(ECX, "its bytes, at most EVENT_BODY_MAX")],
    clobbers=CALLER_SAVED,
    reads=[EventStream.open],
    calls=[events_chunk],
    saves=[R12, R13],
    source="firmware/docs/events.md#datagrams",
)
def events_full_chunks(a: Asm, shard: ShardContext, part: Reg64, length: Reg32) -> None:
    """Send the full chunks of a part, for as long as anybody gets them."""
    a.mov(R12, part)
    a.mov(R13D, length)
    with a.loop() as full:
        a.cmp(shard.events.open, 0)
        with a.if_(E):
            a.xor(R13D, R13D)
        a.cmp(R13D, EVENT_BODY_MAX)
        a.leave(BE, full)
        a.mov(RSI, R12)
        a.mov(ECX, EVENT_BODY_MAX)
        a.call(events_chunk)
        a.add(R12, EVENT_BODY_MAX)
        a.sub(R13D, EVENT_BODY_MAX)
        a.jmp(full.top)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; an event runs, or everybody has lost it"),
        In(RSI, int, "the next part of its payload"),
        In(ECX, int, "its bytes"),
    ],
    clobbers=CALLER_SAVED,
    calls=[events_full_chunks, events_chunk],
    source="firmware/docs/events.md#datagrams",
)
def events_part(a: Asm, shard: ShardContext, part: Reg64, length: Reg32) -> None:
    """Hand a part on that is not the last."""
    a.call(events_full_chunks)
    a.test(ECX, ECX)
    with a.if_(NZ):
        a.call(events_chunk)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; an event runs, or everybody has lost it"),
        In(RSI, int, "the last part of its payload"),
        In(ECX, int, "its bytes; 0 = none"),
        In(DL, int, "Verdict"),
        In(R8D, int, "its sequence; 0 without one"),
        In(R9D, int, "bytes of its name in the parser; 0 without one"),
    ],
    clobbers=CALLER_SAVED,
    reads=[EventStream.open, LogState.level],
    writes=[
        EventStream.open,
        EventHeader.what,
        EventHeader.last,
        EventHeader.sequence,
        EventHeader.name_len,
    ],
    calls=[events_full_chunks, events_chunk, log_write],
    saves=[R12, R13, R14],
    source="firmware/docs/events.md#datagrams",
)
def events_end(
    a: Asm,
    shard: ShardContext,
    part: Reg64,
    length: Reg32,
    verdict: Reg8,
    sequence: Reg32,
    name_len: Reg32,
) -> None:
    """Hand the last part on, and with its last chunk what became of the event."""
    header = shard.events.header
    a.movzx(R12D, verdict)
    a.mov(R13D, sequence)
    a.mov(R14D, name_len)
    a.call(events_full_chunks)
    a.mov(EAX, R12D)
    a.mov(header.what, AL)
    a.mov(header.last, 1)
    a.mov(header.sequence, R13D)
    a.mov(EAX, R14D)
    a.mov(header.name_len, AL)
    a.call(events_chunk)
    a.mov(shard.events.open, 0)
    a.cmp(R12D, Verdict.WITHHELD)
    with a.if_(BE), at_level(a, Level.TRACE):
        log(a, EVENTS_RAW, RBX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[EventStream.open],
    calls=[events_end],
    source="firmware/docs/events.md#half-an-event",
)
def events_abort(a: Asm, shard: ShardContext) -> None:
    """Tell whoever has half an event that the rest does not come."""
    a.cmp(shard.events.open, 0)
    with a.if_(E):
        a.ret()
    a.xor(ECX, ECX)
    a.mov(RSI, RBX)
    a.mov(EDX, Verdict.ABORTED)
    a.xor(R8D, R8D)
    a.xor(R9D, R9D)
    a.jmp(events_end)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.shard_id,
        EventSubscriber.expires,
        EventSubscriber.first,
        EventSubscriber.count,
        EventSubscriber.number,
    ],
    writes=[
        EventStream.open,
        EventStream.withheld,
        EventStream.numbers,
        EventHeader,
        EventSubscriber.number,
    ],
    calls=[events_abort, events_expire],
    source="firmware/docs/events.md#order",
)
def events_begin(a: Asm, shard: ShardContext) -> None:
    """Begin an event: it gets the next number of everybody who wants this shard."""
    stream, listener = shard.events, EventSubscriber.at(RDX)
    a.call(events_abort)
    a.call(events_expire)
    a.xor(EAX, EAX)
    a.mov(stream.withheld, EAX)
    a.lea(RDI, stream.header.magic)
    a.mov(ECX, EventHeader.SIZE // 8)
    a.rep_stosq()
    a.mov(stream.header.magic, EVENT_MAGIC)
    a.mov(stream.header.kind, EventKind.DISPATCH)
    a.mov(EAX, shard.shard_id)
    a.mov(stream.header.shard, EAX)

    a.lea(RDX, EVENTS.it.subscribers.address)
    a.xor(ECX, ECX)
    a.xor(R9D, R9D)
    with a.loop() as places:
        with a.block() as other:
            a.cmp(listener.expires, 0)
            a.leave(E, other)
            a.mov(EAX, shard.shard_id)
            a.sub(EAX, listener.first)
            a.cmp(EAX, listener.count)
            a.leave(AE, other)
            a.mov(RAX, listener.number)
            a.mov(stream.numbers.m64(index=RCX, scale=8), RAX)
            a.inc(listener.number)
            a.mov(R8D, 1)
            a.shl(R8D, CL)
            a.or_(R9D, R8D)
        a.add(RDX, EventSubscriber.SIZE)
        a.inc(ECX)
        a.cmp(ECX, EVENT_SUBSCRIBERS)
        a.again(B, places)
    a.mov(stream.open, R9D)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(DL, int, "Notice"),
        In(ECX, int, "first value"),
        In(R8D, int, "second value"),
    ],
    clobbers=CALLER_SAVED,
    reads=[Events.listeners, Outbox.base],
    writes=[
        EventStream.open,
        EventHeader.kind,
        EventHeader.what,
        EventHeader.last,
        EventHeader.sequence,
        EventHeader.second,
    ],
    calls=[notice_publish, events_begin, events_chunk],
    saves=[R12, R13, R14],
    source="firmware/docs/events.md#notices",
)
def events_notice(a: Asm, shard: ShardContext, kind: Reg8, first: Reg32, second: Reg32) -> None:
    """Say something of the shard's session, in its place among the dispatches."""
    header = shard.events.header
    a.movzx(R12D, kind)
    a.mov(R13D, first)
    a.mov(R14D, second)
    a.cmp(OUTBOX.it.base, 0)
    with a.if_(NZ):
        a.mov(EDX, R12D)
        a.mov(ECX, R13D)
        a.mov(R8D, R14D)
        a.call(notice_publish)
    a.cmp(EVENTS.it.listeners, 0)
    with a.if_(Z):
        a.ret()
    a.call(events_begin)
    a.mov(header.kind, EventKind.NOTICE)
    a.mov(EAX, R12D)
    a.mov(header.what, AL)
    a.mov(header.last, 1)
    a.mov(header.sequence, R13D)
    a.mov(header.second, R14D)
    a.mov(RSI, RBX)
    a.xor(ECX, ECX)
    a.call(events_chunk)
    a.mov(shard.events.open, 0)
    a.ret()
