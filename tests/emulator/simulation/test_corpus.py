from __future__ import annotations

import random
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.corpus import MALFORMED, Flow, mutate
from emulator.simulation.matching import matcher

LAYERS = {"ethernet", "arp", "ipv4", "icmp", "udp", "tcp"}


def flow_of(pair) -> tuple[Flow, Any, Any]:
    client, server = pair.open(echo=True)
    return Flow.of(server, pair.node.mac, pair.peer.mac), client, server


def works(pair, client) -> bool:
    """Say whether the connection still echoes."""
    before = len(pair.echoed)
    client.send(b"ping")
    pair.world.run_for(5 * NS_PER_S)
    return bytes(pair.echoed[before:]) == b"ping"


def test_every_layer_is_there_and_every_frame_differs(pair):
    flow, *_ = flow_of(pair)
    assert {name.partition(":")[0] for name in MALFORMED} == LAYERS
    frames = [make(flow) for make in MALFORMED.values()]
    assert len(set(frames)) == len(MALFORMED) > 80


@pytest.mark.parametrize("name", MALFORMED)
def test_one_malformed_frame_costs_a_right_host_nothing(pair, name):
    flow, client, _ = flow_of(pair)
    pair.peer.port.inject(MALFORMED[name](flow))
    pair.world.run_for(NS_PER_S)
    assert b"evil" not in pair.echoed
    assert works(pair, client)


def test_all_of_them_at_once_cost_nothing_either(pair):
    flow, client, _ = flow_of(pair)
    # A frame that claims to come from the node would draw a switch's frames to the sender.
    pair.segment.hub = True
    for make in MALFORMED.values():
        pair.peer.port.inject(make(flow))
    pair.world.run_for(NS_PER_S)
    assert works(pair, client)
    assert len(pair.node.bad_packets) > 20


@pytest.mark.parametrize("name", sorted(name for name in MALFORMED if name.startswith("tcp: ")))
def test_the_matchers_take_malformed_segments_without_failing(pair, name):
    flow, *_ = flow_of(pair)
    assert matcher("tcp")(MALFORMED[name](flow))
    assert matcher("data")(MALFORMED[name](flow)) in (True, False)


def test_a_right_frame_of_a_flow_is_read_by_scapy(pair):
    flow, _, server = flow_of(pair)
    seen = Ether(flow.tcp(payload=b"abc"))
    assert (seen.src, seen[IP].dst) == (pair.peer.mac.hex(":"), "10.0.0.2")
    assert (seen[TCP].seq, seen[TCP].dport) == (server.snd_nxt, server.remote[1])


def test_mutations_change_the_frame_and_follow_the_seed(pair):
    flow, *_ = flow_of(pair)
    frame = flow.tcp(payload=b"abcdefgh" * 10)
    made = [mutate(frame, random.Random(seed)) for seed in range(300)]
    assert made == [mutate(frame, random.Random(seed)) for seed in range(300)]
    assert len(set(made)) > 200
    assert mutate(b"", random.Random(1))


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_mutations_do_not_break_a_right_host(pair_of, seed):
    pair = pair_of(seed)
    flow, _, _ = flow_of(pair)
    rng = random.Random(seed)
    names = sorted(MALFORMED)
    for _ in range(1000):
        base = MALFORMED[rng.choice(names)](flow) if rng.random() < 0.5 else flow.tcp(0x18, b"evil")
        pair.peer.port.inject(mutate(base, rng))
        pair.world.run_for(NS_PER_MS)
    other = pair.connect()
    pair.world.run_for(5 * NS_PER_S)
    assert other.state == "ESTABLISHED"
