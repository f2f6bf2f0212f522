"""What the watch shows of slots that this node holds: whose they are, and whether their shards may run."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.held import (
    SLOT_SHIFT,
    each_held,
    held_find,
    held_grant,
    held_stop,
    name_slot,
    op_find,
    plan_compare,
)
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    Fleet,
    HeldPhase,
    HeldSlot,
    PlanMode,
    PlanRange,
    PlanView,
    SlotState,
    SlotView,
    WatchState,
)
from firmware.layouts.fleet_sites import (
    FLEET_ASKED,
    FLEET_DRAIN,
    FLEET_LATE,
    FLEET_LOST,
    FLEET_REPLANNED,
)
from firmware.layouts.log import (
    FLEET_FORGOTTEN,
    FLEET_RELEASED,
    FLEET_STARTED,
)
from firmware.layouts.log import FLEET_LOST as SAID_LOST
from firmware.layouts.node import CoreState, core
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
    R9D,
    R12,
    R13,
    R14,
    R14D,
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
    Reg32,
    Reg64,
    Z,
    routine,
)


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
    differs = a.label("differs")
    a.movzx(ECX, held.slot)
    a.cmp(ECX, FLEET_VIEW.it.plan.slots)
    a.j(AE, differs)
    plan_compare(a, held, RCX, differs)
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
