"""What one port sends, flow by flow: the basis of invariants such as "silent after expiry".

The monitor reads frames as they enter the segment, so it sees what a node sent even if the fault
plan then loses it. It decodes with `packet`, never with anything of the node.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.packet import (
    ACK,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    FIN,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    RST,
    SYN,
    Ethernet,
    Ipv4,
    PacketError,
    Tcp,
    Udp,
    ip,
    ip_text,
)
from emulator.simulation.peers.tcp_types import distance

if TYPE_CHECKING:
    from emulator.simulation.wire import Segment


@dataclass(slots=True)
class Flow:
    """One TCP connection of the node; times in nanoseconds, sizes in bytes of payload.

    Attributes:
        local_port: the node's.
        remote: address and port of the peer.
        syns: when each SYN left.
        isns: initial sequence numbers, one for each SYN.
        segments: segments that left.
        payload: bytes that left, repetitions included.
        repeated: bytes below the highest sequence number that had left before.
        largest: the longest payload.
        fins: FINs that left.
        resets: RSTs that left.
        last_ns: when the last segment left.
    """

    local_port: int
    remote: tuple[bytes, int]
    syns: list[int] = field(default_factory=list)
    isns: list[int] = field(default_factory=list)
    segments: int = 0
    payload: int = 0
    repeated: int = 0
    largest: int = 0
    fins: int = 0
    resets: int = 0
    last_ns: int = 0
    highest: int | None = None

    def take(self, now_ns: int, segment: Tcp) -> None:
        """Count one segment that left."""
        self.segments += 1
        self.last_ns = now_ns
        if segment.flags & (SYN | ACK) == SYN:
            self.syns.append(now_ns)
            self.isns.append(segment.seq)
            self.highest = (segment.seq + 1) & 0xFFFFFFFF
        self.fins += bool(segment.flags & FIN)
        self.resets += bool(segment.flags & RST)
        size = len(segment.payload)
        if not size:
            return
        self.payload += size
        self.largest = max(self.largest, size)
        end = (segment.seq + size) & 0xFFFFFFFF
        if self.highest is not None:
            fresh = distance(end, self.highest)
            self.repeated += size - max(0, min(size, fresh))
        if self.highest is None or distance(end, self.highest) > 0:
            self.highest = end

    def __str__(self) -> str:
        return f"{self.local_port} -> {ip_text(self.remote[0])}:{self.remote[1]}"


class Monitor:
    """Watch what one port of a segment sends.

    Args:
        segment: where to listen.
        port: name of the port whose frames count.
    """

    def __init__(self, segment: Segment, port: str) -> None:
        self.port = port
        self.kinds: Counter[str] = Counter()
        self.flows: dict[tuple[int, bytes, int], Flow] = {}
        self.udp: list[tuple[int, bytes, Udp]] = []
        self.malformed: list[str] = []
        self.last_ns: int | None = None
        segment.taps.append(self._tap)

    def dials(self, address: str = "", port: int = 0) -> list[int]:
        """Return when each connection to an address and port was first asked for; 0 means any."""
        return sorted(flow.syns[0] for flow in self._to(address, port) if flow.syns)

    def most_dials_in(self, window_ns: int = 60 * NS_PER_S, address: str = "") -> int:
        """Return the largest number of dials that any window of time saw."""
        times = self.dials(address)
        return max(
            (sum(start <= time < start + window_ns for time in times) for start in times),
            default=0,
        )

    def sent_since(self, when_ns: int, address: str = "", port: int = 0) -> list[Flow]:
        """Return the flows that sent anything after a time; empty means silence."""
        return [flow for flow in self._to(address, port) if flow.last_ns > when_ns]

    def _to(self, address: str, port: int) -> list[Flow]:
        raw = ip(address) if address else b""
        return [
            flow
            for flow in self.flows.values()
            if raw in (b"", flow.remote[0]) and port in (0, flow.remote[1])
        ]

    def _tap(self, now_ns: int, port: str, frame: bytes) -> None:
        if port != self.port:
            return
        self.last_ns = now_ns
        try:
            self._count(now_ns, Ethernet.decode(frame))
        except PacketError as error:
            self.malformed.append(str(error))

    def _count(self, now_ns: int, ether: Ethernet) -> None:
        if ether.ethertype == ETHERTYPE_ARP:
            self.kinds["arp"] += 1
        elif ether.ethertype != ETHERTYPE_IPV4:
            self.kinds[f"0x{ether.ethertype:04x}"] += 1
        else:
            self._count_ip(now_ns, Ipv4.decode(ether.payload))

    def _count_ip(self, now_ns: int, packet: Ipv4) -> None:
        if packet.protocol == PROTOCOL_TCP:
            self.kinds["tcp"] += 1
            segment = Tcp.decode(packet.payload, packet.src, packet.dst)
            key = (segment.src_port, packet.dst, segment.dst_port)
            flow = self.flows.get(key)
            if flow is None:
                flow = self.flows[key] = Flow(key[0], (packet.dst, key[2]))
            flow.take(now_ns, segment)
        elif packet.protocol == PROTOCOL_UDP:
            self.kinds["udp"] += 1
            udp = Udp.decode(packet.payload, packet.src, packet.dst)
            self.udp.append((now_ns, packet.dst, udp))
        else:
            self.kinds[f"ip protocol {packet.protocol}"] += 1
