from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emulator.simulation.clock import NS_PER_MS
from emulator.simulation.packet import (
    BROADCAST_IP,
    PROTOCOL_ICMP,
    Ethernet,
    Icmp,
    Ipv4,
    ip,
)

if TYPE_CHECKING:
    from emulator.simulation.host import Datagram


def test_an_address_behind_a_router_is_reached_through_its_mac(pair):
    far = pair.peer.add_address("203.0.113.5")
    pair.node.ping(far, b"far")
    pair.world.run_for(NS_PER_MS)
    assert [reply.payload for reply in pair.node.echo_replies] == [b"far"]
    assert {request.target_ip for request in pair.peer.arp.requests} == {pair.peer.address}


def test_a_second_address_in_the_subnet_answers_arp_itself(pair):
    second = pair.peer.add_address("10.0.0.9", on_link=True)
    pair.node.ping(second)
    pair.world.run_for(NS_PER_MS)
    assert {request.target_ip for request in pair.peer.arp.requests} == {second}
    assert len(pair.node.echo_replies) == 1


def test_udp_reaches_the_bound_port_and_is_answered_from_the_asked_address(pair):
    far = pair.peer.add_address("203.0.113.5")
    seen: list[Datagram] = []
    pair.peer.bind_udp(
        7, lambda d: pair.peer.send_udp(d.src, d.src_port, 7, d.payload.upper(), d.dst)
    )
    pair.node.bind_udp(5000, seen.append)
    pair.node.send_udp(far, 7, 5000, b"abc")
    pair.world.run_for(NS_PER_MS)
    assert [(d.src, d.src_port, d.payload) for d in seen] == [(far, 7, b"ABC")]


def test_a_taken_udp_port_says_so(pair):
    pair.peer.bind_udp(7, lambda _d: None)
    with pytest.raises(ValueError, match="peer: UDP port 7 is taken; bind another"):
        pair.peer.bind_udp(7, lambda _d: None)


@pytest.mark.parametrize("address", [BROADCAST_IP, ip("10.0.0.255")])
def test_broadcasts_need_no_arp(pair, address):
    seen: list[Datagram] = []
    pair.peer.bind_udp(7, seen.append)
    pair.node.send_udp(address, 7, 5000, b"all")
    pair.world.run_for(NS_PER_MS)
    assert [d.payload for d in seen] == [b"all"]
    assert pair.peer.arp.requests == []


def test_a_host_that_tags_vid_0_is_understood(pair):
    frames = []
    pair.segment.taps.append(lambda _now, _port, frame: frames.append(Ethernet.decode(frame).vlan))
    pair.peer.vlan = 0xE000
    pair.node.ping(pair.peer.address)
    pair.world.run_for(NS_PER_MS)
    assert len(pair.node.echo_replies) == 1
    assert frames == [None, 0xE000, None, 0xE000]


def test_a_damaged_packet_is_noted_and_harms_nothing(pair):
    echo = Icmp(8, 0, bytes(4), b"x").encode()
    packet = Ipv4(pair.node.address, pair.peer.address, PROTOCOL_ICMP, echo).encode()
    damaged = packet[:12] + b"\x00" + packet[13:]
    pair.node.port.send(Ethernet(pair.peer.mac, pair.node.mac, 0x800, damaged).encode())
    pair.world.run_for(NS_PER_MS)
    assert pair.peer.bad_packets == ["an IPv4 header with a wrong checksum"]
    pair.node.ping(pair.peer.address)
    pair.world.run_for(NS_PER_MS)
    assert len(pair.node.echo_replies) == 1


def test_a_host_that_is_down_neither_hears_nor_speaks(pair):
    pair.peer.up = False
    pair.node.ping(pair.peer.address)
    pair.peer.ping(pair.node.address)
    pair.world.run_for(NS_PER_MS)
    assert pair.peer.port.sent == 0
    assert pair.peer.arp.requests == []
