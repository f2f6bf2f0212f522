"""What subscribers are told when a connection is lost: half an event ends, a gap begins."""

from firmware.abi import CALLER_SAVED
from firmware.events.send import events_abort, events_notice
from firmware.layouts.events import EVENT_UNKNOWN, EventStream, Notice
from firmware.layouts.shard import Evidence, FailureFlag, ShardContext, ShardFlag
from firmware.shard.resume import shard_is_resumable
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
    R8D,
    RBX,
    A,
    Asm,
    C,
    In,
    routine,
)

_STOP = FailureFlag.FATAL | FailureFlag.RESHARD


@routine(
    inputs=[In(RBX, ShardContext, "the shard that is lost; sequence rewound, session settled")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.flags,
        ShardContext.failure_flags,
        ShardContext.hole_first,
        ShardContext.sequence,
        Evidence.sequence_valid,
        EventStream.gap_open,
        EventStream.gap_first,
    ],
    writes=[EventStream.gap_open, EventStream.gap_first],
    calls=[events_abort, events_notice, shard_is_resumable],
    source="firmware/docs/events.md#gaps",
)
def shard_gap_begin(a: Asm, shard: ShardContext) -> None:
    """End half an event; when the next handshake is an Identify, say so and from where on."""
    stream, over = shard.events, a.label("over")
    a.call(events_abort)
    a.test(shard.flags, ShardFlag.ESTABLISHED | ShardFlag.RESTORED)
    a.jz(over)
    a.test(shard.failure_flags, _STOP)
    a.jnz(over)
    a.cmp(stream.gap_open, 0)
    a.jne(over)
    a.call(shard_is_resumable)
    a.j(C, over)
    a.mov(stream.gap_open, 1)
    # Of what was read, only what the stream has acknowledged is sure to be there: the sequence was taken back to it.
    # Behind the last of all sequences there is none that could be named.
    a.mov(EAX, EVENT_UNKNOWN)
    a.cmp(shard.evidence.sequence_valid, 0)
    with a.if_(NE):
        a.mov(EAX, shard.sequence)
        a.add(EAX, 1)
        a.sbb(EAX, 0)
    # What a replay before this left out may lie before it, or behind what the stream has of that replay.
    a.cmp(shard.hole_first, 0)
    with a.if_(NE):
        a.cmp(EAX, shard.hole_first)
        a.cmov(A, EAX, shard.hole_first)
    a.mov(stream.gap_first, EAX)
    a.mov(EDX, Notice.NEW_SESSION)
    a.mov(ECX, EVENT_UNKNOWN)
    a.xor(R8D, R8D)
    a.call(events_notice)
    a.mov(EDX, Notice.GAP)
    a.mov(ECX, stream.gap_first)
    a.mov(R8D, EVENT_UNKNOWN)
    a.jmp(events_notice)
    a.place(over)
    a.ret()
