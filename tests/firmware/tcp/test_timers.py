"""`tcp_tick`: deadlines, ACKs, keepalives, and when it gives up."""

import pytest

from emulator.simulation.packet import ACK, PSH, SYN, TcpOptions
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import (
    TCP_KEEPALIVE,
    TcpFlag,
    TcpState,
)
from firmware.limits import RING_BYTES
from firmware.tcp.timers import tcp_tick
from tests.support.segments import NOW, Bench, ms

BENCH = Bench(tcp_tick)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def tick():
    return BENCH.call(tcp_tick)["rax"]


def sent():
    return [(t.flags, t.seq, len(t.payload)) for t in BENCH.sent()]


class TestIdle:
    @pytest.mark.parametrize("state", [TcpState.CLOSED, TcpState.FAILED])
    def test_no_connection_wants_nothing(self, state):
        BENCH.open(state, rtx_at=1, keep_at=1, flags=TcpFlag.ACK_NOW | TcpFlag.SYN_DUE)
        assert tick() == NEVER
        assert BENCH.sent() == []

    @pytest.mark.parametrize("name", ["rtx_at", "give_up_at", "ack_at", "keep_at", "wait_at"])
    def test_the_earliest_timer_is_the_deadline(self, name):
        others = ("rtx_at", "give_up_at", "ack_at", "keep_at", "wait_at")
        times = {other: ms(50 + n) for n, other in enumerate(others)}
        BENCH.open(**(times | {name: ms(10)}))
        assert tick() == ms(10)
        assert BENCH.sent() == []


class TestAck:
    def test_a_delayed_ack_leaves_when_it_is_due(self):
        tcp = BENCH.open(ack_at=ms(40), ack_owed=1)
        assert tick() == ms(40)
        BENCH.at(40)
        assert tick() == NEVER
        assert sent() == [(ACK, 1000, 0)]
        assert (tcp.ack_owed, tcp.ack_at) == (0, NEVER)

    def test_data_carries_the_ack(self):
        BENCH.queue(b"data")
        BENCH.open(flags=TcpFlag.ACK_NOW)
        tick()
        assert sent() == [(ACK | PSH, 1000, 4)]

    @pytest.mark.parametrize(("wnd", "number"), [(60_000, 1001), (1, 1001), (0, 1000)])
    def test_its_number_lies_in_the_peers_window(self, wnd, number):
        BENCH.open(snd_max=1001, snd_wnd=wnd, flags=TcpFlag.ACK_NOW)
        tick()
        assert sent() == [(ACK, number, 0)]

    @pytest.mark.parametrize(
        ("ready", "advertised", "window"),
        [
            (0, RING_BYTES, RING_BYTES),
            (RING_BYTES, 0, 0),
            (RING_BYTES - 1459, 0, 0),
            (RING_BYTES - 1460, 0, 1460),
            (100, RING_BYTES - 1500, RING_BYTES - 1500),
        ],
    )
    def test_the_window_moves_by_whole_segments(self, ready, advertised, window):
        tcp = BENCH.open(ring_ready=ready, rcv_adv=5000 + advertised, flags=TcpFlag.ACK_NOW)
        tick()
        (ack,) = BENCH.sent()
        assert ack.window == window
        assert tcp.rcv_adv == 5000 + window

    def test_four_islands_fit(self):
        tcp = BENCH.open(flags=TcpFlag.SACK_OK | TcpFlag.ACK_NOW, spans_used=4)
        for n in range(4):
            tcp.spans[n].start, tcp.spans[n].end = 6000 + 10 * n, 6005 + 10 * n
        tick()
        (ack,) = BENCH.sent()
        blocks = TcpOptions.decode(ack.options).sack
        assert blocks == tuple((6000 + 10 * n, 6005 + 10 * n) for n in (3, 2, 1, 0))


class TestSyn:
    def test_a_lost_syn_goes_again_with_the_same_number(self):
        tcp = BENCH.open(
            TcpState.SYN_SENT, snd_una=999, snd_nxt=999, snd_max=1000, rtx_at=NOW, rtt_at=NOW
        )
        assert tick() == ms(2000)
        (syn,) = BENCH.sent()
        assert (syn.flags, syn.seq, syn.ack) == (SYN, 999, 0)
        assert (tcp.backoff, tcp.rtt_at, tcp.flags) == (1, 0, 0)

    def test_a_syn_without_a_frame_stays_due(self):
        tcp = BENCH.open(TcpState.SYN_SENT, flags=TcpFlag.SYN_DUE, give_up_at=ms(30_000))
        BENCH.block()
        assert tick() == ms(5)
        assert tcp.flags == TcpFlag.SYN_DUE | TcpFlag.BLOCKED

    def test_an_acknowledgement_that_cannot_leave_is_tried_again_and_not_spun_on(self):
        tcp = BENCH.open(ack_at=NOW, ack_owed=1, give_up_at=ms(30_000))
        BENCH.block()
        BENCH.at(7)
        assert tick() == ms(7 + 5)
        assert (tcp.ack_at, tcp.flags) == (NOW, TcpFlag.ACK_NOW | TcpFlag.BLOCKED)


class TestKeepalive:
    def test_a_silent_peer_is_asked_three_times(self):
        tcp = BENCH.open(keep_at=ms(60_000))
        for time, following in ((60_000, 70_000), (70_000, 80_000), (80_000, 90_000)):
            BENCH.at(time)
            assert tick() == ms(following)
        assert sent() == [(ACK, 999, 0)] * 3
        BENCH.at(90_000)
        assert tick() == NEVER
        assert (tcp.state, tcp.error) == (TcpState.FAILED, TCP_KEEPALIVE.code)


class TestTimeWait:
    def test_it_ends(self):
        tcp = BENCH.open(TcpState.TIME_WAIT, wait_at=ms(10_000))
        assert tick() == ms(10_000)
        BENCH.at(10_000)
        assert tick() == NEVER
        assert tcp.state == TcpState.CLOSED

    def test_a_repeated_fin_is_answered(self):
        BENCH.open(TcpState.TIME_WAIT, flags=TcpFlag.ACK_NOW, wait_at=ms(10_000))
        tick()
        assert sent() == [(ACK, 1000, 0)]
