"""Opening and closing from our side, the SYN's timers, ports and initial numbers."""

import pytest

from emulator.simulation.packet import ACK, RST, SYN, TcpOptions
from firmware.layouts.clock import NEVER
from firmware.layouts.crypto import DRBG
from firmware.layouts.net import FIRST_PORT
from firmware.layouts.node import CLOCK, CORE, NETWORK
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    TCP_ISN,
    TCP_PORTS,
    TCP_TIMED_OUT,
    TcpContext,
    TcpFlag,
    TcpState,
)
from firmware.limits import RING_BYTES, SHARDS_MAX
from firmware.tcp.connect import tcp_abort, tcp_close, tcp_connect, tcp_isn, tcp_port
from firmware.tcp.timers import tcp_tick
from tests.support.segments import NOW, PEER_IP, PEER_PORT, Bench, loaded, ms

BENCH = Bench(tcp_connect, tcp_close, tcp_abort, tcp_tick)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def connect(shard=None):
    shard = BENCH.shard if shard is None else shard
    tcp = BENCH.lab.view(ShardContext, shard).tcp
    tcp.remote_ip, tcp.remote_port = loaded(PEER_IP), PEER_PORT
    return BENCH.call(tcp_connect, shard=shard)["cf"]


class TestConnect:
    def test_the_syn_offers_mss_first_then_scale_and_sack(self):
        assert connect() == 0
        (syn,) = BENCH.sent()
        tcp = BENCH.tcp
        assert (syn.flags, syn.seq, syn.ack, syn.window) == (SYN, tcp.iss, 0, RING_BYTES)
        assert (syn.src_port, syn.dst_port) == (tcp.local_port, PEER_PORT)
        assert syn.options[0] == 2
        options = TcpOptions.decode(syn.options)
        assert (options.mss, options.scale, options.sack_ok) == (1460, 0, True)
        assert options.timestamps is None
        assert tcp.state == TcpState.SYN_SENT
        assert (tcp.snd_una, tcp.snd_nxt) == (tcp.iss, tcp.iss)
        assert tcp.snd_max == (tcp.iss + 1) % 2**32
        assert (tcp.rtx_at, tcp.give_up_at) == (ms(1000), ms(30_000))

    def test_what_the_context_held_before_is_forgotten(self):
        BENCH.lab.machine.write(BENCH.tcp.address_, b"\xa5" * TcpContext.SIZE)
        connect()
        tcp = BENCH.tcp
        assert (tcp.error, tcp.spans_used, tcp.ring_ready, tcp.tx_end) == (0, 0, 0, 0)
        assert bytes(tcp.spans) == bytes(32)

    def test_syns_at_one_three_and_seven_seconds_with_one_number(self):
        connect()
        times = []
        now = 0
        while BENCH.tcp.state == TcpState.SYN_SENT:
            deadline = BENCH.call(tcp_tick)["rax"]
            times += [(now, s.seq) for s in BENCH.sent()]
            now = (deadline - NOW) // 1000
            BENCH.lab.g(CORE).now = deadline
            if deadline == NEVER:
                break
        assert times == [(t * 1000, BENCH.tcp.iss) for t in (0, 1, 3, 7, 15)]
        assert BENCH.tcp.error == TCP_TIMED_OUT.code

    @pytest.mark.parametrize(("cycles", "seeded"), [(0, 1), (1000, 0)])
    def test_without_clock_or_randomness_it_refuses(self, cycles, seeded):
        BENCH.lab.g(CLOCK).tsc_cycles_per_ms = cycles
        BENCH.lab.g(DRBG).seeded = seeded
        assert connect() == 1
        assert BENCH.tcp.state == TcpState.CLOSED
        assert BENCH.sent() == []

    def test_without_a_frame_the_syn_follows_soon(self):
        BENCH.block()
        assert connect() == 0
        tcp = BENCH.tcp
        assert tcp.flags == TcpFlag.SYN_DUE | TcpFlag.BLOCKED
        assert (tcp.rtx_at, tcp.give_up_at, tcp.rtt_at) == (NEVER, ms(30_000), 0)
        BENCH.block(blocked=False)
        BENCH.at(5)
        BENCH.call(tcp_tick)
        assert [s.flags for s in BENCH.sent()] == [SYN]
        assert (tcp.rtx_at, tcp.give_up_at, tcp.rtt_at) == (ms(1005), ms(30_000), ms(5))

    def test_after_the_lease_no_syn_leaves(self):
        BENCH.expire()
        connect()
        assert BENCH.sent() == []


class TestPort:
    def test_ports_are_dynamic_and_known_to_the_node(self):
        BENCH.call(tcp_port)
        port, ports = BENCH.tcp.local_port, BENCH.lab.g(TCP_PORTS)
        assert port >= FIRST_PORT
        assert ports.owner[port - FIRST_PORT] == 0
        assert ports.contexts[0:8] == BENCH.shard.to_bytes(8, "little")

    def test_the_last_slot_of_the_table_owns_a_port_like_any_other(self):
        BENCH.lab.view(ShardContext, BENCH.shard).slot = SHARDS_MAX - 1
        BENCH.call(tcp_port)
        port, ports = BENCH.tcp.local_port, BENCH.lab.g(TCP_PORTS)
        assert ports.owner[port - FIRST_PORT] == SHARDS_MAX - 1
        assert ports.contexts[8 * SHARDS_MAX - 8 :] == BENCH.shard.to_bytes(8, "little")

    def drawn(self, at):
        """Let the next random number choose the port at an offset."""
        drbg = BENCH.lab.g(DRBG)
        drbg.available = 8
        drbg.pool[248:256] = at.to_bytes(8, "little")

    def test_a_port_of_another_shard_is_passed_over(self):
        self.drawn(0x3FFF)
        BENCH.call(tcp_port, shard=BENCH.shards[1])
        self.drawn(0x1_3FFF)
        BENCH.call(tcp_port)
        first, second = (BENCH.lab.view(ShardContext, s).tcp.local_port for s in BENCH.shards)
        assert (second, first) == (65_535, FIRST_PORT)

    def test_a_port_that_another_shard_left_is_free(self):
        self.drawn(7)
        BENCH.call(tcp_port, shard=BENCH.shards[1])
        BENCH.lab.view(ShardContext, BENCH.shards[1]).tcp.local_port = 0
        self.drawn(7)
        BENCH.call(tcp_port)
        assert BENCH.tcp.local_port == FIRST_PORT + 7

    def test_our_own_old_port_is_free(self):
        for _ in range(2):
            self.drawn(7)
            BENCH.call(tcp_port)
        assert BENCH.tcp.local_port == FIRST_PORT + 7


class TestIsn:
    def number(self, **fields):
        tcp = BENCH.open(**fields)
        tcp.iss = BENCH.call(tcp_isn)["eax"]
        return tcp.iss

    def test_the_key_is_drawn_once(self):
        self.number()
        key = bytes(BENCH.lab.g(TCP_ISN).key)
        self.number()
        assert bytes(BENCH.lab.g(TCP_ISN).key) == key
        assert key != bytes(32)

    def test_the_same_addresses_count_up_with_the_clock(self):
        first = self.number()
        BENCH.at(1000)
        assert (self.number() - first) % 2**32 == 1000 * 1000 >> 1

    @pytest.mark.parametrize("field", ["remote_ip", "remote_port", "local_port"])
    def test_every_address_and_port_counts(self, field):
        assert self.number() != self.number(**{field: 1})

    def test_our_address_counts(self):
        first = self.number()
        BENCH.lab.g(NETWORK).ip = 1
        assert self.number() != first


class TestClose:
    @pytest.mark.parametrize(
        ("before", "after", "queued"),
        [
            (TcpState.ESTABLISHED, TcpState.FIN_WAIT_1, True),
            (TcpState.CLOSE_WAIT, TcpState.LAST_ACK, True),
            (TcpState.SYN_SENT, TcpState.CLOSED, False),
            *((s, s, False) for s in TcpState if s not in (1, 2, 5)),
        ],
    )
    def test_close_queues_a_fin(self, before, after, queued):
        tcp = BENCH.open(before)
        BENCH.call(tcp_close)
        assert tcp.state == after
        assert bool(tcp.flags & TcpFlag.FIN_QUEUED) == queued
        assert BENCH.sent() == []


class TestAbort:
    @pytest.mark.parametrize("state", TcpState)
    def test_abort_resets_who_knows_us(self, state):
        tcp = BENCH.open(state, snd_max=1007)
        BENCH.call(tcp_abort)
        silent = (TcpState.CLOSED, TcpState.SYN_SENT, TcpState.TIME_WAIT, TcpState.FAILED)
        wanted = [] if state in silent else [(RST | ACK, 1007, 5000)]
        assert [(s.flags, s.seq, s.ack) for s in BENCH.sent()] == wanted
        assert tcp.state == TcpState.CLOSED

    def test_after_the_lease_no_reset_leaves(self):
        tcp = BENCH.open()
        BENCH.expire()
        BENCH.call(tcp_abort)
        assert BENCH.sent() == []
        assert tcp.state == TcpState.CLOSED
