"""What time does to entries."""

from emulator.effects import World, model
from emulator.models.fleet.cas import cas_send, control
from emulator.models.fleet.held import OWNED, entries
from emulator.models.fleet.idle import server_leave
from emulator.models.fleet.operation import op_send
from emulator.models.fleet.texts import lease_text
from emulator.models.fleet.watch import try_another
from emulator.models.log import log_write
from firmware.layouts.bus import BusLink, LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import FLEET, HeldPhase, HeldSlot
from firmware.layouts.fleet_sites import FLEET_UNCONFIRMED
from firmware.layouts.log import FLEET_FORGOTTEN, FLEET_RELEASED
from firmware.layouts.node import CLOCK, CORE


def _after(w: World, since: int, milliseconds: int) -> int:
    return int((since + milliseconds * w.g(CLOCK).tsc_cycles_per_ms) % 2**64)


@model
def held_renew(w: World, held: int) -> int:
    """Due, and not tried just now."""
    slot, now = w.view(HeldSlot, held), w.g(CORE).now
    due = int(max(slot.renew_at, slot.retry_at))
    if due > now:
        return due
    if op_send(w, held, slot.revision):
        slot.retry_at = _after(w, now, 100)
    return int(slot.retry_at)


@model
def held_release(w: World, held: int) -> int:
    """Behind a renewal that may still come."""
    slot, now, fleet = w.view(HeldSlot, held), w.g(CORE).now, w.g(FLEET)
    if slot.last_op > slot.granted_op:
        until = _after(w, slot.sent_at, 1_000)
        if until > now:
            return until
    fleet.op += 1
    lease_text(w, held, fleet.op, 0)
    slot.expected = slot.revision
    refused, inbox = cas_send(w, slot.revision)
    if refused:
        return _after(w, now, 100)
    slot.release_inbox, slot.phase, slot.released_at = inbox, HeldPhase.RELEASING, now
    return _after(w, now, 2_000)


@model
def held_tick(w: World, held: int) -> int:
    """By phase."""
    slot, now = w.view(HeldSlot, held), w.g(CORE).now
    if slot.phase == HeldPhase.GONE and not slot.shards:
        slot.phase = HeldPhase.NONE
    elif slot.phase == HeldPhase.CLAIMING:
        until = _after(w, slot.sent_at, 2_000)
        if until > now:
            return until
        slot.phase = HeldPhase.NONE
        try_another(w)
        log_write(w, 0, FLEET_FORGOTTEN, slot.slot, slot.generation, FLEET_UNCONFIRMED.number, 0)
    elif slot.phase == HeldPhase.RELEASING:
        until = _after(w, slot.released_at, 2_000)
        if until > now:
            return until
        slot.phase = HeldPhase.NONE
        log_write(w, 0, FLEET_RELEASED, slot.slot, slot.generation, 0, 0)
    elif slot.phase in OWNED:
        over = slot.phase == HeldPhase.STOPPING and not slot.shards
        due = held_release(w, held) if over else held_renew(w, held)
        return int(min(due, slot.hard_stop))
    return NEVER


@model
def server_is_deaf(w: World) -> int:
    """No watch, or a renewal that is due for three seconds on a connection older than that."""
    fleet, now = w.g(FLEET), w.g(CORE).now
    deaf, fleet.move = int(fleet.move != 0), 0
    if _after(w, fleet.begun_at, 3_000) < now:
        overdue = [h for h in entries(w) if h.phase in OWNED and _after(w, h.renew_at, 3_000) < now]
        deaf |= bool(overdue)
    return deaf


@model
def held_tick_all(w: World) -> int:
    """Each, then the server."""
    soonest = min(held_tick(w, held.address_) for held in entries(w))
    if server_is_deaf(w):
        link, shard = control(w)
        if w.view(BusLink, link).state == LinkState.UP:
            server_leave(w, link, shard)
    return int(soonest)
