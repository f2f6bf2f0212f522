"""Messages of a server."""

from emulator.effects import World, model
from emulator.models.bus.arguments import bus_arguments, bus_header, bus_inbox_number
from emulator.models.bus.aside import bus_consume
from emulator.models.bus.lines import bus_lines, bus_more, bus_readable
from emulator.models.bus.link import bus_fail
from firmware.layouts.bus import BUS_IN, INBOX_SID, MESSAGE_MAX, BusKind, BusLink, Verb
from firmware.layouts.bus_sites import BAD_HEADER, MESSAGE_END, MESSAGE_TOO_LONG


@model
def bus_done(w: World, link: int, shard: int) -> None:
    """The ring has room for another one."""
    bus = w.view(BusLink, link)
    size = bus.message_bytes
    if size:
        bus.message_bytes = 0
        w.g(BUS_IN).kind = BusKind.NONE
        bus_consume(w, link, shard, size)


@model
def bus_skip(w: World, link: int, shard: int) -> int:
    """Piece by piece, as the ring fills."""
    bus = w.view(BusLink, link)
    while bus.skip:
        some = min(bus_readable(w, link, shard)[1], bus.skip)
        if some:
            bus.skip -= some
            bus_consume(w, link, shard, some)
        elif bus_more(w, link, shard):
            return 1
    return 0


@model
def bus_take(w: World, link: int, shard: int) -> int:
    """A line, its bytes, and the two that end them; or a line whose message cannot be read."""
    bus, got, unreadable, status = w.view(BusLink, link), w.g(BUS_IN), 0, 0
    bus_done(w, link, shard)
    if bus_skip(w, link, shard):
        return BusKind.NONE
    while True:
        verb, at, end, line = bus_lines(w, link, shard)
        if not verb:
            return BusKind.NONE
        error = bus_arguments(w, at, end, verb)
        if error:
            bus_fail(w, link, shard, error)
            return BusKind.NONE
        head = end + 2 - line
        whole = head + got.header_len + got.body_len + 2
        if whole > MESSAGE_MAX:
            bus.message_bytes, bus.skip = head, whole - head
            unreadable = MESSAGE_TOO_LONG.code
            break
        if bus_readable(w, link, shard)[1] >= whole:
            break
        if bus_more(w, link, shard):
            return BusKind.NONE
    if not unreadable:
        if w.read(line + whole - 2, 2) != b"\r\n":
            bus_fail(w, link, shard, MESSAGE_END.code)
            return BusKind.NONE
        got.header, got.body = end + 2, end + 2 + got.header_len
        bus.message_bytes = whole
        if verb == Verb.HMSG:
            status, wrong = bus_header(w, got.header, got.header_len)
            unreadable = BAD_HEADER.code if wrong else 0
    if unreadable:
        if got.sid == INBOX_SID:
            bus_fail(w, link, shard, unreadable)
            return BusKind.NONE
        got.header_len = got.body_len = 0
    got.unreadable = unreadable
    got.status, number = status, 0
    if got.sid == INBOX_SID:
        number = bus_inbox_number(w, got.subject, got.subject_len)
    got.inbox = number
    bus.received += 1
    got.kind = BusKind.MESSAGE
    return BusKind.MESSAGE
