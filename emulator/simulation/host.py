"""A host on the virtual wire: one port, ARP, IPv4, ICMP, UDP and TCP, and the services on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.packet import (
    BROADCAST_IP,
    BROADCAST_MAC,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    ICMP_ECHO_REPLY,
    ICMP_ECHO_REQUEST,
    PROTOCOL_ICMP,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    Arp,
    Ethernet,
    Icmp,
    Ipv4,
    PacketError,
    Tcp,
    Udp,
    ip,
    mac,
)
from emulator.simulation.peers.arp import ArpPeer
from emulator.simulation.peers.tcp import TcpStack

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.wire import Segment

    UdpHandler = Callable[["Datagram"], None]


class Datagram:
    """A UDP datagram with the addresses it came with."""

    __slots__ = ("dst", "dst_mac", "dst_port", "payload", "src", "src_mac", "src_port")

    def __init__(self, frame: Ethernet, packet: Ipv4, udp: Udp) -> None:
        self.src, self.dst = packet.src, packet.dst
        self.src_mac, self.dst_mac = frame.src, frame.dst
        self.src_port, self.dst_port = udp.src_port, udp.dst_port
        self.payload = udp.payload


class Host:
    """One machine with one MAC and at least one address.

    Args:
        segment: where it is plugged in.
        name: name of its port, used by fault plans.
        address: dotted IPv4 address; the first of `on_link`.
        hardware: MAC; None derives a local one from the address.
        prefix: length of the subnet's prefix.
        gateway: next hop for other subnets; "" when there is none.
    """

    def __init__(
        self,
        segment: Segment,
        name: str,
        address: str,
        *,
        hardware: str | None = None,
        prefix: int = 24,
        gateway: str = "",
    ) -> None:
        self.world = segment.world
        self.name = name
        self.address = ip(address)
        self.mac = mac(hardware) if hardware else b"\x02\x00" + self.address
        self.mask = (0xFFFFFFFF << (32 - prefix) & 0xFFFFFFFF).to_bytes(4, "big")
        self.gateway = ip(gateway) if gateway else b""
        self.on_link: set[bytes] = {self.address}
        self.behind: set[bytes] = set()
        self.vlan: int | None = None
        self.up = True
        self.answers_echo = True
        self.bad_packets: list[str] = []
        self.echo_replies: list[Icmp] = []
        self.icmp_received: list[Icmp] = []
        self.udp_ports: dict[int, UdpHandler] = {}
        self.port = segment.port(name, self.receive)
        self.arp = ArpPeer(self)
        self.tcp = TcpStack(self.world, self.send_ip)
        self._ident = 0
        self._protocols: dict[int, Callable[[Ethernet, Ipv4], None]] = {
            PROTOCOL_ICMP: self._icmp,
            PROTOCOL_UDP: self._udp,
            PROTOCOL_TCP: self._tcp,
        }

    def add_address(self, address: str, *, on_link: bool = False) -> bytes:
        """Give the host one more address: in the subnet, or reached by routing through it."""
        raw = ip(address)
        (self.on_link if on_link else self.behind).add(raw)
        return raw

    def receive(self, frame: bytes) -> None:
        """Take one frame off the port; a malformed one is noted in `bad_packets`."""
        if not self.up:
            return
        try:
            ether = Ethernet.decode(frame)
            if ether.dst not in (self.mac, BROADCAST_MAC):
                return
            if ether.ethertype == ETHERTYPE_ARP:
                self.arp.receive(Arp.decode(ether.payload))
            elif ether.ethertype == ETHERTYPE_IPV4:
                self._ip(ether)
        except PacketError as error:
            self.bad_packets.append(str(error))

    def send_ip(self, packet: Ipv4, next_hop: bytes | None = None) -> None:
        """Route one packet: broadcast, on link, or through the gateway; resolve, then send."""
        self._ident = self._ident + 1 & 0xFFFF
        packet.ident = packet.ident or self._ident
        if not self.up:
            return
        if next_hop is None:
            next_hop = self._next_hop(packet.dst)
        if next_hop == BROADCAST_IP:
            self.send_ip_to(BROADCAST_MAC, packet)
        else:
            self.arp.resolve(next_hop, lambda address: self.send_ip_to(address, packet))

    def send_ip_to(self, address: bytes, packet: Ipv4) -> None:
        """Send a packet to a given MAC."""
        frame = Ethernet(address, self.mac, ETHERTYPE_IPV4, packet.encode(), self.vlan)
        self.port.send(frame.encode())

    def bind_udp(self, number: int, handler: UdpHandler) -> None:
        """Hand datagrams for a port to `handler`."""
        if number in self.udp_ports:
            raise ValueError(f"{self.name}: UDP port {number} is taken; bind another")
        self.udp_ports[number] = handler

    def send_udp(
        self, dst: bytes, dst_port: int, src_port: int, payload: bytes, src: bytes | None = None
    ) -> None:
        """Send one datagram from this host, or from another of its addresses."""
        src = src or self.address
        udp = Udp(src_port, dst_port, payload).encode(src, dst)
        self.send_ip(Ipv4(src, dst, PROTOCOL_UDP, udp))

    def ping(self, dst: bytes, payload: bytes = b"", sequence: int = 1) -> None:
        """Send an echo request; the answer appears in `echo_replies`."""
        rest = b"\x00\x01" + sequence.to_bytes(2, "big")
        echo = Icmp(ICMP_ECHO_REQUEST, 0, rest, payload).encode()
        self.send_ip(Ipv4(self.address, dst, PROTOCOL_ICMP, echo))

    def owns(self, address: bytes) -> bool:
        """Say whether packets for an address end here."""
        return address in self.on_link or address in self.behind

    def _next_hop(self, dst: bytes) -> bytes:
        net = int.from_bytes(self.mask, "big")
        mine, theirs = int.from_bytes(self.address, "big"), int.from_bytes(dst, "big")
        if dst == BROADCAST_IP or (mine & net == theirs & net and theirs | net == 0xFFFFFFFF):
            return BROADCAST_IP
        if mine & net == theirs & net or not self.gateway:
            return dst
        return self.gateway

    def _ip(self, ether: Ethernet) -> None:
        packet = Ipv4.decode(ether.payload)
        broadcast = ether.dst == BROADCAST_MAC
        if not self.owns(packet.dst) and not broadcast:
            return
        handler = self._protocols.get(packet.protocol)
        if handler is not None:
            handler(ether, packet)

    def _icmp(self, _ether: Ethernet, packet: Ipv4) -> None:
        message = Icmp.decode(packet.payload)
        self.icmp_received.append(message)
        if message.kind == ICMP_ECHO_REPLY:
            self.echo_replies.append(message)
        elif message.kind == ICMP_ECHO_REQUEST and self.answers_echo:
            answer = Icmp(ICMP_ECHO_REPLY, 0, message.rest, message.payload).encode()
            self.send_ip(Ipv4(packet.dst, packet.src, PROTOCOL_ICMP, answer))

    def _udp(self, ether: Ethernet, packet: Ipv4) -> None:
        udp = Udp.decode(packet.payload, packet.src, packet.dst)
        handler = self.udp_ports.get(udp.dst_port)
        if handler is not None:
            handler(Datagram(ether, packet, udp))

    def _tcp(self, _ether: Ethernet, packet: Ipv4) -> None:
        if self.owns(packet.dst):
            segment = Tcp.decode(packet.payload, packet.src, packet.dst)
            self.tcp.receive(packet.src, packet.dst, segment)
