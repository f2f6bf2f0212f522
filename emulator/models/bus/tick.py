"""The turn of the links."""

from emulator.effects import World, model
from emulator.models.bus.dial import bus_connected, bus_dial, bus_secure
from emulator.models.bus.lines import bus_lines, bus_readable
from emulator.models.bus.link import bus_fail
from emulator.models.bus.send import bus_ping, bus_pong
from emulator.models.tls.stream import tls_ended
from firmware.layouts.bus import CONTROL, BusLink, LinkState
from firmware.layouts.bus_sites import CLOSED, LAME_DUCK, SILENT, TIMEOUT
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import CLOCK, CORE, NETWORK
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState


@model
def bus_over(w: World, link: int, shard: int) -> int:
    """TCP's error, TLS's error, or an end with nothing left to read."""
    context = w.view(ShardContext, shard)
    tcp, tls = context.tcp, context.tls
    if tcp.state == TcpState.FAILED:
        return int(tcp.error)
    if tcp.state == TcpState.CLOSED:
        return CLOSED.code
    if tls.state == TlsState.FAILED:
        return int(tls.error)
    if tls_ended(w, shard):
        return int(tls.error) if tls.state == TlsState.FAILED else 0
    return 0 if bus_readable(w, link, shard)[1] else CLOSED.code


@model
def bus_keep(w: World, link: int, shard: int) -> tuple[int, int]:
    """CONTROL: a question after 1.25 s, an end after 2.5 s. DATA: 5 s and 10 s."""
    bus, tcp = w.view(BusLink, link), w.view(ShardContext, shard).tcp
    now, ms = w.g(CORE).now, w.g(CLOCK).tsc_cycles_per_ms
    ask, give_up = (1_250 * ms, 2_500 * ms) if bus.index == CONTROL else (5_000 * ms, 10_000 * ms)
    if tcp.rcv_nxt != bus.rx_seen:
        bus.rx_seen, bus.asked, bus.last_rx = tcp.rcv_nxt, 0, now
    if bus.pong_owed:
        bus_pong(w, link, shard)
    if bus.lame_duck and w.g(FLEET_CONFIG).servers_used > 1:
        return LAME_DUCK.code, 0
    if now >= bus.last_rx + give_up:
        return SILENT.code, 0
    if not bus.asked:
        if now < bus.last_rx + ask:
            return 0, bus.last_rx + ask
        bus_ping(w, link, shard)
    return 0, bus.last_rx + give_up


_STEPS = {
    LinkState.RESOLVE: bus_dial,
    LinkState.CONNECT: bus_connected,
    LinkState.TLS: bus_secure,
}


@model
def bus_link_tick(w: World, link: int, shard: int) -> int:
    """As many steps as there are to take, then the ends and the times."""
    bus, now, ms = w.view(BusLink, link), w.g(CORE).now, w.g(CLOCK).tsc_cycles_per_ms
    if bus.state == LinkState.DOWN:
        if not ms:
            return NEVER
        if now < bus.next_try:
            return int(bus.next_try)
        if not w.g(NETWORK).configured:
            return int(now + 100 * ms)
        bus.attempt_deadline = now + 15_000 * ms
        bus.informed = bus.pong_owed = bus.asked = 0
        bus.state = LinkState.RESOLVE
    before = None
    while bus.state not in (before, LinkState.DOWN):
        before = bus.state
        _STEPS.get(before, bus_lines)(w, link, shard)
    if bus.state == LinkState.DOWN:
        return int(bus.next_try)
    error, deadline, tcp = 0, bus.attempt_deadline, w.view(ShardContext, shard).tcp
    unheard = bus.state in (LinkState.INFO, LinkState.TLS) and tcp.rcv_nxt == bus.rx_seen
    if bus.state == LinkState.CONNECT or unheard:
        deadline = min(deadline, (bus.last_rx + 3_000 * ms) % 2**64)
    if bus.state >= LinkState.CONNECT:
        error = bus_over(w, link, shard)
    if not error and bus.state == LinkState.UP:
        error, deadline = bus_keep(w, link, shard)
    elif not error and now >= deadline:
        error = TIMEOUT.code
    if error:
        bus_fail(w, link, shard, error)
        return int(bus.next_try)
    return int(deadline)
