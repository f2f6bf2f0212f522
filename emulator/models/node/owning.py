"""The shards of the slots that this node holds."""

from collections.abc import Iterator
from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.guard import fleet_look
from emulator.models.fleet.held import lease_mirror
from emulator.models.fleet.orders import slot_yield
from emulator.models.log import log
from emulator.models.node.handover import handover_begin
from emulator.models.node.plan import plan_row
from emulator.models.node.slots import slot_wake
from emulator.models.shard.hold import shard_hold
from emulator.models.shard.renew import shard_renew
from firmware.layouts.commands import COMMANDS
from firmware.layouts.fleet import FLEET, FLEET_VIEW, HELD_MAX, HeldPhase, HeldSlot
from firmware.layouts.fleet_sites import FLEET_NO_ROWS
from firmware.layouts.handover import LOAD_WAIT_MS
from firmware.layouts.log import OWNING_FULL
from firmware.layouts.node import CLOCK, CORE, PLAN, SLOT_ACTIVE
from firmware.layouts.permit import PERMITS, PERMITS_MAX
from firmware.layouts.plan import MOVES, Leaving
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardFlag


def _shards(w: World, mark: int) -> Iterator[tuple[Any, Any]]:
    """Yield row and context of each shard of a slot."""
    core = w.g(CORE)
    for n in range(core.slots_used):
        row = core.slots[n]
        if row.flags & SLOT_ACTIVE:
            shard = w.view(ShardContext, row.context)
            if shard.held == mark:
                yield row, shard


@model
def owning_add(w: World, held: int, number: int, mark: int) -> int:
    """A row, made anew, that lasts as long as the lease."""
    slot = w.view(HeldSlot, held)
    context, none = plan_row(w)
    if none:
        return 1
    shard_renew(w, context, number)
    shard = w.view(ShardContext, context)
    shard.load_deadline = w.g(CORE).now + w.g(CLOCK).tsc_cycles_per_ms * LOAD_WAIT_MS
    shard.load = SessionLoad.OPEN
    handover_begin(w, context)
    shard.shard_total, shard.hard_stop = slot.total, slot.hard_stop
    shard.events.fence, shard.held = slot.generation, mark
    slot.shards += 1
    w.g(COMMANDS).changed = 1
    return 0


@model
def owning_keys(w: World) -> None:
    """The plan's number of keys, and nobody's permit under another one."""
    permits, keys = w.g(PERMITS), w.g(FLEET_VIEW).plan.max_concurrency
    if keys in (0, permits.max_concurrency):
        return
    permits.max_concurrency, permits.owned = keys, 0
    for n in range(PERMITS_MAX):
        permits.keys[n].wipe()


@model
def owning_start(w: World, held: int, mark: int) -> None:
    """All of its shards, or none for long."""
    slot = w.view(HeldSlot, held)
    slot.applied = slot.hard_stop
    w.g(CORE).slots_due = 0
    owning_keys(w)
    w.g(PLAN).global_total = slot.total
    for number in range(slot.start, slot.start + slot.count):
        if owning_add(w, held, number, mark):
            log(w, OWNING_FULL, None, slot.slot, slot.count, slot.shards)
            slot_yield(w, held, FLEET_NO_ROWS.code, 60_000)
            return


@model
def owning_refresh(w: World, held: int, mark: int) -> None:
    """Every shard of the slot gets the new hard stop."""
    slot = w.view(HeldSlot, held)
    slot.applied = slot.hard_stop
    for _, shard in _shards(w, mark):
        shard.hard_stop = slot.hard_stop


@model
def owning_stop(w: World, held: int, mark: int) -> None:
    """Those that do not leave yet begin to; those that are there are counted."""
    count = 0
    for _, shard in _shards(w, mark):
        count += 1
        if shard.leaving == Leaving.NO:
            shard.leaving = Leaving.KEEPING
            w.g(MOVES).leaving += 1
            slot_wake(w, shard.address_)
    slot = w.view(HeldSlot, held)
    if slot.shards != count:
        slot.shards = count
        w.g(COMMANDS).changed = 1


@model
def owning_end(w: World, held: int, mark: int) -> None:
    """Not a word more, and no row."""
    for row, shard in _shards(w, mark):
        shard.hard_stop = 1
        shard_hold(w, shard.address_, Hold.LEASE_EXPIRED)
        if shard.leaving != Leaving.NO:
            w.g(MOVES).leaving -= 1
            shard.leaving = Leaving.NO
        shard.session.valid = 0
        shard.flags = shard.flags & ~ShardFlag.SEQ_VALID
        row.flags = 0
    slot = w.view(HeldSlot, held)
    slot.shards, slot.phase = 0, HeldPhase.NONE
    w.g(COMMANDS).changed = 1


@model
def owning_guard(w: World) -> None:
    """Every slot that is gone."""
    if not w.g(FLEET).holding:
        return
    for n in range(HELD_MAX):
        held = w.g(FLEET).held[n]
        if held.phase == HeldPhase.GONE:
            owning_end(w, held.address_, n + 1)
            lease_mirror(w)


@model
def owning_look(w: World) -> int:
    """What a look ended is silent at once, and everything is while it cannot tell."""
    if not fleet_look(w):
        return 0
    owning_guard(w)
    return int(w.g(FLEET).rtc_doubt)


@model
def owning_tick(w: World) -> None:
    """Every slot that runs or stops."""
    for n in range(HELD_MAX):
        held = w.g(FLEET).held[n]
        if held.phase not in (HeldPhase.RUNNING, HeldPhase.STOPPING):
            continue
        if held.hard_stop != held.applied:
            owning_refresh(w, held.address_, n + 1)
        if held.phase == HeldPhase.STOPPING:
            owning_stop(w, held.address_, n + 1)
        elif not held.shards:
            owning_start(w, held.address_, n + 1)
