"""Several nodes of one bot on one wire."""

from __future__ import annotations

import pytest

from emulator.simulation.fleet import Fleet
from emulator.simulation.invariants import InvariantError
from pxe.gateway import LoadOptions


def test_three_nodes_share_a_bot_and_each_gets_its_own_dispatches():
    fleet = Fleet(1, nodes=3, shards=4, faults="drop p=0.01")
    fleet.until_ready()
    assert [row.shard_id for row in fleet.rows()] == list(range(12))
    assert len({station.node.address() for station in fleet.stations}) == 3
    fleet.gateway.core.set_load(LoadOptions(rate=20))
    fleet.gateway.flush()
    fleet.run(30)
    fleet.gateway.core.set_load(None)
    fleet.run(10)
    assert fleet.all_ready()
    for row, stats in zip(fleet.rows(), fleet.stats.shards, strict=True):
        assert (row.sequence, row.dispatches) == (stats.sequence, stats.published)
    assert fleet.stats.identify_gate_refusals == 0


def test_a_node_without_power_takes_only_its_own_shards_with_it():
    fleet = Fleet(2, nodes=2, shards=4)
    fleet.until_ready()
    fleet.stations[0].power_off()
    before = [row.identifies for row in fleet.stations[1].rows]
    fleet.run(60)
    assert [stats.connected for stats in fleet.stats.shards][4:] == [True] * 4
    assert [row.identifies for row in fleet.stations[1].rows] == before
    assert not fleet.all_ready()
    fleet.stations[0].power_on()
    fleet.until_ready()
    assert fleet.stations[0].boots == 2
    fleet.stations[0].power_on()
    assert fleet.stations[0].boots == 2


def test_a_fault_for_one_node_leaves_the_other_alone():
    fleet = Fleet(3, nodes=2, shards=2, faults="at 10s link-down node1; at 100s link-up node1")
    fleet.run(95)
    assert fleet.stations[0].ready()
    assert [row.reconnects for row in fleet.stations[0].rows] == [0, 0]
    assert not fleet.stations[1].ready()
    fleet.run(10)
    fleet.until_ready(120)


def test_every_node_is_checked():
    fleet = Fleet(4, nodes=2, shards=2)
    fleet.until_ready()
    fleet.stations[1].node.shard(0).tx_base = 4096
    with pytest.raises(InvariantError, match="slot 0, rule 'identity': tx_base went from"):
        fleet.run(60)


def test_a_run_replays_exactly():
    digests = set()
    for _ in range(2):
        fleet = Fleet(5, nodes=2, shards=2, faults="drop p=0.05")
        fleet.run(20)
        digests.add(fleet.world.digest())
    assert len(digests) == 1
