"""Chunks of an event as datagrams."""

from emulator.effects import World, model
from emulator.models.events.subscribers import places
from emulator.models.net.udp import udp_finish, udp_to
from emulator.models.nic.queue import nic_reclaim
from firmware.layouts.config import CONFIG
from firmware.layouts.events import (
    EVENT_BODY_MAX,
    EventHeader,
    EventSubscriber,
)
from firmware.layouts.nic import NIC
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
