"""The shards of the slots that this node holds: made when one runs, closed when it stops, silenced when it is gone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.fleet.guard import fleet_look
from firmware.fleet.held import lease_mirror
from firmware.fleet.orders import slot_yield
from firmware.layouts.commands import COMMANDS, Commands
from firmware.layouts.events import EventStream
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    HELD_MAX,
    NO_ROWS_AVOID_MS,
    Fleet,
    HeldPhase,
    HeldSlot,
    PlanView,
)
from firmware.layouts.fleet_sites import FLEET_NO_ROWS
from firmware.layouts.handover import LOAD_WAIT_MS
from firmware.layouts.log import OWNING_FULL
from firmware.layouts.node import CLOCK, CORE, PLAN, SLOT_ACTIVE, Clock, CoreState, Plan, Slot, core
from firmware.layouts.permit import PERMITS, PERMITS_MAX, Permit, Permits
from firmware.layouts.plan import MOVES, Leaving, Moves
from firmware.layouts.shard import Hold, Session, SessionLoad, ShardContext, ShardFlag
from firmware.log import log, log_write
from firmware.node.handover import handover_begin
from firmware.node.plan import plan_row
from firmware.node.slots import slot_wake
from firmware.shard.hold import shard_hold
from firmware.shard.renew import shard_renew
from toolchain.asm import (
    AE,
    AL,
    BE,
    CF,
    EAX,
    EBX,
    ECX,
    EDX,
    NE,
    R8D,
    R12,
    R12D,
    R13,
    R13B,
    R13D,
    R14,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
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

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _each_shard(a: Asm) -> Iterator[None]:
    """For RBX := each shard of the slot with mark R13D. Clobbers R14 (its row), R15D."""
    row, shard = Slot.at(R14), ShardContext.at(RBX)
    a.lea(R14, CORE.it.slots.address)
    a.mov(R15D, core.slots_used)
    with a.loop() as rows:
        a.sub(R15D, 1)
        a.leave(B, rows)
        with a.block() as other:
            a.test(row.flags, SLOT_ACTIVE)
            a.leave(Z, other)
            a.mov(EBX, row.context)
            a.cmp(shard.held, R13B)
            a.leave(NE, other)
            yield
        a.add(R14, Slot.SIZE)
        a.jmp(rows.top)


@routine(
    inputs=[
        In(RBP, HeldSlot, "a slot that runs"),
        In(R12D, int, "one of its shards"),
        In(R13D, int, "its mark: place in `Fleet.held` + 1"),
    ],
    outputs=[Out(CF, "1 = no row or no memory is left")],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.total,
        HeldSlot.hard_stop,
        HeldSlot.generation,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
    ],
    writes=[
        ShardContext.shard_total,
        ShardContext.hard_stop,
        ShardContext.load,
        ShardContext.load_deadline,
        ShardContext.held,
        EventStream.fence,
        HeldSlot.shards,
        Commands.changed,
    ],
    calls=[plan_row, shard_renew, handover_begin],
    saves=[RBX],
    source="firmware/docs/fleet.md#shards-of-a-slot",
)
def owning_add(a: Asm, held: HeldSlot, number: Reg32, mark: Reg32) -> None:
    """Give one shard of the slot a row; it begins by asking for its session."""
    shard = ShardContext.at(RBX)
    a.call(plan_row)
    with a.if_(C):
        a.ret()
    a.mov(EBX, EAX)
    a.mov(EDX, number)
    a.call(shard_renew)
    # It waits for its record, as long as the lease may take to be lost.
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, LOAD_WAIT_MS)
    a.add(RAX, core.now)
    a.mov(shard.load_deadline, RAX)
    a.mov(shard.load, SessionLoad.OPEN)
    a.call(handover_begin)
    a.mov(EAX, held.total)
    a.mov(shard.shard_total, EAX)
    a.mov(RAX, held.hard_stop)
    a.mov(shard.hard_stop, RAX)
    a.mov(EAX, held.generation)
    a.mov(shard.events.fence, EAX)
    a.mov(shard.held, R13B)
    a.inc(held.shards)
    a.mov(COMMANDS.it.changed, 1)
    a.clc()
    a.ret()


@routine(
    clobbers=[RAX, RCX, RDI],
    reads=[PlanView.max_concurrency, Permits.max_concurrency],
    writes=[Permits.max_concurrency, Permits.owned, Permit],
    source="firmware/docs/fleet.md#tickets",
)
def owning_keys(a: Asm) -> None:
    """Give the node's own gate as many Identify keys as the plan has."""
    permits, same = PERMITS.it, a.label("same")
    a.mov(ECX, FLEET_VIEW.it.plan.max_concurrency)
    a.test(ECX, ECX)  # 0: the plan cannot be read any more
    a.j(Z, same)
    a.cmp(ECX, permits.max_concurrency)
    a.j(E, same)
    # Nobody has a permit: under another plan all slots were given back first.
    a.mov(permits.max_concurrency, ECX)
    a.xor(EAX, EAX)
    a.mov(permits.owned, EAX)
    a.lea(RDI, permits.keys.address)
    a.mov(ECX, PERMITS_MAX * Permit.SIZE // 8)
    a.rep_stosq()
    a.place(same)
    a.ret()


@routine(
    inputs=[In(RBP, HeldSlot, "a slot that runs and has no shard yet"), In(R13D, int, "its mark")],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.slot,
        HeldSlot.start,
        HeldSlot.count,
        HeldSlot.total,
        HeldSlot.shards,
        HeldSlot.hard_stop,
    ],
    writes=[HeldSlot.applied, CoreState.slots_due, Plan.global_total],
    calls=[owning_keys, owning_add, slot_yield, log_write],
    saves=[RBX, R12],
    source="firmware/docs/fleet.md#shards-of-a-slot",
)
def owning_start(a: Asm, held: HeldSlot, mark: Reg32) -> None:
    """Make the shards of a slot; one that does not fit goes back to who has room for all of it."""
    a.mov(RAX, held.hard_stop)
    a.mov(held.applied, RAX)
    a.mov(core.slots_due, 0)
    a.call(owning_keys)
    a.mov(EAX, held.total)  # what the service recommends is compared with it
    a.mov(PLAN.it.global_total, EAX)
    a.mov(R12D, held.start)
    with a.loop() as numbers:
        a.mov(EAX, R12D)
        a.sub(EAX, held.start)
        a.cmp(EAX, held.count)
        a.leave(AE, numbers)
        a.call(owning_add)
        with a.if_(C):
            a.movzx(EDX, held.slot)
            a.mov(ECX, held.count)
            a.mov(R8D, held.shards)
            log(a, OWNING_FULL)
            a.mov(RBX, RBP)
            a.mov(EDX, FLEET_NO_ROWS.code)
            a.mov(ECX, NO_ROWS_AVOID_MS)
            a.call(slot_yield)
            a.ret()
        a.inc(R12D)
        a.jmp(numbers.top)
    a.ret()


@routine(
    inputs=[
        In(RBP, HeldSlot, "a slot that runs or stops"),
        In(R13D, int, "its mark"),
    ],
    clobbers=[RAX],
    reads=[
        HeldSlot.hard_stop,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.held,
    ],
    writes=[HeldSlot.applied, ShardContext.hard_stop],
    saves=[RBX, R14, R15],
    source="firmware/docs/fleet.md#hard-stop",
)
def owning_refresh(a: Asm, held: HeldSlot, mark: Reg32) -> None:
    """Tell the slot's shards how long they may go on, after a renewal."""
    a.mov(RAX, held.hard_stop)
    a.mov(held.applied, RAX)
    with _each_shard(a):
        a.mov(ShardContext.at(RBX).hard_stop, RAX)
    a.ret()


@routine(
    inputs=[In(RBP, HeldSlot, "a slot that stops"), In(R13D, int, "its mark")],
    clobbers=[RAX, RCX],
    reads=[
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.held,
        ShardContext.leaving,
        HeldSlot.shards,
    ],
    writes=[ShardContext.leaving, Moves.leaving, HeldSlot.shards, Commands.changed],
    calls=[slot_wake],
    saves=[RBX, R12, R14, R15],
    source="firmware/docs/fleet.md#shards-of-a-slot",
)
def owning_stop(a: Asm, held: HeldSlot, mark: Reg32) -> None:
    """Let the slot's shards close with their sessions kept, and count those that still have a row."""
    shard = ShardContext.at(RBX)
    a.xor(R12D, R12D)
    with _each_shard(a):
        a.inc(R12D)
        a.cmp(shard.leaving, Leaving.NO)
        with a.if_(E):
            a.mov(shard.leaving, Leaving.KEEPING)
            a.inc(MOVES.it.leaving)
            a.call(slot_wake)
    a.cmp(held.shards, R12D)
    with a.if_(NE):
        a.mov(held.shards, R12D)
        a.mov(COMMANDS.it.changed, 1)
    a.ret()


@routine(
    inputs=[In(RBP, HeldSlot, "a slot that is gone"), In(R13D, int, "its mark")],
    clobbers=CALLER_SAVED,
    reads=[
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.held,
        ShardContext.leaving,
    ],
    writes=[
        HeldSlot.phase,
        HeldSlot.shards,
        Moves.leaving,
        ShardContext.leaving,
        ShardContext.flags,
        ShardContext.hard_stop,
        Session.valid,
        Slot.flags,
        Commands.changed,
    ],
    calls=[shard_hold],
    saves=[RBX, R14, R15],
    source="firmware/docs/fleet.md#shards-of-a-slot",
)
def owning_end(a: Asm, held: HeldSlot, mark: Reg32) -> None:
    """Silence the slot's shards and take their rows; their sessions belong to the next holder."""
    shard = ShardContext.at(RBX)
    with _each_shard(a):
        # A moment that has passed: whatever is still queued is swallowed.
        a.mov(EAX, 1)
        a.mov(shard.hard_stop, RAX)
        a.mov(EDX, Hold.LEASE_EXPIRED)
        a.call(shard_hold)
        a.cmp(shard.leaving, Leaving.NO)
        with a.if_(NE):
            a.dec(MOVES.it.leaving)
            a.mov(shard.leaving, Leaving.NO)
        a.xor(EAX, EAX)
        a.mov(shard.session.valid, EAX)
        a.and_(shard.flags, ~ShardFlag.SEQ_VALID & 0xFFFF_FFFF)
        a.mov(Slot.at(R14).flags, EAX)
    a.xor(EAX, EAX)
    a.mov(held.shards, EAX)
    a.mov(held.phase, HeldPhase.NONE)
    a.mov(COMMANDS.it.changed, 1)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Fleet.holding, HeldSlot.phase],
    calls=[owning_end, lease_mirror],
    saves=[RBP, R13],
    source="firmware/docs/fleet.md#hard-stop",
)
def owning_guard(a: Asm) -> None:
    """Silence what is gone, in the turn in which it is found out."""
    held = HeldSlot.at(RBP)
    a.cmp(FLEET.it.holding, 0)
    with a.if_(E):
        a.ret()
    a.lea(RBP, FLEET.it.held.address)
    a.mov(R13D, 1)
    with a.loop() as slots:
        a.cmp(held.phase, HeldPhase.GONE)
        with a.if_(E):
            a.call(owning_end)
            a.call(lease_mirror)
        a.add(RBP, HeldSlot.SIZE)
        a.inc(R13D)
        a.cmp(R13D, HELD_MAX)
        a.again(BE, slots)
    a.ret()


@routine(
    outputs=[
        Out(CF, "1 = whether it stood still is not known yet: no shard may speak in this turn")
    ],
    clobbers=CALLER_SAVED,
    reads=[Fleet.rtc_doubt],
    calls=[fleet_look, owning_guard],
    source="firmware/docs/fleet.md#frozen-clock",
)
def owning_look(a: Asm) -> None:
    """See whether the clock stood still before a shard may speak, and silence what is gone by that."""
    a.call(fleet_look)
    with a.if_(C):
        a.call(owning_guard)
        a.xor(EAX, EAX)
        a.cmp(AL, FLEET.it.rtc_doubt)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[HeldSlot.phase, HeldSlot.shards, HeldSlot.hard_stop, HeldSlot.applied],
    calls=[owning_start, owning_refresh, owning_stop],
    saves=[RBP, R13],
    source="firmware/docs/fleet.md#shards-of-a-slot",
)
def owning_tick(a: Asm) -> None:
    """Make the shards of slots that run, tell them of renewals, close those of slots that stop."""
    held = HeldSlot.at(RBP)
    a.lea(RBP, FLEET.it.held.address)
    a.mov(R13D, 1)
    with a.loop() as slots:
        with a.block() as other:
            fresh = a.label("fresh")
            a.cmp(held.phase, HeldPhase.RUNNING)
            a.leave(B, other)
            a.cmp(held.phase, HeldPhase.STOPPING)
            a.leave(A, other)
            a.mov(RAX, held.hard_stop)
            a.cmp(RAX, held.applied)
            with a.if_(NE):
                a.call(owning_refresh)
            a.cmp(held.phase, HeldPhase.STOPPING)
            with a.if_(E):
                a.call(owning_stop)
                a.jmp(fresh)
            a.cmp(held.shards, 0)
            with a.if_(E):
                a.call(owning_start)
            a.place(fresh)
        a.add(RBP, HeldSlot.SIZE)
        a.inc(R13D)
        a.cmp(R13D, HELD_MAX)
        a.again(BE, slots)
    a.ret()
