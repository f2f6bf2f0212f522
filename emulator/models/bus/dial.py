"""From a server of the list to a connection that may log in."""

from emulator.effects import World, model
from emulator.models.bus.link import bus_fail
from emulator.models.bus.login import bus_hello
from emulator.models.net.dns import dns_resolve
from emulator.models.tcp.connect import tcp_connect
from emulator.models.tls.prepare import tls_prepare
from emulator.models.tls.transport import tls_ready
from firmware.layouts.bus import BusLink, LinkState
from firmware.layouts.bus_sites import NO_ADDRESS, NO_CONNECTION
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState


@model
def bus_dial(w: World, link: int, shard: int) -> None:
    """Name, TLS, connection, in this order."""
    bus, context = w.view(BusLink, link), w.view(ShardContext, shard)
    server = w.g(FLEET_CONFIG).servers[bus.server]
    host, size = server.offset_of("host"), server.host_len
    context.tcp.remote_port = server.port
    outcome, address = dns_resolve(w, host, size)
    if outcome == 1:
        return
    if outcome == 2:
        bus_fail(w, link, shard, NO_ADDRESS.code)
        return
    context.tcp.remote_ip = address
    if tls_prepare(w, shard, host, size):
        if context.tls.state == TlsState.FAILED:
            bus_fail(w, link, shard, context.tls.error)
        return
    if tcp_connect(w, shard):
        bus_fail(w, link, shard, NO_CONNECTION.code)
    else:
        bus.state, bus.last_rx = LinkState.CONNECT, w.g(CORE).now


@model
def bus_connected(w: World, link: int, shard: int) -> None:
    """ESTABLISHED, or already on its way out."""
    bus, tcp = w.view(BusLink, link), w.view(ShardContext, shard).tcp
    if tcp.state in (TcpState.CLOSED, TcpState.SYN_SENT, TcpState.FAILED):
        return
    bus.rx_seen = tcp.rcv_nxt
    first = w.g(CONFIG).gateway_secure and w.g(FLEET_CONFIG).handshake_first
    bus.state = LinkState.TLS if first else LinkState.INFO


@model
def bus_secure(w: World, link: int, shard: int) -> None:
    """TLS, and what comes behind it."""
    bus = w.view(BusLink, link)
    if tls_ready(w, shard):
        return
    if bus.informed:
        bus_hello(w, link, shard)
    else:
        bus.state = LinkState.INFO
