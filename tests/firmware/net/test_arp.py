"""Neighbours: asked for in time, believed with care, never flooded out."""

import pytest
from scapy.layers import l2
from scapy.layers.l2 import Ether

from firmware.layouts.net import ARP, ARP_ENTRIES, ArpState
from firmware.layouts.nic import NicState
from firmware.net.arp import arp_ask, arp_create, arp_doubt, arp_find, arp_input, arp_lookup
from tests.support.lab import Lab
from tests.support.net import IP, MAC, MS, NEEDED, PEER, PEER_MAC, ROUTER, NetBench, ip32

LAB = Lab(*NEEDED, arp_lookup, arp_doubt, slots=0)
NOBODY = ".".join("0000")
OTHER_MAC = bytes.fromhex("0200000000aa")


def text(mac):
    return mac.hex(":")


def arp(**fields):
    packet = Ether(dst="ff:ff:ff:ff:ff:ff", src=text(PEER_MAC)) / l2.ARP(
        **({"hwsrc": text(PEER_MAC), "psrc": PEER, "pdst": IP} | fields)
    )
    return bytes(packet)


def lookup(bench, ip):
    return bench.call(arp_lookup, ip=ip32(ip)).outputs


def test_arp_lookup_unknown_asks_once_a_second():
    bench = NetBench(LAB)
    assert lookup(bench, PEER)["cf"] == 1
    assert lookup(bench, PEER)["cf"] == 1
    (frame,) = bench.sent()
    asked = Ether(frame)
    assert (asked.dst, asked.src) == ("ff:ff:ff:ff:ff:ff", text(MAC))
    request = asked[l2.ARP]
    assert (request.op, request.psrc, request.pdst) == (1, IP, PEER)
    assert request.hwdst == "00:00:00:00:00:00"
    bench.advance(1000 * MS - 1)
    lookup(bench, PEER)
    assert bench.sent() == []
    bench.advance(1)
    lookup(bench, PEER)
    assert len(bench.sent()) == 1


def test_arp_lookup_answered_is_known_for_a_minute_and_refreshed():
    bench = NetBench(LAB)
    lookup(bench, PEER)
    bench.sent()
    bench.input(arp(op=2))
    found = lookup(bench, PEER)
    assert found["cf"] == 0
    assert bytes(LAB.g(ARP).entries[0].mac) == PEER_MAC
    bench.advance(30_000 * MS)
    assert lookup(bench, PEER)["cf"] == 0
    assert bench.sent() == []
    bench.advance(1)
    assert lookup(bench, PEER)["cf"] == 0
    assert len(bench.sent()) == 1, "in the second half of its life the entry is asked for again"
    bench.advance(30_000 * MS)
    assert lookup(bench, PEER)["cf"] == 1
    assert LAB.g(ARP).entries[0].state == ArpState.ASKING


def test_arp_input_changed_mac_is_taken_for_a_known_neighbour():
    bench = NetBench(LAB)
    bench.learn(ROUTER, PEER_MAC)
    bench.input(arp(op=1, psrc=ROUTER, pdst=ROUTER, hwsrc=text(OTHER_MAC)))  # gratuitous
    assert bytes(LAB.g(ARP).entries[0].mac) == OTHER_MAC
    assert bench.counters.arp_others == 0


def test_arp_input_flood_of_strangers_changes_no_entry():
    bench = NetBench(LAB)
    bench.learn(ROUTER, PEER_MAC)
    before = LAB.machine.read(LAB.image.address(ARP), ARP.size)
    for n in range(100):
        bench.input(arp(op=1, psrc=f"10.0.0.{n + 20}", pdst="10.0.0.250"))
    assert LAB.machine.read(LAB.image.address(ARP), ARP.size) == before
    assert bench.counters.arp_others == 100
    assert bench.sent() == []


def test_arp_input_request_for_us_is_answered_to_the_asker():
    bench = NetBench(LAB)
    bench.input(arp(op=1))
    (frame,) = bench.sent()
    answer = Ether(frame)
    assert (answer.dst, answer.src) == (text(PEER_MAC), text(MAC))
    reply = answer[l2.ARP]
    assert (reply.op, reply.hwsrc, reply.psrc) == (2, text(MAC), IP)
    assert (reply.hwdst, reply.pdst) == (text(PEER_MAC), PEER)
    assert bench.counters.arp_replies == 1


def test_arp_input_probe_is_answered():
    bench = NetBench(LAB)
    bench.input(arp(op=1, psrc=NOBODY))
    assert Ether(bench.sent()[0])[l2.ARP].pdst == NOBODY


def test_arp_input_before_an_address_answers_nobody():
    bench = NetBench(LAB, configured=False)
    bench.input(arp(op=1))
    assert bench.sent() == []
    assert bench.counters.arp_others == 1


def test_arp_input_somebody_with_our_address_is_counted():
    bench = NetBench(LAB)
    bench.input(arp(op=1, psrc=IP, pdst=ROUTER))
    assert bench.counters.arp_conflicts == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"hwtype": 6},
        {"ptype": 0x86DD},
        {"hwlen": 8, "hwsrc": bytes(8), "hwdst": bytes(8)},
        {"hwsrc": "01:00:5e:00:00:01"},
        {"hwsrc": "ff:ff:ff:ff:ff:ff"},
    ],
)
def test_arp_input_impossible_packet_is_counted(fields):
    bench = NetBench(LAB)
    bench.learn(PEER, OTHER_MAC)
    bench.input(arp(op=2, **fields))
    assert bench.counters.arp_bad == 1
    assert bytes(LAB.g(ARP).entries[0].mac) == OTHER_MAC


def test_arp_input_short_packet_is_counted():
    bench = NetBench(LAB)
    bench.call(arp_input, packet=bench.put(arp()), length=27)
    assert bench.counters.short_frames == 1


def test_arp_create_full_table_gives_up_the_oldest_but_never_router_or_dns():
    bench = NetBench(LAB)
    bench.network.dns1, bench.network.dns2 = ip32("10.0.0.3"), ip32("10.0.0.4")
    kept = [ROUTER, "10.0.0.3", "10.0.0.4"]
    for slot in range(ARP_ENTRIES):
        ip = kept[slot] if slot < 3 else f"10.0.0.{100 + slot}"
        entry = bench.learn(ip, slot=slot)
        entry.used = 1000 + slot
    for n in range(20):
        lookup(bench, f"10.0.0.{200 + n}")
        bench.advance(1)
    for ip in kept:
        assert bench.call(arp_find, ip=ip32(ip)).outputs["rsi"]
    assert not bench.call(arp_find, ip=ip32("10.0.0.103")).outputs["rsi"]
    assert bench.call(arp_create, ip=ip32("10.0.0.250")).outputs["rsi"]


def test_arp_find_free_entry_is_no_neighbour():
    bench = NetBench(LAB)
    bench.learn(PEER).state = ArpState.FREE
    assert bench.call(arp_find, ip=ip32(PEER)).outputs["rsi"] == 0


def test_arp_doubt_makes_known_entries_run_out():
    bench = NetBench(LAB)
    bench.learn(ROUTER)
    bench.call(arp_doubt)
    assert lookup(bench, ROUTER)["cf"] == 1


def test_arp_without_transmit_buffer_asks_later():
    bench = NetBench(LAB)
    bench.learn(PEER)
    bench.nic.state = NicState.FAILED
    lookup(bench, ROUTER)
    assert bench.counters.tx_no_buffer == 1
    bench.input(arp(op=1))
    assert bench.counters.tx_no_buffer == 2
    bench.nic.state = NicState.READY
    bench.call(arp_ask, entry=LAB.g(ARP).entries[1].address_)
    assert len(bench.sent()) == 1
