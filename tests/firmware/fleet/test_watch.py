"""The watch: what it is trusted for, and everything that ends it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.fleet.watch import (
    watch_answered,
    watch_begin,
    watch_check,
    watch_end,
    watch_forget,
    watch_synced,
)
from firmware.layouts.bus import BUS, CONTROL, LinkState
from firmware.layouts.fleet import FLEET, WatchState
from firmware.layouts.fleet_sites import FLEET_LINK, FLEET_REFUSED, FLEET_SILENT
from firmware.layouts.node import CLOCK
from tests.support.fleet import take_in_hand
from tests.support.lab import Lab
from tests.support.states import MS, NOW, around
from tests.support.watch import begin, ended

LAB = Lab(watch_answered, watch_begin, watch_check, watch_end, watch_forget, watch_synced, slots=0)
CREATED = b'{"type":"io.nats.jetstream.api.v1.consumer_create_response","num_waiting":0,"num_pending":%d,"push_bound":true}'


@pytest.fixture(autouse=True)
def node():
    begin(LAB)


@pytest.mark.parametrize(
    ("body", "state", "after"),
    [
        (CREATED % 6, WatchState.CREATING, WatchState.SYNCING),
        (CREATED % 6, WatchState.SYNCED, WatchState.SYNCED),
        (CREATED % 0, WatchState.CREATING, WatchState.SYNCED),
    ],
)
def test_watch_answered(body, state, after):
    fleet = LAB.g(FLEET)
    fleet.watch, fleet.watch_inbox = state, 5
    take_in_hand(LAB, body, status=0)
    LAB.call(watch_answered)
    assert (fleet.watch, fleet.watch_inbox) == (after, 0)


def test_watch_answered_nothing_pending_after_a_delivery_is_no_sync():
    fleet = LAB.g(FLEET)
    fleet.watch, fleet.consumer_seq = WatchState.SYNCING, 1
    take_in_hand(LAB, CREATED % 0, status=0)
    LAB.call(watch_answered)
    assert fleet.watch == WatchState.SYNCING


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"type":"x","error":{"code":404,"err_code":10059},"num_pending":0}', 0),
        (b'{"type":"x"}', 0),
        (b"", 0),
        (b"", 503),
        (CREATED % 6, 503),
    ],
)
def test_watch_answered_a_refusal_is_tried_again_after_half_a_second(body, status):
    fleet = LAB.g(FLEET)
    fleet.resync_at = 0
    take_in_hand(LAB, body, status=status)
    LAB.call(watch_answered)
    assert ended(LAB) == FLEET_REFUSED.code | status
    assert fleet.move == bool(status)
    assert fleet.resync_at == NOW + 500 * MS


UNABLE = b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}'


@pytest.mark.parametrize(
    ("body", "begun_ms", "late", "move"),
    [
        (UNABLE, 3_000, 1, 1),
        (UNABLE, 3_000, 0, 0),
        (UNABLE, 0, 0, 0),
        (UNABLE.replace(b":503", b": 503"), 3_000, 1, 1),
        (UNABLE.replace(b":503", b":504"), 3_000, 1, 0),
        (UNABLE.replace(b":503", b":4294967799"), 3_000, 1, 0),
        (UNABLE.replace(b":503", b":x"), 3_000, 1, 0),
        (b'{"error":{"code":404,"err_code":10059}}', 3_000, 1, 0),
        (b'{"error":{"err_code":503}}', 3_000, 1, 0),
    ],
)
def test_watch_answered_a_server_that_says_that_it_cannot_is_left(body, begun_ms, late, move):
    """After three seconds, which an election may take."""
    fleet = LAB.g(FLEET)
    fleet.begun_at = NOW - begun_ms * MS - late
    take_in_hand(LAB, body, status=0)
    LAB.call(watch_answered)
    assert (ended(LAB), fleet.move) == (FLEET_REFUSED.code, move)
    assert fleet.resync_at == NOW + 500 * MS


@pytest.mark.parametrize(("state", "left"), [(WatchState.SYNCING, 0), (WatchState.SYNCED, 2)])
def test_watch_synced_ends_the_round_of_the_servers(state, left):
    fleet = LAB.g(FLEET)
    fleet.watch, fleet.left, fleet.move_at = state, 2, NOW + 9
    LAB.call(watch_synced)
    assert (fleet.watch, fleet.left) == (WatchState.SYNCED, left)
    assert bool(fleet.move_at) == bool(left)


def test_watch_begin_is_another_one_each_time():
    fleet = LAB.g(FLEET)
    fleet.watch_sid = 0
    assert LAB.call(watch_begin, request=7).outputs["edx"] == 0
    assert (fleet.watch, fleet.watch_inbox, fleet.resyncs) == (WatchState.CREATING, 7, 1)
    first = fleet.watch_sid
    assert LAB.call(watch_begin, request=8).outputs["edx"] == first
    assert fleet.watch_sid != first
    assert (fleet.heard_at, fleet.resync_at) == (NOW, NOW + 500 * MS)


def check():
    return LAB.call(watch_check).outputs["cf"]


def test_watch_check_of_a_lively_watch_wants_nothing():
    fleet = LAB.g(FLEET)
    fleet.heard_at = NOW - 2_500 * MS
    assert (check(), ended(LAB)) == (0, None)
    fleet.heard_at -= 1
    fleet.resync_at = NOW
    assert (check(), ended(LAB)) == (1, FLEET_SILENT.code)


@pytest.mark.parametrize(("inbox", "move"), [(0, 0), (7, 1)])
def test_watch_check_leaves_a_server_that_never_answered(inbox, move):
    fleet = LAB.g(FLEET)
    fleet.heard_at, fleet.watch_inbox = NOW - 2_501 * MS, inbox
    check()
    assert (ended(LAB), fleet.move) == (FLEET_SILENT.code, move)


@pytest.mark.parametrize(("late", "due"), [(-1, 0), (0, 1), (1, 1)])
def test_watch_check_waits_between_two_watches(late, due):
    fleet = LAB.g(FLEET)
    fleet.watch, fleet.resync_at = WatchState.OFF, NOW - late
    assert check() == due


@pytest.mark.parametrize(
    ("state", "ups", "due"), [(LinkState.UP, 2, 1), (LinkState.DOWN, 1, 0), (LinkState.HELLO, 2, 0)]
)
def test_watch_check_another_connection_has_no_watch(state, ups, due):
    fleet, link = LAB.g(FLEET), LAB.g(BUS).links[CONTROL]
    link.state, link.ups, fleet.watch_sid, fleet.resync_at = state, ups, 4097, NOW + 1
    assert (check(), ended(LAB)) == (due, FLEET_LINK.code)
    assert (fleet.ups, fleet.watch_sid) == (ups, 0)


def test_watch_check_without_a_clock_wants_nothing():
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    LAB.g(FLEET).watch = WatchState.OFF
    assert check() == 0


@settings(max_examples=60, deadline=None)
@given(
    state=st.sampled_from(LinkState),
    ups=st.integers(0, 2),
    watch=st.sampled_from(WatchState),
    heard=around(NOW, NOW - 2_500 * MS),
    resync=around(NOW),
    cycles=st.sampled_from([0, 1, MS, 2**63]),
)
def test_watch_check_any_state_matches_the_model(state, ups, watch, heard, resync, cycles):
    fleet, link = LAB.g(FLEET), LAB.g(BUS).links[CONTROL]
    link.state, link.ups, LAB.g(CLOCK).tsc_cycles_per_ms = state, ups, cycles
    fleet.watch, fleet.heard_at, fleet.resync_at, fleet.ups = watch, heard, resync, 1
    check()
