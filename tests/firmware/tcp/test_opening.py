"""The answer to our SYN (RFC 9293 3.10.7.3)."""

import pytest

from emulator.simulation.packet import ACK, FIN, RST, SYN, TcpOptions
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import (
    TCP_REFUSED,
    TcpFlag,
    TcpState,
)
from firmware.limits import RING_BYTES
from tests.support.segments import (
    CYCLES_PER_MS,
    NOW,
    Bench,
    ms,
)

BENCH = Bench()


ESTABLISHED = TcpState.ESTABLISHED


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def opening(**fields):
    """Stand in SYN_SENT with number 999."""
    given = {"snd_una": 999, "snd_nxt": 999, "snd_max": 1000, "rtt_at": NOW, "rtt_seq": 1000}
    return BENCH.open(TcpState.SYN_SENT, **(given | fields))


def segments():
    return [(t.flags, t.seq, t.ack) for t in BENCH.sent()]


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
