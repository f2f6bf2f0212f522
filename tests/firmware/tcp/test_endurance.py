"""Closed windows, endings, several shards and attacks, over the virtual wire."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.host import Host
from emulator.simulation.packet import ACK, FIN, RST, SYN, Tcp, ip
from emulator.simulation.peers.tcp import State, TcpConfig
from emulator.simulation.wire import Segment
from emulator.simulation.world import World
from firmware.layouts.tcp import (
    TCP_RESET,
    TcpState,
)
from firmware.limits import RING_BYTES
from tests.support.tcp import TcpNode
from tests.support.tcp_net import DAMAGE, PORT, network, patient


class TestWindows:
    def test_a_peer_that_does_not_read_is_probed_with_backoff(self):
        net = network()
        connection = net.open(TcpConfig(receive_buffer=3000))
        connection.pause()
        net.application.outgoing = bytes(n % 251 for n in range(9000))
        net.wake()
        net.world.run_for(90 * NS_PER_S)
        probes = [s for s in net.between() if len(s.payload) == 1]
        assert 5 <= len(probes) <= 12
        assert net.state == TcpState.ESTABLISHED
        connection.resume()
        net.until(lambda: len(net.received) == 9000)
        assert bytes(net.received) == bytes(n % 251 for n in range(9000))

    def test_a_lost_window_update_of_the_peer_costs_only_a_probe(self):
        net = network()
        connection = net.open(TcpConfig(receive_buffer=3000))
        connection.pause()
        net.application.outgoing = bytes(9000)
        net.wake()
        net.world.run_for(10 * NS_PER_S)
        connection.out_filter = lambda s: []
        connection.resume()
        connection.out_filter = None
        net.until(lambda: len(net.received) == 9000, seconds=60)

    def test_a_lost_window_update_of_ours_costs_only_a_probe(self):
        net = network()
        net.application.reading = False
        net.outgoing = net.world.random.randbytes(50_000)
        connection = net.open()
        net.world.run_for(5 * NS_PER_S)
        assert net.node.tcp().ring_ready == RING_BYTES
        connection.in_filter = lambda s: None
        net.application.reading = True
        net.wake()
        net.world.run_for(NS_PER_MS)
        connection.in_filter = None
        net.until(lambda: len(net.application.received) == 50_000, seconds=120)
        assert bytes(net.application.received) == net.outgoing

    def test_a_reader_that_goes_on_needs_no_probe(self):
        net = network()
        net.application.reading = False
        net.outgoing = net.world.random.randbytes(50_000)
        connection = net.open()
        net.world.run_for(NS_PER_S // 2)
        probes = connection.stats.probes
        net.application.reading = True
        net.wake()
        start = net.world.now_ns
        net.until(lambda: len(net.application.received) == 50_000)
        assert net.world.now_ns - start < 20 * NS_PER_MS
        assert connection.stats.probes == probes

    def test_a_reader_of_few_bytes_causes_no_silly_window(self):
        net = network()
        net.application.reading = False
        net.outgoing = net.world.random.randbytes(30_000)
        net.open()
        net.world.run_for(5 * NS_PER_S)
        net.between()
        net.application.reading, net.application.read_most = True, 16
        net.wake()
        net.until(lambda: len(net.application.received) == 30_000)
        windows = [s.window for s in net.between()]
        assert len(windows) <= 30_000 // 1460
        assert all(w == 0 or w >= 1460 for w in windows)

    def test_a_window_that_shrinks_with_data_in_flight(self):
        net = network()
        connection = net.open(TcpConfig(scale=None))
        connection.in_filter = lambda s: None
        net.application.outgoing = bytes(n % 251 for n in range(6000))
        net.wake()
        net.world.run_for(NS_PER_MS)
        connection.inject(ACK, window=10)
        net.world.run_for(NS_PER_MS)
        connection.in_filter = None
        net.until(lambda: len(net.received) == 6000, seconds=60)
        assert bytes(net.received) == bytes(n % 251 for n in range(6000))


class TestEnds:
    def test_a_reset_fails_and_the_rest_stays_readable(self):
        net = network()
        net.application.reading = False
        net.outgoing = b"the rest"
        connection = net.open()
        net.world.run_for(NS_PER_MS)
        connection.abort()
        net.until(lambda: net.state == TcpState.FAILED)
        assert net.node.tcp().error == TCP_RESET.code
        net.application.reading = True
        net.wake()
        net.world.run_for(NS_PER_MS)
        assert bytes(net.application.received) == b"the rest"

    def test_simultaneous_close(self):
        net = network()
        connection = net.open()
        net.application.close_when_sent = True
        connection.on_eof = None
        net.wake()
        connection.close()
        net.until(lambda: net.state == TcpState.TIME_WAIT)
        net.until(lambda: net.state == TcpState.CLOSED)
        assert connection.state in (State.TIME_WAIT, State.CLOSED)

    @pytest.mark.parametrize("seed", range(3))
    def test_a_lost_fin_is_sent_again(self, seed):
        net = network(seed)
        connection = net.open()
        net.segment.set_faults("drop match=tcp+fin limit=2")
        net.application.close_when_sent = True
        net.wake()
        net.until(lambda: net.state in (TcpState.TIME_WAIT, TcpState.CLOSED))
        net.until(lambda: connection.state is State.CLOSED)

    def test_abort_resets_the_peer(self):
        net = network()
        connection = net.open()
        net.node.call("tcp_abort")
        net.wake()
        net.until(lambda: connection.state is State.CLOSED)
        assert connection.close_reason == "reset"

    def test_many_connections_leave_nothing_behind(self):
        net = network()
        net.listen(TcpConfig(time_wait_ns=0))
        for n in range(200):
            net.dial()
            net.until(lambda: net.state == TcpState.ESTABLISHED)
            if n % 2:
                net.node.call("tcp_abort")
            else:
                net.served[-1].abort()
            net.world.run_for(NS_PER_MS)
        assert net.state in (TcpState.CLOSED, TcpState.FAILED)
        assert net.node.tcp().spans_used == 0


class TestShards:
    def test_the_fate_of_one_connection_leaves_the_others_alone(self):
        node = TcpNode(ip("10.0.0.2"), slots=5)
        world = World(3)
        segment = Segment(world)
        peer = Host(segment, "peer", "10.0.0.1")
        segment.set_faults(DAMAGE)
        streams: dict[int, bytearray] = {}

        def accept(connection):
            stream = streams[connection.remote[1]] = bytearray()

            def take(data):
                stream.extend(data)
                connection.send(data)

            connection.on_data = take

        peer.tcp.listen(PORT, accept, patient())
        world.attach(node, segment.port("node"))
        sent = [bytes((n,)) * 20_000 for n in range(5)]
        for n in range(5):
            node.applications[n].outgoing = sent[n]
            node.connect(peer.address, PORT, n)
        ports = [node.tcp(n).local_port for n in range(5)]
        assert len(set(ports)) == 5
        world.run_until(lambda: len(streams.get(ports[2], b"")) > 5000)
        peer.tcp.connections[peer.address, PORT, node.address, ports[2]].abort()
        others = (0, 1, 3, 4)
        world.run_until(
            lambda: all(len(node.applications[n].received) == 20_000 for n in others),
            within_ns=600 * NS_PER_S,
        )
        for n in others:
            assert bytes(streams[ports[n]]) == sent[n]
            assert bytes(node.applications[n].received) == sent[n]
        assert node.tcp(2).state == TcpState.FAILED


class TestAttacks:
    @pytest.mark.parametrize(
        ("flags", "seq", "ack"),
        [
            (RST, 1, None),
            (SYN, 1, None),
            (SYN | ACK, 500, None),
            (RST, -1, None),
            (ACK, 0, 100_000),
            (ACK | FIN, 0, 100_000),
        ],
    )
    def test_blind_segments_change_nothing(self, flags, seq, ack):
        net = network()
        connection = net.open()
        net.between()
        for _ in range(20):
            number = None if ack is None else connection.rcv_nxt + ack
            connection.inject(flags, seq=connection.snd_nxt + seq, ack=number, payload=b"")
            net.world.run_for(NS_PER_MS)
        assert net.state == TcpState.ESTABLISHED
        assert len(net.between()) <= 1
        net.application.outgoing = b"still here"
        net.wake()
        net.until(lambda: bytes(net.received) == b"still here", seconds=5)

    def test_after_the_lease_nothing_leaves(self):
        net = network()
        connection = net.open()
        net.application.outgoing = bytes(5000)
        net.node.expire_lease()
        net.between()
        net.wake()
        connection.send(b"hello")
        net.world.run_for(40 * NS_PER_S)
        connection.inject(ACK, seq=1)
        connection.inject(SYN)
        net.node.call("tcp_abort")
        net.world.run_for(NS_PER_S)
        assert net.between() == []

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.binary(max_size=80), max_size=20), st.randoms(use_true_random=False))
    def test_garbage_costs_nothing(self, blobs, random):
        net = network()
        connection = net.open()
        for blob in blobs:
            source = bytearray(Tcp(PORT, net.node.tcp().local_port, 0, 0, 0, 0).encode(
                net.peer.address, net.node.address
            ))  # fmt: skip
            source[12 + random.randrange(8) :] = blob
            net.node.segment(bytes(source), net.peer.address)
        connection.send(b"alive")
        net.until(lambda: bytes(net.application.received) == b"alive", seconds=10)
