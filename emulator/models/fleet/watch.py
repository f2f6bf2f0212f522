"""The watch."""

from emulator.effects import World, model
from emulator.models.fleet.tokens import key_find, key_number
from emulator.models.log import log_write
from firmware.layouts.bus import BUS, BUS_IN, CONTROL, LinkState
from firmware.layouts.fleet import FLEET, FLEET_VIEW, WatchState
from firmware.layouts.fleet_sites import FLEET_LINK, FLEET_REFUSED, FLEET_SILENT
from firmware.layouts.log import FLEET_WATCH
from firmware.layouts.node import CLOCK, CORE

RETRY_MS, SILENCE_MS, MOVE_MS = 500, 2_500, 3_000


@model
def watch_forget(w: World) -> None:
    """Every view is empty."""
    fleet = w.g(FLEET)
    w.g(FLEET_VIEW).wipe()
    fleet.watch, fleet.watch_inbox, fleet.consumer_seq = WatchState.OFF, 0, 0


@model
def watch_end(w: World, reason: int) -> None:
    """The reason is kept and told."""
    w.g(FLEET).error = reason
    watch_forget(w)
    log_write(w, 0, FLEET_WATCH, WatchState.OFF, w.g(FLEET).resyncs, reason >> 16 & 0xFF, 0)


@model
def watch_begin(w: World, request: int) -> int:
    """Number and subscription are new ones."""
    fleet, now = w.g(FLEET), w.g(CORE).now
    last = int(fleet.watch_sid)
    fleet.resyncs += 1
    fleet.watch, fleet.watch_inbox = WatchState.CREATING, request
    fleet.watch_sid = fleet.resyncs | 0x1000
    fleet.heard_at = now
    if not last:
        fleet.begun_at = now
    fleet.resync_at = now + RETRY_MS * w.g(CLOCK).tsc_cycles_per_ms
    return last


@model
def watch_check(w: World) -> int:
    """A watch belongs to one connection and is heard every 2.5 s."""
    fleet, link, now = w.g(FLEET), w.g(BUS).links[CONTROL], w.g(CORE).now
    up = link.state == LinkState.UP
    if link.ups != fleet.ups or not up:
        fleet.ups, fleet.watch_sid, fleet.resync_at = link.ups, 0, 0
        if fleet.watch != WatchState.OFF:
            watch_end(w, FLEET_LINK.code)
    cycles = w.g(CLOCK).tsc_cycles_per_ms
    if not up or not cycles * SILENCE_MS % 2**64:
        return 0
    if fleet.watch != WatchState.OFF:
        if (now - fleet.heard_at) % 2**64 <= cycles * SILENCE_MS % 2**64:
            return 0
        if fleet.watch_inbox:
            fleet.move = 1
        watch_end(w, FLEET_SILENT.code)
    return int(now >= fleet.resync_at)


@model
def watch_synced(w: World) -> None:
    """Said once."""
    fleet = w.g(FLEET)
    if fleet.watch != WatchState.SYNCED:
        fleet.watch, fleet.left, fleet.move_at = WatchState.SYNCED, 0, 0
        log_write(w, 0, FLEET_WATCH, WatchState.SYNCED, fleet.resyncs, 0, 0)


def try_another(w: World) -> None:
    """A connection has three seconds."""
    fleet = w.g(FLEET)
    if (fleet.begun_at + MOVE_MS * w.g(CLOCK).tsc_cycles_per_ms) % 2**64 < w.g(CORE).now:
        fleet.move = 1


@model
def watch_answered(w: World) -> None:
    """Without an error, and with the number of what is pending."""
    fleet, message = w.g(FLEET), w.g(BUS_IN)
    fleet.watch_inbox = 0
    at, end = message.body, message.body + message.body_len
    if not message.status and key_find(w, at, end, w.address("fleet_error_key"), 8)[0]:
        bad, pending = key_number(w, at, end, w.address("fleet_pending_key"), 14)
        if not bad:
            if not pending and not fleet.consumer_seq:
                watch_synced(w)
            elif fleet.watch == WatchState.CREATING:
                fleet.watch = WatchState.SYNCING
            return
    fleet.resync_at = w.g(CORE).now + RETRY_MS * w.g(CLOCK).tsc_cycles_per_ms
    bad, code = key_number(w, at, end, w.address("fleet_code_key"), 7)
    if not bad and code == 503:
        try_another(w)
    if message.status:
        fleet.move = 1
    watch_end(w, FLEET_REFUSED.code | message.status)
