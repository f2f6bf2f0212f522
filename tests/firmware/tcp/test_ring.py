"""The receive ring and the islands beyond a hole, on any numbers."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import SPANS_MAX, TcpFlag
from firmware.limits import RECEIVE_MSS, RING_BYTES
from firmware.tcp.ring import tcp_consume, tcp_keep, tcp_merge, tcp_readable
from tests.support.segments import Bench

BENCH = Bench(tcp_consume, tcp_keep, tcp_merge, tcp_readable)
QUICK = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it only resets
)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def test_readable_is_one_run_across_the_seam():
    BENCH.open(ring_head=RING_BYTES - 2, ring_ready=5)
    shard = BENCH.lab.view(ShardContext, BENCH.shard)
    got = BENCH.call(tcp_readable)
    assert got == {"rsi": shard.ring_base + RING_BYTES - 2, "ecx": 5}


class TestConsume:
    @pytest.mark.parametrize(
        ("head", "ready", "length", "after"),
        [
            (0, 10, 10, (10, 0)),
            (RING_BYTES - 5, 10, 5, (0, 5)),
            (RING_BYTES - 5, 10, 7, (2, 3)),
            (3, 10, 11, (13, 0)),
            (3, 0, 2**32 - 1, (3, 0)),
        ],
    )
    def test_consume_moves_the_head_and_never_past_what_is_ready(self, head, ready, length, after):
        tcp = BENCH.open(ring_head=head, ring_ready=ready)
        BENCH.call(tcp_consume, length=length)
        assert (tcp.ring_head, tcp.ring_ready) == after

    @pytest.mark.parametrize(("gain", "told"), [(0, 0), (2919, 0), (2920, 1), (RING_BYTES, 1)])
    def test_a_window_that_opens_by_two_segments_is_told(self, gain, told):
        tcp = BENCH.open(ring_ready=gain, rcv_adv=5000 + RING_BYTES - gain)
        BENCH.call(tcp_consume, length=gain)
        assert bool(tcp.flags & TcpFlag.ACK_NOW) == told
        assert 2 * RECEIVE_MSS == 2920


class TestSpans:
    @QUICK
    @given(
        base=st.sampled_from([0, 2**31 - 20, 2**32 - 20]),
        cuts=st.lists(st.integers(0, 60), min_size=0, max_size=8, unique=True),
        start=st.integers(0, 60),
        length=st.integers(1, 30),
        order=st.randoms(use_true_random=False),
    )
    def test_merge_is_the_union_of_sets(self, base, cuts, start, length, order):
        # Neighbouring cuts would touch; islands that touch are one.
        cuts = sorted(c * 2 for c in cuts)
        islands = [(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
        order.shuffle(islands)
        tcp = BENCH.open(spans_used=len(islands))
        for n, (a, b) in enumerate(islands):
            tcp.spans[n].start, tcp.spans[n].end = (base + a) % 2**32, (base + b) % 2**32
        got = BENCH.call(
            tcp_merge, start=(base + start) % 2**32, end=(base + start + length) % 2**32
        )
        first, last = (got["esi"] - base) % 2**32, (got["edi"] - base) % 2**32
        before = {n for a, b in islands for n in range(a, b)} | set(range(start, start + length))
        after = set(range(first, last))
        for n in range(got["eax"]):
            a, b = tcp.spans[n].start - base, tcp.spans[n].end - base
            after |= set(range(a % 2**32, b % 2**32))
        assert after == before

    @pytest.mark.parametrize("kept", range(SPANS_MAX + 1))
    def test_keep_refuses_the_fifth(self, kept):
        tcp = BENCH.open()
        got = BENCH.call(tcp_keep, start=6000, end=6001, kept=kept)
        assert got["cf"] == (kept == SPANS_MAX)
        assert tcp.spans_used == (kept + 1) % (SPANS_MAX + 1)
