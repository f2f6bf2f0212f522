"""The TCP peer against itself, state by state: opening, closing, and what must not count."""

from __future__ import annotations

import pytest

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.packet import ACK, FIN, RST, SYN, TcpOptions
from emulator.simulation.peers.tcp import State, TcpConfig


class TestHandshake:
    def test_options_are_agreed(self, pair):
        pair.node.tcp.log = []
        client, server = pair.open(TcpConfig(mss=1208, scale=3), TcpConfig(mss=1400, scale=5))
        syn, synack = (TcpOptions.decode(entry[2].options) for entry in pair.node.tcp.log[:2])
        assert (syn.mss, syn.scale, syn.sack_ok, syn.order[0]) == (1208, 3, True, 2)
        assert (synack.mss, synack.scale, synack.sack_ok) == (1400, 5, True)
        assert client.sender.mss == server.sender.mss == 1208
        assert client.sacks
        assert server.sacks

    @pytest.mark.parametrize("plain", ["client", "server"])
    def test_an_option_counts_only_when_both_offer_it(self, pair, plain):
        bare = TcpConfig(mss=None, scale=None, sack=False)
        full = TcpConfig()
        configs = (bare, full) if plain == "client" else (full, bare)
        client, server = pair.open(*configs)
        assert not client.sacks
        assert not server.sacks
        assert {client.sender.mss, server.sender.mss} == {536, 1460}
        pair.world.run_for(NS_PER_S)
        client.send(bytes(300_000))
        pair.world.run_for(10 * NS_PER_S)
        assert len(pair.received) == 300_000
        # Without scaling no window above 64 KB was ever believed.
        assert max(client.sender.max_window, server.sender.max_window) <= 0xFFFF

    def test_a_lost_syn_ack_is_repeated_by_rfc_6298(self, pair_of):
        pair = pair_of(1, "drop match=synack nth=1,2,3")
        pair.peer.tcp.log = []
        pair.listen(TcpConfig())
        pair.connect()
        pair.world.run_for(20 * NS_PER_S)
        sent = [entry[0] for entry in pair.peer.tcp.log if entry[2].flags == SYN | ACK]
        syns = [entry[0] for entry in pair.peer.tcp.log if entry[2].flags == SYN]
        assert len(syns) == 3
        # Repeated both by its own timer and in answer to each repeated SYN, same ISN each time.
        assert len(sent) >= 4
        assert pair.served[0].state == "ESTABLISHED"

    def test_syns_go_out_at_1_3_and_7_seconds_and_then_give_up(self, pair):
        listener = pair.listen()
        listener.silent = True
        client = pair.connect(TcpConfig(syn_retries=3))
        pair.world.run_for(60 * NS_PER_S)
        syns = listener.syns
        start = syns[0][0]
        assert [round((at - start) / NS_PER_S) for at, _ in syns] == [0, 1, 3, 7]
        assert len({syn.seq for _, syn in syns}) == 1
        assert client.close_reason == "timed out"

    def test_a_closed_port_refuses(self, pair):
        client = pair.connect()
        pair.world.run_for(NS_PER_S)
        assert client.close_reason == "refused"

    def test_a_listener_may_refuse(self, pair):
        listener = pair.listen()
        listener.refusing = True
        client = pair.connect()
        pair.world.run_for(NS_PER_S)
        assert client.close_reason == "refused"
        assert len(listener.syns) == 1

    def test_a_wrong_ack_in_syn_sent_is_answered_with_a_reset(self, pair):
        pair.listen()

        def wrong(segment):
            segment.ack += 5 if segment.flags & SYN else 0
            return [segment]

        pair.peer.tcp.out_filter = wrong
        pair.peer.tcp.log = []
        client = pair.connect()
        pair.world.run_for(100 * NS_PER_MS)
        assert client.state == "SYN-SENT"
        resets = [entry[2] for entry in pair.peer.tcp.log if entry[2].flags & RST]
        assert [reset.seq for reset in resets] == [(client.iss + 6) & 0xFFFFFFFF]
        pair.peer.tcp.out_filter = None
        pair.world.run_for(10 * NS_PER_S)
        assert client.state is State.ESTABLISHED

    def test_simultaneous_open_ends_established(self, pair):
        pair.node.tcp.connect(pair.node.address, pair.peer.address, 81, local_port=82)
        pair.peer.tcp.connect(pair.peer.address, pair.node.address, 82, local_port=81)
        pair.world.run_for(5 * NS_PER_S)
        for host in (pair.node, pair.peer):
            assert [c.state for c in host.tcp.connections.values()] == ["ESTABLISHED"]

    def test_malformed_options_are_counted_and_ignored(self, pair):
        client, server = pair.open(TcpConfig(syn_options=bytes.fromhex("01020000")))
        assert server.stats.unacceptable == 1
        assert server.sender.mss == 536
        client.send(b"x" * 3000)
        pair.world.run_for(NS_PER_S)
        assert len(pair.received) == 3000


class TestClosing:
    @pytest.mark.parametrize("first", ["client", "server", "both"])
    def test_fin_goes_both_ways(self, pair, first):
        client, server = pair.open()
        client.on_eof = client.close
        if first != "server":
            client.close()
        if first != "client":
            server.close()
        pair.world.run_for(NS_PER_S)
        lingering = {"client": [client], "server": [server], "both": [client, server]}[first]
        for connection in (client, server):
            if connection in lingering:
                assert connection.state is State.TIME_WAIT
            else:
                assert connection.close_reason == "closed"
        pair.world.run_for(61 * NS_PER_S)
        assert (client.close_reason, server.close_reason) == ("closed", "closed")

    def test_half_closed_the_other_side_still_sends(self, pair):
        client, server = pair.open()
        server.on_eof = None
        client.close()
        pair.world.run_for(NS_PER_S)
        assert (client.state, server.state) == (State.FIN_WAIT_2, State.CLOSE_WAIT)
        server.send(b"late")
        pair.world.run_for(NS_PER_S)
        assert bytes(pair.echoed) == b"late"
        with pytest.raises(ConnectionError, match="FIN-WAIT-2: send after close"):
            client.send(b"x")

    def test_a_lost_fin_is_repeated(self, pair_of):
        pair = pair_of(1, "drop match=fin nth=1,2")
        client, server = pair.open()
        client.close()
        pair.world.run_for(100 * NS_PER_S)
        assert (client.close_reason, server.close_reason) == ("closed", "closed")

    def test_a_reset_ends_the_other_side_at_once(self, pair):
        client, server = pair.open()
        server.abort()
        pair.world.run_for(NS_PER_S)
        assert (client.close_reason, server.close_reason) == ("reset", "aborted")

    def test_data_for_a_peer_that_forgot_is_answered_with_a_reset(self, pair):
        client, _ = pair.open()
        pair.peer.tcp.crash()
        client.send(b"anyone?")
        pair.world.run_for(NS_PER_S)
        assert client.close_reason == "reset"

    def test_a_silent_peer_ends_in_a_timeout_by_the_retry_limit(self, pair):
        client, _ = pair.open(TcpConfig(retries=3))
        pair.peer.up = False
        client.send(b"anyone?")
        pair.world.run_for(60 * NS_PER_S)
        assert client.close_reason == "timed out"
        assert client.stats.retransmitted == 3

    def test_a_new_syn_replaces_a_connection_in_time_wait(self, pair):
        client, server = pair.open()
        client.on_eof = client.close
        server.close()
        pair.world.run_for(NS_PER_S)
        assert server.state is State.TIME_WAIT
        again = pair.node.tcp.connect(
            pair.node.address, pair.peer.address, 80,
            TcpConfig(isn=client.snd_nxt + 1000), client.local[1],
        )  # fmt: skip
        pair.world.run_for(NS_PER_S)
        assert again.state is State.ESTABLISHED
        assert len(pair.served) == 2

    def test_keepalive_finds_a_dead_peer_and_spares_a_living_one(self, pair):
        config = TcpConfig(keepalive_ns=10 * NS_PER_S, retries=3)
        client, _ = pair.open(config)
        pair.world.run_for(300 * NS_PER_S)
        assert client.state is State.ESTABLISHED
        pair.peer.up = False
        pair.world.run_for(60 * NS_PER_S)
        assert client.close_reason == "timed out"


class TestRfc5961:
    @pytest.mark.parametrize(
        ("offset", "outcome"),
        [(0, "reset"), (1, "challenge"), (-1, "nothing"), (1 << 30, "nothing")],
    )
    def test_only_an_exact_reset_resets(self, pair, offset, outcome):
        client, server = pair.open()
        client.inject(RST, seq=client.snd_nxt + offset)
        pair.world.run_for(NS_PER_S)
        assert server.close_reason == ("reset" if outcome == "reset" else "")
        assert server.stats.challenge_acks == (outcome == "challenge")

    def test_a_syn_in_the_window_is_challenged(self, pair):
        client, server = pair.open()
        client.inject(SYN, seq=client.snd_nxt + 5)
        pair.world.run_for(NS_PER_S)
        assert server.state is State.ESTABLISHED
        assert server.stats.challenge_acks == 1

    @pytest.mark.parametrize("ack", [1, -(1 << 30)])
    def test_an_ack_outside_the_window_is_challenged(self, pair, ack):
        client, server = pair.open()
        client.inject(ACK, ack=server.snd_nxt + ack, payload=b"evil")
        pair.world.run_for(NS_PER_S)
        assert server.stats.challenge_acks == 1
        assert bytes(pair.received) == b""


def test_two_sides_that_disagree_do_not_answer_each_other_for_ever(pair):
    client, server = pair.open()
    client.inject(ACK, payload=b"never sent by the state machine")
    before = pair.world.steps
    pair.world.run_for(10 * NS_PER_S)
    assert client.stats.challenge_acks > 0
    assert pair.world.steps - before < 200
    assert (client.state, server.state) == (State.ESTABLISHED, State.ESTABLISHED)


def test_fin_in_the_same_segment_as_data_that_was_lost(pair_of):
    pair = pair_of(1, "drop match=data from=node nth=2")
    client, server = pair.open()
    client.send(bytes(4000))
    client.close()
    pair.world.run_for(100 * NS_PER_S)
    assert len(pair.received) == 4000
    assert (client.close_reason, server.close_reason) == ("closed", "closed")


def test_a_second_listener_on_a_port_is_refused(pair):
    pair.listen()
    with pytest.raises(ValueError, match="TCP port 80 has a listener already; close it first"):
        pair.listen()
    pair.peer.tcp.close_port(80)
    pair.listen()


def test_a_stray_fin_is_reset_with_the_right_numbers(pair):
    client, _ = pair.open()
    pair.peer.tcp.crash()
    pair.peer.tcp.log = []
    client.inject(FIN, seq=1000)
    pair.world.run_for(NS_PER_S)
    reset = pair.peer.tcp.log[-1][2]
    assert (reset.flags, reset.seq, reset.ack) == (RST | ACK, 0, 1001)
