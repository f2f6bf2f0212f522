"""What the node says."""

from emulator.effects import World, model
from emulator.models.tls.transport import tls_commit, tls_reserve
from firmware.layouts.bus import BUS, PING_TEXT, PONG_TEXT, BusLink, LinkState


@model
def bus_say(w: World, link: int, shard: int, text: int, length: int) -> int:
    """All of it or nothing, and nothing between the parts of a message."""
    if w.view(BusLink, link).midway:
        return 1
    where, full = tls_reserve(w, shard, length)
    if full:
        return 1
    w.write(where, w.read(text, length))
    tls_commit(w, shard, length)
    return 0


@model
def bus_pong(w: World, link: int, shard: int) -> None:
    """The answer is owed until there is room."""
    w.view(BusLink, link).pong_owed = bus_say(w, link, shard, w.address(PONG_TEXT), 6)


@model
def bus_ping(w: World, link: int, shard: int) -> None:
    """Asked once."""
    w.view(BusLink, link).asked = 1
    bus_say(w, link, shard, w.address(PING_TEXT), 6)


@model
def bus_open(w: World, link: int, shard: int, length: int) -> tuple[int, int]:
    """Room on a link that is UP."""
    bus = w.view(BusLink, link)
    if bus.state != LinkState.UP:
        return 0, 1
    where, full = tls_reserve(w, shard, length)
    if full:
        return 0, 1
    bus.out = where
    return where, 0


@model
def bus_close(w: World, link: int, shard: int, end: int) -> None:
    """What lies between both."""
    bus = w.view(BusLink, link)
    bus.sent += 1
    tls_commit(w, shard, end - bus.out)


@model
def bus_request_id(w: World, link: int) -> int:
    """They count from 1, and go on there."""
    bus = w.view(BusLink, link)
    bus.inbox_next = (bus.inbox_next + 1) % 2**32 or 1
    return int(bus.inbox_next)


@model
def bus_put_inbox(w: World, link: int, text: int) -> int:
    """Name, boot and link as tokens."""
    bus = w.g(BUS)
    letter = b"cd"[w.view(BusLink, link).index :][:1]
    made = b"_%b.%b.%b.%b." % (
        b"E" if bus.enrolling else b"I",
        bus.node[0 : bus.node_len],
        bytes(bus.boot_text),
        letter,
    )
    w.write(text, made)
    return text + len(made)
