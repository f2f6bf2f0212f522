"""Malformed frames of every layer, by name, aimed at one live connection.

A node that takes one of these must count it and go on; at most the connection aimed at may suffer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.simulation.packet import (
    ACK,
    BROADCAST_MAC,
    DONT_FRAGMENT,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV4,
    ETHERTYPE_VLAN,
    FIN,
    MORE_FRAGMENTS,
    PROTOCOL_ICMP,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    RST,
    SYN,
    URG,
    Arp,
    Ethernet,
    Icmp,
    Ipv4,
    Tcp,
    Udp,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from emulator.simulation.peers.tcp import Connection

MULTICAST_MAC = b"\x01\x00\x5e\x00\x00\x01"


@dataclass(frozen=True, slots=True)
class Flow:
    """One connection as seen from the peer that sends to the node.

    Args:
        node_mac: destination.
        peer_mac: source.
        node_ip: destination.
        peer_ip: source.
        node_port: destination.
        peer_port: source.
        seq: what the peer sends next.
        ack: what the peer expects next.
    """

    node_mac: bytes
    peer_mac: bytes
    node_ip: bytes
    peer_ip: bytes
    node_port: int
    peer_port: int
    seq: int
    ack: int

    @classmethod
    def of(cls, connection: Connection, node_mac: bytes, peer_mac: bytes) -> Flow:
        """Return the flow of a peer's connection."""
        return cls(
            node_mac, peer_mac, connection.remote[0], connection.local[0],
            connection.remote[1], connection.local[1], connection.snd_nxt, connection.rcv_nxt,
        )  # fmt: skip

    def ethernet(self, ethertype: int, payload: bytes, vlan: int | None = None) -> bytes:
        """Return a frame from the peer to the node."""
        return Ethernet(self.node_mac, self.peer_mac, ethertype, payload, vlan).encode()

    def ipv4(self, protocol: int, payload: bytes, **fields: int | bytes) -> bytes:
        """Return a frame with a right IPv4 header, but for the fields given."""
        packet = Ipv4(self.peer_ip, self.node_ip, protocol, payload)
        for name, value in fields.items():
            setattr(packet, name, value)
        return self.ethernet(ETHERTYPE_IPV4, packet.encode())

    def tcp(self, flags: int = ACK, payload: bytes = b"", **fields: int | bytes) -> bytes:
        """Return a frame with a right segment, but for the fields given."""
        segment = Tcp(self.peer_port, self.node_port, self.seq, self.ack, flags, 1000, payload)
        for name, value in fields.items():
            setattr(segment, name, value)
        return self.ipv4(PROTOCOL_TCP, segment.encode(self.peer_ip, self.node_ip))

    def udp(self, port: int, payload: bytes, source: int = 53) -> bytes:
        """Return a frame with a right datagram."""
        datagram = Udp(source, port, payload).encode(self.peer_ip, self.node_ip)
        return self.ipv4(PROTOCOL_UDP, datagram)

    def arp(self, **fields: int | bytes) -> bytes:
        """Return an ARP reply from the peer to the node, but for the fields given."""
        packet = Arp(2, self.peer_mac, self.peer_ip, self.node_mac, self.node_ip)
        for name, value in fields.items():
            setattr(packet, name, value)
        return self.ethernet(ETHERTYPE_ARP, packet.encode())


def _patch(frame: bytes, offset: int, data: bytes) -> bytes:
    """Overwrite bytes of a frame; offset 14 is the first byte of the IPv4 header."""
    return frame[:offset] + data + frame[offset + len(data) :]


def _raw_udp(flow: Flow, length: int, checksum: int = 0) -> bytes:
    head = struct.pack(">HHHH", 53, 68, length, checksum)
    return flow.ipv4(PROTOCOL_UDP, head + b"payload")


MALFORMED: dict[str, Callable[[Flow], bytes]] = {
    # Ethernet
    "ethernet: empty": lambda _f: b"",
    "ethernet: one byte": lambda _f: b"\x00",
    "ethernet: thirteen bytes": lambda f: f.tcp()[:13],
    "ethernet: type zero": lambda f: f.ethernet(0, bytes(46)),
    "ethernet: length instead of type": lambda f: f.ethernet(46, bytes(46)),
    "ethernet: ipv6": lambda f: f.ethernet(0x86DD, bytes(60)),
    "ethernet: tag cut off": lambda f: f.ethernet(ETHERTYPE_VLAN, b"\x00"),
    "ethernet: two tags": lambda f: f.ethernet(ETHERTYPE_VLAN, b"\x00\x00\x81\x00" + bytes(46), 0),
    "ethernet: other vlan": lambda f: f.ethernet(ETHERTYPE_IPV4, f.tcp()[14:], 5),
    "ethernet: for another mac": lambda f: _patch(f.tcp(), 0, b"\x02\xaa\xaa\xaa\xaa\xaa"),
    "ethernet: multicast tcp": lambda f: _patch(f.tcp(), 0, MULTICAST_MAC),
    "ethernet: source is a group": lambda f: _patch(f.tcp(ACK), 6, BROADCAST_MAC),
    "ethernet: source is the node": lambda f: _patch(f.tcp(ACK), 6, f.node_mac),
    "ethernet: giant": lambda f: f.ethernet(0x88B5, bytes(9000)),
    # ARP
    "arp: empty": lambda f: f.ethernet(ETHERTYPE_ARP, b""),
    "arp: cut off": lambda f: f.arp()[:41],
    "arp: hardware type": lambda f: _patch(f.arp(), 14, b"\x00\x06"),
    "arp: protocol type": lambda f: _patch(f.arp(), 16, b"\x86\xdd"),
    "arp: address lengths": lambda f: _patch(f.arp(), 18, b"\xff\xff"),
    "arp: operation zero": lambda f: f.arp(operation=0),
    "arp: operation 65535": lambda f: f.arp(operation=0xFFFF),
    "arp: sender is a group": lambda f: f.arp(
        sender_mac=BROADCAST_MAC, sender_ip=b"\x0a\x00\x00\xfe"
    ),
    "arp: sender is zero": lambda f: f.arp(sender_ip=bytes(4)),
    "arp: sender is broadcast": lambda f: f.arp(sender_ip=b"\xff" * 4),
    "arp: stranger nobody asked for": lambda f: f.arp(sender_ip=b"\x0a\x00\x00\xfd"),
    # IPv4
    "ipv4: empty": lambda f: f.ethernet(ETHERTYPE_IPV4, b""),
    "ipv4: nineteen bytes": lambda f: f.tcp()[:33],
    "ipv4: version 6": lambda f: _patch(f.tcp(), 14, b"\x65"),
    "ipv4: header of 4 words": lambda f: _patch(f.tcp(), 14, b"\x44"),
    "ipv4: header of 15 words": lambda f: _patch(f.tcp(), 14, b"\x4f"),
    "ipv4: total length zero": lambda f: _patch(f.tcp(), 16, b"\x00\x00"),
    "ipv4: total length inside header": lambda f: _patch(f.tcp(), 16, b"\x00\x13"),
    "ipv4: total length past frame": lambda f: _patch(f.tcp(), 16, b"\xff\xff"),
    "ipv4: wrong checksum": lambda f: _patch(f.tcp(), 24, b"\x12\x34"),
    "ipv4: ttl zero": lambda f: f.ipv4(PROTOCOL_TCP, b"", ttl=0),
    "ipv4: unknown protocol": lambda f: f.ipv4(253, bytes(20)),
    "ipv4: first fragment": lambda f: f.ipv4(PROTOCOL_TCP, bytes(24), fragment=MORE_FRAGMENTS),
    "ipv4: last fragment": lambda f: f.ipv4(PROTOCOL_TCP, bytes(24), fragment=100),
    "ipv4: fragment past 65535": lambda f: f.ipv4(PROTOCOL_TCP, bytes(24), fragment=0x1FFF),
    "ipv4: reserved flag": lambda f: f.ipv4(253, b"", fragment=0x8000 | DONT_FRAGMENT),
    "ipv4: option of length zero": lambda f: f.ipv4(253, b"", options=b"\x07\x00\x00\x00"),
    "ipv4: source route": lambda f: f.ipv4(253, b"", options=b"\x83\x07\x04\x0a\x00\x00\x01\x00"),
    "ipv4: for another host": lambda f: f.ipv4(PROTOCOL_TCP, bytes(20), dst=b"\x0a\x00\x00\xfc"),
    "ipv4: from loopback": lambda f: f.ipv4(PROTOCOL_TCP, bytes(20), src=b"\x7f\x00\x00\x01"),
    "ipv4: from broadcast": lambda f: f.ipv4(PROTOCOL_ICMP, bytes(8), src=b"\xff" * 4),
    "ipv4: from the node": lambda f: f.ipv4(PROTOCOL_ICMP, bytes(8), src=f.node_ip),
    # ICMP
    "icmp: empty": lambda f: f.ipv4(PROTOCOL_ICMP, b""),
    "icmp: seven bytes": lambda f: f.ipv4(PROTOCOL_ICMP, b"\x08\x00\xf7\xff\x00\x00\x00"),
    "icmp: wrong checksum": lambda f: f.ipv4(PROTOCOL_ICMP, b"\x08\x00\x00\x00" + bytes(20)),
    "icmp: reply nobody asked for": lambda f: f.ipv4(
        PROTOCOL_ICMP, Icmp(0, 0, bytes(4), b"x").encode()
    ),
    "icmp: unreachable about nothing": lambda f: f.ipv4(
        PROTOCOL_ICMP, Icmp(3, 3, bytes(4), b"\x45").encode()
    ),
    "icmp: fragmentation needed, mtu 0": lambda f: f.ipv4(
        PROTOCOL_ICMP, Icmp(3, 4, bytes(4), _quoted(f)).encode()
    ),
    "icmp: redirect": lambda f: f.ipv4(
        PROTOCOL_ICMP, Icmp(5, 1, b"\x0a\x00\x00\xfb", _quoted(f)).encode()
    ),
    "icmp: source quench": lambda f: f.ipv4(
        PROTOCOL_ICMP, Icmp(4, 0, bytes(4), _quoted(f)).encode()
    ),
    # UDP
    "udp: empty": lambda f: f.ipv4(PROTOCOL_UDP, b""),
    "udp: seven bytes": lambda f: f.ipv4(PROTOCOL_UDP, bytes(7)),
    "udp: length zero": lambda f: _raw_udp(f, 0),
    "udp: length seven": lambda f: _raw_udp(f, 7),
    "udp: length past packet": lambda f: _raw_udp(f, 0xFFFF),
    "udp: wrong checksum": lambda f: _raw_udp(f, 15, 0x1234),
    "udp: port zero": lambda f: f.udp(0, b"x"),
    "udp: closed port": lambda f: f.udp(9, b"x"),
    "udp: dhcp that is rubbish": lambda f: f.udp(68, b"\x02\x01\x06\x00", 67),
    "udp: dhcp without end": lambda f: f.udp(
        68, b"\x02\x01\x06" + bytes(233) + b"\x63\x82\x53\x63\x35", 67
    ),
    "udp: dns that is rubbish": lambda f: f.udp(5353, b"\xff" * 40),
    # TCP
    "tcp: empty": lambda f: f.ipv4(PROTOCOL_TCP, b""),
    "tcp: nineteen bytes": lambda f: f.ipv4(PROTOCOL_TCP, bytes(19)),
    "tcp: offset of 4 words": lambda f: _patch(f.tcp(), 46, b"\x40"),
    "tcp: offset past segment": lambda f: _patch(f.tcp(), 46, b"\xf0"),
    "tcp: wrong checksum": lambda f: _patch(f.tcp(ACK, b"evil"), 50, b"\x12\x34"),
    "tcp: no flags": lambda f: f.tcp(0, b"evil"),
    "tcp: all flags": lambda f: f.tcp(0x3F, b"evil", seq=f.seq + 5),
    "tcp: syn and fin": lambda f: f.tcp(SYN | FIN, seq=f.seq + 5),
    "tcp: syn in the window": lambda f: f.tcp(SYN, seq=f.seq + 5),
    "tcp: reset in the window": lambda f: f.tcp(RST, seq=f.seq + 5),
    "tcp: reset outside": lambda f: f.tcp(RST, seq=f.seq - 5),
    "tcp: data without ack": lambda f: f.tcp(0x08, b"evil"),
    "tcp: ack of the future": lambda f: f.tcp(ACK, b"evil", ack=f.ack + 100_000),
    "tcp: ack of long ago": lambda f: f.tcp(ACK, b"evil", ack=f.ack - 0x40000000),
    "tcp: data far outside": lambda f: f.tcp(ACK, b"evil", seq=f.seq + 0x40000000),
    "tcp: data of long ago": lambda f: f.tcp(ACK, b"evil", seq=f.seq - 0x40000000),
    "tcp: fin of long ago": lambda f: f.tcp(ACK | FIN, seq=f.seq - 1000),
    "tcp: urgent pointer": lambda f: f.tcp(ACK | URG, urgent=0xFFFF),
    "tcp: option of length zero": lambda f: f.tcp(ACK, options=bytes.fromhex("05000000")),
    "tcp: option past header": lambda f: f.tcp(ACK, options=bytes.fromhex("052a0000")),
    "tcp: sack of nonsense": lambda f: f.tcp(
        ACK, options=b"\x01\x01\x05\x0a" + struct.pack(">II", 0xDEAD, 0xBEEF)
    ),
    "tcp: closed port": lambda f: f.tcp(ACK, b"x", dst_port=9),
    "tcp: port zero": lambda f: f.tcp(SYN, dst_port=0, src_port=0),
}


def _quoted(flow: Flow) -> bytes:
    """Return the start of a packet that the node sent, as an ICMP error quotes it."""
    segment = Tcp(flow.node_port, flow.peer_port, flow.ack, flow.seq, ACK, 0)
    packet = Ipv4(
        flow.node_ip, flow.peer_ip, PROTOCOL_TCP, segment.encode(flow.node_ip, flow.peer_ip)
    )
    return packet.encode()[:28]


def mutate(frame: bytes, rng: random.Random) -> bytes:
    """Return a frame with one random damage: bits, bytes, a cut, an insertion or a repetition."""
    if not frame:
        return rng.randbytes(rng.randrange(1, 64))
    at = rng.randrange(len(frame))
    kind = rng.randrange(5)
    if kind == 0:
        return frame[:at] + bytes((frame[at] ^ 1 << rng.randrange(8),)) + frame[at + 1 :]
    if kind == 1:
        extreme = rng.choice((b"\x00", b"\x7f", b"\x80", b"\xff"))
        size = rng.choice((1, 2, 4))
        return frame[:at] + extreme * size + frame[at + size :]
    if kind == 2:
        return frame[:at]
    if kind == 3:
        return frame[:at] + rng.randbytes(rng.randrange(1, 16)) + frame[at:]
    return frame[:at] + frame[at : at + 8] * 2 + frame[at + 8 :]
