"""What this node holds: grants, what the watch says of its records, and when its shards may run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.fleet.spans import grant_span, hold_span
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    HELD_MAX,
    OPS_MAX,
    RENEW_SHARE,
    Fleet,
    FleetOp,
    HeldPhase,
    HeldSlot,
    PlanRange,
    SlotView,
)
from firmware.layouts.log import (
    FLEET_GRANTED,
    FLEET_STOPPING,
)
from firmware.layouts.node import LEASE, Clock, CoreState, Lease, core
from firmware.log import log, log_write
from toolchain.asm import (
    DL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Label,
    Mem32,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    routine,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolchain.asm import Label, Mem32

RANGES = Region("ranges of the plan", "PlanView.ranges, indexed below PlanView.slots")
SLOT_SHIFT = SlotView.SIZE.bit_length() - 1


def name_slot(a: Asm, held: HeldSlot) -> None:
    """EDX, ECX := the first two values of a line: slot and generation."""
    a.movzx(EDX, held.slot)
    a.mov(ECX, held.generation)


def site_number(a: Asm, register: Reg32, source: Reg32 | Mem32[int]) -> None:
    """Take the number of a site out of its code."""
    a.mov(register, source)
    a.shr(register, 16)
    a.and_(register, 0xFF)


def plan_compare(a: Asm, record: HeldSlot | SlotView, slot: Reg64, differs: Label) -> None:
    """Go on when the plan has its slot as the record says. Clobbers RAX and RCX."""
    plan, shards = FLEET_VIEW.it.plan, PlanRange.at(RCX)
    a.lea(RAX, plan.ranges.address)
    a.lea(RCX, mem8(RAX, index=slot, scale=PlanRange.SIZE, ref=RANGES))
    for said, planned in (
        (record.epoch, plan.epoch),
        (record.total, plan.total),
        (record.start, shards.start),
        (record.count, shards.count),
    ):  # four numbers, unrolled
        a.mov(EAX, said)
        a.cmp(EAX, planned)
        a.j(NE, differs)


@contextmanager
def each_held(a: Asm) -> Iterator[Label]:
    """Run the block for every entry: RBX is it; R12 counts. A jump to the label goes to the next."""
    following = a.label("following")
    a.lea(RBX, FLEET.it.held.address)
    a.mov(R12D, HELD_MAX)
    with a.loop() as entries:
        yield following
        a.place(following)
        a.add(RBX, HeldSlot.SIZE)
        a.dec(R12D)
        a.again(NZ, entries)


@routine(
    inputs=[In(EDX, int, "slot of the plan")],
    outputs=[Out(RAX, "the HeldSlot that it has; 0 = this node neither holds nor claims it")],
    clobbers=[RCX],
    reads=[HeldSlot.phase, HeldSlot.slot],
    source="firmware/docs/fleet.md#states",
)
def held_find(a: Asm, slot: Reg32) -> None:
    """Find a slot among those held, claimed, or gone but not silent yet."""
    held, found = HeldSlot.at(RAX), a.label("found")
    a.lea(RAX, FLEET.it.held.address)
    a.mov(ECX, HELD_MAX)
    with a.loop() as entries:
        with a.block() as other:
            a.cmp(held.phase, HeldPhase.NONE)
            a.leave(E, other)
            a.cmp(held.slot, DL)
            a.j(E, found)
        a.add(RAX, HeldSlot.SIZE)
        a.dec(ECX)
        a.again(NZ, entries)
    a.xor(EAX, EAX)
    a.place(found)
    a.ret()


@routine(
    inputs=[In(RBX, HeldSlot, "the slot"), In(EDX, int, "number of an operation, not 0")],
    outputs=[Out(RAX, "its FleetOp; 0 = it is not remembered")],
    clobbers=[RCX],
    reads=[FleetOp.op],
    source="firmware/docs/fleet.md#grants",
)
def op_find(a: Asm, held: HeldSlot, number: Reg32) -> None:
    """Find an operation by its number."""
    op, found = FleetOp.at(RAX), a.label("found")
    a.lea(RAX, held.ops.address)
    a.mov(ECX, OPS_MAX)
    with a.loop() as entries:
        a.cmp(op.op, number)
        a.j(E, found)
        a.add(RAX, FleetOp.SIZE)
        a.dec(ECX)
        a.again(NZ, entries)
    a.xor(EAX, EAX)
    a.place(found)
    a.ret()


@routine(
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[HeldSlot.phase, HeldSlot.hard_stop, Fleet.grants],
    writes=[Fleet.holding, Lease.deadline, Lease.generation, Lease.expired],
    source="firmware/docs/fleet.md#the-nodes-lease",
)
def lease_mirror(a: Asm) -> None:
    """Let the node's lease last as long as the longest of its slots; without one it is expired."""
    held, latest, holding = HeldSlot.at(RSI), RAX, EDX
    a.lea(RSI, FLEET.it.held.address)
    a.xor(EAX, EAX)
    a.xor(holding, holding)
    a.mov(ECX, HELD_MAX)
    with a.loop() as entries:
        with a.block() as idle:
            a.cmp(held.phase, HeldPhase.NONE)
            a.leave(E, idle)
            a.inc(holding)
            a.cmp(held.phase, HeldPhase.HELD)
            a.leave(B, idle)
            a.cmp(held.phase, HeldPhase.STOPPING)
            a.leave(A, idle)
            a.cmp(held.hard_stop, latest)
            a.cmov(A, latest, held.hard_stop)
        a.add(RSI, HeldSlot.SIZE)
        a.dec(ECX)
        a.again(NZ, entries)
    a.mov(FLEET.it.holding, holding)
    a.mov(ECX, FLEET.it.grants)
    a.mov(LEASE.it.generation, RCX)
    a.xor(ECX, ECX)
    a.test(latest, latest)
    with a.if_(Z):
        a.inc(ECX)
    with a.else_():
        a.mov(LEASE.it.deadline, latest)
    a.mov(LEASE.it.expired, ECX)
    a.ret()


@routine(
    inputs=[
        In(RBX, HeldSlot, "the slot"),
        In(RSI, FleetOp, "the operation of it that was granted"),
        In(RCX, int, "revision of its record"),
        In(EDX, int, "1 = the watch told, 0 = the answer did"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.phase,
        HeldSlot.slot,
        HeldSlot.generation,
        HeldSlot.revision,
        HeldSlot.duration_ms,
        HeldSlot.deadline,
        HeldSlot.hard_stop,
        FleetOp.op,
        FleetOp.sent_at,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
    ],
    writes=[
        HeldSlot.phase,
        HeldSlot.revision,
        HeldSlot.granted_op,
        HeldSlot.renewals,
        HeldSlot.deadline,
        HeldSlot.hard_stop,
        HeldSlot.renew_at,
        FleetOp.op,
        Fleet.adopted,
        Fleet.grants,
    ],
    calls=[log_write],
    saves=[R12],
    source="firmware/docs/fleet.md#grants",
)
def held_grant(a: Asm, held: HeldSlot, op: FleetOp, revision: Reg64, told: Reg32) -> None:
    """Take a grant: it counts from before the request left, and never shortens what was granted."""
    sent, known = R12, a.label("known")
    a.cmp(revision, held.revision)
    with a.if_(B):
        a.ret()  # an answer that was overtaken by a later record
    a.j(E, known)
    a.add(FLEET.it.adopted, told)
    a.cmp(held.revision, 0)
    with a.if_(NE):
        a.inc(held.renewals)
    a.place(known)
    a.mov(held.revision, revision)
    a.mov(R9D, op.op)
    a.mov(held.granted_op, R9D)
    a.mov(sent, op.sent_at)

    # What was sent before it can never be granted any more.
    earlier = FleetOp.at(RAX)
    a.lea(RAX, held.ops.address)
    a.mov(ECX, OPS_MAX)
    with a.loop() as entries:
        a.cmp(earlier.op, R9D)
        with a.if_(B):
            a.mov(earlier.op, 0)
        a.add(RAX, FleetOp.SIZE)
        a.dec(ECX)
        a.again(NZ, entries)

    a.mov(EAX, held.duration_ms)
    grant_span(a)
    a.mov(R8, RAX)
    a.add(R8, sent)
    a.cmp(R8, held.deadline)
    with a.if_(A):
        a.mov(held.deadline, R8)
        a.mov(EAX, held.duration_ms)
        hold_span(a)
        a.add(RAX, sent)
        a.mov(held.hard_stop, RAX)
        a.sub(R8, sent)
        a.shr(R8, RENEW_SHARE.bit_length() - 1)
        a.add(R8, sent)
        a.mov(held.renew_at, R8)

    a.cmp(held.phase, HeldPhase.CLAIMING)
    with a.if_(E):
        a.mov(held.phase, HeldPhase.HELD)
        a.inc(FLEET.it.grants)
        name_slot(a, held)
        a.mov(R8, held.revision)
        a.mov(R9, held.hard_stop)
        a.sub(R9, core.now)
        log(a, FLEET_GRANTED)
    a.ret()


@routine(
    inputs=[In(RBX, HeldSlot, "a slot in HELD or RUNNING"), In(EDX, int, "site code: why")],
    clobbers=CALLER_SAVED,
    reads=[HeldSlot.slot, HeldSlot.generation, HeldSlot.reason],
    writes=[HeldSlot.phase, HeldSlot.reason],
    calls=[log_write],
    source="firmware/docs/fleet.md#states",
)
def held_stop(a: Asm, held: HeldSlot, reason: Reg32) -> None:
    """Let the node close the slot's shards, and then give it back."""
    a.mov(held.phase, HeldPhase.STOPPING)
    a.mov(held.reason, reason)
    name_slot(a, held)
    site_number(a, R8D, held.reason)
    log(a, FLEET_STOPPING)
    a.ret()
