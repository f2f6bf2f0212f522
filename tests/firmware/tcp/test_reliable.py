"""The reliable queue: contiguous space, compaction, refusal."""

import pytest

from firmware.layouts.shard import ShardContext
from firmware.limits import TX_BYTES
from firmware.tcp.reliable import tcp_commit, tcp_reserve
from tests.support.segments import Bench

BENCH = Bench(tcp_commit, tcp_reserve)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


@pytest.mark.parametrize(
    ("start", "end", "length", "at"),
    [
        (0, 0, 0, 0),
        (0, 0, TX_BYTES, 0),
        (100, 200, TX_BYTES - 200, 200),
        (100, 200, TX_BYTES - 199, 100),
        (100, 200, TX_BYTES - 100, 100),
        (100, 200, TX_BYTES - 99, None),
        (100, 100, TX_BYTES, 0),
        (0, TX_BYTES, 1, None),
        (0, TX_BYTES, 0, TX_BYTES),
        (0, 0, TX_BYTES + 1, None),
        (0, 0, 2**32 - 1, None),
        (8000, 8100, 2**32 - 50, None),
    ],
)
def test_reserve_gives_one_run_or_refuses(start, end, length, at):
    data = bytes(n % 251 for n in range(end - start))
    BENCH.queue(data, at=start)
    base = BENCH.lab.view(ShardContext, BENCH.shard).tx_base
    got = BENCH.call(tcp_reserve, length=length)
    tcp = BENCH.tcp
    assert got == {"rdi": 0 if at is None else base + at, "cf": at is None}
    assert tcp.tx_end - tcp.tx_start == len(data)
    if data:
        assert BENCH.lab.machine.read(base + tcp.tx_start, len(data)) == data


def test_commit_appends():
    BENCH.queue(b"abc", at=5)
    BENCH.call(tcp_commit, length=4)
    assert (BENCH.tcp.tx_start, BENCH.tcp.tx_end) == (5, 12)
