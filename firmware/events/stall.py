"""Shards that wait for room before they read, and the end of a connection that publishes nothing more."""

from firmware.abi import CALLER_SAVED
from firmware.events.assembly import assembly_add, assembly_find, assembly_take
from firmware.events.notices import notice_publish
from firmware.events.outbox import COMPUTED, outbox_room
from firmware.failure import shard_fail
from firmware.layouts.events import PUBLISH_OVERDUE, EventStream, GapTold, Notice, Stuck
from firmware.layouts.gateway import CLOSE_KEEPING_SESSION, GatewayContext, GatewayState
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.outbox import ACK_TIMEOUT_MS, AGAIN_MS, STALL_MS, STALL_RETRY_MS, Assembly
from firmware.layouts.shard import End, ShardContext
from firmware.limits import ASSEMBLY_BYTES, RING_BYTES
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    R8D,
    R9D,
    RAX,
    RBX,
    RCX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "a shard that is about to read")],
    outputs=[Out(CF, "1 = not now: there is no room for what may come")],
    clobbers=CALLER_SAVED,
    reads=[
        EventStream.stuck,
        EventStream.stalled_at,
        EventStream.part_at,
        EventStream.part_len,
        Assembly.filled,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[EventStream.stalled_at, EventStream.part_len],
    calls=[outbox_room, assembly_find, assembly_take, assembly_add],
    source="firmware/docs/events.md#stalls",
)
def publish_ready(a: Asm, shard: ShardContext) -> None:
    """Make a shard wait for room, for a second at most: after it heartbeats must be heard again."""
    stream = shard.events
    full, wait = a.label("full"), a.label("wait")
    a.cmp(stream.stuck, Stuck.NO)
    with a.if_(NE):
        a.clc()
        a.ret()
    # The first part of a message may still lie in the ring.
    a.cmp(stream.part_len, 0)
    with a.if_(NE):
        a.call(assembly_take)
        a.j(C, full)
        a.mov(RSI, stream.part_at)
        a.mov(ECX, stream.part_len)
        a.mov(stream.part_len, 0)
        a.call(assembly_add)
    # What may come is what the ring holds, and what has come of its message.
    a.call(assembly_find)
    with a.if_(NC):
        a.mov(EAX, Assembly.at(RAX).filled)
        a.mov(ECX, ASSEMBLY_BYTES)
        a.cmp(EAX, ECX)
        a.cmov(A, EAX, ECX)
        a.lea(ECX, mem8(RAX, RING_BYTES, ref=COMPUTED))
    with a.else_():
        a.mov(ECX, RING_BYTES)
    a.call(outbox_room)
    a.j(C, full)
    a.mov(stream.stalled_at, 0)
    a.clc()
    a.ret()

    a.place(full)
    a.mov(RAX, stream.stalled_at)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.mov(RAX, core.now)
        a.mov(stream.stalled_at, RAX)
        a.jmp(wait)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, STALL_MS)
    a.add(RAX, RCX)
    a.cmp(RAX, core.now)
    a.j(A, wait)
    # Whether that costs a dispatch is found out when one is whole.
    a.mov(stream.part_len, 0)
    a.clc()
    a.ret()
    a.place(wait)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard with an open gateway session")],
    outputs=[Out(RAX, "TSC when it wants to be looked at again; all ones = no time")],
    clobbers=CALLER_SAVED,
    reads=[
        EventStream.stuck,
        EventStream.stuck_at,
        EventStream.stalled_at,
        EventStream.gap_told,
        GatewayContext.state,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    calls=[notice_publish, shard_fail],
    source="firmware/docs/events.md#stuck",
)
def publish_judge(a: Asm, shard: ShardContext) -> None:
    """End the connection of a stuck shard, so that it resumes from what is acknowledged; say what is owed."""
    stream, out = shard.events, a.label("out")
    a.cmp(stream.stuck, Stuck.DROPPED)
    with a.if_(B):
        # One that reads on without room is woken by what comes.
        a.mov(RCX, stream.stalled_at)
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, STALL_MS)
        a.add(RCX, RAX)
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, STALL_RETRY_MS)
        a.add(RAX, core.now)
        a.cmp(RCX, core.now)
        a.j(A, out)
        # A GAP that found no room, or was not taken, is said again between two dispatches.
        a.mov(RAX, -1)
        a.cmp(stream.gap_told, GapTold.OWED)
        a.j(NE, out)
        a.cmp(shard.gateway.state, GatewayState.READY)
        a.j(NE, out)
        a.mov(EDX, Notice.GAP)
        a.xor(ECX, ECX)
        a.xor(R8D, R8D)
        a.call(notice_publish)
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, AGAIN_MS)
        a.add(RAX, core.now)
        a.place(out)
        a.ret()
    with a.if_(E):
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, ACK_TIMEOUT_MS)
        a.add(RAX, stream.stuck_at)
        a.cmp(RAX, core.now)
        with a.if_(A):
            a.ret()
    a.mov(EDX, End.SEND_FAILED)
    a.xor(ECX, ECX)
    a.mov(R8D, CLOSE_KEEPING_SESSION)
    a.mov(R9D, PUBLISH_OVERDUE.code)
    a.call(shard_fail)
    a.mov(RAX, -1)
    a.ret()
