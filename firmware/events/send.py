"""One event in chunks: begun, handed on as it arrives, ended with a verdict; and notices.

The header of the next datagram lies in the shard's `EventStream`; `datagram` copies it for each listener.
"""

from firmware.abi import CALLER_SAVED
from firmware.events.datagram import events_chunk, events_full_chunks
from firmware.events.notices import notice_publish
from firmware.events.subscribers import events_expire
from firmware.layouts.events import (
    EVENT_MAGIC,
    EVENT_SUBSCRIBERS,
    EVENTS,
    EventHeader,
    EventKind,
    Events,
    EventStream,
    EventSubscriber,
    Verdict,
)
from firmware.layouts.log import EVENTS_RAW, LogState
from firmware.layouts.log_line import Level
from firmware.layouts.outbox import OUTBOX, Outbox
from firmware.layouts.shard import ShardContext
from firmware.log import at_level, log, log_write
from toolchain.asm import (
    AE,
    AL,
    BE,
    CL,
    DL,
    EAX,
    ECX,
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
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    E,
    In,
    Reg8,
    Reg32,
    Reg64,
    Z,
    routine,
)


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
