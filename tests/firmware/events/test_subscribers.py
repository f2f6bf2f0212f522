"""Places of listeners: taken, renewed, given up, and free when nobody renews."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.events.subscribers import events_expire, events_find, events_release
from firmware.layouts.events import EVENT_LEASE_MAX_MS, EVENT_LEASE_MIN_MS
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext
from tests.support.lab import Lab
from tests.support.listeners import LISTENERS, ROUTINES, Listeners, hardware
from tests.support.net import MS, SECOND, ip32

LAB = Lab(*ROUTINES, slots=2)


@pytest.fixture
def bench():
    made = Listeners(LAB)
    made.with_shards(2)
    return made


def test_subscribe_takes_a_place_where_the_request_came_from(bench):
    assert bench.subscribe(0, lease_ms=30_000, first=3, count=2) == 0
    place = bench.place(0)
    assert bench.events.listeners == 1
    assert place.expires == LAB.g(CORE).now + 30 * SECOND
    assert bytes(place.mac) == hardware(LISTENERS[0][0])
    assert (place.first, place.count, place.number, place.lost) == (3, 2, 0, 0)
    assert place.stream != 0


def test_subscribe_again_renews_and_the_numbers_go_on(bench):
    bench.subscribe(0)
    place = bench.place(0)
    place.number, stream = 7, place.stream
    bench.advance(10 * SECOND)
    assert bench.subscribe(0, first=1, count=1) == 0
    assert (place.number, place.stream, bench.events.listeners) == (7, stream, 1)
    assert (place.first, place.count) == (1, 1)
    assert place.expires == LAB.g(CORE).now + 30 * SECOND


def test_subscribe_two_ports_of_one_host_are_two_listeners(bench):
    bench.subscribe(0)
    place = bench.place(0)
    place.port += 1
    bench.subscribe(0)
    assert bench.events.listeners == 2


def test_subscribe_a_fifth_listener_is_refused_until_a_place_is_free(bench):
    assert [bench.subscribe(n) for n in range(5)] == [0, 0, 0, 0, 1]
    assert (bench.events.listeners, bench.events.refused) == (4, 1)
    assert len({bench.place(n).stream for n in range(4)}) == 4
    assert bench.unsubscribe(2) == 0
    assert bench.subscribe(4) == 0


def test_subscribe_a_place_whose_time_is_over_is_free(bench):
    for n in range(4):
        bench.subscribe(n, lease_ms=10_000 if n == 1 else 60_000)
    bench.advance(10 * SECOND)
    assert bench.subscribe(5) == 0
    assert bench.events.listeners == 4


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        (0, EVENT_LEASE_MIN_MS),
        (EVENT_LEASE_MIN_MS - 1, EVENT_LEASE_MIN_MS),
        (EVENT_LEASE_MAX_MS + 1, EVENT_LEASE_MAX_MS),
        (2**32 - 1, EVENT_LEASE_MAX_MS),
    ],
)
def test_subscribe_brings_the_lease_within_its_bounds(bench, asked, got):
    bench.subscribe(0, lease_ms=asked)
    assert bench.place(0).expires == LAB.g(CORE).now + got * MS


def test_subscribe_without_a_clock_is_refused(bench):
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert bench.subscribe(0) == 1
    assert (bench.events.listeners, bench.events.refused) == (0, 1)


def test_unsubscribe_of_a_stranger_changes_nothing(bench):
    bench.subscribe(0)
    assert bench.unsubscribe(1) == 1
    for n in range(1, 4):
        bench.subscribe(n)
    assert bench.unsubscribe(4) == 1
    assert bench.events.listeners == 4


def test_release_ends_what_every_shard_tells_there_and_nothing_else(bench):
    for n in range(3):
        bench.subscribe(n)
    streams = [LAB.view(ShardContext, LAB.shard(n, wipe=False)).events for n in range(2)]
    streams[0].open, streams[1].open = 0b1111, 0b0101
    index = (bench.place(0).address_ - bench.events.subscribers.address) // 0x40
    bench.call(events_release, index=index)
    gone = 1 << index
    assert [s.open for s in streams] == [0b1111 & ~gone, 0b0101 & ~gone]
    assert bench.events.listeners == 2


def test_release_passes_over_rows_without_a_shard(bench):
    bench.subscribe(0)
    LAB.g(CORE).slots[0].context = 0
    bench.unsubscribe(0)
    LAB.g(CORE).slots_used = 0
    bench.subscribe(0)
    assert bench.unsubscribe(0) == 0


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([-1, 0, 1, None]), st.sampled_from([0, 1]), st.sampled_from([0, 1])
        ),
        min_size=4,
        max_size=4,
    ),
    asked=st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1])),
)
def test_find_and_expire_any_table_match_the_model(rows, asked):
    bench = Listeners(LAB)
    bench.with_shards(1)
    now = LAB.g(CORE).now
    for n, (due, ip, port) in enumerate(rows):
        row = bench.events.subscribers[n]
        row.expires = 0 if due is None else now + due
        row.ip, row.port = ip32(LISTENERS[ip][0]), 40_000 + port
    bench.events.listeners = sum(due is not None for due, *_ in rows)
    found = {"ip": ip32(LISTENERS[asked[0]][0]), "port": 40_000 + asked[1]}
    bench.call(events_find, **found)
    bench.call(events_expire)
    assert bench.events.listeners == sum(due == 1 for due, *_ in rows)
    bench.call(events_find, **found)
