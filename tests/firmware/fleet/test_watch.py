"""The watch: what it is trusted for, and everything that ends it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.fleet.delivery import record_take, watch_heard
from firmware.fleet.watch import watch_answered, watch_begin, watch_check, watch_end, watch_forget
from firmware.layouts.bus import BUS, BUS_IN, CONTROL, LinkState
from firmware.layouts.fleet import FLEET, FLEET_VIEW, Holder, RecordKind, SlotState, WatchState
from firmware.layouts.fleet_sites import (
    FLEET_DELIVERY,
    FLEET_GAP,
    FLEET_LINK,
    FLEET_REFUSED,
    FLEET_SILENT,
)
from firmware.layouts.node import CLOCK, CORE
from tests.support.fleet import BOT, lay_down, name_node, take_in_hand
from tests.support.lab import Lab
from tests.support.states import MS, NOW, QWORD, around

LAB = Lab(
    record_take, watch_answered, watch_begin, watch_check, watch_end, watch_forget, watch_heard,
    slots=0,
)  # fmt: skip
KEY = b"$KV.shardfw." + BOT + b".ctl."
PLAN = b"1 active 3 16 1 20000 4 0+4 4+4 8+4 12+4"
LEASE = b"1 held n8 3fa2c1d0 5 2 20000 3 0 4 16"
CREATED = b'{"type":"io.nats.jetstream.api.v1.consumer_create_response","num_waiting":0,"num_pending":%d,"push_bound":true}'


@pytest.fixture(autouse=True)
def node():
    LAB.reset()
    name_node(LAB)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    link = LAB.g(BUS).links[CONTROL]
    link.state, link.ups = LinkState.UP, 1
    fleet = LAB.g(FLEET)
    fleet.ups, fleet.watch, fleet.heard_at = 1, WatchState.SYNCING, NOW


def deliver(key, value, *, count=1, pending=1, revision=9, reply=None):
    if reply is None:
        reply = b"$JS.ACK.KV_shardfw.8YGLel76.1.%d.%d.1795.%d" % (revision, count, pending)
    message = LAB.g(BUS_IN)
    take_in_hand(LAB, value, status=0, sid=4097)
    lay_down(LAB, subject=KEY + key, reply=reply)
    return LAB.call(watch_heard, Environment(tsc=[NOW + 5])), message


def beat(header):
    message = LAB.g(BUS_IN)
    message.status = 100
    lay_down(LAB, header=header)
    LAB.call(watch_heard)


def ended():
    """Return the site of the watch's end; None while it lives."""
    fleet, view = LAB.g(FLEET), LAB.g(FLEET_VIEW)
    if fleet.watch != WatchState.OFF:
        return None
    assert (view.plan.revision, view.slots[0].revision, view.slots[0].state) == (0, 0, 0)
    assert (fleet.consumer_seq, fleet.watch_inbox) == (0, 0)
    return fleet.error


def test_watch_heard_takes_records_in_order_and_is_synced_when_nothing_is_pending():
    fleet, view = LAB.g(FLEET), LAB.g(FLEET_VIEW)
    fleet.watch = WatchState.CREATING
    deliver(b"plan", PLAN, count=1, pending=2, revision=1)
    assert (fleet.watch, fleet.consumer_seq, view.plan.epoch) == (WatchState.SYNCING, 1, 3)
    deliver(b"other", b"x", count=2, pending=1, revision=2)
    assert fleet.watch == WatchState.SYNCING
    deliver(b"lease.0", LEASE, count=3, pending=0, revision=3)
    assert fleet.watch == WatchState.SYNCED
    slot = view.slots[0]
    assert (slot.state, slot.revision, slot.seen_at) == (SlotState.HELD, 3, NOW + 5)
    assert fleet.heard_at == NOW
    deliver(b"ident.0", b"1 - - 0 0", count=4, pending=0, revision=4)
    deliver(b"budget", b"1 9 9 - 0", count=5, pending=0, revision=5)
    assert (view.tickets[0].revision, view.budget.revision) == (4, 5)
    assert fleet.unreadable == 0


def test_watch_heard_takes_orders_and_counts_those_that_cannot_be_read():
    fleet, view = LAB.g(FLEET), LAB.g(FLEET_VIEW)
    deliver(b"node.n7", b"1 drain", count=1, revision=1)
    deliver(b"node.n8", b"1 open", count=2, revision=2)
    deliver(b"move.63", b"1 5 n8", count=3, revision=3)
    slot = view.slots[63]
    assert (view.drained, slot.wish, slot.wish_generation) == (1, Holder.OTHER, 5)
    assert fleet.unreadable == 0
    deliver(b"node.n7", b"1 drained", count=4, revision=4)
    deliver(b"move.63", b"", count=5, revision=5)
    assert (view.drained, slot.wish, fleet.unreadable) == (0, Holder.NOBODY, 2)
    deliver(b"node.n7", b"1 drain", count=7, revision=7)
    assert (fleet.watch, view.drained) == (WatchState.OFF, 0)


@pytest.mark.parametrize("count", [0, 1, 3, 2**32 + 2])
def test_watch_heard_a_gap_ends_the_watch_and_nothing_of_the_delivery_counts(count):
    deliver(b"plan", PLAN, count=1)
    assert LAB.g(FLEET_VIEW).plan.revision == 9
    deliver(b"lease.0", LEASE, count=count)
    assert ended() == (FLEET_DELIVERY.code if count == 0 else FLEET_GAP.code)


@pytest.mark.parametrize("reply", [b"", b"_I.x", b"$JS.ACK.KV_shardfw.8YGLel76.1.9.1.1795"])
def test_watch_heard_a_delivery_without_its_sequences_ends_the_watch(reply):
    deliver(b"plan", PLAN, reply=reply)
    assert ended() == FLEET_DELIVERY.code


@pytest.mark.parametrize("status", [1, 99, 101, 404, 409, 503])
def test_watch_heard_another_status_ends_the_watch(status):
    LAB.g(BUS_IN).status = status
    LAB.call(watch_heard)
    assert ended() == FLEET_DELIVERY.code


BEAT = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: 6\r\n\r\n"


def test_watch_heard_a_heartbeat_that_counts_as_we_do_keeps_the_watch():
    fleet = LAB.g(FLEET)
    fleet.consumer_seq, fleet.heard_at = 6, 0
    beat(BEAT % 6)
    assert (ended(), fleet.heard_at) == (None, NOW)


@pytest.mark.parametrize("count", [0, 5, 7, 66])
def test_watch_heard_a_heartbeat_that_counts_otherwise_ends_it(count):
    LAB.g(FLEET).consumer_seq = 6
    beat(BEAT % count)
    assert ended() == FLEET_GAP.code


@pytest.mark.parametrize(
    "header", [b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"", b"Nats-Last-Consumer: "]
)
def test_watch_heard_a_heartbeat_that_counts_nothing_ends_it(header):
    beat(header)
    assert ended() == FLEET_DELIVERY.code


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
    assert ended() == FLEET_REFUSED.code | status
    assert fleet.move == bool(status)
    assert fleet.resync_at == NOW + 500 * MS


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
    assert (check(), ended()) == (0, None)
    fleet.heard_at -= 1
    fleet.resync_at = NOW
    assert (check(), ended()) == (1, FLEET_SILENT.code)


@pytest.mark.parametrize(("inbox", "move"), [(0, 0), (7, 1)])
def test_watch_check_leaves_a_server_that_never_answered(inbox, move):
    fleet = LAB.g(FLEET)
    fleet.heard_at, fleet.watch_inbox = NOW - 2_501 * MS, inbox
    check()
    assert (ended(), fleet.move) == (FLEET_SILENT.code, move)


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
    assert (check(), ended()) == (due, FLEET_LINK.code)
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


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(RecordKind),
    number=st.integers(0, 63),
    revision=QWORD,
    body=st.sampled_from([PLAN, LEASE, b"1 - - 0 0", b"1 9 9 - 0", b"1 drain", b"1 5 n7", b""]),
)
def test_record_take_any_record_matches_the_model(kind, number, revision, body):
    take_in_hand(LAB, body)
    LAB.call(record_take, Environment(tsc=[NOW]), kind=kind, number=number, revision=revision)
