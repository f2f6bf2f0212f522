"""What is laid aside of a link."""

from emulator.effects import World, model
from emulator.models.tcp.ring import tcp_readable
from emulator.models.tls.transport import tls_consume, tls_readable
from firmware.layouts.bus import BUS_ASIDE, BusLink
from firmware.layouts.shard import ShardContext


def place(w: World, link: int) -> int:
    """Return where a link's buffer begins."""
    return int(w.g(BUS_ASIDE).links[w.view(BusLink, link).index].address_)


@model
def bus_lay_aside(w: World, link: int, shard: int) -> None:
    """All that TLS shows."""
    at, _ = tcp_readable(w, shard)
    left = w.view(ShardContext, shard).tls.plain_left
    w.view(BusLink, link).aside = left
    w.write(place(w, link), w.read(at, left))
    tls_consume(w, shard, left)


@model
def bus_join(w: World, link: int, shard: int) -> int:
    """A segment's worth, behind what is there."""
    bus = w.view(BusLink, link)
    at, size = tls_readable(w, shard)
    size = min(size, 1460)
    if not size:
        return 1
    w.write(place(w, link) + bus.aside, w.read(at, size))
    bus.aside += size
    tls_consume(w, shard, size)
    return 0


@model
def bus_consume(w: World, link: int, shard: int, length: int) -> None:
    """From the front."""
    bus = w.view(BusLink, link)
    if not bus.aside:
        tls_consume(w, shard, length)
        return
    bus.aside -= length
    if bus.aside:
        at = place(w, link)
        w.write(at, w.read(at + length, bus.aside))
