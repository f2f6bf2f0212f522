"""Everything a node finds beyond its cable: router, DHCP, DNS, and gateways behind the router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.host import Host
from emulator.simulation.packet import ip, ip_text
from emulator.simulation.peers.dhcp import DhcpPolicy, DhcpServer
from emulator.simulation.peers.dns import DnsServer
from emulator.simulation.peers.gateway import GatewayPeer, plan_actions
from emulator.simulation.wire import Segment
from pxe.gateway import GatewayOptions

if TYPE_CHECKING:
    import ssl

    from emulator.simulation.peers.tcp import TcpConfig
    from emulator.simulation.world import World

SUBNET = "10.0.0."
ROUTER = SUBNET + "1"
POOL = tuple(f"{SUBNET}{number}" for number in range(50, 60))


class Internet:
    """One segment with a router that is also DHCP and DNS server, and services behind it.

    Args:
        world: gives time and randomness.
        segment: where the router is plugged in; None makes a switch called `lan`.
        bootfile: what DHCP names as boot file.
    """

    def __init__(
        self, world: World, segment: Segment | None = None, *, bootfile: str = "nbp.bin"
    ) -> None:
        self.world = world
        self.segment = segment or Segment(world)
        self.router = Host(self.segment, "router", ROUTER)
        policy = DhcpPolicy(pool=POOL, routers=(ROUTER,), dns=(ROUTER,), bootfile=bootfile)
        self.dhcp = DhcpServer(self.router, policy)
        self.dns = DnsServer(self.router)
        self.gateways: dict[str, GatewayPeer] = {}
        world.actions["dns-down"] = lambda _name: self._dns_silent(silent=True)
        world.actions["dns-up"] = lambda _name: self._dns_silent(silent=False)

    def _dns_silent(self, *, silent: bool) -> None:
        self.dns.silent = silent

    def gateway(
        self,
        name: str = "gateway.test",
        address: str = "203.0.113.5",
        port: int = 80,
        options: GatewayOptions | None = None,
        *,
        config: TcpConfig | None = None,
        sessions_of: str = "",
        ttl_s: int = 60,
        tls: ssl.SSLContext | None = None,
    ) -> GatewayPeer:
        """Put a gateway behind the router and its name into DNS.

        Args:
            name: DNS name.
            address: dotted IPv4 address, of its own for each gateway.
            port: TCP port.
            options: settings; the default serves one shard.
            config: TCP settings.
            sessions_of: name of a gateway whose sessions this one serves too, as a resume host.
            ttl_s: TTL of the DNS record, in seconds.
            tls: what its connections are wrapped with; None leaves them plain.
        """
        self.dns.add(name, address, ttl_s=ttl_s)
        core = self.gateways[sessions_of].shared if sessions_of else None
        raw = ip(address)
        if not self.router.owns(raw):
            self.router.add_address(address)
        peer = GatewayPeer(
            self.router, port, options or GatewayOptions(), address=raw, config=config, core=core,
            tls=tls,
        )  # fmt: skip
        self.gateways[name] = peer
        # Timed events of a plan act on sessions, and hosts that share them are one gateway.
        if not sessions_of:
            self.world.actions.update(plan_actions(peer))
        return peer

    def move(self, name: str, address: str) -> None:
        """Give a name another address, as a service does that moves; the old one goes dark."""
        entry = self.dns.zone[name]
        for old in entry.addresses:
            self.cut(old)
        entry.addresses = [address]
        self.router.add_address(address)
        server = self.gateways[name].server
        server.stack.listeners[ip(address), server.port] = server.stack.listeners[
            server.address, server.port
        ]

    def cut(self, address: str) -> None:
        """Let packets for a service vanish in both directions, without a word."""
        self.router.behind.discard(ip(address))
        for connection in list(self.router.tcp.connections.values()):
            if ip_text(connection.local[0]) == address:
                connection.out_filter = lambda _segment: []

    def mend(self, address: str) -> None:
        """End a cut."""
        self.router.add_address(address)
        for connection in self.router.tcp.connections.values():
            if ip_text(connection.local[0]) == address:
                connection.out_filter = None
