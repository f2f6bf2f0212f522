"""`tcp_input` by state: RFC 9293 3.10.7 and RFC 5961, each step in lockstep with its model."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.simulation.packet import ACK, FIN, PSH, RST, SYN, Tcp, TcpOptions
from firmware.layouts.node import CORE
from firmware.layouts.tcp import (
    NEVER,
    TCP_PORTS,
    TCP_REFUSED,
    TCP_RESET,
    TcpFlag,
    TcpState,
)
from firmware.limits import RING_BYTES
from tests.support.segments import (
    CYCLES_PER_MS,
    NOW,
    OUR_IP,
    OUR_PORT,
    PEER_IP,
    PEER_PORT,
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


def opening(**fields):
    """Stand in SYN_SENT with number 999."""
    given = {"snd_una": 999, "snd_nxt": 999, "snd_max": 1000, "rtt_at": NOW, "rtt_seq": 1000}
    return BENCH.open(TcpState.SYN_SENT, **(given | fields))


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
            {"source": bytes((10, 0, 0, 1)), "ports": (1, OUR_PORT)},
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

    def test_after_the_lease_strangers_get_no_answer(self):
        BENCH.expire()
        BENCH.feed(ports=(PEER_PORT, 80))
        assert BENCH.sent() == []


class TestSynSent:
    def test_the_answer_opens_the_connection(self):
        tcp = opening()
        BENCH.at(30)
        BENCH.feed(SYN | ACK, seq=0xFFFF_FFFF, window=1000)
        assert tcp.state == ESTABLISHED
        assert (tcp.rcv_nxt, tcp.rcv_adv) == (0, RING_BYTES)
        assert (tcp.snd_una, tcp.snd_nxt, tcp.snd_wnd) == (1000, 1000, 1000)
        assert (tcp.snd_mss, tcp.cwnd) == (536, 5360)
        assert tcp.flags == TcpFlag.ACK_NOW
        assert tcp.srtt == 30 * CYCLES_PER_MS
        assert tcp.rto == 200 * CYCLES_PER_MS
        assert tcp.keep_at == ms(30 + 60_000)
        assert tcp.rtx_at == tcp.give_up_at == NEVER

    def test_after_a_repeated_syn_the_timeout_is_three_seconds(self):
        tcp = opening(rtt_at=0, backoff=1)
        BENCH.feed(SYN | ACK)
        assert (tcp.rto, tcp.backoff) == (3000 * CYCLES_PER_MS, 0)

    @pytest.mark.parametrize(
        ("mss", "taken"), [(1460, 1208), (1208, 1208), (600, 600), (64, 64), (1, 64), (0, 536)]
    )
    def test_our_segments_never_exceed_1208(self, mss, taken):
        tcp = opening()
        BENCH.feed(SYN | ACK, options=TcpOptions(mss=mss).encode())
        assert tcp.snd_mss == taken

    @pytest.mark.parametrize(("scale", "taken"), [(None, 0), (0, 0), (7, 7), (14, 14), (15, 14)])
    def test_the_scale_counts_from_the_next_segment_on(self, scale, taken):
        tcp = opening()
        options = b"" if scale is None else bytes((3, 3, scale, 1))
        BENCH.feed(SYN | ACK, options=options, window=100)
        assert (tcp.snd_scale, tcp.snd_wnd) == (taken, 100)
        BENCH.feed(ACK, window=100)
        assert tcp.snd_wnd == 100 << taken

    def test_selective_acknowledgements_need_permission(self):
        tcp = opening()
        BENCH.feed(SYN | ACK, options=TcpOptions(sack_ok=True).encode())
        assert tcp.flags == TcpFlag.ACK_NOW | TcpFlag.SACK_OK

    @pytest.mark.parametrize("ack", [999, 1001, 0, 2**31])
    @pytest.mark.parametrize("control", [ACK, SYN | ACK])
    def test_a_wrong_ack_is_reset_and_the_attempt_goes_on(self, control, ack):
        tcp = opening()
        BENCH.feed(control, ack=ack)
        assert segments() == [(RST, ack, 0)]
        assert tcp.state == TcpState.SYN_SENT

    def test_a_wrong_ack_with_reset_is_dropped(self):
        tcp = opening()
        BENCH.feed(RST | ACK, ack=1001)
        assert BENCH.sent() == []
        assert tcp.state == TcpState.SYN_SENT

    def test_a_reset_with_the_right_ack_refuses(self):
        tcp = opening()
        BENCH.feed(RST | ACK, seq=0)
        assert (tcp.state, tcp.error) == (TcpState.FAILED, TCP_REFUSED.code)
        assert BENCH.sent() == []

    @pytest.mark.parametrize("control", [0, RST, SYN, FIN, ACK, ACK | FIN])
    def test_anything_else_changes_nothing(self, control):
        tcp = opening()
        BENCH.feed(control)
        assert tcp.state == TcpState.SYN_SENT
        assert BENCH.sent() == []


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
