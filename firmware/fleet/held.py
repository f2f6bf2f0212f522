"""What this node holds: grants, what the watch says of its records, and when its shards may run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.fleet.spans import grant_span, hold_span
from firmware.layouts.fleet import (
    FLEET,
    FLEET_ASKED,
    FLEET_DRAIN,
    FLEET_LATE,
    FLEET_LOST,
    FLEET_REPLANNED,
    FLEET_VIEW,
    HELD_MAX,
    OPS_MAX,
    RENEW_SHARE,
    Fleet,
    FleetOp,
    HeldPhase,
    HeldSlot,
    PlanMode,
    PlanRange,
    PlanView,
    SlotState,
    SlotView,
    WatchState,
)
from firmware.layouts.log import (
    FLEET_FORGOTTEN,
    FLEET_GRANTED,
    FLEET_RELEASED,
    FLEET_STARTED,
    FLEET_STOPPING,
)
from firmware.layouts.log import FLEET_LOST as SAID_LOST
from firmware.layouts.node import LEASE, Clock, CoreState, Lease, core
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    BE,
    CF,
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
    R13,
    R14,
    R14D,
    RAX,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
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


@routine(
    inputs=[In(RBX, HeldSlot, "a slot that is claimed or held")],
    outputs=[Out(CF, "1 = the plan does not have it so")],
    clobbers=[RAX, RCX],
    reads=[
        HeldSlot.slot,
        HeldSlot.epoch,
        HeldSlot.start,
        HeldSlot.count,
        HeldSlot.total,
        PlanView.epoch,
        PlanView.total,
        PlanView.slots,
        PlanRange.start,
        PlanRange.count,
    ],
    source="firmware/docs/fleet.md#plan",
)
def plan_differs(a: Asm, held: HeldSlot) -> None:
    """Compare epoch and range of a held slot with an active plan."""
    plan, shards, differs = FLEET_VIEW.it.plan, PlanRange.at(RCX), a.label("differs")
    a.movzx(ECX, held.slot)
    a.cmp(ECX, plan.slots)
    a.j(AE, differs)
    a.lea(RAX, plan.ranges.address)
    a.lea(RCX, mem8(RAX, index=RCX, scale=PlanRange.SIZE, ref=RANGES))
    for mine, theirs in (
        (held.epoch, plan.epoch),
        (held.total, plan.total),
        (held.start, shards.start),
        (held.count, shards.count),
    ):  # four numbers, unrolled
        a.mov(EAX, mine)
        a.cmp(EAX, theirs)
        a.j(NE, differs)
    a.clc()
    a.ret()
    a.place(differs)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, HeldSlot, "any entry")],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.phase,
        HeldSlot.seen,
        HeldSlot.slot,
        HeldSlot.generation,
        HeldSlot.start,
        HeldSlot.count,
        HeldSlot.hard_stop,
        HeldSlot.plan_revision,
        PlanView.mode,
        PlanView.revision,
        Fleet.closing,
        CoreState.now,
    ],
    writes=[HeldSlot.phase],
    calls=[held_stop, plan_differs, log_write],
    source="firmware/docs/fleet.md#plan",
)
def held_judge(a: Asm, held: HeldSlot) -> None:
    """Let a slot run once its claim came back under the plan that it was claimed by; end it by another."""
    plan, granted, out, stop = FLEET_VIEW.it.plan, *map(a.label, ("granted", "out", "stop"))
    a.cmp(held.phase, HeldPhase.HELD)
    a.j(E, granted)
    a.cmp(held.phase, HeldPhase.RUNNING)
    a.j(NE, out)
    a.mov(EDX, FLEET_DRAIN.code)
    a.cmp(plan.mode, PlanMode.DRAIN)
    a.j(E, stop)
    a.cmp(plan.mode, PlanMode.ACTIVE)
    a.j(NE, out)  # one that cannot be read ends nothing
    a.call(plan_differs)
    a.mov(EDX, FLEET_REPLANNED.code)
    a.j(C, stop)
    a.place(out)
    a.ret()

    a.place(granted)
    a.mov(EDX, FLEET_ASKED.code)
    a.cmp(FLEET.it.closing, 0)
    a.j(NE, stop)
    a.mov(EDX, FLEET_LATE.code)
    a.cmp(plan.mode, PlanMode.ACTIVE)
    a.j(NE, stop)
    a.mov(RAX, plan.revision)
    a.cmp(RAX, held.plan_revision)
    a.j(NE, stop)
    a.cmp(held.seen, 0)
    a.j(E, out)
    a.mov(RAX, core.now)
    a.cmp(RAX, held.hard_stop)
    a.j(AE, out)
    a.mov(held.phase, HeldPhase.RUNNING)
    name_slot(a, held)
    a.mov(R8D, held.start)
    a.mov(R9D, held.count)
    log(a, FLEET_STARTED)
    a.ret()
    a.place(stop)
    a.jmp(held_stop)


@routine(
    clobbers=CALLER_SAVED,
    reads=[Fleet.watch, PlanView.mode],
    calls=[held_judge],
    saves=[RBX, R12],
    source="firmware/docs/fleet.md#plan",
)
def held_judge_all(a: Asm) -> None:
    """Judge every slot by what the watch shows, once it has shown all; a drain counts at once."""
    judge = a.label("judge")
    a.cmp(FLEET.it.watch, WatchState.SYNCED)
    a.j(E, judge)
    a.cmp(FLEET_VIEW.it.plan.mode, PlanMode.DRAIN)
    with a.if_(NE):
        a.ret()
    a.place(judge)
    with each_held(a):
        a.call(held_judge)
    a.ret()


@routine(
    inputs=[In(EDX, int, "slot of the plan"), In(RCX, int, "revision of the record it now has")],
    clobbers=CALLER_SAVED,
    reads=[
        SlotView.state,
        SlotView.mine,
        SlotView.generation,
        SlotView.op,
        HeldSlot.phase,
        HeldSlot.slot,
        HeldSlot.generation,
        HeldSlot.revision,
        HeldSlot.expected,
    ],
    writes=[HeldSlot.phase, HeldSlot.seen, HeldSlot.revision, HeldSlot.reason, Fleet.lost],
    calls=[held_find, op_find, held_grant, log_write],
    saves=[RBX, R12, R13, R14],
    source="firmware/docs/fleet.md#grants",
)
def held_seen(a: Asm, slot: Reg32, revision: Reg64) -> None:
    """Compare the record that the watch showed with what this node holds of the slot."""
    held, view, seen = HeldSlot.at(RBX), SlotView.at(R13), R12
    strange, claiming, over, out = map(a.label, ("strange", "claiming", "over", "out"))
    a.mov(seen, revision)
    a.mov(R14D, slot)
    a.call(held_find)
    a.test(RAX, RAX)
    a.j(Z, out)
    a.mov(RBX, RAX)
    a.cmp(held.phase, HeldPhase.GONE)
    a.j(E, out)
    a.shl(R14D, SLOT_SHIFT)
    a.lea(R13, FLEET_VIEW.it.slots.address)
    a.add(R13, R14)

    a.cmp(view.state, SlotState.HELD)
    a.j(NE, strange)
    a.cmp(view.mine, 0)
    a.j(E, strange)
    a.mov(EAX, view.generation)
    a.cmp(EAX, held.generation)
    a.j(NE, strange)
    # Ours. An operation whose sending time is forgotten lengthens nothing, but is what comes next.
    with a.block() as unknown:
        a.mov(EDX, view.op)
        a.test(EDX, EDX)
        a.leave(Z, unknown)
        a.call(op_find)
        a.test(RAX, RAX)
        a.leave(Z, unknown)
        a.mov(RSI, RAX)
        a.mov(RCX, seen)
        a.mov(EDX, 1)
        a.call(held_grant)
    a.cmp(held.revision, 0)
    a.j(E, out)
    a.cmp(seen, held.revision)
    a.j(B, out)
    a.mov(held.revision, seen)
    a.mov(held.seen, 1)
    a.ret()

    a.place(strange)
    a.cmp(held.phase, HeldPhase.CLAIMING)
    a.j(E, claiming)
    a.cmp(seen, held.revision)
    a.j(BE, out)
    a.cmp(held.phase, HeldPhase.RELEASING)
    a.j(E, over)
    a.mov(held.phase, HeldPhase.GONE)
    a.mov(held.reason, FLEET_LOST.code)
    a.inc(FLEET.it.lost)
    name_slot(a, held)
    a.mov(R8, seen)
    log(a, SAID_LOST)
    a.ret()
    a.place(over)
    a.mov(held.phase, HeldPhase.NONE)
    name_slot(a, held)
    a.mov(R8D, 1)
    log(a, FLEET_RELEASED)
    a.ret()
    # Somebody else was faster, or wrote over it: the claim can never be granted any more.
    a.place(claiming)
    a.cmp(seen, held.expected)
    with a.if_(A):
        a.mov(held.phase, HeldPhase.NONE)
        name_slot(a, held)
        a.mov(R8D, FLEET_LOST.number)
        log(a, FLEET_FORGOTTEN)
    a.place(out)
    a.ret()
