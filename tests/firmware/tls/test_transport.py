"""The pass-through: TCP under the names that WebSocket will keep."""

import pytest

from emulator.simulation.packet import ACK, RST
from firmware.layouts.config import CONFIG
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpFlag, TcpState
from firmware.layouts.tls import TlsState
from firmware.tls.transport import (
    tls_abort,
    tls_close,
    tls_commit,
    tls_consume,
    tls_readable,
    tls_reserve,
    tls_start,
)
from tests.support.segments import Bench

BENCH = Bench(
    tls_abort, tls_close, tls_commit, tls_consume, tls_readable, tls_reserve, tls_start
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def test_start_binds_to_the_shards_tcp():
    tls = BENCH.lab.view(ShardContext, BENCH.shard).tls
    tls.error, tls.state = 7, TlsState.FAILED
    BENCH.call(tls_start)
    assert (tls.state, tls.error, tls.tcp_ptr) == (TlsState.PASS_THROUGH, 0, BENCH.tcp.address_)


def test_bytes_pass_both_ways():
    tcp = BENCH.open()
    BENCH.feed(payload=b"plain")
    got = BENCH.call(tls_readable)
    assert BENCH.lab.machine.read(got["rsi"], got["ecx"]) == b"plain"
    BENCH.call(tls_consume, length=5)
    assert tcp.ring_ready == 0
    got = BENCH.call(tls_reserve, length=3)
    assert got["cf"] == 0
    BENCH.call(tls_commit, length=3)
    assert tcp.tx_end == 3


def test_nothing_passes_before_the_handshake_of_a_node_that_wants_tls():
    tcp = BENCH.open()
    BENCH.lab.g(CONFIG).gateway_secure = 1
    BENCH.feed(payload=b"plain")
    BENCH.lab.view(ShardContext, BENCH.shard).tls.plain_left = 5
    assert BENCH.call(tls_readable)["ecx"] == 0
    assert BENCH.call(tls_reserve, length=3)["cf"] == 1
    BENCH.call(tls_commit, length=3)
    assert tcp.tx_end == 0


def test_close_and_abort_are_those_of_tcp():
    tcp = BENCH.open()
    BENCH.call(tls_close)
    assert (tcp.state, tcp.flags) == (TcpState.FIN_WAIT_1, TcpFlag.FIN_QUEUED)
    BENCH.call(tls_abort)
    assert tcp.state == TcpState.CLOSED
    assert [s.flags for s in BENCH.sent()] == [RST | ACK]
    assert BENCH.lab.view(ShardContext, BENCH.shard).tls.state == TlsState.IDLE
