"""A DHCP server that does what RFC 2131 says, or exactly what a script says instead."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.simulation import dhcp_message as dhcp
from emulator.simulation.dhcp_message import DhcpMessage
from emulator.simulation.packet import (
    BROADCAST_IP,
    BROADCAST_MAC,
    PROTOCOL_UDP,
    ZERO_IP,
    Ipv4,
    PacketError,
    Udp,
    ip,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.host import Datagram, Host

    Script = Callable[["Exchange"], list[DhcpMessage] | None]

SERVER_PORT, CLIENT_PORT = 67, 68
INFINITE = 0xFFFFFFFF


@dataclass(slots=True)
class DhcpPolicy:
    """What the server hands out and how it behaves; times in seconds unless the name says ns.

    Args:
        pool: addresses, dotted, in the order they are given.
        lease_s: option 51; None leaves it out.
        t1_s: option 58; None leaves it out.
        t2_s: option 59; None leaves it out.
        netmask: option 1, dotted; "" leaves it out.
        routers: option 3, dotted.
        dns: option 6, dotted.
        mtu: option 26; 0 leaves it out.
        next_server: the siaddr field, dotted; "" means this server.
        bootfile: the file field.
        omit_on_renew: option codes left out of an ACK that renews (bare ACK of some servers).
        extra: more options, raw, in wire order.
        overload: 1 moves routers and DNS into `file`, 2 into `sname`, 3 routers into `file` and
            DNS into `sname` (option 52).
        delay_ns: wait before every answer.
        deaf_until_ns: answer nothing before this time, as a switch port that is still blocked.
        silent: answer nothing at all.
        naks: answer this many REQUESTs with NAK.
        naks_others: also NAK a REQUEST that chose another server, which RFC 2131 forbids.
        ignores_renewals: stay silent to REQUESTs in RENEWING (unicast) only.
    """

    pool: tuple[str, ...] = ()
    lease_s: int | None = 3600
    t1_s: int | None = None
    t2_s: int | None = None
    netmask: str = "255.255.255.0"
    routers: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    mtu: int = 0
    next_server: str = ""
    bootfile: str = ""
    omit_on_renew: frozenset[int] = frozenset()
    extra: tuple[tuple[int, bytes], ...] = ()
    overload: int = 0
    delay_ns: int = 0
    deaf_until_ns: int = 0
    silent: bool = False
    naks: int = 0
    naks_others: bool = False
    ignores_renewals: bool = False


@dataclass(slots=True)
class Exchange:
    """One request, how it reached us, and the answer that the policy would give."""

    at_ns: int
    request: DhcpMessage
    source: bytes
    unicast: bool
    reply: DhcpMessage | None = None

    @property
    def phase(self) -> str:
        """SELECTING, RENEWING, REBINDING or REBOOTING of a REQUEST, RFC 2131 section 4.3.2."""
        if self.request.option(dhcp.OPT_SERVER) is not None:
            return "SELECTING"
        if self.request.ciaddr == ZERO_IP:
            return "REBOOTING"
        return "RENEWING" if self.unicast else "REBINDING"


@dataclass(slots=True)
class DhcpLease:
    """An address that was given away."""

    address: bytes
    hardware: bytes
    expires_ns: int | None
    history: list[int] = field(default_factory=list)


class DhcpServer:
    """The server on one host, listening on port 67.

    `script(exchange)` may return the messages to send instead; None means "as the policy says".
    """

    def __init__(self, host: Host, policy: DhcpPolicy) -> None:
        self.host = host
        self.policy = policy
        self.script: Script | None = None
        self.exchanges: list[Exchange] = []
        self.leases: dict[bytes, DhcpLease] = {}
        self.seen: Counter[int] = Counter()
        self.malformed = 0
        host.bind_udp(SERVER_PORT, self._receive)

    def lease_of(self, hardware: bytes) -> DhcpLease | None:
        """Return the running lease of a client, or None when it has none or it ran out."""
        lease = self.leases.get(hardware)
        if lease is None or (lease.expires_ns or self.host.world.now_ns) < self.host.world.now_ns:
            return None
        return lease

    def messages(self, kind: int) -> list[Exchange]:
        """Return the exchanges whose request had a message type."""
        return [item for item in self.exchanges if item.request.kind == kind]

    def reply_to(self, request: DhcpMessage, kind: int, address: bytes) -> DhcpMessage:
        """Build the answer that the policy prescribes, without sending it."""
        policy = self.policy
        options = [(dhcp.OPT_TYPE, bytes((kind,))), (dhcp.OPT_SERVER, self.host.address)]
        reply = DhcpMessage(2, request.xid, request.chaddr, options, flags=request.flags)
        reply.giaddr = request.giaddr
        if kind == dhcp.NAK:
            return reply
        reply.ciaddr = request.ciaddr if kind == dhcp.ACK else ZERO_IP
        reply.yiaddr = address
        reply.siaddr = ip(policy.next_server) if policy.next_server else self.host.address
        reply.file = policy.bootfile.encode()
        renewing = kind == dhcp.ACK and request.ciaddr != ZERO_IP
        for code, value in self._options():
            if not (renewing and code in policy.omit_on_renew):
                self._place(reply, code, value)
        return reply

    def send(self, reply: DhcpMessage, exchange: Exchange) -> None:
        """Send an answer the way RFC 2131 section 4.1 says: unicast, broadcast or to the MAC."""
        self.send_raw(reply.encode(), exchange)

    def send_raw(self, payload: bytes, exchange: Exchange) -> None:
        """Send any bytes as the answer to an exchange."""
        host, request = self.host, exchange.request
        known = request.ciaddr != ZERO_IP
        address = request.ciaddr
        if not known and exchange.reply is not None:
            address = exchange.reply.yiaddr
        broadcast = bool(request.flags & dhcp.FLAG_BROADCAST) and not known
        if broadcast or address == ZERO_IP:
            address = BROADCAST_IP
        datagram = Udp(SERVER_PORT, CLIENT_PORT, payload).encode(host.address, address)
        packet = Ipv4(host.address, address, PROTOCOL_UDP, datagram)
        if address == BROADCAST_IP:
            host.send_ip_to(BROADCAST_MAC, packet)
        elif known:
            host.send_ip(packet)
        else:
            # The client cannot answer ARP yet.
            host.send_ip_to(request.chaddr, packet)

    def _options(self) -> list[tuple[int, bytes]]:
        policy = self.policy
        numbers = (
            (dhcp.OPT_LEASE, policy.lease_s),
            (dhcp.OPT_T1, policy.t1_s),
            (dhcp.OPT_T2, policy.t2_s),
        )
        out = [(code, value.to_bytes(4, "big")) for code, value in numbers if value is not None]
        if policy.netmask:
            out.append((dhcp.OPT_MASK, ip(policy.netmask)))
        for code, addresses in ((dhcp.OPT_ROUTER, policy.routers), (dhcp.OPT_DNS, policy.dns)):
            if addresses:
                out.append((code, b"".join(map(ip, addresses))))
        if policy.mtu:
            out.append((dhcp.OPT_MTU, policy.mtu.to_bytes(2, "big")))
        if policy.overload:
            out.append((dhcp.OPT_OVERLOAD, bytes((policy.overload,))))
        return out + list(policy.extra)

    def _place(self, reply: DhcpMessage, code: int, value: bytes) -> None:
        overload = self.policy.overload
        moved = code in (dhcp.OPT_ROUTER, dhcp.OPT_DNS)
        if not overload or not moved:
            reply.options.append((code, value))
        elif overload == 2 or (overload == 3 and code == dhcp.OPT_DNS):
            reply.sname_options.append((code, value))
        else:
            reply.file_options.append((code, value))

    def _receive(self, datagram: Datagram) -> None:
        try:
            request = DhcpMessage.decode(datagram.payload)
        except PacketError:
            self.malformed += 1
            return
        now_ns = self.host.world.now_ns
        exchange = Exchange(now_ns, request, datagram.src, datagram.dst != BROADCAST_IP)
        self.exchanges.append(exchange)
        self.seen[request.kind] += 1
        if self.policy.silent or now_ns < self.policy.deaf_until_ns:
            return
        exchange.reply = self._answer(exchange)
        replies = [] if exchange.reply is None else [exchange.reply]
        if self.script is not None:
            scripted = self.script(exchange)
            replies = replies if scripted is None else scripted
        for reply in replies:
            self._send_later(reply, exchange)

    def _send_later(self, reply: DhcpMessage, exchange: Exchange) -> None:
        self.host.world.events.after(self.policy.delay_ns, lambda: self.send(reply, exchange))

    def _answer(self, exchange: Exchange) -> DhcpMessage | None:
        request = exchange.request
        if request.kind == dhcp.DISCOVER:
            address = self._choose(request.chaddr)
            return self.reply_to(request, dhcp.OFFER, address) if address else None
        if request.kind == dhcp.REQUEST:
            return self._request(exchange)
        if request.kind == dhcp.INFORM:
            return self.reply_to(request, dhcp.ACK, ZERO_IP)
        if request.kind in (dhcp.RELEASE, dhcp.DECLINE):
            self.leases.pop(request.chaddr, None)
        return None

    def _request(self, exchange: Exchange) -> DhcpMessage | None:
        request, policy = exchange.request, self.policy
        chosen = request.option(dhcp.OPT_SERVER)
        if chosen is not None and chosen != self.host.address:
            return self.reply_to(request, dhcp.NAK, ZERO_IP) if policy.naks_others else None
        if policy.ignores_renewals and exchange.phase == "RENEWING":
            return None
        if policy.naks > 0:
            policy.naks -= 1
            self.leases.pop(request.chaddr, None)
            return self.reply_to(request, dhcp.NAK, ZERO_IP)
        wanted = request.option(dhcp.OPT_REQUESTED_IP) or request.ciaddr
        if wanted != self._choose(request.chaddr):
            return self.reply_to(request, dhcp.NAK, ZERO_IP)
        now_ns = self.host.world.now_ns
        endless = policy.lease_s in (None, INFINITE)
        expires_ns = None if endless else now_ns + (policy.lease_s or 0) * 1_000_000_000
        lease = self.leases.setdefault(
            request.chaddr, DhcpLease(wanted, request.chaddr, expires_ns)
        )
        lease.address, lease.expires_ns = wanted, expires_ns
        lease.history.append(now_ns)
        return self.reply_to(request, dhcp.ACK, wanted)

    def _choose(self, hardware: bytes) -> bytes:
        """Return the client's own address, else the first free one; empty when none is left."""
        lease = self.leases.get(hardware)
        if lease is not None:
            return lease.address
        taken = {known.address for known in self.leases.values()}
        free = [raw for raw in map(ip, self.policy.pool) if raw not in taken]
        return free[0] if free else b""
