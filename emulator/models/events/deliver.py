"""From the outbox to NATS, and the stream's answers back."""

from emulator.effects import World, model
from emulator.models.bus.link import bus_fail
from emulator.models.bus.send import bus_close, bus_open
from emulator.models.bus.turn import bus_next
from emulator.models.events.acks import outbox_answer, outbox_overdue
from emulator.models.events.outbox import entry
from firmware.layouts.bus import BUS, BUS_IN, DATA, INBOX_SID, BusKind, BusLink, LinkState
from firmware.layouts.events import PUBLISH_CUT, PUBLISH_UNTAKEN
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.outbox import OUTBOX, UNTAKEN_MS, EntryState
from firmware.limits import OUTBOX_BYTES

PIECE = 2048
NEVER = 2**64 - 1


@model
def outbox_pass(w: World, link: int) -> None:
    """The link is midway unless a publication ends where the next byte begins."""
    box, midway = w.g(OUTBOX), 1
    while box.sending != box.next and entry(w, box.sending).end <= box.sent:
        midway = int(entry(w, box.sending).end != box.sent)
        box.sending = (box.sending + 1) % 2**32
    w.view(BusLink, link).midway = midway


@model
def outbox_again(w: World, link: int) -> None:
    """From the oldest on, answered or not."""
    box = w.g(OUTBOX)
    box.sent, box.sending, box.again_at = box.freed, box.first, 0
    w.view(BusLink, link).midway = 0
    for n in range((box.next - box.first) % 2**32):
        row = entry(w, box.first + n)
        if row.state == EntryState.DONE:
            box.acknowledged -= 1
        row.state = EntryState.WAITING


@model
def outbox_limit(w: World, link: int) -> int:
    """All; after a refusal, or where somebody waits for a gap, the end of what has begun."""
    box, row = w.g(OUTBOX), w.view(BusLink, link)
    if row.wanted or box.again_at:
        if row.midway:
            return int(entry(w, box.sending).end)
        if row.wanted or box.again_at > w.g(CORE).now:
            return int(box.sent)
        outbox_again(w, link)
    return int(box.end)


@model
def outbox_send(w: World, link: int, shard: int) -> None:
    """From where the connection stands; another one begins with the oldest that waits."""
    row, box = w.view(BusLink, link), w.g(OUTBOX)
    if row.state != LinkState.UP:
        return
    if row.ups != box.ups:
        box.ups, box.refusals, box.too_large, box.since = row.ups, 0, 0, w.g(CORE).now
        outbox_again(w, link)
    elif box.sent < box.freed:
        if row.midway:
            bus_fail(w, link, shard, PUBLISH_CUT.code)
            return
        box.sent, box.sending = box.freed, box.first
    limit = outbox_limit(w, link)
    while box.sent != limit:
        size = min(limit - box.sent, PIECE)
        at, full = bus_open(w, link, shard, size)
        if full:
            return
        w.write(at, w.read(box.base + box.sent % OUTBOX_BYTES, size))
        box.sent += size
        bus_close(w, link, shard, at + size)
        outbox_pass(w, link)


@model
def outbox_leave(w: World, link: int, shard: int) -> int:
    """Nothing was taken of what has left, or everything refused, for as long as it may be."""
    row, box, now = w.view(BusLink, link), w.g(OUTBOX), w.g(CORE).now
    if row.state != LinkState.UP or w.g(FLEET_CONFIG).servers_used <= 1:
        return NEVER
    left = box.refusals or box.sending != box.first
    if box.first == box.next or not left:
        box.since = now
        return NEVER
    began = max(box.since, entry(w, box.first).queued_at)
    due = (began + w.g(CLOCK).tsc_cycles_per_ms * UNTAKEN_MS) % 2**64
    if due > now:
        return int(due)
    bus_fail(w, link, shard, PUBLISH_UNTAKEN.code)
    return NEVER


@model
def publish_next(w: World) -> int:
    """What is in the inbox is the stream's; without an outbox nobody's."""
    link = w.g(BUS).links[DATA]
    while link.context and bus_next(w, link.address_, link.context) != BusKind.NONE:
        if w.g(BUS_IN).sid != INBOX_SID:
            return BusKind.MESSAGE
        if w.g(OUTBOX).base:
            outbox_answer(w)
    return BusKind.NONE


@model
def publish_tick(w: World) -> int:
    """What is overdue goes first: it makes room."""
    if not w.g(OUTBOX).base:
        return NEVER
    link = w.g(BUS).links[DATA]
    due = outbox_overdue(w)
    outbox_send(w, link.address_, link.context)
    due = min(due, outbox_leave(w, link.address_, link.context))
    again = w.g(OUTBOX).again_at
    return int(min(due, again) if again > w.g(CORE).now else due)
