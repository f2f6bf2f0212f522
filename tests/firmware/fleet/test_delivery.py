"""Deliveries of a watch: records in order, heartbeats that count, and what ends it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.fleet.delivery import record_take, watch_heard
from firmware.layouts.bus import BUS_IN
from firmware.layouts.fleet import FLEET, FLEET_VIEW, Holder, RecordKind, SlotState, WatchState
from firmware.layouts.fleet_sites import FLEET_DELIVERY, FLEET_GAP
from tests.support.fleet import BOT, lay_down, take_in_hand
from tests.support.lab import Lab
from tests.support.states import NOW, QWORD
from tests.support.watch import begin, ended

LAB = Lab(record_take, watch_heard, slots=0)
KEY = b"$KV.shardfw." + BOT + b".ctl."
PLAN = b"1 active 3 16 1 20000 4 0+4 4+4 8+4 12+4"
LEASE = b"1 held n8 3fa2c1d0 5 2 20000 3 0 4 16"


@pytest.fixture(autouse=True)
def node():
    begin(LAB)


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
    assert ended(LAB) == (FLEET_DELIVERY.code if count == 0 else FLEET_GAP.code)


@pytest.mark.parametrize("reply", [b"", b"_I.x", b"$JS.ACK.KV_shardfw.8YGLel76.1.9.1.1795"])
def test_watch_heard_a_delivery_without_its_sequences_ends_the_watch(reply):
    deliver(b"plan", PLAN, reply=reply)
    assert ended(LAB) == FLEET_DELIVERY.code


@pytest.mark.parametrize("status", [1, 99, 101, 404, 409, 503])
def test_watch_heard_another_status_ends_the_watch(status):
    LAB.g(BUS_IN).status = status
    LAB.call(watch_heard)
    assert ended(LAB) == FLEET_DELIVERY.code


BEAT = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: 6\r\n\r\n"


def test_watch_heard_a_heartbeat_that_counts_as_we_do_keeps_the_watch():
    fleet = LAB.g(FLEET)
    fleet.consumer_seq, fleet.heard_at = 6, 0
    beat(BEAT % 6)
    assert (ended(LAB), fleet.heard_at) == (None, NOW)


def test_watch_heard_a_delivery_shows_that_the_server_has_its_cluster_and_a_heartbeat_does_not():
    fleet = LAB.g(FLEET)
    fleet.idle_at = NOW + 9
    beat(BEAT % 0)
    assert fleet.idle_at == NOW + 9
    deliver(b"plan", PLAN)
    assert fleet.idle_at == 0


@pytest.mark.parametrize("count", [0, 5, 7, 66])
def test_watch_heard_a_heartbeat_that_counts_otherwise_ends_it(count):
    LAB.g(FLEET).consumer_seq = 6
    beat(BEAT % count)
    assert ended(LAB) == FLEET_GAP.code


@pytest.mark.parametrize(
    "header", [b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"", b"Nats-Last-Consumer: "]
)
def test_watch_heard_a_heartbeat_that_counts_nothing_ends_it(header):
    beat(header)
    assert ended(LAB) == FLEET_DELIVERY.code


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
