"""The Identify gate: one owner per key, five seconds apart."""

import pytest

from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import ShardContext
from firmware.shard.permit import permit_release, permit_take
from tests.support.lab import Lab

LAB = Lab(permit_take, permit_release, slots=3)
MS = 1_000_000


@pytest.fixture
def shards():
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms = MS
    LAB.g(PERMITS).max_concurrency = 2
    LAB.g(CORE).now = 7000 * MS
    found = []
    for slot in range(3):
        address = LAB.shard(slot)
        LAB.view(ShardContext, address).shard_id = 40 + slot
        found.append(address)
    return found


def take(shard):
    return LAB.call(permit_take, shard=shard).outputs["cf"]


def test_permit_take_free_key_is_granted_and_kept(shards):
    assert take(shards[0]) == 0
    assert LAB.g(PERMITS).keys[0].owner == 1
    assert take(shards[0]) == 0


def test_permit_take_key_of_another_is_refused(shards):
    assert take(shards[0]) == 0
    assert take(shards[2]) == 1  # 40 and 42 share key 0
    assert take(shards[1]) == 0  # 41 has key 1


@pytest.mark.parametrize(("later", "refused"), [(4999, 1), (5000, 0), (5001, 0)])
def test_permit_release_keeps_the_key_busy_for_five_seconds(shards, later, refused):
    assert take(shards[0]) == 0
    LAB.call(permit_release, shard=shards[0])
    LAB.g(CORE).now = (7000 + later) * MS
    assert take(shards[2]) == refused


def test_permit_release_by_a_stranger_changes_nothing(shards):
    assert take(shards[0]) == 0
    LAB.call(permit_release, shard=shards[2])
    assert LAB.g(PERMITS).keys[0].owner == 1
