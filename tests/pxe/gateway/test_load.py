"""The load generator: rate, order, shares, sizes, and the same again for the same seed."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from pxe.gateway import GatewayOptions, LoadOptions
from pxe.gateway.load import COUNTER_KEY, MIX, LoadEvent, LoadGenerator


def generator(seed: int = 1, shards: int = 4, **options: Any) -> LoadGenerator:
    load = LoadOptions(**({"rate": 1000.0} | options))
    return LoadGenerator(load, Random(seed), shards=shards, guilds=2, now_ms=0)


def test_rate_is_kept_over_ten_seconds():
    assert 9_700 < len(generator().due(10_000, [0])) < 10_300


def test_even_gaps_give_the_exact_count():
    assert len(generator(poisson=False, rate=500.0).due(2_000, [0])) == 1_000


def test_many_small_steps_give_the_same_as_one_large_one():
    whole = generator().due(1_000, [0, 1])
    parts: list[LoadEvent] = []
    steps = generator()
    for now in range(1_001):
        parts += steps.due(now, [0, 1])
    assert parts == whole


def test_deadline_is_the_next_dispatch():
    steps = generator(rate=10.0)
    deadline = steps.next_deadline()
    assert steps.due(deadline - 1, [0]) == []
    assert len(steps.due(deadline, [0])) == 1


def test_counter_of_each_shard_rises_by_one():
    counters: dict[int, list[int]] = {0: [], 2: [], 3: []}
    for event in generator().due(2_000, [0, 2, 3]):
        counters[event.shard].append(json.loads(event.body)[COUNTER_KEY])
    assert all(seen == list(range(1, len(seen) + 1)) for seen in counters.values())
    assert min(map(len, counters.values())) > 500


def test_without_a_session_what_was_due_is_lost():
    steps = generator()
    assert steps.due(5_000, []) == []
    assert len(steps.due(5_010, [0])) < 40
    assert steps.counter(0) > 0


def test_shares_follow_the_mix():
    events = generator().due(20_000, [0])
    seen = Counter(event.event for event in events)
    total = sum(weight for _, weight in MIX)
    for name, weight in MIX:
        share = weight / total
        assert abs(seen[name] / len(events) - share) < 0.02 + share * 0.05
    assert seen["GUILD_CREATE"] > 0


def test_sizes_have_a_long_tail():
    sizes = sorted(len(event.body.encode()) for event in generator().due(20_000, [0]))
    assert sizes[len(sizes) // 2] < 1_500
    assert sizes[-1] > 8_000


def test_size_factor_makes_guilds_larger():
    def largest(factor: float) -> int:
        load = generator(size_factor=factor, mix=(("GUILD_CREATE", 1.0),))
        return max(len(event.body) for event in load.due(50, [0]))

    assert largest(4.0) > 3 * largest(1.0)


def test_guild_ids_belong_to_the_shard():
    for event in generator(shards=16).due(500, [5, 11]):
        body = json.loads(event.body)
        guild = body.get("guild_id") or body["id"]
        assert (int(guild) >> 22) % 16 == event.shard


def test_same_seed_gives_the_same_stream_and_another_another():
    assert generator(7).due(500, [0, 1]) == generator(7).due(500, [0, 1])
    assert generator(7).due(500, [0, 1]) != generator(8).due(500, [0, 1])


def test_gateway_publishes_for_identified_shards_only(bench):
    b = bench(shards=3, max_concurrency=3, load=LoadOptions(rate=300.0))
    b.advance(1_000)
    zero, two = b.ready(0), b.ready(2)
    b.advance(4_000)
    stats = [b.stats(shard) for shard in range(3)]
    assert stats[1].load_counter == 0
    for client, shard in ((zero, stats[0]), (two, stats[2])):
        counters = [m["d"][COUNTER_KEY] for m in client.messages if m["t"] not in (None, "READY")]
        assert counters == list(range(1, shard.load_counter + 1))
        assert shard.sequence == shard.dispatches == shard.load_counter + 1
    assert 1_000 < stats[0].load_counter + stats[2].load_counter < 1_400


def test_load_goes_on_for_a_detached_session_and_is_replayed(bench):
    b = bench(load=LoadOptions(rate=100.0))
    client = b.ready()
    b.advance(1_000)
    client.connection.lost()
    b.advance(1_000)
    again = b.connect()
    again.resume(client.ready()["session_id"], client.messages[-1]["s"])
    b.advance(1_000)
    messages = client.messages + again.messages
    counters = [m["d"][COUNTER_KEY] for m in messages if m["op"] == 0 and COUNTER_KEY in m["d"]]
    assert counters == list(range(1, b.stats().load_counter + 1))
    assert b.stats().replayed > 50


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 0}, "rate is 0: give dispatches a second, above 0"),
        ({"rate": 2e6}, "at most 1000000"),
        ({"rate": 1, "mix": (("NO", 1.0),)}, "mix has 'NO' with weight 1.0: events are PRESENCE_"),
    ],
)
def test_impossible_load_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LoadOptions(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shards": 0}, "shards is 0: give 1 or more"),
        ({"identify_tolerance_ms": -1}, "identify_tolerance_ms is -1: give 0 or more"),
        ({"token": ""}, "token is empty: give a token, or None to accept any"),
        ({"envelope": "x"}, "envelope is 'x': give one of discord, op_first, body_first"),
    ],
)
def test_impossible_options_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GatewayOptions(**settings)


def test_token_is_not_shown():
    assert "secret" not in repr(GatewayOptions(token="secret"))  # noqa: S106
