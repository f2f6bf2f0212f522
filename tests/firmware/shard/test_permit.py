"""The Identify gate: one owner per key, five seconds apart."""

import pytest

from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, Phase, ShardContext
from firmware.shard.permit import permit_refuse, permit_release, permit_take
from tests.support.lab import Lab

LAB = Lab(permit_take, permit_release, permit_refuse, slots=3)
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


@pytest.mark.parametrize("profile", ProfileId)
@pytest.mark.parametrize(("later", "refused"), [(-1, 1), (0, 0), (1, 0)])
def test_permit_release_keeps_the_key_busy_as_the_profile_says(shards, profile, later, refused):
    later += {ProfileId.DISCORD: 5_000, ProfileId.FLUXER: 1_000}[profile]
    LAB.view(ShardContext, shards[0]).profile = profile
    assert take(shards[0]) == 0
    LAB.call(permit_release, shard=shards[0])
    LAB.g(CORE).now = (7000 + later) * MS
    assert take(shards[2]) == refused


def test_permit_release_frees_the_key_of_the_shard_alone(shards):
    """Key 1 of 3: the first key stays as it is."""
    LAB.g(PERMITS).max_concurrency = 3
    for shard in shards[:2]:
        assert take(shard) == 0  # 40 and 41 have keys 1 and 2
    LAB.call(permit_release, shard=shards[1])
    keys = LAB.g(PERMITS).keys
    assert [keys[n].owner for n in range(3)] == [0, 1, 0]
    assert [keys[n].busy_until for n in range(3)] == [0, 0, 12_000 * MS]


@pytest.mark.parametrize("before", [11_999, 12_000, 12_001])
@pytest.mark.parametrize("phase", [Phase.IDENT, Phase.REPLAY, Phase.NONE])
@pytest.mark.parametrize("end", [End.INVALID_SESSION, End.CLOSED])
def test_permit_refuse_keeps_the_key_of_a_refused_identify_busy(shards, end, phase, before):
    context, key = LAB.view(ShardContext, shards[0]), LAB.g(PERMITS).keys[0]
    context.failure, context.phase, key.busy_until = end, phase, before * MS
    LAB.call(permit_refuse, shard=shards[0])
    refused = (end, phase) == (End.INVALID_SESSION, Phase.IDENT)
    assert key.busy_until == (max(before, 12_000) if refused else before) * MS


@pytest.mark.parametrize("number", [39, 40, 41])
def test_permit_refuse_keeps_the_key_of_the_shard_alone(shards, number):
    LAB.g(PERMITS).max_concurrency = 3
    context, keys = LAB.view(ShardContext, shards[0]), LAB.g(PERMITS).keys
    context.shard_id, context.failure, context.phase = number, End.INVALID_SESSION, Phase.IDENT
    LAB.call(permit_refuse, shard=shards[0])
    busy = [0, 0, 0]
    busy[number % 3] = 12_000 * MS
    assert [keys[n].busy_until for n in range(3)] == busy


@pytest.mark.parametrize("before", [2**63 - 1, 2**63, 2**63 + 1])
def test_permit_refuse_compares_times_without_a_sign(shards, before):
    context, key = LAB.view(ShardContext, shards[0]), LAB.g(PERMITS).keys[0]
    context.failure, context.phase = End.INVALID_SESSION, Phase.IDENT
    LAB.g(CORE).now, key.busy_until = 2**63 - 5_000 * MS, before
    LAB.call(permit_refuse, shard=shards[0])
    assert key.busy_until == max(before, 2**63)


@pytest.mark.parametrize("late", [-1, 0, 1])
@pytest.mark.parametrize("at", [2**31, 2**63, 2**64 - 2])
def test_permit_take_compares_times_without_a_sign(shards, late, at):
    key = LAB.g(PERMITS).keys[0]
    key.busy_until, LAB.g(CORE).now = at, at + late
    assert take(shards[0]) == (late < 0)


def test_permit_release_by_a_stranger_changes_nothing(shards):
    assert take(shards[0]) == 0
    LAB.call(permit_release, shard=shards[2])
    assert LAB.g(PERMITS).keys[0].owner == 1


def wait_since(shard, milliseconds):
    LAB.view(ShardContext, shard).permit_since = milliseconds * MS


@pytest.fixture
def rivals(shards):
    """Three shards of one key."""
    LAB.g(PERMITS).max_concurrency = 1
    for n, shard in enumerate(shards):
        wait_since(shard, 7000 + n)
    return shards


@pytest.mark.parametrize("owner", [0, 3])
@pytest.mark.parametrize("earlier", [-1, 0, 1])
@pytest.mark.parametrize("since", [7000 * MS, 2**63])
def test_permit_take_who_came_at_the_same_time_does_not_go_first(shards, owner, earlier, since):
    """Shard 42 waits for key 0; shard 40 asks: free for it, or only its place in the order."""
    key = LAB.g(PERMITS).keys[0]
    key.owner, key.waiter, key.waiting_since = owner, 3, since
    LAB.view(ShardContext, shards[0]).permit_since = since - earlier
    first = earlier > 0
    assert take(shards[0]) == (0 if first and not owner else 1)
    if owner:
        assert key.waiter == (1 if first else 3)


def test_permit_take_a_shard_that_fails_again_and_again_is_not_first_again(rivals):
    """It comes back at the very instant at which the key is free; the others look a little later."""
    assert [take(shard) for shard in rivals] == [0, 1, 1]
    owner, waiting, order = 0, [2, 1], []
    for _ in range(3):
        LAB.call(permit_release, shard=rivals[owner])
        LAB.g(CORE).now += 5000 * MS
        if owner == 0:
            wait_since(rivals[0], LAB.g(CORE).now // MS)
            waiting.insert(0, 0)
        owner = next(n for n in waiting if take(rivals[n]) == 0)
        waiting.remove(owner)
        order.append(owner)
        assert all(take(rivals[n]) for n in waiting), "they look again every 100 ms"
    assert order == [1, 2, 0]


def test_permit_take_the_longest_waiter_is_found_whoever_asks_first(rivals):
    assert take(rivals[0]) == 0
    assert take(rivals[2]) == 1
    assert LAB.g(PERMITS).keys[0].waiter == 3
    assert take(rivals[1]) == 1
    assert LAB.g(PERMITS).keys[0].waiter == 2
    assert take(rivals[2]) == 1
    assert LAB.g(PERMITS).keys[0].waiter == 2
    LAB.call(permit_release, shard=rivals[0])
    LAB.g(CORE).now = 12_000 * MS
    assert [take(rivals[2]), take(rivals[1])] == [1, 0]
    assert LAB.g(PERMITS).keys[0].waiter == 0


def test_permit_take_who_waits_longer_than_the_known_waiter_takes_it(rivals):
    keys = LAB.g(PERMITS).keys
    keys[0].waiter, keys[0].waiting_since = 3, 7002 * MS
    assert take(rivals[1]) == 0


def test_permit_release_of_a_waiter_makes_room_for_the_next(rivals):
    """A shard that is held or fails while it waits must not keep the key closed."""
    assert [take(shard) for shard in rivals] == [0, 1, 1]
    LAB.call(permit_release, shard=rivals[1])
    assert LAB.g(PERMITS).keys[0].waiter == 0
    assert LAB.g(PERMITS).keys[0].owner == 1
    assert take(rivals[2]) == 1
    LAB.call(permit_release, shard=rivals[0])
    LAB.g(CORE).now = 12_000 * MS
    assert take(rivals[2]) == 0
