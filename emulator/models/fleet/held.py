"""What this node holds."""

from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.spans import grant_span, hold_span
from emulator.models.log import log_write
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    HELD_MAX,
    OPS_MAX,
    FleetOp,
    HeldPhase,
    HeldSlot,
)
from firmware.layouts.log import (
    FLEET_GRANTED,
    FLEET_STOPPING,
)
from firmware.layouts.node import CORE, LEASE

OWNED = (HeldPhase.HELD, HeldPhase.RUNNING, HeldPhase.STOPPING)
"""Phases in which a lease is held and shards may exist."""


def entries(w: World) -> list[Any]:
    """Return every entry."""
    return [w.g(FLEET).held[n] for n in range(HELD_MAX)]


def planned(w: World, record: Any, number: int) -> bool:  # noqa: ANN401 - a View by field
    """Say whether the plan has the slot as the record says."""
    plan = w.g(FLEET_VIEW).plan
    shards = plan.ranges[number]
    said = (record.epoch, record.total, record.start, record.count)
    return bool(said == (plan.epoch, plan.total, shards.start, shards.count))


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
