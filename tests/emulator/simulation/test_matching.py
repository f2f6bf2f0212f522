from __future__ import annotations

import pytest

from emulator.simulation import packet as p
from emulator.simulation.matching import TESTS, matcher

A, B = p.ip("10.0.0.1"), p.ip("10.0.0.2")
MAC_A, MAC_B = p.mac("02:00:00:00:00:01"), p.mac("02:00:00:00:00:02")


def frame(protocol: int, payload: bytes, *, vlan: int | None = None) -> bytes:
    body = p.Ipv4(A, B, protocol, payload).encode()
    raw = p.Ethernet(MAC_B, MAC_A, p.ETHERTYPE_IPV4, body, vlan).encode()
    return raw.ljust(60, b"\x00")


def tcp(flags: int, payload: bytes = b"", **how) -> bytes:
    return frame(p.PROTOCOL_TCP, p.Tcp(1000, 443, 1, 2, flags, 10, payload).encode(A, B), **how)


def udp(port: int, payload: bytes = b"") -> bytes:
    return frame(p.PROTOCOL_UDP, p.Udp(1000, port, payload).encode(A, B))


ARP = p.Ethernet(p.BROADCAST_MAC, MAC_A, p.ETHERTYPE_ARP, bytes(28)).encode()
OFFER = udp(68, bytes(236) + b"\x63\x82\x53\x63\x35\x01\x02\xff")
FRAMES = {
    "arp": ARP,
    "icmp": frame(p.PROTOCOL_ICMP, bytes(8)),
    "syn": tcp(p.SYN),
    "synack": tcp(p.SYN | p.ACK),
    "ack": tcp(p.ACK),
    "data": tcp(p.ACK | p.PSH, b"x"),
    "fin": tcp(p.FIN | p.ACK),
    "rst": tcp(p.RST),
    "dns": udp(53),
    "dhcp-offer": OFFER,
    "tagged": tcp(p.ACK, b"x", vlan=0xE000),
}
TCP_FRAMES = {"syn", "synack", "ack", "data", "fin", "rst", "tagged"}
MATCHES = {
    "arp": {"arp"},
    "broadcast": {"arp"},
    "icmp": {"icmp"},
    "udp": {"dns", "dhcp-offer"},
    "dns": {"dns"},
    "dhcp": {"dhcp-offer"},
    "dhcp-offer": {"dhcp-offer"},
    "dhcp-nak": set(),
    "tcp": TCP_FRAMES,
    "ipv4": set(FRAMES) - {"arp"},
    "syn": {"syn"},
    "synack": {"synack"},
    "fin": {"fin"},
    "rst": {"rst"},
    "ack": {"ack"},
    "data": {"data", "tagged"},
    "any": set(FRAMES),
    "port:443": TCP_FRAMES,
    "port:53": {"dns"},
    "longer:100": {"dhcp-offer"},
    "shorter:60": {"arp"},
    "ethertype:0x806": {"arp"},
    "tcp+port:443+data": {"data", "tagged"},
}


@pytest.mark.parametrize("text", MATCHES)
def test_a_condition_takes_its_frames_and_no_others(text):
    assert {name for name, raw in FRAMES.items() if matcher(text)(raw)} == MATCHES[text]


@pytest.mark.parametrize("text", sorted(TESTS))
def test_no_condition_stumbles_over_a_short_frame(text):
    for raw in FRAMES.values():
        for length in range(len(raw)):
            assert matcher(text)(raw[:length]) in (True, False)
