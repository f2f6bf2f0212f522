"""How many questions of strangers a turn answers: pings and status requests together."""

from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers import inet
from scapy.layers.l2 import Ether

from firmware.layouts.net import ANSWERS_PER_TURN, NET
from firmware.layouts.node import CORE
from firmware.net.answer import net_answer
from firmware.net.udp import udp_answer
from tests.support.lab import Lab
from tests.support.net import IP, MAC, NEEDED, PEER, PEER_MAC, NetBench
from tests.support.states import QWORD

LAB = Lab(*NEEDED, net_answer, udp_answer, slots=0)


def ping():
    packet = Ether(dst=MAC.hex(":"), src=PEER_MAC.hex(":")) / inet.IP(src=PEER, dst=IP)
    return bytes(packet / inet.ICMP(type=8) / (b"x" * 30))


@settings(max_examples=60, deadline=None)
@given(now=QWORD, before=QWORD, same=st.booleans(), given_=st.integers(0, 2**32 - 1))
def test_net_answer_any_state_matches_the_rule(now, before, same, given_):
    LAB.reset()
    LAB.g(CORE).now = now
    LAB.g(NET).answers_at = now if same else before
    LAB.g(NET).answers = given_
    spent = (same or before == now) and given_ >= ANSWERS_PER_TURN
    assert LAB.call(net_answer).outputs["cf"] == spent


def test_pings_of_one_turn_are_answered_up_to_the_bound():
    bench = NetBench(LAB)
    for _ in range(ANSWERS_PER_TURN + 2):
        bench.input(ping())
    assert len(bench.sent()) == ANSWERS_PER_TURN
    assert bench.counters.answers_held == 2
    bench.advance(1)
    bench.input(ping())
    assert len(bench.sent()) == 1


def test_udp_answer_shares_the_bound_with_pings():
    bench = NetBench(LAB)
    for _ in range(ANSWERS_PER_TURN):
        bench.input(ping())
    assert LAB.call(udp_answer, bench.environment()).outputs["cf"] == 1
