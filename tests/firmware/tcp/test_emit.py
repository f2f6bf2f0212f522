"""Who may send: the node's lease, a shard's own hard stop, and connections that need neither."""

import pytest

from emulator.environment import Environment
from emulator.simulation.packet import ip
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.node import LEASE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TCP_OUT
from firmware.tcp.emit import tcp_emit
from tests.support.segments import NOW, Bench, loaded

BENCH = Bench(tcp_emit)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.lab.g(TCP_OUT).offset = 5 << 4


def leaves(*, shard=None, tsc=()):
    """Send one segment; tell whether a frame was queued for the card."""
    text = BENCH.lab.put(b"data")
    given = {"destination": loaded(ip("10.0.0.1")), "payload": text, "length": 4}
    whose = BENCH.shard if shard is None else shard
    out = BENCH.lab.call(tcp_emit, Environment(tsc=list(tsc)), shard=whose, **given).outputs
    assert out["cf"] == 0
    return len(BENCH.sent())


@pytest.mark.parametrize("expired", [0, 1])
@pytest.mark.parametrize("whose", ["a shard's", "nobody's", "the node's own"])
def test_the_lease_silences_all_but_the_nodes_own(expired, whose):
    BENCH.lab.g(LEASE).expired = expired
    context = BENCH.lab.view(ShardContext, BENCH.shard)
    context.unleased = int(whose == "the node's own")
    context.hard_stop = NOW if context.unleased else 0
    sent = leaves(shard=0 if whose == "nobody's" else None)
    assert sent == int(not expired or bool(context.unleased))


@pytest.mark.parametrize("expired", [0, 1])
@pytest.mark.parametrize(("late", "sent"), [(-1, 1), (0, 0), (1, 0)])
def test_from_the_hard_stop_on_nothing_leaves_for_a_shard(late, sent, expired):
    BENCH.lab.g(LEASE).expired = expired
    BENCH.lab.view(ShardContext, BENCH.shard).hard_stop = NOW
    assert leaves(tsc=[NOW + late]) == (sent and not expired)


@pytest.mark.parametrize("whose", ["a shard's", "nobody's", "the node's own"])
def test_in_a_fleet_a_shard_without_a_lease_is_silent(whose):
    BENCH.lab.g(FLEET_CONFIG).magic = FLEET_MAGIC
    BENCH.lab.view(ShardContext, BENCH.shard).unleased = int(whose == "the node's own")
    assert leaves(shard=0 if whose == "nobody's" else None) == int(whose != "a shard's")


def test_the_hard_stop_is_judged_by_the_clock_and_not_by_the_turn():
    """The turn may have begun before it."""
    BENCH.lab.view(ShardContext, BENCH.shard).hard_stop = NOW + 5
    assert leaves(tsc=[NOW + 5]) == 0
