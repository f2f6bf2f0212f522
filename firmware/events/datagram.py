"""Chunks of an event as datagrams: one for each listener, with its own stream and number."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.events import (
    EVENT_BODY_MAX,
    EVENT_SUBSCRIBERS,
    EVENTS,
    PAYLOAD,
    EventHeader,
    EventStream,
    EventSubscriber,
)
from firmware.layouts.json import JsonParser
from firmware.layouts.net import OUT
from firmware.layouts.nic import NIC, Nic, Virtqueue
from firmware.layouts.shard import ShardContext
from firmware.net.udp import udp_finish, udp_to
from firmware.nic.queue import nic_reclaim
from toolchain.asm import (
    AE,
    BE,
    CF,
    CL,
    EAX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RDI,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
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
