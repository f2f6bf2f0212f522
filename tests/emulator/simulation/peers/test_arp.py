from __future__ import annotations

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.packet import BROADCAST_MAC, Ethernet, mac

OTHER = mac("02:00:00:00:00:77")


def test_a_ping_resolves_first_and_then_uses_the_table(pair):
    for sequence in (1, 2):
        pair.node.ping(pair.peer.address, b"hello", sequence)
        pair.world.run_for(NS_PER_MS)
    assert [reply.payload for reply in pair.node.echo_replies] == [b"hello"] * 2
    assert len(pair.peer.arp.requests) == 1
    # The peer learned our address from the request and had no need to ask.
    assert pair.node.arp.requests == []


def test_a_learned_address_ages(pair):
    pair.node.arp.policy.lifetime_ns = 10 * NS_PER_S
    for _ in range(3):
        pair.node.ping(pair.peer.address)
        pair.world.run_for(6 * NS_PER_S)
    assert len(pair.peer.arp.requests) == 2
    assert len(pair.node.echo_replies) == 3


def test_silence_is_asked_three_times_a_second_apart(pair):
    times = []
    pair.segment.taps.append(lambda now, port, frame: times.append(now))
    pair.peer.arp.policy.silent = True
    pair.node.ping(pair.peer.address)
    pair.world.run_for(10 * NS_PER_S)
    assert times == [0, NS_PER_S, 2 * NS_PER_S]
    assert pair.node.arp.unresolved == 1


def test_an_answer_with_another_mac_leads_packets_astray(pair):
    pair.peer.arp.policy.answer_mac = OTHER
    pair.node.ping(pair.peer.address)
    pair.world.run_for(NS_PER_S)
    assert pair.node.echo_replies == []
    pair.peer.arp.announce()
    pair.world.run_for(NS_PER_MS)
    pair.node.ping(pair.peer.address)
    pair.world.run_for(NS_PER_S)
    assert len(pair.node.echo_replies) == 1


def test_a_flood_is_many_broadcasts_of_strangers_that_nobody_learns(pair):
    sources = set()
    pair.segment.taps.append(
        lambda _now, _port, frame: sources.add((frame[:6], Ethernet.decode(frame).payload[8:14]))
    )
    pair.peer.arp.flood(1000, NS_PER_MS)
    pair.world.run_for(2 * NS_PER_S)
    assert len(sources) == 1000
    assert {dst for dst, _ in sources} == {BROADCAST_MAC}
    assert len(pair.node.arp.requests) == 1000
    pair.node.ping(pair.peer.address)
    pair.world.run_for(NS_PER_S)
    assert len(pair.node.echo_replies) == 1


def test_a_delayed_answer_comes_late(pair):
    pair.peer.arp.policy.delay_ns = 400 * NS_PER_MS
    pair.node.ping(pair.peer.address)
    pair.world.run_for(399 * NS_PER_MS)
    assert pair.node.echo_replies == []
    pair.world.run_for(2 * NS_PER_MS)
    assert len(pair.node.echo_replies) == 1
