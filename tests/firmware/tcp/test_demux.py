"""From bytes to a connection, and what strangers are told."""

import pytest

from emulator.simulation.packet import ACK, FIN, RST, SYN, Tcp
from firmware.layouts.tcp import (
    TCP_PORTS,
    TcpState,
)
from tests.support.segments import (
    OUR_IP,
    OUR_PORT,
    PEER_IP,
    PEER_PORT,
    Bench,
)

BENCH = Bench()


ESTABLISHED = TcpState.ESTABLISHED


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def segments():
    return [(t.flags, t.seq, t.ack) for t in BENCH.sent()]


class TestParse:
    @pytest.mark.parametrize("length", [0, 1, 19])
    def test_a_segment_shorter_than_a_header_is_dropped(self, length):
        BENCH.open()
        assert BENCH.raw(bytes(length)) == 0
        assert BENCH.sent() == []

    @pytest.mark.parametrize("words", [0, 4, 6, 15])
    def test_a_header_length_that_cannot_be_is_dropped(self, words):
        BENCH.open()
        raw = bytearray(Tcp(PEER_PORT, OUR_PORT, 5000, 1000, ACK, 0).encode(PEER_IP, OUR_IP))
        raw[12] = words << 4
        raw[16:18] = b"\x00\x00"
        assert BENCH.raw(bytes(raw)) == 0
        assert BENCH.sent() == []

    def test_a_damaged_segment_is_dropped_and_changes_nothing(self):
        tcp = BENCH.open()
        raw = bytearray(Tcp(PEER_PORT, OUR_PORT, 5000, 1000, RST, 0).encode(PEER_IP, OUR_IP))
        raw[5] ^= 1
        assert BENCH.raw(bytes(raw)) == 0
        assert tcp.state == ESTABLISHED

    def test_a_segment_goes_to_the_shard_that_owns_the_port(self):
        BENCH.open()
        assert BENCH.feed() == BENCH.shard


class TestStrangers:
    @pytest.mark.parametrize(
        "change",
        [
            {"ports": (PEER_PORT, 80)},
            {"ports": (PEER_PORT, OUR_PORT + 1)},
            {"ports": (PEER_PORT + 1, OUR_PORT)},
        ],
    )
    def test_an_ack_for_nobody_is_answered_with_its_own_number(self, change):
        BENCH.open()
        assert BENCH.feed(ACK, ack=77, **change) == 0
        (reset,) = BENCH.sent()
        assert (reset.flags, reset.seq, reset.ack) == (RST, 77, 0)
        assert (reset.src_port, reset.dst_port) == change["ports"][::-1]

    @pytest.mark.parametrize(
        ("control", "payload", "length"),
        [(SYN, b"", 1), (FIN, b"abc", 4), (0, b"abc", 3), (SYN | FIN, b"", 2)],
    )
    def test_a_segment_without_ack_is_answered_with_its_length(self, control, payload, length):
        BENCH.feed(control, seq=70, payload=payload, ports=(PEER_PORT, 80))
        assert segments() == [(RST | ACK, 0, 70 + length)]

    def test_a_reset_for_nobody_is_not_answered(self):
        BENCH.feed(RST, ports=(PEER_PORT, 80))
        assert BENCH.sent() == []

    def test_resets_to_strangers_are_rare(self):
        for time in (0, 5, 9, 10):
            BENCH.at(time)
            BENCH.feed(ports=(PEER_PORT, 80))
        assert len(BENCH.sent()) == 2
        assert BENCH.lab.g(TCP_PORTS).refused == 2

    @pytest.mark.parametrize("state", [TcpState.CLOSED, TcpState.FAILED])
    def test_a_dead_connection_is_nobody(self, state):
        BENCH.open(state)
        assert BENCH.feed() == 0
        assert len(BENCH.sent()) == 1

    def test_another_address_is_another_peer(self):
        BENCH.open(remote_ip=0x0300000A)
        assert BENCH.feed() == 0

    def test_a_port_that_the_shard_left_is_nobodys(self):
        BENCH.open(local_port=OUR_PORT + 1)
        assert BENCH.feed() == 0
        assert len(BENCH.sent()) == 1

    def test_after_the_lease_strangers_get_no_answer(self):
        BENCH.expire()
        BENCH.feed(ports=(PEER_PORT, 80))
        assert BENCH.sent() == []
