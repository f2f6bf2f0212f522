"""The lease: seed A's rule, unsigned deadlines, silence from the very tick."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.config import CONFIG
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import Hold, ShardContext, ShardState
from firmware.node.lease import expire_lease, lease_begin, lease_grant, lease_tick
from tests.support.lab import Lab
from tests.support.states import MS, NOW, QWORD

LAB = Lab(lease_tick, expire_lease, lease_grant, lease_begin, slots=3)


def prepare(*, active=(1, 0, 1)):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    LAB.g(PERMITS).max_concurrency = 1
    core = LAB.g(CORE)
    core.slots_used = len(active)
    shards = []
    for n, flag in enumerate(active):
        shard = LAB.shard(n)
        LAB.view(ShardContext, shard).state = ShardState.READY
        core.slots[n].context, core.slots[n].flags = shard, flag
        shards.append(LAB.view(ShardContext, shard))
    return shards


@settings(max_examples=100, deadline=None)
@given(expired=st.sampled_from([0, 1, 2]), deadline=QWORD, now=QWORD, close=st.integers(-1, 1))
def test_lease_tick_any_time_matches_model(expired, deadline, now, close):
    prepare(active=())
    lease = LAB.g(LEASE)
    lease.expired, lease.deadline = expired, deadline
    for tsc in (now, (deadline + close) % 2**64):
        lease.expired = expired
        LAB.call(lease_tick, Environment(tsc=[tsc, tsc]))
        due = expired != 1 and deadline != 0 and tsc >= deadline
        assert lease.expired == (1 if due else expired)


@pytest.mark.parametrize(("late", "stopped"), [(-1, False), (0, True), (1, True)])
def test_lease_tick_stops_active_shards_when_due(late, stopped):
    shards = prepare()
    LAB.g(LEASE).deadline = NOW
    LAB.call(lease_tick, Environment(tsc=lambda: NOW + late))
    states = [s.state for s in shards]
    held = ShardState.ASSIGNED if stopped else ShardState.READY
    assert states == [held, ShardState.READY, held]
    if stopped:
        assert shards[0].hold == Hold.LEASE_EXPIRED


def test_expire_lease_leaves_fatal_shards_fatal():
    shards = prepare()
    shards[2].state = ShardState.FATAL
    LAB.call(expire_lease, Environment(tsc=lambda: NOW))
    assert shards[0].state == ShardState.ASSIGNED
    assert shards[2].state == ShardState.FATAL


@settings(max_examples=30, deadline=None)
@given(deadline=QWORD, generation=QWORD, expired=st.sampled_from([0, 1]))
def test_lease_grant_any_deadline_matches_model(deadline, generation, expired):
    prepare(active=())
    lease = LAB.g(LEASE)
    lease.generation, lease.expired = generation, expired
    LAB.call(lease_grant, deadline=deadline)
    assert lease.generation == (generation + 1) % 2**64
    assert (lease.deadline, lease.expired) == (deadline, 0)


def test_lease_grant_makes_every_slot_due():
    prepare()
    core = LAB.g(CORE)
    for n in range(3):
        core.slots[n].deadline = NOW + n
    LAB.call(lease_grant, deadline=NOW + 1)
    assert [core.slots[n].deadline for n in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("cycles", [0, MS])
@pytest.mark.parametrize("lease_ms", [0, 60_000])
@pytest.mark.parametrize(("generation", "expired"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_lease_begin_grants_once_unless_the_operator_was_first(
    cycles, lease_ms, generation, expired
):
    """Ended before it was granted, it stays ended."""
    prepare(active=())
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CONFIG).lease_ms = cycles, lease_ms
    lease = LAB.g(LEASE)
    lease.generation, lease.deadline, lease.expired = generation, 5, expired
    LAB.call(lease_begin)
    if cycles and lease_ms and not generation and not expired:
        assert (lease.generation, lease.deadline, lease.expired) == (1, NOW + 60_000 * MS, 0)
    else:
        assert (lease.generation, lease.deadline, lease.expired) == (generation, 5, expired)
