"""Claims: a slot that is free, or whose lease is over, is taken by the next generation of its record."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.held import SLOT_SHIFT, held_find, name_slot, plan_compare
from firmware.fleet.operation import jitter, op_send
from firmware.fleet.orders import move_wish
from firmware.fleet.spans import wait_span
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import (
    AVOID_MS,
    CLAIM_JITTER_MS,
    FLEET,
    FLEET_VIEW,
    HELD_MAX,
    LOOK_MS,
    Fleet,
    FleetView,
    HeldPhase,
    HeldSlot,
    Holder,
    PlanMode,
    PlanRange,
    PlanView,
    SlotState,
    SlotView,
    WatchState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.log import FLEET_CLAIMED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    AL,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
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
    routine,
)


@routine(
    inputs=[In(EDX, int, "slot, below FLEET_SLOTS_MAX; HELD_MAX slots are not held yet")],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.phase,
        HeldSlot.slot,
        HeldSlot.generation,
        SlotView.revision,
        SlotView.generation,
        SlotView.state,
        SlotView.epoch,
        SlotView.start,
        SlotView.count,
        SlotView.total,
        PlanView.revision,
        PlanView.duration_ms,
    ],
    writes=[HeldSlot, Fleet.claims, Fleet.takeovers, Fleet.holding],
    calls=[op_send, log_write],
    saves=[RBX, R12, R13],
    source="firmware/docs/fleet.md#claims",
)
def claim_slot(a: Asm, slot: Reg32) -> None:
    """Claim a slot: the next generation, on the very record that was waited for."""
    held, view, plan = HeldSlot.at(RBX), SlotView.at(R12), FLEET_VIEW.it.plan
    out = a.label("out")
    a.mov(R13D, slot)
    a.mov(R12D, slot)
    a.shl(R12D, SLOT_SHIFT)
    a.lea(RAX, FLEET_VIEW.it.slots.address)
    a.add(R12, RAX)
    a.lea(RBX, FLEET.it.held.address)
    a.mov(ECX, HELD_MAX)
    with a.loop() as entries:
        a.cmp(held.phase, HeldPhase.NONE)
        a.leave(E, entries)
        a.add(RBX, HeldSlot.SIZE)
        a.dec(ECX)
        a.again(NZ, entries)
        a.ret()
    a.mov(RDI, RBX)
    a.xor(EAX, EAX)
    a.mov(ECX, HeldSlot.SIZE // 8)
    a.rep_stosq()
    a.mov(EAX, R13D)
    a.mov(held.slot, AL)
    a.mov(EAX, view.generation)
    a.inc(EAX)
    a.mov(held.generation, EAX)
    for name in ("epoch", "start", "count", "total"):  # four numbers, unrolled
        a.mov(EAX, getattr(view, name))
        a.mov(getattr(held, name), EAX)
    a.mov(EAX, plan.duration_ms)
    a.mov(held.duration_ms, EAX)
    a.mov(RAX, plan.revision)
    a.mov(held.plan_revision, RAX)
    a.mov(RAX, view.revision)
    a.mov(held.expected, RAX)
    a.call(op_send)
    a.j(C, out)
    a.mov(held.phase, HeldPhase.CLAIMING)
    a.inc(FLEET.it.holding)
    a.inc(FLEET.it.claims)
    a.movzx(R9D, view.state)
    a.cmp(R9D, SlotState.HELD)
    with a.if_(E):
        a.inc(FLEET.it.takeovers)
    name_slot(a, held)
    a.mov(R8, view.revision)
    log(a, FLEET_CLAIMED)
    a.place(out)
    a.ret()


@routine(
    inputs=[In(RSI, SlotView, "a slot of the plan"), In(EDX, int, "its number")],
    outputs=[
        Out(CF, "1 = nobody may claim it by this plan"),
        Out(RAX, "TSC from which it may be claimed"),
    ],
    clobbers=[RCX, RDX],
    reads=[
        SlotView.state,
        SlotView.seen_at,
        SlotView.generation,
        SlotView.duration_ms,
        SlotView.epoch,
        SlotView.start,
        SlotView.count,
        SlotView.total,
        PlanView.epoch,
        PlanView.total,
        PlanRange.start,
        PlanRange.count,
        Fleet.avoid_until,
        Clock.tsc_cycles_per_ms,
    ],
    calls=[move_wish],
    saves=[R12],
    source="firmware/docs/fleet.md#claims",
)
def claim_time(a: Asm, view: SlotView, number: Reg32) -> None:
    """Tell when a slot may be claimed: a free one at once, one of anybody else when its time is over.

    Who was named for it waits for nothing else; all others let that node go first.
    """
    no = a.label("no")
    a.mov(R12D, number)
    a.cmp(view.state, SlotState.ABSENT)
    a.j(E, no)
    plan_compare(a, view, R12, no)
    a.xor(EAX, EAX)
    a.cmp(view.state, SlotState.HELD)
    with a.if_(E):
        a.mov(EAX, view.duration_ms)
        wait_span(a)
    a.add(RAX, view.seen_at)
    due = RDX
    a.mov(due, RAX)
    a.mov(ECX, view.generation)
    a.call(move_wish)
    with a.block() as named:
        a.cmp(EAX, Holder.MINE)
        a.leave(E, named)
        a.lea(RCX, FLEET.address)
        a.mov(RCX, Fleet.at(RCX).avoid_until.m64(index=R12, scale=8))
        a.cmp(due, RCX)
        a.cmov(B, due, RCX)
        a.cmp(EAX, Holder.OTHER)
        a.leave(NE, named)
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, AVOID_MS)
        a.add(due, RAX)
    a.mov(RAX, due)
    a.clc()
    a.ret()
    a.place(no)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC when something may be claimed; all ones = nothing is awaited")],
    clobbers=CALLER_SAVED,
    reads=[
        Fleet.watch,
        Fleet.closing,
        Fleet.holding,
        Fleet.rtc_judges,
        FleetConfig.cap,
        FleetView.drained,
        PlanView.mode,
        PlanView.slots,
        SlotView.generation,
        SlotView.claim_at,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
    ],
    writes=[SlotView.claim_at],
    calls=[claim_time, held_find, jitter, claim_slot, move_wish],
    saves=[R12, R13, R14],
    source="firmware/docs/fleet.md#claims",
)
def claims_tick(a: Asm) -> None:
    """Claim at most one slot: an active plan, a watch that has shown all, and room under the cap.

    And a pause of the machine must show, or never: before the RTC's first second one would not.
    """
    view, number, soonest = SlotView.at(R12), R13D, R14
    none, out = a.label("none"), a.label("out")
    a.cmp(FLEET.it.watch, WatchState.SYNCED)
    a.j(NE, none)
    a.cmp(FLEET.it.closing, 0)
    a.j(NE, none)
    a.cmp(FLEET_VIEW.it.drained, 0)
    a.j(NE, none)
    a.cmp(FLEET_VIEW.it.plan.mode, PlanMode.ACTIVE)
    a.j(NE, none)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.j(E, none)
    a.cmp(FLEET.it.rtc_judges, 0)
    a.j(E, none)
    a.movzx(EAX, FLEET_CONFIG.it.cap)
    a.mov(ECX, HELD_MAX)
    a.cmp(EAX, ECX)
    a.cmov(A, EAX, ECX)
    a.cmp(FLEET.it.holding, EAX)
    a.j(AE, none)
    a.mov(soonest, NEVER)
    a.lea(R12, FLEET_VIEW.it.slots.address)
    a.xor(number, number)
    with a.loop() as slots:
        with a.block() as following:
            note = a.label("note")
            a.mov(EDX, number)
            a.call(held_find)
            a.test(RAX, RAX)
            a.leave(NZ, following)
            a.mov(RSI, R12)
            a.mov(EDX, number)
            a.call(claim_time)
            a.leave(C, following)
            a.cmp(RAX, core.now)
            with a.if_(A):
                a.xor(ECX, ECX)
                a.mov(view.claim_at, RCX)
                a.jmp(note)
            with a.block() as decided:
                named = a.label("named")
                a.cmp(view.claim_at, 0)
                a.leave(NE, decided)
                a.mov(RSI, R12)
                a.mov(ECX, view.generation)
                a.call(move_wish)
                a.cmp(EAX, Holder.MINE)
                a.mov(RAX, core.now)
                a.j(E, named)
                a.mov(EAX, CLAIM_JITTER_MS)
                a.call(jitter)
                a.add(RAX, core.now)
                a.place(named)
                a.mov(view.claim_at, RAX)
            a.mov(RAX, view.claim_at)
            a.cmp(RAX, core.now)
            a.j(A, note)
            a.mov(EDX, number)
            a.call(claim_slot)
            a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, LOOK_MS)
            a.add(RAX, core.now)
            a.jmp(out)
            a.place(note)
            a.cmp(RAX, soonest)
            a.cmov(B, soonest, RAX)
        a.add(R12, SlotView.SIZE)
        a.inc(number)
        a.cmp(number, FLEET_VIEW.it.plan.slots)
        a.again(B, slots)
    a.mov(RAX, soonest)
    a.place(out)
    a.ret()
    a.place(none)
    a.mov(RAX, NEVER)
    a.ret()
