"""What the stream has taken, in order."""

from typing import Any

from emulator.effects import World, model
from emulator.models.events.outbox import entry
from emulator.models.fleet.tokens import key_number
from emulator.models.log import log
from firmware.events.acks import ERROR_KEY, TAKEN, TOO_LARGE
from firmware.layouts.bus import BUS, BUS_IN, DATA
from firmware.layouts.events import GapTold, Stuck
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import PUBLISH_REFUSED, PUBLISH_STUCK
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.outbox import (
    ACK_TIMEOUT_MS,
    AGAIN_MS,
    HEAD_MAX,
    OUTBOX,
    STUB_MAX,
    EntryState,
    OutboxEntry,
)
from firmware.layouts.shard import ShardContext

_CONNECTED = (GatewayState.WAIT_RESUMED, GatewayState.READY)
NEVER = 2**64 - 1


@model
def outbox_credit(w: World, entry: int) -> None:
    """Only the connection that it came over, and only until one of its publications failed."""
    row = w.view(OutboxEntry, entry)
    slot = w.g(CORE).slots[row.slot]
    if not slot.context:
        return
    context = w.view(ShardContext, slot.context)
    gateway, stream = context.gateway, context.events
    number = (w.g(OUTBOX).first - 1) % 2**32
    if stream.gap_told == GapTold.SAID and number == stream.owed_number:
        stream.gap_told = GapTold.OWED
        if row.state == EntryState.DONE:
            stream.gap_told = GapTold.ALL
    if (
        row.connection != context.connection
        or gateway.state not in _CONNECTED
        or stream.stuck == Stuck.FAILED
    ):
        return
    if row.state == EntryState.FAILED:
        stream.stuck, stream.stuck_at = Stuck.FAILED, w.g(CORE).now
        slot.deadline = w.g(CORE).slots_due = 0
        log(w, PUBLISH_STUCK, slot.context, Stuck.FAILED, gateway.seq_acked)
    elif row.sequence > gateway.seq_acked:
        gateway.seq_acked = row.sequence


@model
def outbox_settle(w: World) -> None:
    """Oldest first, up to the first that waits."""
    box = w.g(OUTBOX)
    while box.first != box.next:
        row = entry(w, box.first)
        if row.state == EntryState.WAITING:
            return
        box.freed = row.end
        box.first = (box.first + 1) % 2**32
        outbox_credit(w, row.address_)


def _waiting(w: World) -> Any:  # noqa: ANN401 - a view, or nothing
    """Return the publication that BUS_IN answers, if it waits."""
    box, number = w.g(OUTBOX), w.g(BUS_IN).inbox
    if (number - box.first) % 2**32 >= (box.next - box.first) % 2**32:
        return None
    if number == box.sending and w.g(BUS).links[DATA].midway:
        return None
    row = entry(w, number)
    return row if row.state == EntryState.WAITING else None


def _bytes_of(w: World, number: int) -> int:
    """Return how many bytes of the ring a publication has."""
    box = w.g(OUTBOX)
    begin = box.freed if number == box.first else entry(w, number - 1).end
    return int(entry(w, number).end - begin)


@model
def outbox_refused(w: World, entry: int) -> None:
    """Everything goes again, unless it is too large for the stream."""
    box, message, row = w.g(OUTBOX), w.g(BUS_IN), w.view(OutboxEntry, entry)
    box.refused += 1
    error = 0
    if not message.status:
        at, end = message.body, message.body + message.body_len
        missing, code = key_number(w, at, end, w.address(ERROR_KEY), ERROR_KEY.size)
        error = 0 if missing else code
    told = row.slot, row.sequence, message.status, error
    size = _bytes_of(w, message.inbox)
    if error == TOO_LARGE and size > HEAD_MAX + STUB_MAX:
        if not box.too_large or size < box.too_large:
            box.too_large = size
        row.state, box.since = EntryState.FAILED, w.g(CORE).now
        log(w, PUBLISH_REFUSED, None, *told)
        outbox_settle(w)
    elif not box.again_at:
        box.again_at = w.g(CORE).now + w.g(CLOCK).tsc_cycles_per_ms * AGAIN_MS
        box.refusals += 1
        if box.refusals == 1:
            log(w, PUBLISH_REFUSED, None, *told)


@model
def outbox_answer(w: World) -> None:
    """An answer that names the stream says that it has the publication; any other that it has not."""
    box, message, row = w.g(OUTBOX), w.g(BUS_IN), _waiting(w)
    if row is None:
        return
    body = w.read(message.body, message.body_len)
    if len(body) >= len(TAKEN) + 5 and body.startswith(b'{"stream":"SHARDFW_EV",'):
        row.state = EntryState.DONE
        box.refusals, box.since = 0, w.g(CORE).now
        box.acknowledged += 1
        if body.endswith(b"true}"):
            box.duplicates += 1
        outbox_settle(w)
    else:
        outbox_refused(w, row.address_)


@model
def outbox_overdue(w: World) -> int:
    """From the oldest on, whatever waits for longer than it may."""
    box = w.g(OUTBOX)
    patience = w.g(CLOCK).tsc_cycles_per_ms * ACK_TIMEOUT_MS
    while box.first != box.next:
        row = entry(w, box.first)
        due = (row.queued_at + patience) % 2**64
        if due > w.g(CORE).now:
            return int(due)
        row.state = EntryState.FAILED
        box.overdue += 1
        outbox_settle(w)
    return NEVER
