"""IPv4 and UDP out: next hops, headers that scapy reads back, what stops a packet."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers import inet
from scapy.layers.l2 import Ether

from firmware.layouts.net import BROADCAST
from firmware.layouts.nic import NicState
from firmware.net.ip import ip_begin, ip_finish, ip_next_hop
from firmware.net.udp import udp_begin, udp_finish
from tests.support.lab import Lab
from tests.support.net import FAR, IP, MAC, NEEDED, PEER, PEER_MAC, ROUTER, NetBench, ip32

LAB = Lab(*NEEDED, ip_begin, ip_finish, udp_begin, udp_finish, slots=0)
ALL = "255.255.255.255"
NOBODY = ".".join("0000")


@pytest.mark.parametrize(
    ("destination", "mask", "router", "hop"),
    [
        (PEER, "255.255.255.0", ROUTER, PEER),
        (ROUTER, "255.255.255.0", ROUTER, ROUTER),
        (FAR, "255.255.255.0", ROUTER, ROUTER),
        (FAR, "255.255.255.0", NOBODY, FAR),
        (PEER, NOBODY, ROUTER, ROUTER),
        (PEER, NOBODY, NOBODY, PEER),
        (PEER, ALL, ROUTER, ROUTER),
        ("10.0.0.255", "255.255.255.0", ROUTER, ALL),
        ("10.0.0.255", "255.255.0.0", ROUTER, "10.0.0.255"),
        ("10.0.255.255", "255.255.0.0", ROUTER, ALL),
        (ALL, "255.255.255.0", ROUTER, ALL),
        (IP, "255.255.255.0", ROUTER, None),
        (NOBODY, "255.255.255.0", ROUTER, None),
        ("127.0.0.1", "255.255.255.0", ROUTER, None),
        ("224.0.0.1", "255.255.255.0", ROUTER, None),
        ("240.0.0.1", "255.255.255.0", ROUTER, None),
    ],
)
def test_ip_next_hop_table(destination, mask, router, hop):
    bench = NetBench(LAB)
    bench.network.netmask, bench.network.router = ip32(mask), ip32(router)
    got = bench.call(ip_next_hop, destination=ip32(destination)).outputs
    assert got["cf"] == (hop is None)
    if hop is not None:
        assert got["edx"] == ip32(hop)


def test_ip_next_hop_without_address_allows_broadcast_only():
    bench = NetBench(LAB, configured=False)
    assert bench.call(ip_next_hop, destination=ip32(PEER)).outputs["cf"] == 1
    assert bench.call(ip_next_hop, destination=BROADCAST).outputs["cf"] == 0


def send_ip(bench, destination, payload, protocol=6):
    to = ip32(destination)
    got = bench.call(ip_begin, destination=to).outputs
    if got["cf"]:
        return None
    LAB.machine.write(got["rdi"], payload)
    bench.call(ip_finish, destination=to, length=len(payload), protocol=protocol)
    return bench.sent()[-1]


def test_ip_finish_writes_what_scapy_reads():
    bench = NetBench(LAB)
    bench.learn(ROUTER)
    frame = send_ip(bench, FAR, b"\x55" * 200)
    packet = Ether(frame)
    assert (packet.dst, packet.src) == (PEER_MAC.hex(":"), MAC.hex(":"))
    header = packet[inet.IP]
    assert (header.src, header.dst, header.ttl, header.proto) == (IP, FAR, 64, 6)
    assert (header.len, header.flags, header.frag, header.id) == (220, "DF", 0, 1)
    given_sum = header.chksum
    del header.chksum
    assert inet.IP(bytes(header)).chksum == given_sum


def test_ip_begin_unknown_neighbour_is_asked_for():
    bench = NetBench(LAB)
    assert send_ip(bench, PEER, b"x") is None
    assert bench.counters.tx_unresolved == 1
    assert Ether(bench.sent()[0]).type == 0x0806


def test_ip_begin_nobody_to_send_to_is_counted():
    bench = NetBench(LAB)
    assert send_ip(bench, "127.0.0.1", b"x") is None
    assert bench.counters.tx_no_address == 1


def test_ip_begin_without_buffer_is_counted():
    bench = NetBench(LAB)
    bench.learn(PEER)
    bench.nic.state = NicState.FAILED
    assert send_ip(bench, PEER, b"x") is None
    assert bench.counters.tx_no_buffer == 1


def send_udp(bench, destination, payload, ports=(5000, 6000)):
    to = ip32(destination)
    got = bench.call(udp_begin, destination=to).outputs
    if got["cf"]:
        return None
    LAB.machine.write(got["rdi"], payload)
    bench.call(
        udp_finish,
        destination=to,
        length=len(payload),
        source_port=ports[0],
        destination_port=ports[1],
    )
    return bench.sent()[-1]


@settings(max_examples=25, deadline=None)
@given(payload=st.binary(max_size=600), ports=st.tuples(*[st.integers(0, 65535)] * 2))
def test_udp_finish_writes_what_scapy_reads(payload, ports):
    bench = NetBench(LAB)
    bench.learn(PEER)
    frame = send_udp(bench, PEER, payload, ports)
    datagram = Ether(frame)[inet.UDP]
    assert (datagram.sport, datagram.dport, datagram.len) == (*ports, len(payload) + 8)
    given_sum = datagram.chksum
    packet = Ether(frame)[inet.IP]
    del packet[inet.UDP].chksum
    assert inet.IP(bytes(packet))[inet.UDP].chksum == given_sum


def test_udp_finish_sum_of_zero_is_sent_as_ones():
    """Two bytes that make the sum come out as zero."""
    bench = NetBench(LAB)
    bench.learn(PEER)
    plain = Ether(send_udp(bench, PEER, b"\x00\x00"))[inet.UDP].chksum
    frame = send_udp(bench, PEER, plain.to_bytes(2, "big"))
    assert Ether(frame)[inet.UDP].chksum == 0xFFFF


def test_udp_before_an_address_leaves_from_zero():
    bench = NetBench(LAB, configured=False)
    packet = Ether(send_udp(bench, ALL, b"hello", (68, 67)))
    assert packet.dst == "ff:ff:ff:ff:ff:ff"
    assert (packet[inet.IP].src, packet[inet.IP].dst) == (NOBODY, ALL)


def test_udp_begin_refused_stays_refused():
    bench = NetBench(LAB)
    assert send_udp(bench, PEER, b"x") is None
