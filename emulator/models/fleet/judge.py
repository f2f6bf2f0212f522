"""What the watch shows of slots that this node holds."""

from emulator.effects import World, model
from emulator.models.fleet.held import entries, held_find, held_grant, held_stop, op_find, planned
from emulator.models.log import log_write
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    HeldPhase,
    HeldSlot,
    PlanMode,
    SlotState,
    WatchState,
)
from firmware.layouts.fleet_sites import (
    FLEET_ASKED,
    FLEET_DRAIN,
    FLEET_LATE,
    FLEET_LOST,
    FLEET_REPLANNED,
)
from firmware.layouts.log import FLEET_FORGOTTEN, FLEET_RELEASED, FLEET_STARTED
from firmware.layouts.log import FLEET_LOST as SAID_LOST
from firmware.layouts.node import CORE


@model
def plan_differs(w: World, held: int) -> int:
    """Epoch, total and range."""
    slot = w.view(HeldSlot, held)
    return int(slot.slot >= w.g(FLEET_VIEW).plan.slots or not planned(w, slot, slot.slot))


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
