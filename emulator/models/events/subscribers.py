"""Who listens."""

from typing import Any

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.log import log
from firmware.layouts.events import (
    EVENT_LEASE_MAX_MS,
    EVENT_LEASE_MIN_MS,
    EVENT_SUBSCRIBERS,
    EVENTS,
)
from firmware.layouts.log import EVENTS_ENDED, EVENTS_SUBSCRIBED
from firmware.layouts.net import NET
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext


def places(w: World) -> list[Any]:
    """Return all places."""
    return [w.g(EVENTS).subscribers[n] for n in range(EVENT_SUBSCRIBERS)]


@model
def events_find(w: World, ip: int, port: int) -> tuple[int, int | None, int]:
    """The place of that address and port; else the last free one; else none."""
    rows = places(w)
    for row in rows:
        if row.expires and (row.ip, row.port) == (ip, port & 0xFFFF):
            return row.address_, 0, 0
    free = [row.address_ for row in rows if not row.expires]
    return (free[-1], 1, 0) if free else (rows[0].address_, 0, 1)


@model
def events_release(w: World, index: int) -> None:
    """Free, and no shard goes on with what it was telling there."""
    core, events, place = w.g(CORE), w.g(EVENTS), places(w)[index]
    place.expires = 0
    events.listeners -= 1
    for n in range(core.slots_used):
        if context := core.slots[n].context:
            stream = w.view(ShardContext, context).events
            stream.open = stream.open & ~(1 << index)
    log(w, EVENTS_ENDED, 0, place.ip, place.port, place.sent, place.lost)


@model
def events_expire(w: World) -> None:
    """Time over: free."""
    for n, place in enumerate(places(w)):
        if place.expires and place.expires <= w.g(CORE).now:
            events_release(w, n)


@model
def events_subscribe(
    w: World, ip: int, port: int, lease_ms: int, first: int, count: int
) -> tuple[int, int]:
    """A new listener starts at number 0 of a random stream; a known one goes on."""
    events = w.g(EVENTS)
    lease_ms = min(max(lease_ms, EVENT_LEASE_MIN_MS), EVENT_LEASE_MAX_MS)
    lease = lease_ms * w.g(CLOCK).tsc_cycles_per_ms % 2**64
    if lease:
        events_expire(w)
        at, is_new, refused = events_find(w, ip, port)
        if not refused:
            place = next(row for row in places(w) if row.address_ == at)
            if is_new:
                place.wipe()
                place.ip, place.port = ip, port
                place.stream = drbg_u64(w)
                events.listeners += 1
                log(w, EVENTS_SUBSCRIBED, 0, ip, port, events.listeners)
            place.expires = w.g(CORE).now + lease
            place.first, place.count = first, count
            place.mac[:] = w.read(w.g(NET).rx_frame + 6, 6)
            return place.lost, 0
    events.refused += 1
    return 0, 1


@model
def events_unsubscribe(w: World, ip: int, port: int) -> int:
    """Only who has a place can give it up."""
    at, is_new, refused = events_find(w, ip, port)
    if refused or is_new:
        return 1
    events_release(w, [row.address_ for row in places(w)].index(at))
    return 0
