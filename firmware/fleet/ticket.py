"""Identify tickets: one for each key, five seconds apart over all nodes of the bot.

A ticket is a lease that nobody renews. Whoever takes it has known its record long enough, and sends
its Identify within TICKET_MS of the request's sending time, or not at all.
"""

from firmware.abi import CALLER_SAVED
from firmware.fleet.answer import answer_read
from firmware.fleet.budget import TICKET_SHIFT, budget_pay, ticket_of
from firmware.fleet.cas import cas_send
from firmware.fleet.operation import jitter
from firmware.fleet.texts import FORMAT, TICKET, key_begin, key_end, put_holder, value_end
from firmware.layouts.fleet import (
    CLOCK_RATE_PERCENT,
    FLEET,
    FLEET_OUT,
    Fleet,
    Holder,
    Outgoing,
    TicketView,
    WatchState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.fleet_tickets import (
    FLEET_TICKETS,
    TICKET_GUARD_MS,
    TICKET_JITTER_MS,
    TICKET_MS,
    TICKET_ORDER_MS,
    Ticket,
    TicketPhase,
)
from firmware.layouts.log import FLEET_TICKET, FLEET_TICKET_VOID
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.log import log, log_write
from firmware.text import put, put_byte, put_decimal
from toolchain.asm import (
    AE,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8,
    R8D,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Region,
    Z,
    mem32,
    routine,
)

COMPUTED = Region("nothing", "LEA only computes")
_PERCENT = 100


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard that asks"),
        In(R12, Ticket, "the ticket of its key"),
        In(ECX, int, "the key"),
    ],
    outputs=[Out(CF, "1 = it was not sent")],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.shard_id, Ticket.revision, Fleet.op, Fleet.frozen],
    writes=[
        Ticket.phase,
        Ticket.op,
        Ticket.inbox,
        Ticket.sent_at,
        Ticket.ask_at,
        Ticket.frozen,
        Fleet.op,
        Outgoing.key_len,
        Outgoing.value_len,
        TEXT_OUT,
    ],
    calls=[key_begin, put_holder, put_decimal, cas_send],
    saves=[R13, R14],
    source="firmware/docs/fleet.md#tickets",
)
def ticket_ask(a: Asm, shard: ShardContext, ticket: Ticket, key: Reg32) -> None:
    """Ask for a ticket; its time counts from before the request leaves."""
    refused = a.label("refused")
    a.mov(R13D, key)
    a.rdtsc64()
    a.mov(R14, RAX)
    a.lea(RSI, TICKET.address)
    a.mov(ECX, TICKET.size)
    a.call(key_begin)
    a.mov(EAX, R13D)
    a.call(put_decimal)
    key_end(a)
    a.mov(R13D, FLEET.it.op)
    a.inc(R13D)
    a.mov(FLEET.it.op, R13D)
    a.lea(RDI, FLEET_OUT.it.value.address)
    put(a, FORMAT)
    a.call(put_holder)
    a.mov(EAX, R13D)
    a.call(put_decimal)
    put_byte(a, " ")
    a.mov(EAX, shard.shard_id)
    a.call(put_decimal)
    value_end(a)
    a.mov(RAX, ticket.revision)
    a.call(cas_send)
    a.j(C, refused)
    a.mov(ticket.inbox, EAX)
    a.mov(ticket.op, R13D)
    a.mov(ticket.sent_at, R14)
    a.mov(EAX, FLEET.it.frozen)
    a.mov(ticket.frozen, EAX)
    a.xor(EAX, EAX)
    a.mov(ticket.ask_at, RAX)
    a.mov(ticket.phase, TicketPhase.ASKED)
    a.clc()
    a.place(refused)
    a.ret()


def _void_at(a: Asm, ticket: Ticket) -> None:
    """RAX := when the ticket is void; RCX := now, the very moment. Clobbers RDX."""
    a.rdtsc64()
    a.mov(RCX, RAX)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, TICKET_MS)
    a.add(RAX, ticket.sent_at)


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard whose Identify could leave now"),
        In(EDX, int, "milliseconds between two Identifies of a key"),
    ],
    outputs=[Out(CF, "1 = not now")],
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.magic,
        Fleet.watch,
        Fleet.frozen,
        ShardContext.shard_id,
        Ticket.phase,
        Ticket.shard,
        Ticket.sent_at,
        Ticket.ask_at,
        Ticket.revision,
        Ticket.frozen,
        TicketView.revision,
        TicketView.seen_at,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
    ],
    writes=[Ticket.phase, Ticket.shard, Ticket.ask_at, Ticket.revision],
    calls=[ticket_of, ticket_ask, budget_pay, jitter, log_write],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/fleet.md#tickets",
)
def ticket_take(a: Asm, shard: ShardContext, spacing: Reg32) -> None:
    """Say whether an Identify may leave in this moment; until then, do what brings it about."""
    ticket, view, key, place = Ticket.at(R12), TicketView.at(R13), R14D, R15D
    take, wait, held, order, over = map(a.label, ("take", "wait", "held", "order", "over"))
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(NE, take)
    a.mov(R14D, spacing)
    a.call(ticket_of)
    a.j(C, wait)
    a.mov(R12, RSI)
    a.mov(R13, RDI)
    a.mov(place, EAX)
    a.mov(R8D, R14D)
    a.mov(key, ECX)

    # Asked for or granted: until it is void, and never over a clock that stood still.
    a.cmp(ticket.phase, TicketPhase.NONE)
    with a.if_(NE):
        _void_at(a, ticket)
        a.cmp(RCX, RAX)
        a.j(AE, over)
        a.mov(EAX, FLEET.it.frozen)
        a.cmp(EAX, ticket.frozen)
        a.j(E, held)
        a.place(over)
        a.cmp(ticket.phase, TicketPhase.MINE)
        a.mov(ticket.phase, TicketPhase.NONE)
        with a.if_(E):
            a.mov(EDX, ticket.shard)
            a.mov(ECX, key)
            log(a, FLEET_TICKET_VOID)
            a.jmp(wait)

    a.cmp(FLEET.it.watch, WatchState.SYNCED)
    a.j(NE, wait)
    a.cmp(view.revision, 0)
    a.j(E, wait)
    # (spacing + W) (1 + RHO) + 100 ms of our own time since we saw the record.
    a.lea(EAX, mem32(R8, TICKET_MS, ref=COMPUTED))
    a.imul(EAX, EAX, _PERCENT + CLOCK_RATE_PERCENT)
    a.add(EAX, _PERCENT - 1)
    a.xor(EDX, EDX)
    a.mov(ECX, _PERCENT)
    a.div(ECX)
    a.add(EAX, TICKET_GUARD_MS)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, view.seen_at)
    a.cmp(RAX, core.now)
    a.j(A, wait)
    a.mov(ECX, key)
    a.call(budget_pay)
    a.j(C, wait)

    # Low shards ask first. Whoever was decided for has its turn, unless it let it pass.
    a.mov(RAX, view.revision)
    a.cmp(RAX, ticket.revision)
    a.j(NE, order)
    a.mov(RAX, ticket.ask_at)
    a.test(RAX, RAX)
    a.j(Z, order)
    a.mov(ECX, ticket.shard)
    a.cmp(ECX, shard.shard_id)
    with a.if_(NE):
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, TICKET_MS)
        a.add(RAX, RCX)
        a.cmp(RAX, core.now)
        a.j(AE, wait)
        a.place(order)
        a.mov(EAX, TICKET_JITTER_MS)
        a.call(jitter)
        a.imul(ECX, place, TICKET_ORDER_MS)
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms)
        a.add(RAX, RCX)
        a.add(RAX, core.now)
        a.mov(ticket.ask_at, RAX)
        a.mov(ECX, shard.shard_id)
        a.mov(ticket.shard, ECX)
        a.mov(RCX, view.revision)
        a.mov(ticket.revision, RCX)
    a.cmp(RAX, core.now)
    a.j(A, wait)
    a.mov(ECX, key)
    a.call(ticket_ask)
    a.jmp(wait)

    a.place(held)
    a.cmp(ticket.phase, TicketPhase.MINE)
    a.j(NE, wait)
    a.mov(EAX, ticket.shard)
    a.cmp(EAX, shard.shard_id)
    a.j(NE, wait)
    a.place(take)
    a.clc()
    a.ret()
    a.place(wait)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose Identify was just written")],
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.magic,
        ShardContext.shard_id,
        Ticket.sent_at,
        CoreState.now,
    ],
    writes=[Ticket.phase, Ticket.paid],
    calls=[ticket_of, log_write],
    source="firmware/docs/fleet.md#tickets",
)
def ticket_spend(a: Asm, shard: ShardContext) -> None:
    """Use the ticket up, and what was paid for it."""
    ticket, out = Ticket.at(RSI), a.label("out")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(NE, out)
    a.call(ticket_of)
    a.j(C, out)
    a.mov(ticket.phase, TicketPhase.NONE)
    a.mov(ticket.paid, 0)
    a.mov(EDX, shard.shard_id)
    a.mov(R8, core.now)
    a.sub(R8, ticket.sent_at)
    log(a, FLEET_TICKET)
    a.place(out)
    a.ret()


@routine(
    inputs=[In(EAX, int, "number of the request that the message in hand answers, not 0")],
    outputs=[Out(CF, "1 = no ticket's request has this number")],
    clobbers=CALLER_SAVED,
    reads=[Ticket.phase, Ticket.inbox],
    writes=[Ticket.phase],
    calls=[answer_read],
    saves=[R12],
    source="firmware/docs/fleet.md#tickets",
)
def ticket_answered(a: Asm, inbox: Reg32) -> None:
    """Take the answer to a ticket's request. A refusal means nothing: the watch tells who has it."""
    ticket, found = Ticket.at(R12), a.label("found")
    a.lea(R12, FLEET_TICKETS.address)
    a.mov(ECX, FLEET_TICKETS.count)
    with a.loop() as keys:
        with a.block() as other:
            a.cmp(ticket.phase, TicketPhase.ASKED)
            a.leave(NE, other)
            a.cmp(ticket.inbox, inbox)
            a.j(E, found)
        a.add(R12, Ticket.SIZE)
        a.dec(ECX)
        a.again(NZ, keys)
    a.stc()
    a.ret()
    a.place(found)
    a.call(answer_read)
    with a.if_(NC):
        a.mov(ticket.phase, TicketPhase.MINE)
    a.clc()
    a.ret()


@routine(
    inputs=[
        In(ECX, int, "the key, below PERMITS_MAX"),
        In(EAX, int, "Holder of its new record"),
        In(EDX, int, "number of the operation in its holder's counting"),
    ],
    clobbers=[RCX, RSI],
    reads=[Ticket.phase, Ticket.op],
    writes=[Ticket.phase],
    source="firmware/docs/fleet.md#tickets",
)
def ticket_seen(a: Asm, key: Reg32, holder: Reg32, op: Reg32) -> None:
    """Compare the record that the watch showed with what was asked for; an answer may be lost."""
    ticket = Ticket.at(RCX)
    a.mov(key, key)
    a.shl(RCX, TICKET_SHIFT)
    a.lea(RSI, FLEET_TICKETS.address)
    a.add(RCX, RSI)
    a.cmp(ticket.phase, TicketPhase.ASKED)
    with a.if_(E), a.block() as mine:
        with a.block() as other:
            a.cmp(holder, Holder.MINE)
            a.leave(NE, other)
            a.cmp(op, ticket.op)
            a.leave(NE, other)
            a.mov(ticket.phase, TicketPhase.MINE)
            a.jmp(mine)
        a.mov(ticket.phase, TicketPhase.NONE)
    a.ret()
