"""What a delivery of the watch says."""

from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.plan import plan_record
from emulator.models.fleet.records import budget_record, lease_record, ticket_record
from emulator.models.fleet.tokens import number_take, text_differs
from emulator.models.log import log_write
from firmware.layouts.bus import BUS, BUS_IN
from firmware.layouts.fleet import (
    FLEET,
    FLEET_SLOTS_MAX,
    FLEET_VIEW,
    KEY_PREFIX,
    KEY_ROOM,
    RecordKind,
)
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.log import FLEET_PLAN, FLEET_UNREADABLE
from firmware.layouts.permit import PERMITS_MAX

_SINGLE = {b"plan": RecordKind.PLAN, b"budget": RecordKind.BUDGET}
_NUMBERED = {
    b"lease.": (RecordKind.LEASE, FLEET_SLOTS_MAX),
    b"ident.": (RecordKind.TICKET, PERMITS_MAX),
    b"move.": (RecordKind.MOVE, FLEET_SLOTS_MAX),
}


@model
def key_kind(w: World, subject: int, size: int) -> tuple[int, int]:
    """Prefix, bot, room; then a name, or a name and a number, or a node."""
    config, at, end = w.g(FLEET_CONFIG), subject, subject + size
    parts = (
        (w.address("fleet_key_prefix"), len(KEY_PREFIX)),
        (config.offset_of("bot"), config.bot_len),
        (w.address("fleet_key_room"), len(KEY_ROOM)),
    )
    for part, length in parts:
        if end - at < length or text_differs(w, at, length, part, length):
            return RecordKind.OTHER, 0
        at += length
    name = w.read(at, end - at)
    if name in _SINGLE:
        return _SINGLE[name], 0
    for prefix, (kind, most) in _NUMBERED.items():
        if name.startswith(prefix):
            bad, number, after = number_take(w, at + len(prefix), end, ord("."))
            if not bad and after == end and number < most:
                return kind, number
            break
    if name.startswith(b"node."):
        bus, where = w.g(BUS), at + len(b"node.")
        if not text_differs(w, where, end - where, bus.offset_of("node"), bus.node_len):
            return RecordKind.NODE, 0
    return RecordKind.OTHER, 0


@model
def unreadable_note(w: World, kind: int, number: int, revision: int) -> None:
    """Each once."""
    fleet = w.g(FLEET)
    fleet.unreadable += 1
    if revision > fleet.unreadable_at:
        fleet.unreadable_at = revision
        log_write(w, 0, FLEET_UNREADABLE, kind, number, revision, 0)


@model
def plan_put(w: World, revision: int) -> int:
    """The revision is the record's, whether it can be read or not."""
    plan, message, fleet = w.g(FLEET_VIEW).plan, w.g(BUS_IN), w.g(FLEET)
    plan.revision = revision
    if plan_record(w, message.body, message.body_len, plan.address_):
        return 1
    if revision > fleet.plan_told:
        fleet.plan_told = revision
        log_write(w, 0, FLEET_PLAN, plan.mode, plan.epoch, plan.total, plan.slots)
    return 0


@model
def lease_put(w: World, slot: int, revision: int) -> int:
    """Seen when it is taken in hand."""
    view, message = w.g(FLEET_VIEW).slots[slot], w.g(BUS_IN)
    view.revision = revision
    view.seen_at = w.rdtsc()
    view.claim_at = 0
    return int(lease_record(w, message.body, message.body_len, view.address_))


@model
def ticket_put(w: World, key: int, revision: int) -> tuple[int, Any, Any]:
    """Seen when it is taken in hand."""
    view, message = w.g(FLEET_VIEW).tickets[key], w.g(BUS_IN)
    view.seen_at = w.rdtsc()
    bad, holder, op = ticket_record(w, message.body, message.body_len)
    view.revision = 0 if bad else revision
    return bad, holder, op


@model
def budget_put(w: World, revision: int) -> int:
    """Without a revision nothing is written over."""
    budget, message = w.g(FLEET_VIEW).budget, w.g(BUS_IN)
    bad = budget_record(w, message.body, message.body_len, budget.address_)
    budget.revision = 0 if bad else revision
    return int(bad)
