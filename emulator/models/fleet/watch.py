"""The watch."""

from emulator.effects import World, model
from emulator.models.fleet.judge import held_judge_all, held_seen
from emulator.models.fleet.orders import move_put, node_put
from emulator.models.fleet.ticket import ticket_seen
from emulator.models.fleet.tokens import ack_take, key_find, key_number
from emulator.models.fleet.view import (
    budget_put,
    key_kind,
    lease_put,
    plan_put,
    ticket_put,
    unreadable_note,
)
from emulator.models.log import log_write
from firmware.layouts.bus import BUS, BUS_IN, CONTROL, LinkState
from firmware.layouts.fleet import (
    FLEET,
    FLEET_DELIVERY,
    FLEET_GAP,
    FLEET_LINK,
    FLEET_REFUSED,
    FLEET_SILENT,
    FLEET_VIEW,
    RecordKind,
    WatchState,
)
from firmware.layouts.log import FLEET_WATCH
from firmware.layouts.node import CLOCK, CORE

RETRY_MS, SILENCE_MS = 500, 2_500


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
    fleet.heard_at = fleet.begun_at = now
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
        fleet.watch = WatchState.SYNCED
        log_write(w, 0, FLEET_WATCH, WatchState.SYNCED, fleet.resyncs, 0, 0)


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
    if message.status:
        fleet.move = 1
    watch_end(w, FLEET_REFUSED.code | message.status)


@model
def record_take(w: World, kind: int, number: int, revision: int) -> None:
    """By kind; what cannot be read is counted."""
    if kind == RecordKind.OTHER:
        return
    if kind == RecordKind.LEASE:
        bad = lease_put(w, number, revision)
    elif kind == RecordKind.PLAN:
        bad = plan_put(w, revision)
    elif kind == RecordKind.TICKET:
        bad, holder, op = ticket_put(w, number, revision)
        if not bad:
            ticket_seen(w, number, holder, op)
    elif kind == RecordKind.NODE:
        bad = node_put(w)
    elif kind == RecordKind.MOVE:
        bad = move_put(w, number)
    else:
        bad = budget_put(w, revision)
    if bad:
        unreadable_note(w, kind, number, revision)
    if kind == RecordKind.LEASE:
        held_seen(w, number, revision)


@model
def watch_heard(w: World) -> None:
    """The consumer sequence goes up by one with each delivery, and a heartbeat repeats the last."""
    fleet, message = w.g(FLEET), w.g(BUS_IN)
    if message.status == 100:
        header = message.header
        key = w.address("fleet_last_consumer")
        bad, count = key_number(w, header, header + message.header_len, key, 19)
        if bad:
            watch_end(w, FLEET_DELIVERY.code)
        elif count != fleet.consumer_seq:
            watch_end(w, FLEET_GAP.code)
        else:
            fleet.heard_at = w.g(CORE).now
        return
    if message.status:
        watch_end(w, FLEET_DELIVERY.code)
        return
    bad, revision, count, pending = ack_take(w, message.reply, message.reply_len)
    if bad:
        watch_end(w, FLEET_DELIVERY.code)
        return
    if count != (fleet.consumer_seq + 1) % 2**64:
        watch_end(w, FLEET_GAP.code)
        return
    fleet.consumer_seq = count
    fleet.heard_at = w.g(CORE).now
    if fleet.watch == WatchState.CREATING:
        fleet.watch = WatchState.SYNCING
    kind, number = key_kind(w, message.subject, message.subject_len)
    record_take(w, kind, number, revision)
    if not pending:
        watch_synced(w)
    held_judge_all(w)
