"""The bot's session starts of a day, shared by all nodes: paid for before a ticket is asked for.

What the service says is left, it says to one node; that node writes it down for all.
"""

from firmware.abi import CALLER_SAVED
from firmware.bus.names import put_node
from firmware.fleet.answer import answer_read
from firmware.fleet.cas import cas_send
from firmware.fleet.texts import BUDGET, FORMAT, key_begin, key_end, value_end
from firmware.layouts.bus import Bus
from firmware.layouts.fleet import (
    FLEET,
    FLEET_OUT,
    FLEET_VIEW,
    BudgetView,
    Fleet,
    Outgoing,
    PlanMode,
    PlanView,
    TicketView,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.fleet_tickets import (
    BUDGET_ANSWER_MS,
    BUDGET_FRESH_MS,
    BUDGET_RESTATED,
    FLEET_BUDGET,
    FLEET_TICKETS,
    BudgetOp,
    Ticket,
)
from firmware.layouts.log import FLEET_BUDGET_SPENT
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.permit import PERMITS, Permits
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.log import log, log_write
from firmware.text import put, put_byte, put_decimal
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    NC,
    NE,
    R8D,
    R12,
    R12D,
    R13,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Z,
    routine,
)

TICKET_SHIFT = Ticket.SIZE.bit_length() - 1
VIEW_SHIFT = TicketView.SIZE.bit_length() - 1


@routine(
    inputs=[In(RBX, ShardContext, "a shard that wants to identify")],
    outputs=[
        Out(CF, "1 = no plan says which key it has"),
        Out(RSI, "the Ticket of its key"),
        Out(RDI, "its TicketView"),
        Out(ECX, "the key"),
        Out(EAX, "how many shards of the same key come before it"),
    ],
    clobbers=[RDX],
    reads=[ShardContext.shard_id, PlanView.mode, PlanView.max_concurrency],
    source="firmware/docs/fleet.md#tickets",
)
def ticket_of(a: Asm, shard: ShardContext) -> None:
    """Find the ticket of a shard's key."""
    plan, none = FLEET_VIEW.it.plan, a.label("none")
    a.cmp(plan.mode, PlanMode.UNKNOWN)
    a.j(E, none)
    a.mov(EAX, shard.shard_id)
    a.xor(EDX, EDX)
    a.div(plan.max_concurrency)
    a.mov(ECX, EDX)
    a.mov(RSI, RCX)
    a.shl(RSI, TICKET_SHIFT)
    a.lea(RDX, FLEET_TICKETS.address)
    a.add(RSI, RDX)
    a.mov(RDI, RCX)
    a.shl(RDI, VIEW_SHIFT)
    a.lea(RDX, FLEET_VIEW.it.tickets.address)
    a.add(RDI, RDX)
    a.clc()
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.xor(ECX, ECX)
    a.xor(ESI, ESI)
    a.xor(EDI, EDI)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that needs an Identify")],
    outputs=[Out(CF, "1 = no session start is left for it")],
    clobbers=[RAX, RCX, RDX, RSI, RDI],
    reads=[
        FleetConfig.magic,
        FleetConfig.reserve,
        BudgetView.revision,
        BudgetView.remaining,
        Ticket.paid,
    ],
    calls=[ticket_of],
    source="firmware/docs/fleet.md#budget",
)
def budget_spent(a: Asm, shard: ShardContext) -> None:
    """Tell whether the budget is down to its reserve; one that is not known yet is no reason."""
    left, budget = a.label("left"), FLEET_VIEW.it.budget
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(NE, left)
    a.cmp(budget.revision, 0)
    a.j(E, left)
    a.call(ticket_of)
    a.j(C, left)
    a.cmp(Ticket.at(RSI).paid, 0)
    a.j(NE, left)
    a.mov(EAX, budget.remaining)
    a.cmp(FLEET_CONFIG.it.reserve, EAX)
    a.cmc()
    a.ret()
    a.place(left)
    a.clc()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.reserve,
        BudgetView.revision,
        BudgetView.remaining,
        BudgetView.total,
        BudgetOp.told,
    ],
    writes=[BudgetOp.told],
    calls=[log_write],
    source="firmware/docs/fleet.md#budget",
)
def budget_tell(a: Asm) -> None:
    """Say that the budget is spent, once for each of its records."""
    budget = FLEET_VIEW.it.budget
    a.mov(RAX, budget.revision)
    a.cmp(RAX, FLEET_BUDGET.it.told)
    with a.if_(NE):
        a.mov(FLEET_BUDGET.it.told, RAX)
        a.mov(EDX, budget.remaining)
        a.mov(ECX, FLEET_CONFIG.it.reserve)
        a.mov(R8D, budget.total)
        log(a, FLEET_BUDGET_SPENT)
    a.ret()


@routine(
    inputs=[
        In(EAX, int, "Identifies that are left"),
        In(EDX, int, "Identifies of a day"),
        In(ECX, int, "BudgetOp.key: what it is for"),
    ],
    outputs=[Out(CF, "1 = not now: another is on its way, or there is no room")],
    clobbers=CALLER_SAVED,
    reads=[
        BudgetView.revision,
        BudgetOp.sent_at,
        Bus.node_len,
        Clock.tsc_cycles_per_ms,
        Fleet.op,
    ],
    writes=[
        BudgetOp.sent_at,
        BudgetOp.inbox,
        BudgetOp.key,
        Fleet.op,
        Outgoing.key_len,
        Outgoing.value_len,
        TEXT_OUT,
    ],
    calls=[key_begin, put_decimal, cas_send],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/fleet.md#budget",
)
def budget_write(a: Asm, remaining: Reg32, total: Reg32, purpose: Reg32) -> None:
    """Ask for the record to say this instead of what it is known to say; one request at a time."""
    not_yet = a.label("not_yet")
    a.mov(R12D, remaining)
    a.mov(R14D, total)
    a.mov(R15D, purpose)
    a.rdtsc64()
    a.mov(R13, RAX)
    with a.block() as idle:
        a.mov(RCX, FLEET_BUDGET.it.sent_at)
        a.test(RCX, RCX)
        a.leave(Z, idle)
        a.imul(RDX, CLOCK.it.tsc_cycles_per_ms, BUDGET_ANSWER_MS)
        a.add(RCX, RDX)
        a.cmp(RAX, RCX)
        a.j(B, not_yet)

    a.lea(RSI, BUDGET.address)
    a.mov(ECX, BUDGET.size)
    a.call(key_begin)
    key_end(a)
    a.lea(RDI, FLEET_OUT.it.value.address)
    put(a, FORMAT)
    a.mov(EAX, R12D)
    a.call(put_decimal)
    put_byte(a, " ")
    a.mov(EAX, R14D)
    a.call(put_decimal)
    put_byte(a, " ")
    put_node(a)
    put_byte(a, " ")
    a.mov(EAX, FLEET.it.op)
    a.inc(EAX)
    a.mov(FLEET.it.op, EAX)
    a.call(put_decimal)
    value_end(a)
    a.mov(RAX, FLEET_VIEW.it.budget.revision)
    a.call(cas_send)
    a.j(C, not_yet)
    a.mov(FLEET_BUDGET.it.inbox, EAX)
    a.mov(FLEET_BUDGET.it.sent_at, R13)
    a.mov(FLEET_BUDGET.it.key, R15D)
    a.clc()
    a.ret()
    a.place(not_yet)
    a.stc()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Permits.said,
        Permits.remaining,
        Permits.total,
        Permits.reset_after_ms,
        Permits.reset_at,
        BudgetOp.restated,
        BudgetView.revision,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[BudgetOp.restating, BudgetOp.restated],
    calls=[budget_write],
    source="firmware/docs/fleet.md#budget",
)
def budget_restate(a: Asm) -> None:
    """Write down what the service said to this node last, until the record has had it."""
    permits = PERMITS.it
    with a.block() as known:
        a.mov(EAX, permits.said)
        a.cmp(EAX, FLEET_BUDGET.it.restated)
        a.leave(E, known)
        a.cmp(FLEET_VIEW.it.budget.revision, 0)
        a.leave(E, known)
        # It was said so long before all starts are back.
        a.mov(EDX, permits.reset_after_ms)
        a.imul(RDX, CLOCK.it.tsc_cycles_per_ms)
        a.add(RDX, core.now)
        a.sub(RDX, permits.reset_at)
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, BUDGET_FRESH_MS)
        a.cmp(RDX, RCX)
        with a.if_(A):
            a.mov(FLEET_BUDGET.it.restated, EAX)
            a.ret()
        a.mov(EAX, permits.remaining)
        a.mov(EDX, permits.total)
        a.mov(ECX, BUDGET_RESTATED)
        a.call(budget_write)
        a.leave(C, known)
        a.mov(EAX, permits.said)
        a.mov(FLEET_BUDGET.it.restating, EAX)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard that needs an Identify"),
        In(R12, Ticket, "the ticket of its key"),
        In(ECX, int, "the key"),
    ],
    outputs=[Out(CF, "1 = not paid yet")],
    clobbers=CALLER_SAVED,
    reads=[Ticket.paid, BudgetView.revision, BudgetView.remaining, BudgetView.total],
    calls=[budget_spent, budget_tell, budget_write],
    saves=[R14],
    source="firmware/docs/fleet.md#budget",
)
def budget_pay(a: Asm, shard: ShardContext, ticket: Ticket, key: Reg32) -> None:
    """Pay for one Identify: what is left less one. What is lost on the way was paid for nothing."""
    budget, not_yet, paid = FLEET_VIEW.it.budget, a.label("not_yet"), a.label("paid")
    a.cmp(ticket.paid, 0)
    a.j(NE, paid)
    a.mov(R14D, key)
    a.cmp(budget.revision, 0)
    a.j(E, not_yet)
    a.call(budget_spent)
    with a.if_(C):
        a.call(budget_tell)
        a.stc()
        a.ret()
    a.mov(EAX, budget.remaining)
    a.dec(EAX)
    a.mov(EDX, budget.total)
    a.mov(ECX, R14D)
    a.call(budget_write)
    a.place(not_yet)
    a.stc()
    a.ret()
    a.place(paid)
    a.clc()
    a.ret()


@routine(
    inputs=[In(EAX, int, "number of the request that the message in hand answers, not 0")],
    outputs=[Out(CF, "1 = it is not the budget's")],
    clobbers=CALLER_SAVED,
    reads=[BudgetOp.sent_at, BudgetOp.inbox, BudgetOp.key, BudgetOp.restating],
    writes=[BudgetOp.sent_at, BudgetOp.restated, Ticket.paid],
    calls=[answer_read],
    source="firmware/docs/fleet.md#budget",
)
def budget_answered(a: Asm, inbox: Reg32) -> None:
    """Take the answer: an Identify is paid for, or the record has the service's word; else it is tried again."""
    other = a.label("other")
    a.cmp(FLEET_BUDGET.it.sent_at, 0)
    a.j(E, other)
    a.cmp(FLEET_BUDGET.it.inbox, inbox)
    a.j(NE, other)
    a.mov(FLEET_BUDGET.it.sent_at, 0)
    a.call(answer_read)
    with a.if_(NC):
        a.mov(ECX, FLEET_BUDGET.it.key)
        a.cmp(ECX, BUDGET_RESTATED)
        with a.if_(E):
            a.mov(EAX, FLEET_BUDGET.it.restating)
            a.mov(FLEET_BUDGET.it.restated, EAX)
        with a.else_():
            a.shl(RCX, TICKET_SHIFT)
            a.lea(RAX, FLEET_TICKETS.address)
            a.mov(Ticket.at(RAX, index=RCX).paid, 1)
    a.clc()
    a.ret()
    a.place(other)
    a.stc()
    a.ret()
