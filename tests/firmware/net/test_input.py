"""Frames in: each reason to drop one, and what is handed on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers import inet
from scapy.layers.l2 import Dot1Q, Ether

from firmware.layouts.nic import NicState
from firmware.net.icmp import icmp_input
from firmware.net.input import ip_input, net_input, udp_input
from tests.support.lab import Lab
from tests.support.net import FAR, IP, MAC, NEEDED, PEER, PEER_MAC, NetBench, ip32

LAB = Lab(*NEEDED, slots=0)
ALL = "255.255.255.255"
NOBODY = ".".join("0000")


def ether(**fields):
    return Ether(**({"dst": MAC.hex(":"), "src": PEER_MAC.hex(":")} | fields))


def packet(payload, **fields):
    return bytes(ether() / inet.IP(**({"src": PEER, "dst": IP} | fields)) / payload)


def udp(payload=b"status?", **fields):
    return inet.UDP(**({"sport": 4000, "dport": 5000} | fields)) / payload


def counted(bench):
    counters = bench.counters
    fields = [n for n in vars(type_of(counters)) if not n.startswith("_") and n.islower()]
    return {n: getattr(counters, n) for n in fields if getattr(counters, n)}


def type_of(view):
    return object.__getattribute__(view, "_struct")


def drops(bench, name):
    assert counted(bench) == {name: 1}


def test_net_input_udp_for_the_node_is_handed_on():
    bench = NetBench(LAB)
    got = bench.input(packet(udp(b"status?" * 9))).outputs
    assert (got["cf"], got["eax"], got["ecx"]) == (0, 17, 63)
    assert LAB.machine.read(got["rsi"], 63) == b"status?" * 9
    assert (got["edx"], got["r8d"], got["r9d"]) == (ip32(PEER), 4000, 5000)
    assert counted(bench) == {}


def test_net_input_tcp_is_handed_on_without_padding():
    bench = NetBench(LAB)
    segment = inet.TCP(sport=80, dport=50000, flags="A")
    got = bench.input(packet(segment)).outputs
    assert (got["cf"], got["eax"], got["ecx"]) == (1, 6, 20)
    assert (got["edx"], got["r8d"]) == (ip32(PEER), ip32(IP))


def test_net_input_ip_options_are_skipped():
    bench = NetBench(LAB)
    options = [inet.IPOption_NOP()] * 8
    got = bench.input(packet(inet.TCP() / b"abc", options=options)).outputs
    assert got["ecx"] == 23
    assert LAB.machine.read(got["rsi"] + 20, 3) == b"abc"


@pytest.mark.parametrize("trusted", [1, 2])
def test_net_input_tcp_sum_that_the_host_left_half_done_is_completed(trusted):
    bench = NetBench(LAB)
    whole = packet(inet.TCP() / b"odd", chksum=None)
    wrong = bytearray(whole)
    wrong[14 + 20 + 16 : 14 + 20 + 18] = b"\x12\x34"
    bench.nic.trusted = trusted
    got = bench.input(bytes(wrong)).outputs
    assert LAB.machine.read(got["rsi"], 23) == whole[34:57]


def test_net_input_short_tcp_of_a_trusted_host_is_left_alone():
    bench = NetBench(LAB)
    bench.nic.trusted = 1
    assert bench.input(packet(b"\x00" * 19, proto=6)).outputs["ecx"] == 19


@pytest.mark.parametrize("priority", [0, 7])
def test_net_input_priority_tag_counts_as_untagged(priority):
    bench = NetBench(LAB)
    frame = ether() / Dot1Q(vlan=0, prio=priority) / inet.IP(src=PEER, dst=IP) / udp()
    assert bench.input(bytes(frame)).outputs["eax"] == 17


def test_net_input_frame_of_a_vlan_is_dropped():
    bench = NetBench(LAB)
    bench.input(bytes(ether() / Dot1Q(vlan=5) / inet.IP(src=PEER, dst=IP) / udp()))
    drops(bench, "tagged")


def test_net_input_frame_that_ends_in_its_tag_is_dropped():
    bench = NetBench(LAB)
    frame = bytes(ether(type=0x8100)) + b"\x00\x00\x08"
    bench.call(net_input, frame=bench.put(frame), length=17)
    drops(bench, "short_frames")


@pytest.mark.parametrize("low", [True, False])
@pytest.mark.parametrize(
    "destination",
    ["02:00:00:00:00:77", "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:fe", MAC[:4].hex(":") + ":00:00"],
)
def test_net_input_other_ethernet_addresses_are_dropped(destination, low):
    bench = NetBench(LAB)
    bench.input(bytes(ether(dst=destination) / inet.IP(src=PEER, dst=IP) / udp()))
    drops(bench, "not_for_us")
    assert low in (True, False)


def test_net_input_unknown_type_is_dropped():
    bench = NetBench(LAB)
    bench.input(bytes(ether(type=0x86DD)) + bytes(46))
    drops(bench, "other_types")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": 5}, "ip_headers"),
        ({"ihl": 4}, "ip_headers"),
        ({"len": 19}, "ip_headers"),
        ({"len": 2000}, "ip_headers"),
        ({"chksum": 0x1234}, "ip_checksums"),
        ({"flags": "MF"}, "ip_fragments"),
        ({"frag": 1}, "ip_fragments"),
        ({"frag": 0x1FFF}, "ip_fragments"),
        ({"src": "127.0.0.1"}, "ip_sources"),
        ({"src": NOBODY}, "ip_sources"),
        ({"src": "224.0.0.5"}, "ip_sources"),
        ({"src": ALL}, "ip_sources"),
        ({"dst": PEER}, "ip_others"),
        ({"dst": FAR}, "ip_others"),
        ({"dst": "10.1.0.255"}, "ip_others"),
        ({"proto": 99}, "ip_protocols"),
    ],
)
def test_net_input_bad_ip_packets_are_counted_by_reason(fields, reason):
    bench = NetBench(LAB)
    assert bench.input(packet(udp(), **fields)).outputs["eax"] == 0
    drops(bench, reason)


def test_ip_input_shorter_than_a_header_is_dropped():
    bench = NetBench(LAB)
    bench.call(ip_input, packet=bench.put(packet(udp())) + 14, length=19)
    drops(bench, "short_frames")


@pytest.mark.parametrize("destination", [ALL, "10.0.0.255"])
def test_net_input_broadcasts_are_for_dhcp_only(destination):
    bench = NetBench(LAB)
    bench.input(packet(inet.ICMP(), dst=destination))
    drops(bench, "ip_protocols")
    bench = NetBench(LAB)
    bench.input(packet(udp(), dst=destination))
    drops(bench, "udp_ports")


def test_net_input_host_mask_has_no_broadcast():
    bench = NetBench(LAB)
    bench.network.netmask = 0xFFFF_FFFF
    bench.input(packet(udp(), dst=PEER))
    drops(bench, "ip_others")


def test_net_input_without_address_takes_dhcp_only():
    bench = NetBench(LAB, configured=False)
    bench.input(packet(inet.ICMP()))
    drops(bench, "ip_others")
    bench = NetBench(LAB, configured=False)
    bench.input(packet(udp()))
    drops(bench, "udp_ports")
    bench = NetBench(LAB, configured=False)
    bench.input(packet(udp(sport=67, dport=68)))
    drops(bench, "dhcp_bad")
    bench = NetBench(LAB)
    bench.input(packet(udp(sport=66, dport=68)))
    drops(bench, "udp_ports")


@pytest.mark.parametrize("fields", [{"len": 7}, {"len": 900}, {"chksum": 0x4321}])
def test_udp_input_damaged_datagrams_are_dropped(fields):
    bench = NetBench(LAB)
    bench.input(packet(udp(**fields)))
    drops(bench, "udp_bad")


def test_udp_input_shorter_than_a_header_is_dropped():
    bench = NetBench(LAB)
    at = bench.put(bytes(64))
    bench.call(udp_input, datagram=at, length=7, source=ip32(PEER), destination=ip32(IP))
    drops(bench, "udp_bad")


def test_udp_input_sum_of_zero_means_none():
    bench = NetBench(LAB)
    assert bench.input(packet(udp(chksum=0))).outputs["eax"] == 17


def test_udp_input_sum_that_the_host_vouches_for_is_not_checked():
    bench = NetBench(LAB)
    bench.nic.trusted = 1
    assert bench.input(packet(udp(chksum=0x9783))).outputs["eax"] == 17


@pytest.mark.parametrize("size", [0, 1, 56, 1472])
def test_icmp_input_ping_comes_back(size):
    bench = NetBench(LAB)
    ping = inet.ICMP(type=8, id=7, seq=3) / bytes(n % 251 for n in range(size))
    bench.input(packet(ping))
    (frame,) = bench.sent()
    answer = Ether(frame)
    assert (answer.dst, answer.src) == (PEER_MAC.hex(":"), MAC.hex(":"))
    assert (answer[inet.IP].src, answer[inet.IP].dst) == (IP, PEER)
    reply = answer[inet.ICMP]
    assert (reply.type, reply.id, reply.seq) == (0, 7, 3)
    assert bytes(reply.payload)[:size] == bytes(ping.payload)
    wanted = bytes(inet.ICMP(type=0, id=7, seq=3) / bytes(ping.payload))
    assert frame[34 : 34 + len(wanted)] == wanted
    assert bench.counters.echo_replies == 1


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (inet.ICMP(type=8, chksum=1), "icmp_bad"),
        (inet.ICMP(type=8, code=1), "icmp_bad"),
        (inet.ICMP(type=0), "icmp_others"),
        (inet.ICMP(type=3, code=4), "icmp_others"),
    ],
)
def test_icmp_input_other_messages_are_counted(message, reason):
    bench = NetBench(LAB)
    bench.input(packet(message))
    drops(bench, reason)
    assert bench.sent() == []


@pytest.mark.parametrize("length", [0, 7, 1481])
def test_icmp_input_impossible_length_is_counted(length):
    bench = NetBench(LAB)
    bench.call(icmp_input, message=bench.put(bytes(1500)), length=length, source=ip32(PEER))
    drops(bench, "icmp_bad")


def test_icmp_input_without_buffer_is_counted():
    bench = NetBench(LAB)
    bench.nic.state = NicState.FAILED
    bench.input(packet(inet.ICMP(type=8)))
    drops(bench, "tx_no_buffer")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_net_input_any_frame_agrees_with_the_model(data):
    bench = NetBench(LAB)
    base = data.draw(
        st.sampled_from(
            [packet(udp()), packet(inet.TCP() / b"x"), packet(inet.ICMP(type=8) / b"abcdefgh")]
        )
    )
    frame = bytearray(base.ljust(60, b"\x00"))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    length = data.draw(st.integers(14, len(frame)))
    bench.call(net_input, frame=bench.put(bytes(frame)), length=length)
