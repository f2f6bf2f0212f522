"""From a server of the list to a connection that may log in."""

from firmware.abi import CALLER_SAVED
from firmware.bus.link import bus_fail
from firmware.bus.login import bus_hello
from firmware.layouts.bus import BusLink, LinkState
from firmware.layouts.bus_sites import NO_ADDRESS, NO_CONNECTION
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.fleet_config import FLEET_CONFIG, BusServer, FleetConfig
from firmware.layouts.node import CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.tls import TlsContext, TlsState
from firmware.net.dns import dns_resolve
from firmware.tcp.connect import tcp_connect
from firmware.tls.prepare import tls_prepare
from firmware.tls.transport import tls_ready
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    EDX,
    NE,
    R12,
    RAX,
    RBP,
    RBX,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    routine,
)


@routine(
    inputs=[In(RBP, BusLink, "a link in RESOLVE"), In(RBX, ShardContext, "its workspace")],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.server, BusServer.port, BusServer.host_len, TlsContext.state, TlsContext.error,
        CoreState.now,
    ],
    writes=[BusLink.state, BusLink.last_rx, TcpContext.remote_ip, TcpContext.remote_port],
    calls=[dns_resolve, tls_prepare, tcp_connect, bus_fail],
    saves=[R12],
    source="firmware/docs/bus.md#states",
)  # fmt: skip
def bus_dial(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Resolve the server's name, have TLS ready, connect; what is pending is asked again."""
    row, fail, unprepared, wait = (
        BusServer.at(R12),
        *map(a.label, ("fail", "unprepared", "wait")),
    )
    a.mov(EAX, link.server)
    a.imul(EAX, EAX, BusServer.SIZE)
    a.lea(R12, FLEET_CONFIG.it.servers.address)
    a.add(R12, RAX)
    a.mov(AX, row.port)
    a.mov(shard.tcp.remote_port, AX)
    a.lea(RSI, row.host.address)
    a.movzx(ECX, row.host_len)
    a.call(dns_resolve)
    a.cmp(EAX, 1)
    a.j(E, wait)
    with a.if_(A):
        a.mov(EDX, NO_ADDRESS.code)
        a.jmp(fail)
    a.mov(shard.tcp.remote_ip, EDX)
    a.lea(RSI, row.host.address)
    a.movzx(ECX, row.host_len)
    a.call(tls_prepare)
    a.j(C, unprepared)
    a.call(tcp_connect)
    a.mov(EDX, NO_CONNECTION.code)
    a.j(C, fail)
    a.mov(link.state, LinkState.CONNECT)
    a.mov(RAX, core.now)
    a.mov(link.last_rx, RAX)
    a.place(wait)
    a.ret()
    # Without an arena the link waits for one.
    a.place(unprepared)
    a.cmp(shard.tls.state, TlsState.FAILED)
    a.j(NE, wait)
    a.mov(EDX, shard.tls.error)
    a.place(fail)
    a.jmp(bus_fail)


@routine(
    inputs=[In(RBP, BusLink, "a link in CONNECT"), In(RBX, ShardContext, "its workspace")],
    clobbers=[RAX],
    reads=[
        TcpContext.state,
        TcpContext.rcv_nxt,
        FleetConfig.handshake_first,
        ConfigBlob.gateway_secure,
    ],
    writes=[BusLink.state, BusLink.rx_seen],
    source="firmware/docs/bus.md#states",
)
def bus_connected(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """See whether TCP has come through; INFO is next, or TLS when that goes first."""
    wait, chosen = a.label("wait"), a.label("chosen")
    a.mov(EAX, shard.tcp.state)
    a.sub(EAX, TcpState.ESTABLISHED)
    a.cmp(EAX, TcpState.TIME_WAIT - TcpState.ESTABLISHED)
    a.j(A, wait)
    a.mov(EAX, shard.tcp.rcv_nxt)
    a.mov(link.rx_seen, EAX)
    a.mov(EAX, LinkState.INFO)
    a.cmp(CONFIG.it.gateway_secure, 0)
    a.j(E, chosen)
    a.cmp(FLEET_CONFIG.it.handshake_first, 0)
    a.j(E, chosen)
    a.mov(EAX, LinkState.TLS)
    a.place(chosen)
    a.mov(link.state, EAX)
    a.place(wait)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "a link in TLS"), In(RBX, ShardContext, "its workspace")],
    clobbers=CALLER_SAVED,
    reads=[BusLink.informed],
    writes=[BusLink.state],
    calls=[tls_ready, bus_hello],
    source="firmware/docs/bus.md#tls",
)
def bus_secure(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Go on with TLS, at once when the node has none; then log in, or hear INFO first."""
    wait = a.label("wait")
    a.call(tls_ready)
    a.j(C, wait)
    a.cmp(link.informed, 0)
    with a.if_(E):
        a.mov(link.state, LinkState.INFO)
        a.ret()
    a.call(bus_hello)
    a.place(wait)
    a.ret()
