"""Shards that wait for room before they read, in turns, and the end of a connection that publishes nothing more."""

from firmware.abi import CALLER_SAVED
from firmware.events.acks import entry_at
from firmware.events.assembly import assembly_add, assembly_find, assembly_take, assembly_wait
from firmware.events.notices import notice_publish
from firmware.events.outbox import COMPUTED, outbox_room
from firmware.failure import shard_fail
from firmware.layouts.events import PUBLISH_OVERDUE, EventStream, GapTold, Notice, Stuck
from firmware.layouts.gateway import (
    CLOSE_KEEPING_SESSION,
    GatewayContext,
    GatewayFlag,
    GatewayState,
)
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.outbox import (
    ACK_TIMEOUT_MS,
    AGAIN_MS,
    OUTBOX,
    OWED_PART,
    STALL_PART,
    STALL_RETRY_MS,
    Assembly,
    Outbox,
    OutboxEntry,
)
from firmware.layouts.shard import End, ShardContext
from firmware.limits import ASSEMBLY_BYTES, RESUME_TIMEOUT_MS, RING_BYTES
from toolchain.asm import (
    AL,
    BE,
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

OUT = OUTBOX.it


@routine(
    outputs=[Out(EAX, "row that the walk over the table begins with")],
    clobbers=[RCX],
    reads=[
        Outbox.next,
        Outbox.look_at,
        Outbox.begin,
        CoreState.now,
        CoreState.slots_used,
    ],
    writes=[Outbox.walk, Outbox.look_at],
    source="firmware/docs/events.md#turns",
)
def publish_walk(a: Asm) -> None:
    """Let the shards that wait for room ask again, when it is time, and name the first of them."""
    a.mov(EAX, OUT.next)
    a.mov(OUT.walk, EAX)
    a.xor(EAX, EAX)
    with a.block() as first:
        a.mov(RCX, OUT.look_at)
        a.test(RCX, RCX)
        a.leave(Z, first)
        a.cmp(RCX, core.now)
        a.leave(A, first)
        a.mov(OUT.look_at, 0)
        a.mov(ECX, OUT.begin)
        a.cmp(ECX, core.slots_used)
        a.cmov(B, EAX, ECX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that finds no room")],
    outputs=[Out(CF, "1 = it has waited for long enough")],
    clobbers=[RAX, RCX],
    reads=[
        EventStream.stalled_at,
        GatewayContext.flags,
        GatewayContext.interval_cycles,
        GatewayContext.hb_sent_at,
        ShardContext.phase_deadline,
        ShardContext.attempt_deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    source="firmware/docs/events.md#stalls",
)
def stall_over(a: Asm, shard: ShardContext) -> None:
    """Tell whether a shard has to read on, because an ACK, READY or RESUMED must be heard in time."""
    gateway, over = shard.gateway, a.label("over")
    for part, since, pending in (
        (STALL_PART, shard.events.stalled_at, None),
        (OWED_PART, gateway.hb_sent_at, GatewayFlag.ACK_PENDING),
    ):
        with a.block() as early:
            if pending is not None:
                a.test(gateway.flags, pending)
                a.leave(Z, early)
            a.mov(RCX, gateway.interval_cycles)
            a.shr(RCX, part.bit_length() - 1)
            a.add(RCX, since)
            a.cmp(RCX, core.now)
            a.j(BE, over)
    # What is left of the time for RESUMED, and of the attempt's, is for reading.
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, RESUME_TIMEOUT_MS // OWED_PART)
    a.add(RCX, core.now)
    for deadline in (shard.phase_deadline, shard.attempt_deadline):  # unrolled: two
        a.mov(RAX, deadline)
        a.dec(RAX)  # zero (none) becomes the far end
        a.cmp(RAX, RCX)
        a.j(B, over)
    a.clc()
    a.ret()
    a.place(over)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that is about to read")],
    outputs=[Out(CF, "1 = not now: there is no room for what may come")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.slot,
        EventStream.stuck,
        EventStream.stalled_at,
        EventStream.part_at,
        EventStream.part_len,
        Assembly.filled,
        Outbox.next,
        Outbox.walk,
        Outbox.look_at,
        OutboxEntry.slot,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        EventStream.stalled_at,
        EventStream.waited_at,
        EventStream.part_len,
        Outbox.look_at,
        Outbox.begin,
    ],
    calls=[outbox_room, assembly_find, assembly_take, assembly_add, assembly_wait, stall_over],
    source="firmware/docs/events.md#stalls",
)
def publish_ready(a: Asm, shard: ShardContext) -> None:
    """Make a shard wait for room, and behind those that wait for it, as long as nothing else suffers."""
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
    # What has room between two walks is for those that wait.
    a.cmp(OUT.look_at, 0)
    a.j(NE, full)
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
    with a.if_(NC):
        a.mov(stream.stalled_at, 0)
        a.mov(stream.waited_at, 0)
        a.clc()
        a.ret()
    # It is the first of the next walk, unless it had the first room of this one.
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, STALL_RETRY_MS)
    a.add(RAX, core.now)
    a.mov(OUT.look_at, RAX)
    a.movzx(EAX, shard.slot)
    with a.block() as named:
        a.mov(ECX, OUT.walk)
        a.cmp(ECX, OUT.next)
        a.leave(E, named)
        a.cmp(entry_at(a).slot, AL)
        a.leave(NE, named)
        a.inc(EAX)
    a.mov(OUT.begin, EAX)

    a.place(full)
    a.cmp(stream.stalled_at, 0)
    with a.if_(E):
        a.mov(RAX, core.now)
        a.mov(stream.stalled_at, RAX)
    a.call(stall_over)
    a.j(NC, wait)
    # Whether that costs a dispatch is found out when one is whole.
    a.mov(stream.part_len, 0)
    a.mov(stream.waited_at, 0)
    a.clc()
    a.ret()
    a.place(wait)
    a.call(assembly_wait)
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
        Outbox.look_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    calls=[stall_over, notice_publish, shard_fail],
    source="firmware/docs/events.md#stuck",
)
def publish_judge(a: Asm, shard: ShardContext) -> None:
    """End the connection of a stuck shard, so that it resumes from what is acknowledged; say what is owed."""
    stream, out = shard.events, a.label("out")
    a.cmp(stream.stuck, Stuck.DROPPED)
    with a.if_(B):
        # One that reads on without room is woken by what comes; all others ask in one walk.
        with a.block() as reads:
            a.cmp(stream.stalled_at, 0)
            a.leave(E, reads)
            a.call(stall_over)
            a.leave(C, reads)
            a.mov(RAX, OUT.look_at)
            a.cmp(RAX, core.now)
            a.j(A, out)
            a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, STALL_RETRY_MS)
            a.add(RAX, core.now)
            a.jmp(out)
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
