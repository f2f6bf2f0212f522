"""One event in chunks."""

import struct

from emulator.effects import World, model
from emulator.models.events.datagram import events_chunk, events_full_chunks
from emulator.models.events.notices import notice_publish
from emulator.models.events.subscribers import events_expire, places
from emulator.models.log import log_at_level
from firmware.layouts.events import (
    EVENT_MAGIC,
    EVENTS,
    EventKind,
    Verdict,
)
from firmware.layouts.log import EVENTS_RAW
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.shard import ShardContext


@model
def events_part(w: World, shard: int, part: int, length: int) -> None:
    """All of it, in chunks."""
    rest, left = events_full_chunks(w, shard, part, length)
    if left:
        events_chunk(w, shard, rest, left)


@model
def events_end(
    w: World, shard: int, part: int, length: int, verdict: int, sequence: int, name_len: int
) -> None:
    """The last chunk carries the verdict, the sequence and the name."""
    stream = w.view(ShardContext, shard).events
    rest, left = events_full_chunks(w, shard, part, length)
    header = stream.header
    header.what, header.last, header.sequence, header.name_len = verdict, 1, sequence, name_len
    events_chunk(w, shard, rest, left)
    stream.open = 0
    if verdict in (Verdict.OK, Verdict.WITHHELD):
        log_at_level(w, EVENTS_RAW, shard)


@model
def events_abort(w: World, shard: int) -> None:
    """The rest does not come."""
    if w.view(ShardContext, shard).events.open:
        events_end(w, shard, shard, 0, Verdict.ABORTED, 0, 0)


@model
def events_begin(w: World, shard: int) -> None:
    """The next number of each listener whose shards it is one of."""
    context = w.view(ShardContext, shard)
    stream, who = context.events, 0
    events_abort(w, shard)
    events_expire(w)
    stream.withheld = 0
    header = {"magic": EVENT_MAGIC, "kind": EventKind.DISPATCH, "shard": context.shard_id}
    stream.header.wipe()
    for name, value in header.items():
        setattr(stream.header, name, value)
    for n, place in enumerate(places(w)):
        wanted = (context.shard_id - place.first) % 2**32 < place.count
        if place.expires and wanted:
            stream.numbers[8 * n : 8 * n + 8] = struct.pack("<Q", place.number)
            place.number += 1
            who |= 1 << n
    stream.open = who


@model
def events_notice(w: World, shard: int, kind: int, first: int, second: int) -> None:
    """One chunk without a body, and an event on the bus."""
    if w.g(OUTBOX).base:
        notice_publish(w, shard, kind, first, second)
    if not w.g(EVENTS).listeners:
        return
    events_begin(w, shard)
    stream = w.view(ShardContext, shard).events
    header = stream.header
    header.kind, header.what, header.last = EventKind.NOTICE, kind, 1
    header.sequence, header.second = first, second
    events_chunk(w, shard, shard, 0)
    stream.open = 0
