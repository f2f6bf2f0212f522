"""The linked TCP code against an independent peer over a lossy wire in virtual time.

Exact byte streams both ways are the proof; `emulator.simulation.peers.tcp` shares no code with it.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.packet import RST, SYN
from emulator.simulation.peers.tcp import State, TcpConfig
from firmware.layouts.tcp import (
    TCP_KEEPALIVE,
    TCP_REFUSED,
    TCP_TIMED_OUT,
    TcpState,
)
from tests.support.tcp_net import CONFIGS, DAMAGE, PORT, network, patient, transfer


class TestTransfer:
    @pytest.mark.parametrize("name", CONFIGS)
    def test_a_good_wire_needs_no_repetition(self, name):
        net = network()
        transfer(net, 3000 if name == "one-byte segments" else 60_000, CONFIGS[name])
        assert net.node.tcp().retransmits == 0
        stats = net.served[0].stats
        assert (stats.retransmitted, stats.unacceptable, stats.challenge_acks) == (0, 0, 0)

    @pytest.mark.parametrize("close", ["node", "peer"])
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("name", CONFIGS)
    def test_a_bad_wire_keeps_every_byte(self, name, seed, close):
        net = network(seed, DAMAGE)
        transfer(net, 500 if name == "one-byte segments" else 30_000, CONFIGS[name], close=close)
        assert net.drops() > 0

    @pytest.mark.parametrize("seed", range(3))
    def test_a_wire_that_loses_a_quarter(self, seed):
        transfer(network(seed, "drop p=0.25"), 15_000, patient())

    @pytest.mark.parametrize("iss", [0xFFFF_FF00, 0xFFFF_FFFF, 0x7FFF_FF00])
    @pytest.mark.parametrize("isn", [0xFFFF_FF00, 0x7FFF_FFFF])
    def test_numbers_wrap_on_both_sides(self, iss, isn):
        net = network(7, "drop match=tcp+data nth=3; drop match=tcp+data nth=9", iss)
        transfer(net, 40_000, patient(isn=isn))

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        seed=st.integers(0, 10_000),
        size=st.integers(1, 6000),
        piece=st.integers(1, 1460),
        writes=st.integers(1, 8000),
        reads=st.integers(100, 30_000),
    )
    def test_any_sizes_over_a_bad_wire(self, seed, size, piece, writes, reads):
        net = network(seed, "drop p=0.08; reorder p=0.1 by=2ms; duplicate p=0.05")
        net.application.write_most, net.application.read_most = writes, reads
        transfer(net, size, patient(segment_size=piece))


class TestHandshake:
    def test_lost_syns_go_again_at_one_three_and_seven_seconds(self):
        net = network(1, "drop match=tcp+syn limit=3")
        net.listen()
        net.dial()
        net.until(lambda: net.state == TcpState.ESTABLISHED)
        syns = [s for s in net.node.sent if s.flags == SYN]
        assert len({s.seq for s in syns}) == 1
        assert len(syns) == 4
        assert 7.0 <= net.world.now_ns / NS_PER_S < 7.1

    def test_an_old_connection_of_ours_is_reset_and_the_attempt_goes_on(self):
        net = network()
        net.listen()
        net.node.connect(net.peer.address, PORT)
        port = net.node.tcp().local_port
        # The peer still has a connection from before a reboot, on the same four numbers.
        old = net.peer.tcp._new(
            (net.peer.address, PORT), (net.node.address, port), TcpConfig(isn=5)
        )
        old.state = State.ESTABLISHED
        old.irs = 12345
        net.until(lambda: net.state == TcpState.ESTABLISHED, seconds=10)
        assert [s.flags for s in net.node.sent[:3]] == [SYN, RST, SYN]

    def test_a_refused_connection_fails(self):
        net = network()
        net.dial()
        net.until(lambda: net.state == TcpState.FAILED, seconds=1)
        assert net.node.tcp().error == TCP_REFUSED.code

    def test_a_black_hole_is_given_up_after_thirty_seconds(self):
        net = network(1, "drop match=tcp")
        net.listen()
        net.dial()
        net.until(lambda: net.state == TcpState.FAILED)
        assert net.node.tcp().error == TCP_TIMED_OUT.code
        assert 29 < net.world.now_ns / NS_PER_S < 31

    def test_a_hop_not_yet_known_is_tried_again_soon(self):
        net = network()
        net.listen()
        net.node.blocked = True
        net.dial()
        net.world.run_for(12 * NS_PER_MS)
        net.node.blocked = False
        net.until(lambda: net.state == TcpState.ESTABLISHED)
        assert net.world.now_ns < 20 * NS_PER_MS


class TestLoss:
    def test_a_lost_segment_is_repaired_without_the_timer(self):
        net = network(1, "drop match=tcp+data nth=2 from=node")
        net.application.write_most = 4000
        connection = net.open()
        net.application.outgoing = bytes(8000)
        net.wake()
        start = net.world.now_ns
        net.until(lambda: len(net.received) == 8000)
        assert net.world.now_ns - start < 20 * NS_PER_MS
        assert net.node.tcp().retransmits == 1
        assert connection.stats.out_of_order > 0

    def test_two_lost_segments_of_one_flight_are_repaired_without_the_timer(self):
        net = network(1, "drop match=tcp+data nth=2 from=node; drop match=tcp+data nth=4 from=node")
        net.application.write_most = 8000
        net.open()
        net.application.outgoing = bytes(8000)
        net.wake()
        start = net.world.now_ns
        net.until(lambda: len(net.received) == 8000)
        assert net.world.now_ns - start < 20 * NS_PER_MS
        assert net.node.tcp().retransmits == 2

    def test_the_peer_is_told_of_the_islands(self):
        net = network(1, "drop match=tcp+data nth=2 from=peer")
        net.outgoing = bytes(20_000)
        connection = net.open()
        net.until(lambda: len(net.application.received) == 20_000)
        assert connection.stats.fast_retransmits == 1
        assert connection.stats.timeouts == 0
        assert connection.stats.retransmitted <= 2
        assert any(s.options for s in net.node.sent if not s.flags & SYN)

    def test_a_peer_that_falls_silent_is_given_up_after_thirty_seconds(self):
        net = network()
        net.open()
        net.segment.set_faults("drop match=tcp")
        net.application.outgoing = b"heartbeat"
        net.wake()
        start = net.world.now_ns
        net.until(lambda: net.state == TcpState.FAILED)
        assert net.node.tcp().error == TCP_TIMED_OUT.code
        assert 29 < (net.world.now_ns - start) / NS_PER_S < 31

    def test_a_peer_that_vanished_is_noticed_by_the_keepalive(self):
        net = network()
        net.open()
        net.world.run_for(NS_PER_S)
        net.segment.set_faults("drop match=tcp")
        net.until(lambda: net.state == TcpState.FAILED, seconds=120)
        assert net.node.tcp().error == TCP_KEEPALIVE.code

    def test_a_quiet_peer_that_answers_stays(self):
        net = network()
        connection = net.open()
        net.world.run_for(300 * NS_PER_S)
        assert net.state == TcpState.ESTABLISHED
        assert connection.state is State.ESTABLISHED
        assert len(net.between()) < 12

    def test_a_path_that_swallows_long_segments_is_survived(self):
        net = network()
        net.open()
        net.peer.tcp.in_filter = lambda s: [] if len(s.payload) > 1000 else [s]
        net.application.outgoing = bytes(4000)
        net.wake()
        net.until(lambda: len(net.received) == 4000, seconds=30)
        assert net.node.tcp().snd_mss == 536
