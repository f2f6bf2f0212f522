"""What a watch delivers."""

from emulator.effects import World, model
from emulator.models.fleet.judge import held_judge_all, held_seen
from emulator.models.fleet.orders import move_put, node_put
from emulator.models.fleet.ticket import ticket_seen
from emulator.models.fleet.tokens import ack_take, key_number
from emulator.models.fleet.view import (
    budget_put,
    key_kind,
    lease_put,
    plan_put,
    ticket_put,
    unreadable_note,
)
from emulator.models.fleet.watch import watch_end, watch_synced
from firmware.layouts.bus import BUS_IN
from firmware.layouts.fleet import FLEET, RecordKind, WatchState
from firmware.layouts.fleet_sites import FLEET_DELIVERY, FLEET_GAP
from firmware.layouts.node import CORE


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
    fleet.heard_at, fleet.idle_at = w.g(CORE).now, 0
    if fleet.watch == WatchState.CREATING:
        fleet.watch = WatchState.SYNCING
    kind, number = key_kind(w, message.subject, message.subject_len)
    record_take(w, kind, number, revision)
    if not pending:
        watch_synced(w)
    held_judge_all(w)
