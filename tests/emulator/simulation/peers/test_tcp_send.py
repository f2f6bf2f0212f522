"""What a sender makes of a window that closes, and of segments that are lost."""

from __future__ import annotations

from itertools import pairwise

import pytest

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.packet import ACK, Tcp
from emulator.simulation.peers.tcp import State, TcpConfig


class TestWindows:
    def test_a_paused_reader_closes_the_window_and_resuming_opens_it(self, pair):
        client, server = pair.open(served=TcpConfig(receive_buffer=4000))
        server.pause()
        client.send(bytes(10_000))
        pair.world.run_for(5 * NS_PER_S)
        assert client.sender.window == 0
        assert client.stats.probes > 2
        server.resume()
        pair.world.run_for(5 * NS_PER_S)
        assert len(pair.received) == 10_000

    def test_a_lost_window_update_is_found_by_probing(self, pair):
        client, server = pair.open(served=TcpConfig(receive_buffer=4000))
        server.pause()
        client.send(bytes(10_000))
        pair.world.run_for(5 * NS_PER_S)
        pair.segment.set_faults("drop match=ack from=peer nth=1")
        server.resume()
        pair.world.run_for(60 * NS_PER_S)
        assert len(pair.received) == 10_000
        assert pair.segment.injector.hits == {"drop": 1}

    def test_a_zero_window_for_ten_minutes_does_not_end_the_connection(self, pair):
        client, server = pair.open(TcpConfig(retries=3), TcpConfig(receive_buffer=4000))
        server.pause()
        client.send(bytes(10_000))
        pair.world.run_for(600 * NS_PER_S)
        assert client.state is State.ESTABLISHED
        server.resume()
        pair.world.run_for(60 * NS_PER_S)
        assert len(pair.received) == 10_000

    def test_a_peer_that_shrinks_its_window_still_gets_everything(self, pair):
        client, server = pair.open()

        def shrink(segment):
            segment.window = min(segment.window, 1)
            return [segment]

        client.send(bytes(50_000))
        server.out_filter = shrink
        pair.world.run_for(NS_PER_S)
        server.out_filter = None
        pair.world.run_for(60 * NS_PER_S)
        assert len(pair.received) == 50_000

    def test_bytes_beyond_the_window_are_not_taken(self, pair):
        client, server = pair.open(served=TcpConfig(receive_buffer=1000, scale=None))
        server.pause()
        client.inject(ACK, payload=bytes(1400))
        pair.world.run_for(NS_PER_S)
        assert len(server.receiver.unread) == 1000


class TestRecovery:
    def test_three_duplicates_repeat_the_hole_without_a_timeout(self, pair_of):
        pair = pair_of(1, "drop match=data from=node nth=3")
        client, _ = pair.open()
        client.send(bytes(30_000))
        pair.world.run_for(NS_PER_S)
        assert len(pair.received) == 30_000
        assert (client.stats.fast_retransmits, client.stats.timeouts) == (1, 0)
        assert client.stats.retransmitted == 1

    @pytest.mark.parametrize("sack", [True, False])
    def test_many_holes_are_repeated_once_each(self, pair_of, sack):
        pair = pair_of(1, "drop match=data from=node nth=4,6,8,10")
        client, _ = pair.open(TcpConfig(sack=sack, initial_segments=30))
        client.send(bytes(43_800))
        pair.world.run_for(10 * NS_PER_S)
        assert len(pair.received) == 43_800
        assert client.stats.retransmitted == 4
        assert client.stats.timeouts == 0

    def test_a_tail_loss_needs_the_timer(self, pair_of):
        pair = pair_of(1, "drop match=data from=node nth=10")
        client, _ = pair.open()
        client.send(bytes(14_600))
        pair.world.run_for(5 * NS_PER_S)
        assert len(pair.received) == 14_600
        assert client.stats.timeouts == 1

    def test_the_timer_doubles_up_to_its_bound(self, pair):
        pair.node.tcp.log = []
        client, _ = pair.open(TcpConfig(rto_max_ns=NS_PER_S))
        pair.peer.up = False
        client.send(b"x")
        pair.world.run_for(4 * NS_PER_S)
        times = [at for at, way, seg in pair.node.tcp.log if way == "out" and seg.payload]
        gaps = [(b - a) // NS_PER_MS for a, b in pairwise(times)]
        assert gaps == [200, 400, 800, 1000, 1000]

    def test_forty_holes_are_held_and_filled(self, pair):
        client, _ = pair.open()
        data = bytes(range(80))
        start = client.snd_nxt
        for at in [*range(1, 80, 2), *range(0, 80, 2)]:
            client.inject(ACK, seq=start + at, payload=data[at : at + 1])
        pair.world.run_for(NS_PER_S)
        assert bytes(pair.received) == data

    def test_withheld_acknowledgements_make_the_sender_repeat(self, pair):
        client, server = pair.open()
        server.out_filter = lambda segment: []
        client.send(b"hello")
        pair.world.run_for(3 * NS_PER_S)
        assert client.stats.retransmitted >= 3
        server.out_filter = None
        pair.world.run_for(10 * NS_PER_S)
        assert bytes(pair.received) == b"hello"
        assert client.sender.flight == 0

    def test_an_in_filter_loses_what_it_wants(self, pair):
        client, server = pair.open()
        seen: list[Tcp] = []

        def lose_first(segment):
            if segment.payload and not seen:
                seen.append(segment)
                return None
            return segment

        server.in_filter = lose_first
        client.send(b"hello")
        pair.world.run_for(3 * NS_PER_S)
        assert bytes(pair.received) == b"hello"
        assert client.stats.retransmitted == 1
