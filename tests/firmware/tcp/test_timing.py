"""The round trip and the retransmission timeout (RFC 6298)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firmware.tcp.timers import tcp_tick
from firmware.tcp.timing import tcp_arm, tcp_measure
from tests.support.segments import CYCLES_PER_MS, NOW, Bench, ms

BENCH = Bench(tcp_tick)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


WORDS = st.one_of(st.integers(0, 2**20), st.integers(0, 2**64 - 1))


class TestTiming:
    @settings(
        max_examples=60,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],  # it only resets
    )
    @given(WORDS, WORDS, WORDS)
    def test_measure_follows_rfc_6298(self, sample, srtt, rttvar):
        tcp = BENCH.open(
            rtt_at=(NOW - sample) % 2**64 or 1, srtt=srtt % 2**40, rttvar=rttvar % 2**40
        )
        BENCH.call(tcp_measure)
        assert 200 * CYCLES_PER_MS <= tcp.rto <= 60_000 * CYCLES_PER_MS
        assert tcp.srtt > 0
        assert tcp.rtt_at == 0

    def test_the_first_sample_sets_all(self):
        tcp = BENCH.open(rtt_at=NOW - 400_000)
        BENCH.call(tcp_measure)
        assert (tcp.srtt, tcp.rttvar, tcp.rto) == (400_000, 200_000, 1_200_000)

    def test_later_samples_move_it_slowly(self):
        tcp = BENCH.open(rtt_at=NOW - 160_000, srtt=80_000, rttvar=40_000)
        BENCH.call(tcp_measure)
        assert (tcp.srtt, tcp.rttvar, tcp.rto) == (90_000, 50_000, 290_000)

    def test_arming_again_keeps_the_patience(self):
        tcp = BENCH.open(give_up_at=ms(7), backoff=1)
        BENCH.call(tcp_arm)
        assert (tcp.rtx_at, tcp.give_up_at) == (ms(2000), ms(7))
