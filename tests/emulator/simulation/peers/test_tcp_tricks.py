"""Each misbehaviour is what its name says, and a right TCP survives it."""

from __future__ import annotations

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.packet import ACK, RST, PacketError, TcpOptions
from emulator.simulation.peers import tcp_tricks
from emulator.simulation.peers.tcp import TcpConfig
from emulator.simulation.peers.tcp_tricks import BAD_OPTIONS, STRAY_RESETS, HalfOpenPeer

DATA = bytes(range(256)) * 40


def send_from_server(pair, trick, config: TcpConfig | None = None, seconds: int = 120):
    """Let the server send DATA through a trick; return the client, whose bytes are checked."""
    client, server = pair.open(served=config)
    server.out_filter = trick
    server.send(DATA)
    server.close()
    pair.world.run_for(seconds * NS_PER_S)
    assert bytes(pair.echoed) == DATA
    return client


@pytest.mark.parametrize("count", [2, 3, 5])
def test_backwards(pair, count):
    client = send_from_server(pair, tcp_tricks.backwards(count), TcpConfig(segment_size=400))
    assert client.stats.out_of_order > 5


@pytest.mark.parametrize("width", [1, 100, 1000])
def test_overlapping(pair, width):
    sizes: list[int] = []
    client, server = pair.open(served=TcpConfig(segment_size=300))

    def note(segment):
        sizes.append(len(segment.payload))
        return segment

    client.in_filter = note
    server.out_filter = tcp_tricks.overlapping(width)
    server.send(DATA)
    pair.world.run_for(10 * NS_PER_S)
    assert bytes(pair.echoed) == DATA
    assert max(sizes) == 300 + width


def test_lose_takes_the_first_that_match(pair):
    trick = tcp_tricks.lose(3, lambda segment: bool(segment.payload))
    client = send_from_server(pair, trick)
    assert client.stats.out_of_order > 0


def test_withheld_acks_make_the_other_side_repeat_until_they_come(pair):
    client, server = pair.open()
    server.out_filter = tcp_tricks.withhold_acks
    client.send(b"hello")
    pair.world.run_for(2 * NS_PER_S)
    assert client.stats.retransmitted > 1
    # Data carries the acknowledgement.
    server.send(b"x")
    pair.world.run_for(NS_PER_S)
    assert client.sender.flight == 0


def test_a_window_that_shrinks_below_what_is_in_flight(pair):
    client, server = pair.open(TcpConfig(segment_size=100))
    client.send(bytes(5000))
    server.out_filter = tcp_tricks.clamp_window(0)
    pair.world.run_for(5 * NS_PER_S)
    assert client.sender.window == 0
    server.out_filter = tcp_tricks.clamp_window(1)
    client.send(bytes(3000))
    pair.world.run_for(60 * NS_PER_S)
    assert len(pair.received) == 8000


def test_a_wrong_syn_ack_is_reset_and_the_next_one_taken(pair):
    pair.listen()
    pair.peer.tcp.out_filter = tcp_tricks.wrong_syn_ack(1)
    client = pair.connect()
    pair.world.run_for(5 * NS_PER_S)
    assert client.state == "ESTABLISHED"


@pytest.mark.parametrize("name", STRAY_RESETS)
def test_a_stray_reset_ends_nothing(pair, name):
    client, server = pair.open()
    tcp_tricks.stray_reset(server, name)
    pair.world.run_for(NS_PER_S)
    server.send(b"still here")
    pair.world.run_for(NS_PER_S)
    assert bytes(pair.echoed) == b"still here"
    assert client.close_reason == ""


def test_a_stray_syn_is_challenged(pair):
    client, server = pair.open()
    tcp_tricks.stray_syn(server)
    pair.world.run_for(NS_PER_S)
    assert client.stats.challenge_acks == 1
    assert client.state == "ESTABLISHED"


@pytest.mark.parametrize("garbage", [False, True])
def test_a_keepalive_probe_is_answered_and_its_byte_not_taken(pair, garbage):
    _, server = pair.open()
    pair.peer.tcp.log = []
    tcp_tricks.keepalive_probe(server, garbage=garbage)
    pair.world.run_for(NS_PER_S)
    answers = [segment for _, way, segment in pair.peer.tcp.log if way == "in"]
    assert [(segment.flags, segment.ack) for segment in answers] == [(ACK, server.snd_nxt)]
    assert pair.echoed == b""


def test_a_half_open_peer_is_reset_and_then_accepts(pair):
    pair.listen()
    old = HalfOpenPeer(pair.peer.tcp, 1000, 2000)
    old.answer_from(pair.peer.address, pair.node.address)
    pair.node.tcp.log = []
    client = pair.connect()
    pair.world.run_for(5 * NS_PER_S)
    assert client.state == "ESTABLISHED"
    assert (old.challenges, old.reset) == (1, True)
    resets = [
        segment for _, way, segment in pair.node.tcp.log if way == "out" and segment.flags & RST
    ]
    assert [segment.seq for segment in resets] == [2000]


REFUSED = {"length zero", "length one", "past the header", "only the kind"}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options_in_a_syn_ack_do_not_stop_a_right_client(pair, name):
    if name in REFUSED:
        with pytest.raises(PacketError, match="TCP option"):
            TcpOptions.decode(BAD_OPTIONS[name])
    client, server = pair.open(served=TcpConfig(syn_options=BAD_OPTIONS[name]))
    assert client.state == server.state == "ESTABLISHED"
    assert len(BAD_OPTIONS[name]) % 4 == 0
