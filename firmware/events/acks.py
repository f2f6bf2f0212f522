"""Acknowledgements: what the stream has taken, in order, and what it has not taken in time."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.tokens import key_number
from firmware.layouts.bus import BUS, BUS_IN, DATA, BusLink, BusMessage
from firmware.layouts.events import EventStream, GapTold, Stuck
from firmware.layouts.gateway import GatewayContext, GatewayState
from firmware.layouts.log import PUBLISH_REFUSED, PUBLISH_STUCK
from firmware.layouts.node import CLOCK, CORE, Clock, CoreState, Slot, core
from firmware.layouts.outbox import (
    ACK_TIMEOUT_MS,
    AGAIN_MS,
    ENTRIES,
    HEAD_MAX,
    OUTBOX,
    STREAM,
    STUB_MAX,
    EntryState,
    Outbox,
    OutboxEntry,
)
from firmware.layouts.shard import ShardContext
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    BE,
    EAX,
    EBX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    E,
    In,
    Out,
    Region,
    mem32,
    mem64,
    routine,
)
from toolchain.layout.data import constant

ENTRY_SHIFT = OutboxEntry.SIZE.bit_length() - 1
TAKEN = b'{"stream":"' + STREAM + b'",'
"""How the answer begins that says where a publication lies; an error begins otherwise."""
DOUBLE = b"true}"
"""How it ends when the stream knew the publication already."""
ERROR_KEY = constant("publish_error_key", b'"err_code":', "why the stream did not take it")
TOO_LARGE = 10054
"""The error of a message that is larger than the stream takes."""
ANSWER = Region("the answer of the stream", "in the link's ring, bounded by its length")
NUMBER_BITS = ENTRIES - 1
IN, OUT = BUS_IN.it, OUTBOX.it


def entry_at(a: Asm) -> OutboxEntry:
    """RDX := the entry of number ECX. Clobbers RCX."""
    a.and_(ECX, NUMBER_BITS)
    a.shl(ECX, ENTRY_SHIFT)
    a.lea(RDX, OUT.entries.address)
    a.add(RDX, RCX)
    return OutboxEntry.at(RDX)


@routine(
    inputs=[
        In(RDX, OutboxEntry, "a publication that is answered or given up: the one before `first`")
    ],
    clobbers=CALLER_SAVED,
    reads=[
        OutboxEntry,
        Slot.context,
        ShardContext.connection,
        CoreState.now,
        GatewayContext.state,
        GatewayContext.seq_acked,
        EventStream.stuck,
        EventStream.gap_told,
        EventStream.owed_number,
        Outbox.first,
    ],
    writes=[
        GatewayContext.seq_acked,
        EventStream.gap_told,
        EventStream.stuck,
        EventStream.stuck_at,
        Slot.deadline,
        CoreState.slots_due,
    ],
    calls=[log_write],
    saves=[RBX],
    source="firmware/docs/events.md#acknowledgements",
)
def outbox_credit(a: Asm, entry: OutboxEntry) -> None:
    """Tell the shard: its sequence counts now, or it has to resume from the one before."""
    slot, shard, done, failed = (
        Slot.at(RAX),
        ShardContext.at(RBX),
        a.label("done"),
        a.label("failed"),
    )
    a.movzx(EAX, entry.slot)
    a.shl(EAX, 4)  # a slot row is 16 bytes
    a.lea(RCX, CORE.it.slots.address)
    a.add(RAX, RCX)
    a.mov(EBX, slot.context)
    a.test(EBX, EBX)
    a.jz(done)
    # No service repeats a GAP: it is owed until the stream has it.
    with a.block() as other:
        a.cmp(shard.events.gap_told, GapTold.SAID)
        a.leave(NE, other)
        a.mov(ECX, OUT.first)
        a.dec(ECX)
        a.cmp(ECX, shard.events.owed_number)
        a.leave(NE, other)
        a.mov(shard.events.gap_told, GapTold.OWED)
        a.cmp(entry.state, EntryState.DONE)
        a.leave(NE, other)
        a.mov(shard.events.gap_told, GapTold.ALL)
    # What came over another connection was repeated, or will be.
    a.mov(ECX, entry.connection)
    a.cmp(ECX, shard.connection)
    a.jne(done)
    a.mov(ECX, shard.gateway.state)
    a.sub(ECX, GatewayState.WAIT_RESUMED)
    a.cmp(ECX, GatewayState.READY - GatewayState.WAIT_RESUMED)
    a.j(A, done)
    a.cmp(shard.events.stuck, Stuck.FAILED)
    a.j(E, done)
    a.cmp(entry.state, EntryState.FAILED)
    a.j(E, failed)
    a.mov(ECX, entry.sequence)
    a.cmp(ECX, shard.gateway.seq_acked)
    with a.if_(A):
        a.mov(shard.gateway.seq_acked, ECX)
    a.ret()
    a.place(failed)
    a.mov(shard.events.stuck, Stuck.FAILED)
    a.mov(RCX, core.now)
    a.mov(shard.events.stuck_at, RCX)
    a.mov(slot.deadline, 0)
    a.mov(core.slots_due, 0)
    a.mov(EDX, Stuck.FAILED)
    a.mov(ECX, shard.gateway.seq_acked)
    log(a, PUBLISH_STUCK, RBX)
    a.place(done)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Outbox.first, Outbox.next, OutboxEntry.state, OutboxEntry.end],
    writes=[Outbox.first, Outbox.freed],
    calls=[outbox_credit],
    source="firmware/docs/events.md#acknowledgements",
)
def outbox_settle(a: Asm) -> None:
    """Free what is answered, oldest first, and tell each shard."""
    with a.loop() as oldest:
        a.mov(ECX, OUT.first)
        a.cmp(ECX, OUT.next)
        a.leave(E, oldest)
        entry = entry_at(a)
        a.cmp(entry.state, EntryState.WAITING)
        a.leave(E, oldest)
        a.mov(RAX, entry.end)
        a.mov(OUT.freed, RAX)
        a.inc(OUT.first)
        a.call(outbox_credit)
        a.jmp(oldest.top)
    a.ret()


@routine(
    inputs=[In(RDX, OutboxEntry, "the waiting publication whose answer is in BUS_IN")],
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage,
        Outbox.first,
        Outbox.freed,
        Outbox.again_at,
        Outbox.refusals,
        Outbox.too_large,
        OutboxEntry,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        OutboxEntry.state,
        Outbox.refused,
        Outbox.again_at,
        Outbox.refusals,
        Outbox.too_large,
        Outbox.since,
    ],
    calls=[key_number, outbox_settle, log_write],
    saves=[R12, R13],
    source="firmware/docs/events.md#refusals",
)
def outbox_refused(a: Asm, entry: OutboxEntry) -> None:
    """Let everything go again a little later; what is too large for the stream never does."""
    later, entry = a.label("later"), OutboxEntry.at(R12)

    def tell() -> None:
        a.mov(ECX, entry.sequence)
        a.movzx(EDX, entry.slot)
        a.movzx(R8D, IN.status)
        a.mov(R9D, R13D)
        log(a, PUBLISH_REFUSED)

    a.mov(R12, RDX)
    a.xor(R13D, R13D)
    a.inc(OUT.refused)
    a.cmp(IN.status, 0)
    with a.if_(E):
        a.mov(RSI, IN.body)
        a.mov(R8D, IN.body_len)
        a.add(R8, RSI)
        a.lea(RDI, ERROR_KEY.address)
        a.mov(EDX, ERROR_KEY.size)
        a.call(key_number)
        a.mov(R13D, EAX)
    a.cmp(R13D, TOO_LARGE)
    a.j(NE, later)
    # It begins where the one before it ends.
    a.mov(ECX, IN.inbox)
    a.mov(RAX, OUT.freed)
    a.cmp(ECX, OUT.first)
    with a.if_(NE):
        a.dec(ECX)
        a.mov(RAX, entry_at(a).end)
    a.neg(RAX)
    a.add(RAX, entry.end)
    # A stub has no other that could stand for it.
    a.cmp(EAX, HEAD_MAX + STUB_MAX)
    a.j(BE, later)
    a.mov(ECX, OUT.too_large)
    a.dec(ECX)  # 0 = none is above all
    a.cmp(ECX, EAX)
    with a.if_(AE):
        a.mov(OUT.too_large, EAX)
    a.mov(entry.state, EntryState.FAILED)
    a.mov(RAX, core.now)
    a.mov(OUT.since, RAX)
    tell()
    a.jmp(outbox_settle)

    a.place(later)
    a.cmp(OUT.again_at, 0)
    with a.if_(E):
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, AGAIN_MS)
        a.add(RAX, core.now)
        a.mov(OUT.again_at, RAX)
        a.inc(OUT.refusals)
        a.cmp(OUT.refusals, 1)
        with a.if_(E):
            tell()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage,
        BusLink.midway,
        ANSWER,
        Outbox.first,
        Outbox.next,
        Outbox.sending,
        OutboxEntry,
        CoreState.now,
    ],
    writes=[
        OutboxEntry.state,
        Outbox.acknowledged,
        Outbox.duplicates,
        Outbox.refusals,
        Outbox.since,
    ],
    calls=[outbox_settle, outbox_refused],
    source="firmware/docs/events.md#acknowledgements",
)
def outbox_answer(a: Asm) -> None:
    """Take the stream's answer in BUS_IN; one that belongs to no waiting publication means nothing."""
    refused, none = a.label("refused"), a.label("none")
    a.mov(ECX, IN.inbox)
    a.mov(EAX, ECX)
    a.sub(EAX, OUT.first)
    a.mov(EDX, OUT.next)
    a.sub(EDX, OUT.first)
    a.cmp(EAX, EDX)
    a.jae(none)
    # While it is on its way again, this answers the time before.
    a.cmp(ECX, OUT.sending)
    with a.if_(E):
        a.lea(RAX, BUS.it.links.address)
        a.cmp(BusLink.at(RAX, DATA * BusLink.SIZE).midway, 0)
        a.j(NE, none)
    entry = entry_at(a)
    a.cmp(entry.state, EntryState.WAITING)
    a.jne(none)
    a.mov(RSI, IN.body)
    a.mov(ECX, IN.body_len)
    a.cmp(ECX, len(TAKEN) + len(DOUBLE))
    a.jb(refused)
    for at in (0, 8, len(TAKEN) - 8):  # unrolled: the last two overlap
        a.mov(RAX, int.from_bytes(TAKEN[at : at + 8], "little"))
        a.cmp(mem64(RSI, at, ref=ANSWER), RAX)
        a.jne(refused)
    a.mov(entry.state, EntryState.DONE)
    a.mov(OUT.refusals, 0)
    a.mov(RAX, core.now)
    a.mov(OUT.since, RAX)
    a.inc(OUT.acknowledged)
    a.mov(EAX, int.from_bytes(DOUBLE[:4], "little"))
    a.cmp(mem32(RSI, -len(DOUBLE), index=RCX, ref=ANSWER), EAX)
    with a.if_(E):
        a.inc(OUT.duplicates)
    a.jmp(outbox_settle)
    a.place(refused)
    a.jmp(outbox_refused)
    a.place(none)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC when the oldest publication is overdue; all ones = none waits")],
    clobbers=CALLER_SAVED,
    reads=[
        Outbox.first,
        Outbox.next,
        OutboxEntry.queued_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[OutboxEntry.state, Outbox.overdue],
    calls=[outbox_settle],
    saves=[R12],
    source="firmware/docs/events.md#acknowledgements",
)
def outbox_overdue(a: Asm) -> None:
    """Give up what nobody acknowledged in time."""
    a.imul(R12, CLOCK.it.tsc_cycles_per_ms, ACK_TIMEOUT_MS)
    with a.loop() as oldest:
        a.mov(ECX, OUT.first)
        a.cmp(ECX, OUT.next)
        a.leave(E, oldest)
        entry = entry_at(a)
        a.mov(RAX, entry.queued_at)
        a.add(RAX, R12)
        a.cmp(RAX, core.now)
        with a.if_(A):
            a.ret()
        a.mov(entry.state, EntryState.FAILED)
        a.inc(OUT.overdue)
        a.call(outbox_settle)
        a.jmp(oldest.top)
    a.mov(RAX, -1)
    a.ret()
