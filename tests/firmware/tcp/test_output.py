"""What leaves now and what goes again, in lockstep."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.simulation.packet import ACK, FIN, PSH
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import (
    TCP_TIMED_OUT,
    TcpFlag,
    TcpState,
)
from firmware.limits import RING_BYTES
from firmware.tcp.output import tcp_output, tcp_repair, tcp_timeout
from firmware.tcp.timers import tcp_tick
from tests.support.segments import NOW, Bench, ms

BENCH = Bench(tcp_tick)


SENDING = (
    TcpState.ESTABLISHED,
    TcpState.CLOSE_WAIT,
    TcpState.FIN_WAIT_1,
    TcpState.CLOSING,
    TcpState.LAST_ACK,
)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def tick():
    return BENCH.call(tcp_tick)["rax"]


def sent():
    return [(t.flags, t.seq, len(t.payload)) for t in BENCH.sent()]


class TestOutput:
    @pytest.mark.parametrize("state", SENDING)
    def test_small_writes_leave_together_and_start_the_timer(self, state):
        BENCH.queue(b"one two")
        tcp = BENCH.open(state)
        assert tick() == ms(1000)
        (segment,) = BENCH.sent()
        assert (segment.flags, segment.seq, segment.ack) == (ACK | PSH, 1000, 5000)
        assert segment.payload == b"one two"
        assert segment.window == RING_BYTES
        assert (tcp.snd_nxt, tcp.snd_max, tcp.rtt_at, tcp.rtt_seq) == (1007, 1007, NOW, 1007)
        assert (tcp.rtx_at, tcp.give_up_at) == (ms(1000), ms(30_000))

    @pytest.mark.parametrize("state", [TcpState.SYN_SENT, TcpState.FIN_WAIT_2, TcpState.TIME_WAIT])
    def test_other_states_send_no_data(self, state):
        BENCH.queue(b"data")
        BENCH.open(state)
        tick()
        assert BENCH.sent() == []

    def test_nothing_waits_for_an_acknowledgement(self):
        BENCH.queue(b"one")
        tcp = BENCH.open()
        tick()
        tcp.tx_end += 3
        tick()
        assert sent() == [(ACK | PSH, 1000, 3), (ACK | PSH, 1003, 3)]
        assert tcp.rtt_seq == 1003

    def test_long_data_is_cut_into_segments_of_1208(self):
        BENCH.queue(bytes(3000))
        tcp = BENCH.open()
        tick()
        assert sent() == [(ACK, 1000, 1208), (ACK, 2208, 1208), (ACK | PSH, 3416, 584)]
        assert tcp.rtt_seq == 2208

    def test_the_peers_window_bounds_what_leaves(self):
        BENCH.queue(bytes(3000))
        tcp = BENCH.open(snd_wnd=2416, snd_wnd_max=2416)
        tick()
        assert sent() == [(ACK, 1000, 1208), (ACK, 2208, 1208)]
        assert tcp.rtx_at == ms(1000)

    def test_the_congestion_window_bounds_what_leaves(self):
        BENCH.queue(bytes(3000))
        BENCH.open(cwnd=1208)
        tick()
        assert sent() == [(ACK, 1000, 1208)]

    @pytest.mark.parametrize(("wnd_max", "count"), [(2000, 1), (2001, 0)])
    def test_a_silly_window_is_used_only_when_it_is_half_of_the_best(self, wnd_max, count):
        BENCH.queue(bytes(3000))
        tcp = BENCH.open(snd_wnd=1000, snd_wnd_max=wnd_max)
        tick()
        assert sent() == [(ACK, 1000, 1000)] * count
        assert tcp.rtx_at == ms(1000)

    def test_a_shrunken_window_stops_new_data_only(self):
        BENCH.queue(bytes(3000))
        tcp = BENCH.open(snd_nxt=3416, snd_max=3416, snd_wnd=10, rtx_at=ms(5))
        assert tick() == ms(5)
        assert sent() == []
        assert tcp.snd_nxt == 3416

    @pytest.mark.parametrize("state", [TcpState.FIN_WAIT_1, TcpState.LAST_ACK])
    def test_the_fin_leaves_with_the_last_bytes(self, state):
        BENCH.queue(b"bye")
        tcp = BENCH.open(state, flags=TcpFlag.FIN_QUEUED)
        tick()
        tick()
        assert sent() == [(ACK | PSH | FIN, 1000, 3)]
        assert tcp.snd_max == 1004

    def test_a_fin_alone(self):
        BENCH.open(TcpState.FIN_WAIT_1, flags=TcpFlag.FIN_QUEUED)
        tick()
        assert sent() == [(ACK | PSH | FIN, 1000, 0)]

    def test_no_frame_now_then_soon(self):
        BENCH.queue(b"data")
        tcp = BENCH.open()
        BENCH.block()
        assert tick() == ms(5)
        assert (tcp.snd_nxt, tcp.snd_max) == (1000, 1000)
        BENCH.block(blocked=False)
        BENCH.at(5)
        tick()
        assert sent() == [(ACK | PSH, 1000, 4)]
        assert not tcp.flags & TcpFlag.BLOCKED

    def test_after_the_lease_nothing_leaves(self):
        BENCH.queue(b"data")
        BENCH.open(flags=TcpFlag.ACK_NOW, keep_at=NOW)
        BENCH.expire()
        for time in (0, 1000, 3000, 20_000):
            BENCH.at(time)
            tick()
        assert BENCH.sent() == []

    def test_the_numbers_wrap(self):
        BENCH.queue(bytes(3000))
        tcp = BENCH.open(snd_una=0xFFFF_FF00, snd_nxt=0xFFFF_FF00, snd_max=0xFFFF_FF00)
        tick()
        assert sent() == [(ACK, 0xFFFF_FF00, 1208), (ACK, 952, 1208), (ACK | PSH, 2160, 584)]
        assert (tcp.snd_nxt, tcp.snd_max) == (2744, 2744)


class TestRetransmit:
    def flying(self, length=4000, **fields):
        BENCH.queue(bytes(length))
        edge = 1000 + length
        given = {"snd_max": edge, "snd_nxt": edge, "rtx_at": NOW, "give_up_at": ms(30_000)}
        return BENCH.open(**(given | fields))

    def test_the_oldest_segment_goes_again_and_the_timeout_doubles(self):
        tcp = self.flying(rtt_at=NOW)
        assert tick() == ms(2000)
        assert sent() == [(ACK, 1000, 1208)]
        assert (tcp.snd_nxt, tcp.snd_max, tcp.backoff, tcp.rtt_at) == (2208, 5000, 1, 0)
        assert (tcp.ssthresh, tcp.cwnd, tcp.retransmits) == (2416, 1208, 1)
        assert tcp.give_up_at == ms(30_000)

    def test_half_of_a_large_flight_is_the_threshold(self):
        tcp = self.flying(8000)
        tick()
        assert tcp.ssthresh == 4000

    @pytest.mark.parametrize(
        ("backoff", "delay"), [(0, 2000), (3, 16_000), (5, 60_000), (6, 60_000)]
    )
    def test_the_timeout_is_a_minute_at_most(self, backoff, delay):
        tcp = self.flying(backoff=backoff)
        tick()
        assert tcp.rtx_at == ms(delay)
        assert tcp.backoff == min(backoff + 1, 6)

    @pytest.mark.parametrize(
        ("backoff", "mss", "after"), [(1, 1208, 1208), (2, 1208, 536), (6, 400, 400), (2, 536, 536)]
    )
    def test_after_two_timeouts_segments_are_small(self, backoff, mss, after):
        tcp = self.flying(backoff=backoff, snd_mss=mss)
        tick()
        assert (tcp.snd_mss, tcp.cwnd) == (after, after)
        assert sent() == [(ACK, 1000, after)]

    def test_a_repetition_measures_nothing(self):
        tcp = self.flying(cwnd=12_080)
        tick()
        tcp.cwnd = 4000
        tick()
        assert tcp.rtt_at == 0

    def test_a_timeout_ends_a_recovery(self):
        tcp = self.flying(flags=TcpFlag.RECOVERY | TcpFlag.RETRANSMIT_DUE, dup_acks=3)
        tick()
        assert (tcp.flags, tcp.dup_acks) == (0, 0)
        assert len(BENCH.sent()) == 1

    def test_a_lost_fin_goes_again(self):
        BENCH.open(
            TcpState.LAST_ACK, flags=TcpFlag.FIN_QUEUED, snd_max=1001, snd_nxt=1001, rtx_at=NOW
        )
        tick()
        assert sent() == [(ACK | PSH | FIN, 1000, 0)]

    def test_no_frame_for_a_repetition_waits_for_the_next_timeout(self):
        tcp = self.flying()
        BENCH.block()
        assert tick() == ms(5)
        assert (tcp.snd_nxt, tcp.rtx_at) == (1000, ms(2000))

    def test_a_timer_with_nothing_to_send_stops(self):
        tcp = BENCH.open(rtx_at=NOW)
        BENCH.call(tcp_timeout)
        assert tcp.rtx_at == NEVER

    def test_half_a_minute_without_an_ack_fails(self):
        tcp = self.flying(give_up_at=NOW)
        assert tick() == NEVER
        assert (tcp.state, tcp.error) == (TcpState.FAILED, TCP_TIMED_OUT.code)
        assert BENCH.sent() == []

    def test_a_fast_retransmit_sends_one_segment(self):
        tcp = self.flying(
            flags=TcpFlag.RECOVERY | TcpFlag.RETRANSMIT_DUE, rtx_at=ms(7), cwnd=2416, rtt_at=NOW
        )
        tick()
        assert sent() == [(ACK, 1000, 1208)]
        assert (tcp.flags, tcp.retransmits, tcp.rtt_at) == (TcpFlag.RECOVERY, 1, 0)

    def test_a_fast_retransmit_without_a_frame_stays_due(self):
        tcp = self.flying(flags=TcpFlag.RETRANSMIT_DUE, rtx_at=ms(7), cwnd=2416)
        BENCH.block()
        tick()
        assert tcp.flags == TcpFlag.RETRANSMIT_DUE | TcpFlag.BLOCKED
        assert tcp.retransmits == 0

    @pytest.mark.parametrize(("length", "count"), [(0, 0), (3, 1)])
    def test_a_repair_sends_what_there_is(self, length, count):
        BENCH.queue(bytes(length))
        tcp = BENCH.open(flags=TcpFlag.RETRANSMIT_DUE)
        BENCH.call(tcp_repair)
        assert len(BENCH.sent()) == count
        assert tcp.flags == 0


class TestProbe:
    def test_a_closed_window_is_probed_with_one_byte(self):
        BENCH.queue(b"data")
        tcp = BENCH.open(snd_wnd=0)
        assert tick() == ms(1000)
        assert BENCH.sent() == []
        for time, following in ((1000, 3000), (3000, 7000), (7000, 15_000)):
            BENCH.at(time)
            tick()
            assert tcp.rtx_at == ms(following)
        assert sent() == [(ACK, 1000, 1)] * 3
        assert (tcp.snd_nxt, tcp.snd_max, tcp.cwnd) == (1000, 1001, 12_080)

    def test_a_window_too_small_for_sense_is_used_by_the_timer(self):
        BENCH.queue(bytes(3000))
        tcp = BENCH.open(snd_wnd=10, rtx_at=NOW)
        tick()
        assert sent() == [(ACK, 1000, 10)]
        assert tcp.snd_nxt == 1010

    def test_the_opened_window_gets_the_probed_byte_again(self):
        BENCH.queue(b"data")
        BENCH.open(snd_wnd=0, snd_max=1001)
        BENCH.feed(ack=1000, window=100)
        tick()
        assert sent() == [(ACK | PSH, 1000, 4)]


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it only resets
)
@given(
    state=st.sampled_from(SENDING),
    base=st.sampled_from([0, 1000, 0xFFFF_FFF0]),
    waiting=st.integers(0, 8192),
    flight=st.integers(0, 8192),
    wnd=st.sampled_from([0, 1, 500, 1208, 5000, 65_535, 2**30]),
    best=st.sampled_from([1, 1208, 65_535]),
    cwnd=st.integers(64, 16_384),
    mss=st.sampled_from([64, 536, 1208]),
    flags=st.integers(0, 255),
    timer=st.sampled_from([NOW, ms(9), NEVER]),
)
def test_any_queue_matches_the_model(
    state, base, waiting, flight, wnd, best, cwnd, mss, flags, timer
):
    BENCH.reset()
    BENCH.queue(bytes(waiting))
    flight = min(flight, waiting)
    tcp = BENCH.open(
        state, snd_una=base, snd_nxt=(base + flight) % 2**32, snd_max=(base + waiting) % 2**32,
        snd_wnd=wnd, snd_wnd_max=max(best, wnd), cwnd=cwnd, ssthresh=4000, snd_mss=mss,
        flags=flags & ~TcpFlag.SYN_DUE, rtx_at=timer,
    )  # fmt: skip
    tick()
    queued = waiting + (flags & 1)
    assert (tcp.snd_nxt - base) % 2**32 <= queued
    assert (tcp.snd_max - base) % 2**32 <= queued
    assert not queued or tcp.rtx_at != NEVER
    for segment in BENCH.sent():
        assert len(segment.payload) <= mss
    BENCH.call(tcp_output)
