"""Payload, holes and FIN, in lockstep."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.simulation.packet import ACK, FIN, PSH, RST, TcpOptions
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import (
    TcpFlag,
    TcpState,
)
from firmware.limits import RING_BYTES
from tests.support.segments import (
    Bench,
    ms,
)

BENCH = Bench()


ESTABLISHED = TcpState.ESTABLISHED


RECEIVING = (TcpState.ESTABLISHED, TcpState.FIN_WAIT_1, TcpState.FIN_WAIT_2)


DEAF = (TcpState.CLOSE_WAIT, TcpState.CLOSING, TcpState.LAST_ACK, TcpState.TIME_WAIT)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def segments():
    return [(t.flags, t.seq, t.ack) for t in BENCH.sent()]


class TestSequence:
    @pytest.mark.parametrize("state", RECEIVING)
    def test_bytes_in_order_become_readable(self, state):
        tcp = BENCH.open(state)
        BENCH.feed(ACK | PSH, payload=b"hello")
        assert BENCH.received() == b"hello"
        assert (tcp.rcv_nxt, tcp.ack_owed, tcp.ack_at) == (5005, 1, ms(40))
        assert BENCH.sent() == []

    @pytest.mark.parametrize("state", DEAF)
    def test_bytes_after_the_fin_are_ignored(self, state):
        tcp = BENCH.open(state)
        BENCH.feed(payload=b"late")
        assert tcp.rcv_nxt == 5000
        assert BENCH.received() == b""

    def test_the_second_segment_is_acknowledged_now(self):
        tcp = BENCH.open()
        BENCH.feed(payload=b"a")
        assert not tcp.flags & TcpFlag.ACK_NOW
        BENCH.feed(payload=b"b")
        assert tcp.flags & TcpFlag.ACK_NOW

    @pytest.mark.parametrize("offset", [-5, -1000, -(2**31)])
    def test_old_data_is_acknowledged_every_time(self, offset):
        tcp = BENCH.open(challenge_at=NEVER)
        for _ in range(2):
            BENCH.feed(seq=5000 + offset, payload=b"again")
        assert segments() == [(ACK, 1000, 5000)] * 2
        assert tcp.rcv_nxt == 5000

    @pytest.mark.parametrize("offset", [-1, RING_BYTES + 1, 2**31 - 1, -(2**31)])
    def test_a_bare_ack_out_of_the_window_is_answered_now_and_then(self, offset):
        BENCH.open()
        for time in (0, 499, 500):
            BENCH.at(time)
            BENCH.feed(seq=5000 + offset)
        assert segments() == [(ACK, 1000, 5000)] * 2

    @pytest.mark.parametrize("offset", [-1, RING_BYTES + 1])
    def test_a_reset_out_of_the_window_is_dropped(self, offset):
        tcp = BENCH.open()
        BENCH.feed(RST, seq=5000 + offset)
        assert tcp.state == ESTABLISHED
        assert BENCH.sent() == []

    def test_the_front_of_a_segment_may_be_here_already(self):
        tcp = BENCH.open()
        BENCH.feed(payload=b"hello")
        BENCH.feed(seq=5003, payload=b"lo world")
        assert BENCH.received() == b"hello world"
        assert tcp.rcv_nxt == 5011

    def test_what_exceeds_the_window_is_cut_and_its_fin_waits(self):
        tcp = BENCH.open(rcv_adv=5003)
        BENCH.feed(ACK | FIN, payload=b"hello")
        assert BENCH.received() == b"hel"
        assert tcp.state == ESTABLISHED
        assert not tcp.flags & TcpFlag.FIN_SEEN

    def test_a_probe_of_the_closed_window_is_acknowledged(self):
        tcp = BENCH.open(rcv_adv=5000, ring_ready=RING_BYTES)
        BENCH.feed(payload=b"x")
        assert tcp.flags & TcpFlag.ACK_NOW
        assert tcp.rcv_nxt == 5000

    def test_an_ack_counts_although_the_window_is_closed(self):
        BENCH.queue(b"data")
        tcp = BENCH.open(rcv_adv=5000, ring_ready=RING_BYTES, snd_max=1004, snd_nxt=1004)
        BENCH.feed(ack=1004)
        assert tcp.snd_una == 1004

    def test_an_ack_at_the_edge_of_the_filled_window_counts(self):
        BENCH.queue(b"data")
        tcp = BENCH.open(snd_max=1004, snd_nxt=1004)
        BENCH.feed(seq=5000 + RING_BYTES, ack=1004)
        assert tcp.snd_una == 1004

    def test_the_numbers_wrap(self):
        tcp = BENCH.open(rcv_nxt=0xFFFF_FFFE, rcv_adv=RING_BYTES - 2, snd_wl1=0xFFFF_FFFE)
        BENCH.feed(payload=b"wrap")
        assert (BENCH.received(), tcp.rcv_nxt) == (b"wrap", 2)

    def test_the_ring_wraps(self):
        BENCH.open(ring_head=RING_BYTES - 3)
        BENCH.feed(payload=b"across")
        assert BENCH.received() == b"across"


class TestHoles:
    def test_bytes_beyond_a_hole_stay_and_are_told_at_once(self):
        tcp = BENCH.open(flags=TcpFlag.SACK_OK)
        BENCH.feed(seq=5005, payload=b"world")
        BENCH.feed(seq=5020, payload=b"!")
        BENCH.feed(seq=5010, payload=b"?")
        acks = BENCH.sent()
        assert [(t.flags, t.ack) for t in acks] == [(ACK, 5000)] * 3
        assert [TcpOptions.decode(t.options).sack for t in acks] == [
            ((5005, 5010),),
            ((5020, 5021), (5005, 5010)),
            ((5005, 5011), (5020, 5021)),
        ]
        BENCH.feed(payload=b"hello")
        assert BENCH.received() == b"helloworld?"
        assert tcp.flags & TcpFlag.ACK_NOW
        assert (tcp.spans_used, tcp.rcv_nxt) == (1, 5011)

    def test_without_permission_nothing_is_told(self):
        BENCH.open()
        BENCH.feed(seq=5005, payload=b"world")
        (ack,) = BENCH.sent()
        assert ack.options == b""

    def test_a_segment_may_join_several_islands(self):
        tcp = BENCH.open()
        for start in (5010, 5020, 5030):
            BENCH.feed(seq=start, payload=b"0123")
        BENCH.feed(seq=5008, payload=b"ab0123cdefgh0123ijklmnop")
        assert [(tcp.spans[n].start, tcp.spans[n].end) for n in range(tcp.spans_used)] == [
            (5008, 5034)
        ]

    def test_forty_holes_then_the_expected_byte(self):
        tcp = BENCH.open()
        for n in range(40):
            BENCH.feed(seq=5001 + 2 * n, payload=bytes((n,)))
            BENCH.sent()
        assert tcp.spans_used == 4
        BENCH.feed(payload=b"\xff")
        assert BENCH.received() == b"\xff\x00"
        assert (tcp.rcv_nxt, tcp.spans_used) == (5002, 3)

    def test_a_fin_beyond_a_hole_counts_when_the_hole_is_filled(self):
        tcp = BENCH.open()
        BENCH.feed(ACK | FIN, seq=5003, payload=b"end")
        assert tcp.state == ESTABLISHED
        BENCH.feed(payload=b"the")
        assert BENCH.received() == b"theend"
        assert (tcp.state, tcp.rcv_nxt) == (TcpState.CLOSE_WAIT, 5007)

    def test_a_fin_beyond_two_holes_waits_for_both(self):
        tcp = BENCH.open()
        BENCH.feed(ACK | FIN, seq=5002, payload=b"c")
        BENCH.feed(payload=b"a")
        assert (tcp.state, tcp.rcv_nxt) == (ESTABLISHED, 5001)
        BENCH.feed(payload=b"b")
        assert (tcp.state, tcp.rcv_nxt) == (TcpState.CLOSE_WAIT, 5004)

    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],  # it only resets
    )
    @given(
        st.integers(0, 2**32 - 1),
        st.lists(st.tuples(st.integers(0, 70), st.integers(1, 40)), min_size=1, max_size=12),
    )
    def test_any_order_gives_the_same_bytes(self, irs, parts):
        BENCH.reset()
        stream = bytes(range(128))
        BENCH.open(rcv_nxt=irs, rcv_adv=(irs + RING_BYTES) % 2**32, snd_wl1=irs)
        for start, length in parts:
            BENCH.feed(seq=irs + start, payload=stream[start : start + length])
            assert BENCH.received() == stream[: len(BENCH.received())]
            BENCH.sent()
        BENCH.feed(seq=irs, payload=stream)
        assert BENCH.received() == stream
        assert BENCH.tcp.spans_used == 0


class TestFin:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (TcpState.ESTABLISHED, TcpState.CLOSE_WAIT),
            (TcpState.FIN_WAIT_1, TcpState.CLOSING),
            (TcpState.FIN_WAIT_2, TcpState.TIME_WAIT),
        ],
    )
    @pytest.mark.parametrize("payload", [b"", b"last"])
    def test_a_fin_in_order_ends_the_peers_direction(self, before, after, payload):
        tcp = BENCH.open(before, flags=TcpFlag.FIN_QUEUED, snd_wnd_max=60_000)
        BENCH.feed(ACK | FIN, payload=payload)
        assert tcp.state == after
        assert tcp.rcv_nxt == 5001 + len(payload)
        assert tcp.rcv_adv == 5001 + RING_BYTES
        assert tcp.flags & TcpFlag.ACK_NOW
        assert BENCH.received() == payload
        assert tcp.wait_at == (ms(10_000) if after == TcpState.TIME_WAIT else NEVER)

    def test_a_repeated_fin_is_acknowledged(self):
        BENCH.open(TcpState.CLOSE_WAIT, rcv_nxt=5001, rcv_adv=5001 + RING_BYTES)
        BENCH.feed(ACK | FIN, seq=5000)
        assert segments() == [(ACK, 1000, 5001)]

    def test_a_fin_on_a_closed_window_counts(self):
        tcp = BENCH.open(rcv_adv=5000, ring_ready=RING_BYTES)
        BENCH.feed(ACK | FIN)
        assert (tcp.state, tcp.rcv_nxt, tcp.rcv_adv) == (TcpState.CLOSE_WAIT, 5001, 5001)
