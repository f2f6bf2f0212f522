"""What a watch delivers: records into the view, heartbeats that count, and the end of one that skips."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.judge import held_judge_all, held_seen
from firmware.fleet.orders import move_put, node_put
from firmware.fleet.ticket import ticket_seen
from firmware.fleet.tokens import ack_take, key_number
from firmware.fleet.view import (
    budget_put,
    key_kind,
    lease_put,
    plan_put,
    ticket_put,
    unreadable_note,
)
from firmware.fleet.watch import watch_end, watch_synced
from firmware.layouts.bus import BUS_IN, BusMessage
from firmware.layouts.fleet import FLEET, HEARTBEAT_STATUS, Fleet, RecordKind, WatchState
from firmware.layouts.fleet_sites import FLEET_DELIVERY, FLEET_GAP
from firmware.layouts.node import CoreState, core
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R10,
    R10D,
    R11,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    RAX,
    RCX,
    RDI,
    RSI,
    Asm,
    C,
    E,
    In,
    Reg32,
    Reg64,
    Z,
    routine,
)
from toolchain.layout.data import constant

LAST_CONSUMER = constant("fleet_last_consumer", b"Nats-Last-Consumer:", "what a heartbeat counts")


@routine(
    inputs=[
        In(EAX, int, "RecordKind"),
        In(EDX, int, "which lease, ticket or move"),
        In(RCX, int, "revision"),
    ],
    clobbers=CALLER_SAVED,
    calls=[
        plan_put,
        lease_put,
        ticket_put,
        budget_put,
        node_put,
        move_put,
        unreadable_note,
        held_seen,
        ticket_seen,
    ],
    saves=[R12, R13, R14],
    source="firmware/docs/fleet.md#records",
)
def record_take(a: Asm, kind: Reg32, number: Reg32, revision: Reg64) -> None:
    """Take the record in hand into the view, and compare a lease with what is held."""
    put, out = a.label("put"), a.label("out")
    a.mov(R12D, kind)
    a.mov(R13D, number)
    a.mov(R14, revision)
    for which, target in (
        (RecordKind.LEASE, lease_put),
        (RecordKind.PLAN, plan_put),
        (RecordKind.BUDGET, budget_put),
        (RecordKind.NODE, node_put),
        (RecordKind.MOVE, move_put),
    ):  # five kinds, unrolled
        a.cmp(R12D, which)
        with a.if_(E):
            a.call(target)
            a.jmp(put)
    a.cmp(R12D, RecordKind.TICKET)
    a.j(NE, out)
    a.call(ticket_put)
    a.j(C, put)
    a.mov(ECX, R13D)
    a.mov(EDX, R10D)
    a.jmp(ticket_seen)
    a.place(put)
    with a.if_(C):
        a.mov(EAX, R12D)
        a.mov(EDX, R13D)
        a.mov(RCX, R14)
        a.call(unreadable_note)
    a.cmp(R12D, RecordKind.LEASE)
    with a.if_(E):
        a.mov(EDX, R13D)
        a.mov(RCX, R14)
        a.jmp(held_seen)
    a.place(out)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.status,
        BusMessage.header,
        BusMessage.header_len,
        BusMessage.reply,
        BusMessage.reply_len,
        BusMessage.subject,
        BusMessage.subject_len,
        Fleet.consumer_seq,
        Fleet.watch,
        CoreState.now,
    ],
    writes=[Fleet.consumer_seq, Fleet.heard_at, Fleet.idle_at, Fleet.watch],
    calls=[key_number, ack_take, key_kind, record_take, watch_synced, watch_end, held_judge_all],
    saves=[R12, R13],
    source="firmware/docs/fleet.md#watch",
)
def watch_heard(a: Asm) -> None:
    """Take what came on the watch: a heartbeat that counts as we do, or the very next delivery."""
    pending, revision = R12, R13
    beat, gap, bad, end = map(a.label, ("beat", "gap", "bad", "end"))
    a.movzx(EAX, BUS_IN.it.status)
    a.cmp(EAX, HEARTBEAT_STATUS)
    a.j(E, beat)
    a.test(EAX, EAX)
    a.j(NZ, bad)
    a.mov(RSI, BUS_IN.it.reply)
    a.mov(ECX, BUS_IN.it.reply_len)
    a.call(ack_take)
    a.j(C, bad)
    a.mov(revision, RAX)
    a.mov(pending, R11)
    a.mov(RAX, FLEET.it.consumer_seq)
    a.inc(RAX)
    a.cmp(RAX, R10)
    a.j(NE, gap)
    a.mov(FLEET.it.consumer_seq, RAX)
    a.mov(RAX, core.now)
    a.mov(FLEET.it.heard_at, RAX)
    a.mov(FLEET.it.idle_at, 0)
    a.cmp(FLEET.it.watch, WatchState.CREATING)
    with a.if_(E):
        a.mov(FLEET.it.watch, WatchState.SYNCING)
    a.mov(RSI, BUS_IN.it.subject)
    a.mov(ECX, BUS_IN.it.subject_len)
    a.call(key_kind)
    a.mov(RCX, revision)
    a.call(record_take)
    a.test(pending, pending)
    with a.if_(Z):
        a.call(watch_synced)
    a.jmp(held_judge_all)

    a.place(beat)
    a.mov(RSI, BUS_IN.it.header)
    a.mov(R8D, BUS_IN.it.header_len)
    a.add(R8, RSI)
    a.lea(RDI, LAST_CONSUMER.address)
    a.mov(EDX, LAST_CONSUMER.size)
    a.call(key_number)
    a.j(C, bad)
    a.cmp(RAX, FLEET.it.consumer_seq)
    a.j(NE, gap)
    a.mov(RAX, core.now)
    a.mov(FLEET.it.heard_at, RAX)
    a.ret()
    a.place(gap)
    a.mov(EDX, FLEET_GAP.code)
    a.jmp(end)
    a.place(bad)
    a.mov(EDX, FLEET_DELIVERY.code)
    a.place(end)
    a.jmp(watch_end)
