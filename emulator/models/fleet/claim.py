"""Operations on leases."""

from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.held import entries, held_find, planned
from emulator.models.fleet.operation import WORD, jitter, op_send
from emulator.models.fleet.orders import move_wish
from emulator.models.fleet.spans import wait_span
from emulator.models.log import log_write
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    HELD_MAX,
    HeldPhase,
    Holder,
    PlanMode,
    SlotState,
    SlotView,
    WatchState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.log import FLEET_CLAIMED
from firmware.layouts.node import CLOCK, CORE


@model
def claim_slot(w: World, slot: int) -> None:
    """In the first entry that is free."""
    fleet, view, plan = w.g(FLEET), w.g(FLEET_VIEW).slots[slot], w.g(FLEET_VIEW).plan
    held = next((held for held in entries(w) if held.phase == HeldPhase.NONE), None)
    if held is None:
        return
    held.wipe()
    held.slot, held.generation = slot, view.generation + 1
    for name in ("epoch", "start", "count", "total"):
        setattr(held, name, getattr(view, name))
    held.duration_ms, held.plan_revision = plan.duration_ms, plan.revision
    held.expected = view.revision
    if op_send(w, held.address_, view.revision):
        return
    held.phase = HeldPhase.CLAIMING
    fleet.holding += 1
    fleet.claims += 1
    if view.state == SlotState.HELD:
        fleet.takeovers += 1
    log_write(w, 0, FLEET_CLAIMED, held.slot, held.generation, view.revision, view.state)


@model
def claim_time(w: World, view: int, number: int) -> tuple[int, Any]:
    """When this node has known the record for as long as its holder may trust it, and longer."""
    slot = w.view(SlotView, view)
    if slot.state == SlotState.ABSENT or not planned(w, slot, number):
        return 1, None
    waits = wait_span(w, slot.duration_ms) if slot.state == SlotState.HELD else 0
    due = (waits + slot.seen_at) % WORD
    wish = move_wish(w, view, slot.generation)
    if wish == Holder.MINE:
        return 0, due
    avoid = int.from_bytes(w.g(FLEET).avoid_until[8 * number : 8 * number + 8], "little")
    longer = 5_000 * w.g(CLOCK).tsc_cycles_per_ms if wish == Holder.OTHER else 0
    return 0, (max(due, avoid) + longer) % WORD


@model
def claims_tick(w: World) -> int:
    """One at most."""
    fleet, view, now = w.g(FLEET), w.g(FLEET_VIEW), w.g(CORE).now
    cap = min(w.g(FLEET_CONFIG).cap, HELD_MAX)
    if fleet.watch != WatchState.SYNCED or fleet.closing or view.plan.mode != PlanMode.ACTIVE:
        return NEVER
    if view.drained or not w.g(CLOCK).tsc_cycles_per_ms or fleet.holding >= cap:
        return NEVER
    if not fleet.rtc_judges:
        return NEVER
    soonest = NEVER
    for number in range(view.plan.slots):
        if held_find(w, number):
            continue
        slot = view.slots[number]
        never, due = claim_time(w, slot.address_, number)
        if never:
            continue
        if now < due:
            slot.claim_at = 0
        else:
            if not slot.claim_at:
                named = move_wish(w, slot.address_, slot.generation) == Holder.MINE
                slot.claim_at = now if named else jitter(w, 300) + now
            due = int(slot.claim_at)
            if now >= due:
                claim_slot(w, number)
                return int(now + 100 * w.g(CLOCK).tsc_cycles_per_ms)
        soonest = min(soonest, due)
    return soonest
