"""One event in chunks."""

import struct

from emulator.effects import World, model
from emulator.models.events.notices import notice_publish
from emulator.models.events.subscribers import events_expire, places
from emulator.models.log import log_at_level
from emulator.models.net.udp import udp_finish, udp_to
from emulator.models.nic.queue import nic_reclaim
from firmware.layouts.config import CONFIG
from firmware.layouts.events import (
    EVENT_BODY_MAX,
    EVENT_MAGIC,
    EVENTS,
    EventHeader,
    EventKind,
    EventSubscriber,
    Verdict,
)
from firmware.layouts.log import EVENTS_RAW
from firmware.layouts.nic import NIC
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.shard import ShardContext


@model
def events_room(w: World) -> int:
    """Half of the buffers are for everything else; what the card is done with counts as free."""
    nic = w.g(NIC)
    if nic.tx_free_count <= nic.tx.buffers // 2:
        nic_reclaim(w)
    return int(nic.tx_free_count <= nic.tx.buffers // 2)


@model
def events_datagram(w: World, shard: int, listener: int, place: int, body: int, length: int) -> int:
    """Header with the listener's own stream and number, body, name."""
    context, who = w.view(ShardContext, shard), w.view(EventSubscriber, listener)
    stream = context.events
    if not events_room(w):
        at, full = udp_to(w, who.offset_of("mac"))
        if not full:
            w.write(at, w.read(stream.header.address_, EventHeader.SIZE))
            own = w.view(EventHeader, at)
            own.stream = who.stream
            own.number = int.from_bytes(stream.numbers[8 * place : 8 * place + 8], "little")
            text = w.read(body, length) + bytes(context.gateway.parser.t[: own.name_len])
            w.write(at + EventHeader.SIZE, text)
            who.sent += 1
            size = EventHeader.SIZE + len(text)
            udp_finish(w, who.ip, size, w.g(CONFIG).diagnostics_port, who.port)
            return 0
    who.lost += 1
    return 1


@model
def events_chunk(w: World, shard: int, body: int, length: int) -> None:
    """To everybody who gets the event; the first loss is the last that a listener hears of it."""
    stream = w.view(ShardContext, shard).events
    stream.header.length = length
    for n, place in enumerate(places(w)):
        if stream.open >> n & 1 and events_datagram(w, shard, place.address_, n, body, length):
            stream.open = stream.open & ~(1 << n)
    stream.header.chunk += 1
    stream.header.offset += length


@model
def events_full_chunks(w: World, shard: int, part: int, length: int) -> tuple[int, int]:
    """What exceeds one chunk goes out; when nobody is left, nothing is."""
    stream = w.view(ShardContext, shard).events
    while stream.open and length > EVENT_BODY_MAX:
        events_chunk(w, shard, part, EVENT_BODY_MAX)
        part, length = part + EVENT_BODY_MAX, length - EVENT_BODY_MAX
    return part, length if stream.open else 0


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
