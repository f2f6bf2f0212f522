"""What a delivery of the watch says: which key it is of, and what that key now holds."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.plan import plan_record
from firmware.fleet.records import budget_record, lease_record, ticket_record
from firmware.fleet.tokens import DOT, TEXT, number_take, text_differs
from firmware.layouts.bus import BUS, BUS_IN, Bus, BusMessage
from firmware.layouts.fleet import (
    FLEET,
    FLEET_SLOTS_MAX,
    FLEET_VIEW,
    KEY_PREFIX,
    KEY_ROOM,
    BudgetView,
    Fleet,
    PlanView,
    RecordKind,
    SlotView,
    TicketView,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.log import FLEET_PLAN, FLEET_UNREADABLE
from firmware.layouts.permit import PERMITS_MAX
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    BE,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9,
    R9D,
    R10D,
    R11,
    R12,
    R13,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem32,
    routine,
)
from toolchain.layout.data import constant

PREFIX = constant("fleet_key_prefix", KEY_PREFIX, "how every key begins")
ROOM = constant("fleet_key_room", KEY_ROOM, "what follows the bot in keys that are watched")
SLOT_SHIFT, TICKET_SHIFT = SlotView.SIZE.bit_length() - 1, TicketView.SIZE.bit_length() - 1
_NUMBERED = {
    b"lease.": (RecordKind.LEASE, FLEET_SLOTS_MAX),
    b"ident.": (RecordKind.TICKET, PERMITS_MAX),
    b"move.": (RecordKind.MOVE, FLEET_SLOTS_MAX),
}
_SINGLE = {b"plan": RecordKind.PLAN, b"budget": RecordKind.BUDGET}
_NODE = b"node."


def _begins(a: Asm, name: bytes, other: Label) -> None:
    """Go to `other` unless the text at RSI begins with a name of 4 to 8 bytes that is not longer."""
    a.lea(RAX, mem8(RSI, len(name), ref=TEXT))
    a.cmp(RAX, R8)
    a.j(A, other)
    for at in dict.fromkeys((0, len(name) - 4)):  # unrolled: two doublewords that overlap
        a.cmp(mem32(RSI, at, ref=TEXT), int.from_bytes(name[at : at + 4], "little"))
        a.j(NE, other)


@routine(
    inputs=[In(RSI, int, "the subject of a delivery"), In(ECX, int, "its bytes")],
    outputs=[
        Out(EAX, "RecordKind"),
        Out(EDX, "which lease, ticket or move; 0 with the others"),
    ],
    clobbers=[RCX, RSI, RDI, R8, R9],
    reads=[TEXT, FleetConfig.bot_len, Bus.node_len],
    calls=[text_differs, number_take],
    source="firmware/docs/fleet.md#records",
)
def key_kind(a: Asm, subject: Reg64, size: Reg32) -> None:
    """Tell which record a key names; a number that no table holds is of no interest."""
    other = a.label("other")
    a.mov(size, size)
    a.lea(R8, mem8(subject, index=RCX, ref=TEXT))
    for part, length in (
        (PREFIX.address, PREFIX.size),
        (FLEET_CONFIG.it.bot.address, FLEET_CONFIG.it.bot_len),
        (ROOM.address, ROOM.size),
    ):  # three parts, unrolled
        if isinstance(length, int):
            a.mov(EDX, length)
        else:
            a.movzx(EDX, length)
        a.mov(RAX, R8)
        a.sub(RAX, RSI)
        a.cmp(RAX, RDX)
        a.j(B, other)
        a.mov(ECX, EDX)
        a.lea(RDI, part)
        a.call(text_differs)
        a.j(C, other)
        a.add(RSI, RDX)

    for name, kind in _SINGLE.items():  # two names, unrolled
        different = a.label("different")
        _begins(a, name, different)
        a.cmp(RAX, R8)
        a.j(NE, different)
        a.mov(EAX, kind)
        a.xor(EDX, EDX)
        a.ret()
        a.place(different)
    for name, (kind, most) in _NUMBERED.items():  # three names, unrolled
        different = a.label("different")
        _begins(a, name, different)
        a.mov(RSI, RAX)
        a.mov(EDX, DOT)
        a.call(number_take)
        a.j(C, other)
        a.cmp(RSI, R8)
        a.j(NE, other)
        a.cmp(RAX, most)
        a.j(AE, other)
        a.mov(EDX, EAX)
        a.mov(EAX, kind)
        a.ret()
        a.place(different)
    # Orders to other nodes are none of ours.
    _begins(a, _NODE, other)
    a.mov(RSI, RAX)
    a.mov(RCX, R8)
    a.sub(RCX, RSI)
    a.lea(RDI, BUS.it.node.address)
    a.movzx(EDX, BUS.it.node_len)
    a.call(text_differs)
    a.j(C, other)
    a.mov(EAX, RecordKind.NODE)
    a.xor(EDX, EDX)
    a.ret()
    a.place(other)
    a.xor(EAX, EAX)  # RecordKind.OTHER
    a.xor(EDX, EDX)
    a.ret()


@routine(
    inputs=[
        In(EAX, int, "RecordKind"),
        In(EDX, int, "which lease, ticket or move"),
        In(RCX, int, "revision"),
    ],
    clobbers=CALLER_SAVED,
    reads=[Fleet.unreadable_at],
    writes=[Fleet.unreadable, Fleet.unreadable_at],
    calls=[log_write],
    source="firmware/docs/fleet.md#records",
)
def unreadable_note(a: Asm, kind: Reg32, number: Reg32, revision: Reg64) -> None:
    """Count a record that cannot be read; each is told of once, however often a watch shows it."""
    a.inc(FLEET.it.unreadable)
    a.cmp(revision, FLEET.it.unreadable_at)
    with a.if_(BE):
        a.ret()
    a.mov(FLEET.it.unreadable_at, revision)
    a.mov(R8, revision)
    a.mov(ECX, number)
    a.mov(EDX, kind)
    log(a, FLEET_UNREADABLE)
    a.ret()


@routine(
    inputs=[In(RCX, int, "revision")],
    outputs=[Out(CF, "1 = it cannot be read")],
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.body,
        BusMessage.body_len,
        PlanView.revision,
        PlanView.mode,
        PlanView.epoch,
        PlanView.total,
        PlanView.slots,
        Fleet.plan_told,
    ],
    writes=[PlanView.revision, Fleet.plan_told],
    calls=[plan_record, log_write],
    source="firmware/docs/fleet.md#plan",
)
def plan_put(a: Asm, revision: Reg64) -> None:
    """Take the plan in hand, and say so once."""
    plan = FLEET_VIEW.it.plan
    a.mov(plan.revision, revision)
    a.mov(RSI, BUS_IN.it.body)
    a.mov(ECX, BUS_IN.it.body_len)
    a.lea(RDX, plan.revision)
    a.call(plan_record)
    with a.if_(C):
        a.ret()
    a.mov(RAX, plan.revision)
    a.cmp(RAX, FLEET.it.plan_told)
    with a.if_(A):
        a.mov(FLEET.it.plan_told, RAX)
        a.mov(EDX, plan.mode)
        a.mov(ECX, plan.epoch)
        a.mov(R8D, plan.total)
        a.mov(R9D, plan.slots)
        log(a, FLEET_PLAN)
    a.clc()
    a.ret()


@routine(
    inputs=[In(EDX, int, "slot, below FLEET_SLOTS_MAX"), In(RCX, int, "revision")],
    outputs=[Out(CF, "1 = it cannot be read")],
    clobbers=CALLER_SAVED,
    reads=[BusMessage.body, BusMessage.body_len],
    writes=[SlotView.revision, SlotView.seen_at, SlotView.claim_at],
    calls=[lease_record],
    source="firmware/docs/fleet.md#claims",
)
def lease_put(a: Asm, slot: Reg32, revision: Reg64) -> None:
    """Take the lease in hand: whoever wants it waits from this very moment on."""
    view = SlotView.at(RSI)
    a.mov(slot, slot)
    a.shl(RDX, SLOT_SHIFT)
    a.lea(RSI, FLEET_VIEW.it.slots.address)
    a.add(RSI, RDX)
    a.mov(view.revision, revision)
    # Now, and not the time of the turn: that may lie before the record was written.
    a.rdtsc64()
    a.mov(view.seen_at, RAX)
    a.xor(EAX, EAX)
    a.mov(view.claim_at, RAX)
    a.mov(RDX, RSI)
    a.mov(RSI, BUS_IN.it.body)
    a.mov(ECX, BUS_IN.it.body_len)
    a.jmp(lease_record)


@routine(
    inputs=[In(EDX, int, "key, below PERMITS_MAX"), In(RCX, int, "revision")],
    outputs=[
        Out(CF, "1 = it cannot be read"),
        Out(EAX, "Holder"),
        Out(R10D, "number of the operation in its holder's counting"),
    ],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9, R11],
    reads=[BusMessage.body, BusMessage.body_len],
    writes=[TicketView.revision, TicketView.seen_at],
    calls=[ticket_record],
    saves=[R12, R13],
    source="firmware/docs/fleet.md#tickets",
)
def ticket_put(a: Asm, key: Reg32, revision: Reg64) -> None:
    """Take the ticket in hand; one that cannot be read is nobody's to take."""
    view = TicketView.at(R12)
    a.mov(key, key)
    a.shl(RDX, TICKET_SHIFT)
    a.lea(R12, FLEET_VIEW.it.tickets.address)
    a.add(R12, RDX)
    a.mov(R13, revision)
    a.rdtsc64()
    a.mov(view.seen_at, RAX)
    a.mov(RSI, BUS_IN.it.body)
    a.mov(ECX, BUS_IN.it.body_len)
    a.call(ticket_record)
    with a.if_(C):
        a.mov(view.revision, 0)
        a.stc()
        a.ret()
    a.mov(view.revision, R13)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RCX, int, "revision")],
    outputs=[Out(CF, "1 = it cannot be read")],
    clobbers=CALLER_SAVED,
    reads=[BusMessage.body, BusMessage.body_len],
    writes=[BudgetView.revision],
    calls=[budget_record],
    saves=[R12],
    source="firmware/docs/fleet.md#budget",
)
def budget_put(a: Asm, revision: Reg64) -> None:
    """Take the budget in hand; one that cannot be read is not spent."""
    budget = FLEET_VIEW.it.budget
    a.mov(R12, revision)
    a.mov(RSI, BUS_IN.it.body)
    a.mov(ECX, BUS_IN.it.body_len)
    a.lea(RDX, budget.revision)
    a.call(budget_record)
    with a.if_(C):
        a.mov(budget.revision, 0)
        a.stc()
        a.ret()
    a.mov(budget.revision, R12)
    a.clc()
    a.ret()
