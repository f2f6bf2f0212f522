"""Acknowledgements, duplicates and windows, in lockstep."""

import pytest

from emulator.simulation.packet import ACK, FIN
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import (
    TcpFlag,
    TcpState,
)
from tests.support.segments import (
    NOW,
    Bench,
    ms,
)

BENCH = Bench()


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def segments():
    return [(t.flags, t.seq, t.ack) for t in BENCH.sent()]


class TestAcknowledgement:
    @pytest.mark.parametrize("ack", [1005, 1000 + 2**31 - 1, 1000 - 60_001, 1000 - 2**31])
    def test_an_impossible_number_is_challenged_and_its_data_dropped(self, ack):
        BENCH.queue(b"data")
        tcp = BENCH.open(snd_max=1004, snd_nxt=1004)
        BENCH.feed(ack=ack, payload=b"blind")
        assert (tcp.snd_una, tcp.rcv_nxt) == (1000, 5000)
        assert segments() == [(ACK, 1004, 5000)]

    def test_an_old_number_tells_nothing_but_its_data_counts(self):
        tcp = BENCH.open()
        BENCH.feed(ack=999, payload=b"data", window=7)
        assert (tcp.snd_wnd, tcp.rcv_nxt, tcp.dup_acks) == (60_000, 5004, 0)

    def test_acknowledged_bytes_leave_the_queue(self):
        BENCH.queue(b"0123456789", at=20)
        tcp = BENCH.open(
            snd_max=1010, snd_nxt=1010, rtx_at=ms(50), give_up_at=ms(90), backoff=3, rtt_at=NOW - 5,
            rtt_seq=1004,
        )  # fmt: skip
        BENCH.feed(ack=1004)
        assert (tcp.tx_start, tcp.tx_end, tcp.snd_una) == (24, 30, 1004)
        assert (tcp.rtx_at, tcp.give_up_at, tcp.backoff) == (NEVER, NEVER, 0)
        assert (tcp.srtt, tcp.rtt_at) == (5, 0)

    def test_a_measurement_waits_for_its_own_number(self):
        BENCH.queue(b"0123456789")
        tcp = BENCH.open(snd_max=1010, snd_nxt=1010, rtt_at=NOW - 5, rtt_seq=1005)
        BENCH.feed(ack=1004)
        assert (tcp.srtt, tcp.rtt_at) == (0, NOW - 5)

    def test_an_ack_beyond_a_rewound_snd_nxt_moves_it(self):
        BENCH.queue(b"0123456789")
        tcp = BENCH.open(snd_max=1010, snd_nxt=1000)
        BENCH.feed(ack=1007)
        assert (tcp.snd_una, tcp.snd_nxt) == (1007, 1007)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (TcpState.FIN_WAIT_1, TcpState.FIN_WAIT_2),
            (TcpState.CLOSING, TcpState.TIME_WAIT),
            (TcpState.LAST_ACK, TcpState.CLOSED),
        ],
    )
    def test_the_ack_of_our_fin(self, before, after):
        BENCH.queue(b"bye")
        tcp = BENCH.open(before, snd_max=1004, snd_nxt=1004, flags=TcpFlag.FIN_QUEUED)
        BENCH.feed(ack=1003)
        assert tcp.state == before
        BENCH.feed(ack=1004)
        assert (tcp.state, tcp.flags) == (after, 0)
        assert tcp.wait_at == (ms(10_000) if after == TcpState.TIME_WAIT else NEVER)

    @pytest.mark.parametrize(("cwnd", "grown"), [(2000, 2004), (5000, 5292), (16_380, 16_384)])
    def test_the_congestion_window_grows(self, cwnd, grown):
        BENCH.queue(b"data")
        tcp = BENCH.open(snd_max=1004, snd_nxt=1004, cwnd=cwnd, ssthresh=4000)
        BENCH.feed(ack=1004)
        assert tcp.cwnd == grown

    def test_slow_start_counts_a_segment_at_most(self):
        BENCH.queue(bytes(3000))
        tcp = BENCH.open(snd_max=4000, snd_nxt=4000, cwnd=2000)
        BENCH.feed(ack=4000)
        assert tcp.cwnd == 3208

    def test_a_silent_peer_that_speaks_again_restarts_the_keepalive(self):
        tcp = BENCH.open(keep_tries=2, keep_at=ms(1))
        BENCH.feed()
        assert (tcp.keep_tries, tcp.keep_at) == (0, ms(60_000))


class TestDuplicates:
    def duplicate(self, times, **changes):
        for _ in range(times):
            BENCH.feed(**({"ack": 1000} | changes))

    def flying(self, **fields):
        BENCH.queue(bytes(4000))
        return BENCH.open(**({"snd_max": 5000, "snd_nxt": 5000} | fields))

    def test_the_third_asks_for_a_fast_retransmit(self):
        tcp = self.flying()
        self.duplicate(2)
        assert (tcp.dup_acks, tcp.flags) == (2, 0)
        self.duplicate(1)
        assert tcp.flags == TcpFlag.RECOVERY | TcpFlag.RETRANSMIT_DUE
        assert (tcp.recover, tcp.ssthresh, tcp.cwnd) == (5000, 2416, 2416)
        self.duplicate(3)
        assert tcp.dup_acks == 3

    def test_half_of_a_large_flight(self):
        BENCH.queue(bytes(8000))
        tcp = BENCH.open(snd_max=9000, snd_nxt=9000)
        self.duplicate(3)
        assert tcp.ssthresh == 4000

    @pytest.mark.parametrize(
        "change",
        [{"payload": b"x"}, {"control": ACK | FIN}, {"window": 59_999}, {"window": 0}],
    )
    def test_what_is_no_duplicate(self, change):
        tcp = self.flying()
        self.duplicate(1, **change)
        assert tcp.dup_acks == 0

    def test_nothing_outstanding_is_no_duplicate(self):
        tcp = BENCH.open()
        self.duplicate(3)
        assert tcp.dup_acks == 0

    def test_a_closed_window_answers_probes_so(self):
        tcp = self.flying(snd_wnd=0)
        self.duplicate(3, window=0)
        assert tcp.dup_acks == 0

    def test_a_partial_acknowledgement_asks_again_and_a_full_one_ends(self):
        tcp = self.flying(flags=TcpFlag.RECOVERY, recover=5000, cwnd=9000, ssthresh=2416)
        BENCH.feed(ack=3000)
        assert tcp.flags == TcpFlag.RECOVERY | TcpFlag.RETRANSMIT_DUE
        BENCH.feed(ack=5000)
        assert not tcp.flags & TcpFlag.RECOVERY
        assert tcp.cwnd == 2416


class TestWindow:
    def test_a_newer_segment_tells_the_window(self):
        tcp = BENCH.open(snd_scale=2)
        BENCH.feed(seq=5001, window=100)
        assert (tcp.snd_wnd, tcp.snd_wl1, tcp.snd_wnd_max) == (400, 5001, 60_000)
        BENCH.feed(window=30_000)
        assert tcp.snd_wnd == 400

    def test_an_equal_sequence_is_newer_by_its_ack(self):
        BENCH.queue(b"data")
        tcp = BENCH.open(snd_max=1004, snd_nxt=1004, snd_wl2=1003)
        BENCH.feed(ack=1002, window=10)
        assert tcp.snd_wnd == 60_000
        BENCH.feed(ack=1004, window=65_535)
        assert (tcp.snd_wnd, tcp.snd_wl2, tcp.snd_wnd_max) == (65_535, 1004, 65_535)

    def test_an_opening_window_forgets_the_probes(self):
        BENCH.queue(b"data")
        tcp = BENCH.open(snd_wnd=0, backoff=4, rtx_at=ms(900), give_up_at=ms(1000))
        BENCH.feed(window=10)
        assert (tcp.backoff, tcp.rtx_at, tcp.give_up_at) == (0, NEVER, NEVER)

    def test_a_peer_that_answers_probes_is_alive(self):
        BENCH.queue(b"data")
        tcp = BENCH.open(snd_wnd=0, backoff=4, rtx_at=ms(900), give_up_at=ms(1000))
        BENCH.at(500)
        BENCH.feed(window=0)
        assert (tcp.backoff, tcp.rtx_at, tcp.give_up_at) == (4, ms(900), ms(30_500))

    def test_a_closed_window_without_probes_keeps_no_patience(self):
        tcp = BENCH.open()
        BENCH.feed(window=0)
        assert (tcp.snd_wnd, tcp.give_up_at) == (0, NEVER)
