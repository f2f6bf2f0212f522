"""The ARP half of a peer: answer, resolve, age, and misbehave on request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.packet import (
    ARP_REPLY,
    ARP_REQUEST,
    BROADCAST_MAC,
    ETHERTYPE_ARP,
    ZERO_IP,
    ZERO_MAC,
    Arp,
    Ethernet,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.clock import Timer
    from emulator.simulation.host import Host

# RFC 1122 section 2.3.2.1: no more than one request a second for one address.
RETRY_NS = NS_PER_S
TRIES = 3


@dataclass(slots=True)
class ArpPolicy:
    """How a peer answers.

    Args:
        silent: answer nothing.
        delay_ns: wait before a reply.
        answer_mac: give this address instead of the host's own; None for the own.
        lifetime_ns: how long a learned address is used before it is asked for again.
    """

    silent: bool = False
    delay_ns: int = 0
    answer_mac: bytes | None = None
    lifetime_ns: int = 60 * NS_PER_S


@dataclass(slots=True)
class _Search:
    tries: int
    waiting: list[Callable[[bytes], None]]
    timer: Timer | None = None


class ArpPeer:
    """ARP for the on-link addresses of one host.

    Args:
        host: owns port and addresses.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.policy = ArpPolicy()
        self.requests: list[Arp] = []
        self.replies: list[Arp] = []
        self.unresolved = 0
        self._table: dict[bytes, tuple[bytes, int]] = {}
        self._searches: dict[bytes, _Search] = {}

    def receive(self, packet: Arp) -> None:
        """Handle one packet as RFC 826 says: merge the sender if it concerns us, then answer."""
        host = self.host
        mine = packet.target_ip in host.on_link
        if packet.sender_ip in self._searches or packet.sender_ip in self._table or mine:
            self._learn(packet.sender_ip, packet.sender_mac)
        if packet.operation == ARP_REPLY:
            self.replies.append(packet)
            return
        self.requests.append(packet)
        if not mine or self.policy.silent:
            return
        own = self.policy.answer_mac or host.mac
        reply = Arp(ARP_REPLY, own, packet.target_ip, packet.sender_mac, packet.sender_ip)
        host.world.events.after(self.policy.delay_ns, lambda: self.send(reply, packet.sender_mac))

    def send(self, packet: Arp, dst: bytes) -> None:
        """Put any ARP packet on the wire, a wrong one too."""
        frame = Ethernet(dst, self.host.mac, ETHERTYPE_ARP, packet.encode(), self.host.vlan)
        self.host.port.send(frame.encode())

    def announce(self, address: bytes | None = None, mac: bytes | None = None) -> None:
        """Send a gratuitous ARP request for an address (RFC 5227 section 3)."""
        address = address or self.host.address
        packet = Arp(ARP_REQUEST, mac or self.host.mac, address, ZERO_MAC, address)
        self.send(packet, BROADCAST_MAC)

    def flood(self, count: int, every_ns: int, target: bytes = ZERO_IP) -> None:
        """Broadcast `count` requests from invented neighbours, for nobody in particular."""
        for number in range(count):
            sender = bytes((10, 99)) + (number + 1).to_bytes(2, "big")
            fake = b"\x02\x99\x00" + (number + 1).to_bytes(3, "big")
            packet = Arp(ARP_REQUEST, fake, sender, ZERO_MAC, target)
            self.host.world.events.after(
                number * every_ns, partial(self.send, packet, BROADCAST_MAC)
            )

    def forget(self) -> None:
        """Empty the table, as a reboot does."""
        self._table.clear()

    def resolve(self, address: bytes, use: Callable[[bytes], None]) -> None:
        """Call `use` with the MAC of an on-link address, after asking if need be."""
        known = self._table.get(address)
        if known is not None and known[1] > self.host.world.now_ns:
            use(known[0])
            return
        search = self._searches.get(address)
        if search is not None:
            search.waiting.append(use)
            return
        self._searches[address] = _Search(0, [use])
        self._ask(address)

    def _ask(self, address: bytes) -> None:
        search = self._searches[address]
        if search.tries == TRIES:
            self.unresolved += len(search.waiting)
            del self._searches[address]
            return
        search.tries += 1
        host = self.host
        packet = Arp(ARP_REQUEST, host.mac, host.address, ZERO_MAC, address)
        self.send(packet, BROADCAST_MAC)
        search.timer = host.world.events.after(RETRY_NS, lambda: self._ask(address))

    def _learn(self, address: bytes, mac: bytes) -> None:
        if address == ZERO_IP:
            return
        self._table[address] = (mac, self.host.world.now_ns + self.policy.lifetime_ns)
        search = self._searches.pop(address, None)
        if search is None:
            return
        if search.timer is not None:
            search.timer.cancel()
        for use in search.waiting:
            use(mac)
