"""What this node holds."""

from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.spans import grant_span, hold_span
from emulator.models.log import log_write
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
    FleetOp,
    HeldPhase,
    HeldSlot,
    PlanMode,
    SlotState,
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
from firmware.layouts.node import CORE, LEASE

OWNED = (HeldPhase.HELD, HeldPhase.RUNNING, HeldPhase.STOPPING)
"""Phases in which a lease is held and shards may exist."""


def entries(w: World) -> list[Any]:
    """Return every entry."""
    return [w.g(FLEET).held[n] for n in range(HELD_MAX)]


@model
def held_find(w: World, slot: int) -> int:
    """The first that is not NONE."""
    for held in entries(w):
        if held.phase != HeldPhase.NONE and held.slot == slot:
            return int(held.address_)
    return 0


@model
def op_find(w: World, held: int, number: int) -> int:
    """The first."""
    for n in range(OPS_MAX):
        op = w.view(HeldSlot, held).ops[n]
        if op.op == number:
            return int(op.address_)
    return 0


@model
def lease_mirror(w: World) -> None:
    """The latest hard stop."""
    fleet, lease = w.g(FLEET), w.g(LEASE)
    stops = [held.hard_stop for held in entries(w) if held.phase in OWNED]
    fleet.holding = sum(held.phase != HeldPhase.NONE for held in entries(w))
    lease.generation = fleet.grants
    if any(stops):
        lease.deadline = max(stops)
    lease.expired = int(not any(stops))


@model
def held_grant(w: World, held: int, op: int, revision: int, told: int) -> None:
    """Deadlines only ever move to later."""
    slot, granted, fleet = w.view(HeldSlot, held), w.view(FleetOp, op), w.g(FLEET)
    if revision < slot.revision:
        return
    if revision > slot.revision:
        fleet.adopted += told
        if slot.revision:
            slot.renewals += 1
    number, sent = granted.op, granted.sent_at
    slot.revision, slot.granted_op = revision, number
    for n in range(OPS_MAX):
        if slot.ops[n].op < number:
            slot.ops[n].op = 0
    span = grant_span(w, slot.duration_ms)
    end = (sent + span) % 2**64
    if end > slot.deadline:
        slot.deadline = end
        slot.hard_stop = sent + hold_span(w, slot.duration_ms)
        slot.renew_at = sent + (end - sent) % 2**64 // 4
    if slot.phase == HeldPhase.CLAIMING:
        slot.phase = HeldPhase.HELD
        fleet.grants += 1
        left = (slot.hard_stop - w.g(CORE).now) % 2**64
        log_write(w, 0, FLEET_GRANTED, slot.slot, slot.generation, slot.revision, left)


@model
def held_stop(w: World, held: int, reason: int) -> None:
    """The node does the rest."""
    slot = w.view(HeldSlot, held)
    slot.phase, slot.reason = HeldPhase.STOPPING, reason
    log_write(w, 0, FLEET_STOPPING, slot.slot, slot.generation, reason >> 16 & 0xFF, 0)


@model
def plan_differs(w: World, held: int) -> int:
    """Epoch, total and range."""
    slot, plan = w.view(HeldSlot, held), w.g(FLEET_VIEW).plan
    if slot.slot >= plan.slots:
        return 1
    shards = plan.ranges[slot.slot]
    mine = (slot.epoch, slot.total, slot.start, slot.count)
    return int(mine != (plan.epoch, plan.total, shards.start, shards.count))


@model
def held_judge(w: World, held: int) -> None:
    """By the plan."""
    slot, plan = w.view(HeldSlot, held), w.g(FLEET_VIEW).plan
    if slot.phase == HeldPhase.RUNNING:
        if plan.mode == PlanMode.DRAIN:
            held_stop(w, held, FLEET_DRAIN.code)
        elif plan.mode == PlanMode.ACTIVE and plan_differs(w, held):
            held_stop(w, held, FLEET_REPLANNED.code)
    elif slot.phase == HeldPhase.HELD:
        if w.g(FLEET).closing:
            held_stop(w, held, FLEET_ASKED.code)
        elif plan.mode != PlanMode.ACTIVE or plan.revision != slot.plan_revision:
            held_stop(w, held, FLEET_LATE.code)
        elif slot.seen and w.g(CORE).now < slot.hard_stop:
            slot.phase = HeldPhase.RUNNING
            log_write(w, 0, FLEET_STARTED, slot.slot, slot.generation, slot.start, slot.count)


@model
def held_judge_all(w: World) -> None:
    """Not while a watch has shown only some of the records, unless one of them is a drain."""
    drain = w.g(FLEET_VIEW).plan.mode == PlanMode.DRAIN
    if w.g(FLEET).watch == WatchState.SYNCED or drain:
        for held in entries(w):
            held_judge(w, held.address_)


@model
def held_seen(w: World, slot: int, revision: int) -> None:
    """Ours, or a stranger's."""
    at = held_find(w, slot)
    if not at:
        return
    held, view, fleet = w.view(HeldSlot, at), w.g(FLEET_VIEW).slots[slot], w.g(FLEET)
    if held.phase == HeldPhase.GONE:
        return
    ours = view.state == SlotState.HELD and view.mine and view.generation == held.generation
    if ours:
        op = op_find(w, at, view.op) if view.op else 0
        if op:
            held_grant(w, at, op, revision, 1)
        if held.revision and revision >= held.revision:
            held.revision, held.seen = revision, 1
    elif held.phase == HeldPhase.CLAIMING:
        if revision > held.expected:
            held.phase = HeldPhase.NONE
            log_write(w, 0, FLEET_FORGOTTEN, held.slot, held.generation, FLEET_LOST.number, 0)
    elif revision > held.revision:
        if held.phase == HeldPhase.RELEASING:
            held.phase = HeldPhase.NONE
            log_write(w, 0, FLEET_RELEASED, held.slot, held.generation, 1, 0)
        else:
            held.phase, held.reason = HeldPhase.GONE, FLEET_LOST.code
            fleet.lost += 1
            log_write(w, 0, SAID_LOST, held.slot, held.generation, revision, 0)
