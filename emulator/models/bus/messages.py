"""Messages of a server."""

import re

from emulator.effects import World, model
from emulator.models.bus.aside import bus_consume
from emulator.models.bus.lines import bus_lines, bus_more, bus_readable
from emulator.models.bus.link import bus_fail
from emulator.models.text import take_decimal, take_token
from firmware.layouts.bus import BUS, BUS_IN, INBOX_SID, MESSAGE_MAX, BusKind, BusLink, Verb
from firmware.layouts.bus_sites import ARGUMENTS, BAD_HEADER, MESSAGE_END, MESSAGE_TOO_LONG


@model
def bus_tokens(w: World, at: int, end: int) -> tuple[int, int]:
    """At most five words."""
    rows, count = w.g(BUS).tokens, 0
    while True:
        at, size = take_token(w, at, end)
        if not size or count == 5:
            return count, int(bool(size))
        rows[count].text, rows[count].length = at, size
        count += 1
        at += size


@model
def bus_inbox_number(w: World, subject: int, length: int) -> int:
    """What stands behind the last dot, when it is a number."""
    digits = w.read(subject, length).rpartition(b".")[2]
    wrong, number = take_decimal(w, subject + length - len(digits), len(digits))
    return 0 if wrong or number >= 2**32 else number


@model
def bus_header(w: World, header: int, length: int) -> tuple[int, int]:
    """`NATS/1.0`, perhaps a status and a text, lines, an empty line."""
    text = w.read(header, length) if length else b""
    frame = rb"NATS/1\.0(?: ([0-9]{3}).*|(?=\r).*)\r\n\r\n"
    found = re.fullmatch(frame, text, re.DOTALL)
    return (int(found[1] or 0), 0) if found else (0, 1)


@model
def bus_done(w: World, link: int, shard: int) -> None:
    """The ring has room for another one."""
    bus = w.view(BusLink, link)
    size = bus.message_bytes
    if size:
        bus.message_bytes = 0
        w.g(BUS_IN).kind = BusKind.NONE
        bus_consume(w, link, shard, size)


def _at(w: World, n: int) -> tuple[int, int]:
    token = w.g(BUS).tokens[n]
    return token.text, token.length


@model
def bus_arguments(w: World, at: int, end: int, verb: int) -> int:
    """MSG: subject sid [reply] bytes. HMSG: subject sid [reply] header-bytes bytes."""
    got, headers = w.g(BUS_IN), verb == Verb.HMSG
    count, many = bus_tokens(w, at, end)
    if many or count - headers not in (3, 4):
        return ARGUMENTS.code
    replies = count - headers == 4
    got.reply, length = _at(w, 2)
    got.reply_len = length if replies else 0
    got.subject, got.subject_len = _at(w, 0)
    wrong, sid = take_decimal(w, *_at(w, 1))
    if wrong:
        return ARGUMENTS.code
    got.sid = sid
    if sid >= 2**32:
        return ARGUMENTS.code
    wrong, total = take_decimal(w, *_at(w, count - 1))
    if wrong:
        return ARGUMENTS.code
    if total > 64 << 20:
        return MESSAGE_TOO_LONG.code
    got.body_len = total
    size = 0
    if headers:
        wrong, size = take_decimal(w, *_at(w, count - 2))
        if wrong or size > total:
            return ARGUMENTS.code
    got.header_len = size
    got.body_len = total - size
    return 0


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
