"""`tcp_input` by state: RFC 9293 3.10.7 and RFC 5961, in lockstep; any segments in any state."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.simulation.packet import ACK, RST, SYN
from firmware.layouts.node import CORE
from firmware.layouts.tcp import (
    TCP_RESET,
    TcpFlag,
    TcpState,
)
from firmware.limits import RING_BYTES
from tests.support.segments import (
    NOW,
    Bench,
)

BENCH = Bench()


ESTABLISHED = TcpState.ESTABLISHED


RECEIVING = (TcpState.ESTABLISHED, TcpState.FIN_WAIT_1, TcpState.FIN_WAIT_2)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def segments():
    return [(t.flags, t.seq, t.ack) for t in BENCH.sent()]


class TestReset:
    @pytest.mark.parametrize("state", [*RECEIVING, TcpState.CLOSE_WAIT])
    def test_the_exact_number_resets(self, state):
        tcp = BENCH.open(state)
        BENCH.feed(RST)
        assert (tcp.state, tcp.error) == (TcpState.FAILED, TCP_RESET.code)
        assert BENCH.sent() == []

    @pytest.mark.parametrize("state", [TcpState.CLOSING, TcpState.LAST_ACK, TcpState.TIME_WAIT])
    def test_while_closing_a_reset_only_ends(self, state):
        tcp = BENCH.open(state)
        BENCH.feed(RST)
        assert (tcp.state, tcp.error) == (TcpState.CLOSED, 0)

    @pytest.mark.parametrize("offset", [1, 100, RING_BYTES])
    def test_another_number_in_the_window_is_challenged(self, offset):
        tcp = BENCH.open()
        BENCH.feed(RST, seq=5000 + offset)
        assert tcp.state == ESTABLISHED
        assert segments() == [(ACK, 1000, 5000)]

    def test_what_was_received_stays_readable(self):
        BENCH.open()
        BENCH.feed(payload=b"rest")
        BENCH.feed(RST)
        assert BENCH.received() == b"rest"

    @pytest.mark.parametrize("control", [SYN, SYN | ACK, SYN | RST])
    def test_a_syn_is_challenged(self, control):
        tcp = BENCH.open()
        BENCH.feed(control, seq=5001)
        BENCH.feed(control, seq=5001)
        assert tcp.state == ESTABLISHED
        assert segments() == [(ACK, 1000, 5000)]

    def test_without_ack_a_segment_brings_nothing(self):
        tcp = BENCH.open()
        BENCH.feed(0, payload=b"blind")
        assert tcp.rcv_nxt == 5000


class TestBlocked:
    def test_an_ack_that_finds_no_frame_is_sent_later(self):
        tcp = BENCH.open()
        BENCH.block()
        BENCH.feed(seq=5005, payload=b"world")
        assert tcp.flags == TcpFlag.ACK_NOW | TcpFlag.BLOCKED

    def test_after_the_lease_nothing_is_answered(self):
        BENCH.open()
        BENCH.expire()
        BENCH.feed(seq=5005, payload=b"world")
        BENCH.feed(seq=4000, payload=b"old")
        BENCH.feed(SYN, seq=5001)
        assert BENCH.sent() == []


STATES = st.sampled_from([s for s in TcpState if s not in (TcpState.CLOSED, TcpState.FAILED)])


NEAR = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([RING_BYTES - 1, RING_BYTES, RING_BYTES + 1, 2**31, -(2**31), 1208, -1208]),
    st.integers(-(2**31), 2**31),
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it only resets
)
@given(
    state=STATES,
    base=st.sampled_from([0, 1000, 2**31, 0xFFFF_FFF0]),
    steps=st.lists(
        st.tuples(
            NEAR,
            NEAR,
            st.integers(0, 63),
            st.integers(0, 65_535),
            st.binary(max_size=24),
            st.sampled_from([b"", b"\x02\x04\x05\xb4", b"\x01\x02\x00\x00", b"\x03\x03\x0e\x00"]),
        ),
        max_size=5,
    ),
    waiting=st.integers(0, 2000),
)
def test_any_segments_in_any_state_match_the_model(state, base, steps, waiting):
    BENCH.reset()
    BENCH.queue(bytes(waiting))
    edge = (base + waiting) % 2**32
    fin = (
        TcpFlag.FIN_QUEUED
        if state in (TcpState.FIN_WAIT_1, TcpState.CLOSING, TcpState.LAST_ACK)
        else 0
    )
    tcp = BENCH.open(
        state, snd_una=base, snd_nxt=edge, snd_max=(edge + bool(fin)) % 2**32, flags=fin, rcv_nxt=base,
        rcv_adv=(base + RING_BYTES) % 2**32, snd_wl1=base, snd_wl2=base,
    )  # fmt: skip
    for ahead, news, control, window, payload, options in steps:
        BENCH.feed(
            control,
            seq=base + ahead,
            ack=base + news,
            window=window,
            payload=payload,
            options=options,
        )
        BENCH.sent()
        assert tcp.ring_ready <= RING_BYTES
        assert (tcp.rcv_adv - tcp.rcv_nxt) % 2**32 <= RING_BYTES - tcp.ring_ready
    assert BENCH.lab.g(CORE).now == NOW
