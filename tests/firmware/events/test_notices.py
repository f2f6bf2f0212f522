"""Notices on the bus: what they say, where they stand, and that their Msg-Id is nobody else's."""

import json

import pytest

from firmware.events.notices import notice_publish
from firmware.layouts.events import EVENT_UNKNOWN, GapTold, Notice, Stuck
from firmware.layouts.outbox import ENTRIES
from tests.support.lab import Lab
from tests.support.publisher import REGIONS, Publisher

LAB = Lab(notice_publish, extra=REGIONS)


@pytest.fixture
def node():
    node = Publisher(LAB)
    node.box.first = node.box.next = 7
    return node


def say(node, kind, first=0, second=0, n=0):
    node.call(notice_publish, n, kind=kind, first=first, second=second)
    return node.queued()


@pytest.mark.parametrize("kind", [k for k in Notice if k is not Notice.GAP])
def test_notice_is_an_event_between_the_dispatches(node, kind):
    text = say(node, kind, 40)
    name = f"SHARDFW_{kind.name}"
    assert text.startswith(f"HPUB shardfw.b1.ev.5.{name} _I.n525400123456.3fa2c1d0.d.7 ".encode())
    assert b"\r\nNats-Msg-Id: 3fa2c1d0-7\r\nShardfw: g=7 n=n525400123456 t=16 s=40\r\n" in text
    body = json.loads(text.split(b"\r\n\r\n")[1])
    assert body == {"t": name, "s": 40, "first": 40, "second": 0}
    assert (node.box.entries[7].sequence, node.box.notice) == (40, 0)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (41, 44, (41, 44)),
        (41, EVENT_UNKNOWN, (41, None)),
        (EVENT_UNKNOWN, EVENT_UNKNOWN, (None, None)),
    ],
)
def test_gap_names_what_may_be_missing(node, first, second, told):
    body = json.loads(say(node, Notice.GAP, first, second).split(b"\r\n\r\n")[1])
    assert (body["t"], body["first"], body["second"]) == ("SHARDFW_GAP", *told)


def test_no_gap_is_no_event(node):
    assert say(node, Notice.GAP) == b""


@pytest.mark.parametrize("kind", [0, 6, 255])
def test_what_is_no_notice_is_not_published(node, kind):
    assert say(node, kind) == b""


def told(node, n=0):
    stream = node.shard(n).events
    return (GapTold(stream.gap_told), stream.owed_first, stream.owed_last)


def test_gap_is_owed_until_it_is_said(node):
    node.shard().events.stuck = Stuck.FAILED
    assert say(node, Notice.GAP, 41, 44) == b""
    assert told(node) == (GapTold.OWED, 41, 44)
    node.shard().events.stuck = Stuck.NO
    node.box.next = node.box.first + ENTRIES
    assert say(node, Notice.GAP) == b""
    assert told(node) == (GapTold.OWED, 41, 44)
    node.box.next = node.box.first
    body = json.loads(say(node, Notice.GAP).split(b"\r\n\r\n")[1])
    assert (body["first"], body["second"]) == (41, 44)
    assert told(node) == (GapTold.SAID, 41, 44)
    assert node.shard().events.owed_number == 7
    # It is on its way: nothing more is to be said.
    text = node.queued()
    assert say(node, Notice.GAP) == text


@pytest.mark.parametrize("state", [GapTold.OWED, GapTold.SAID])
@pytest.mark.parametrize(
    ("owed", "new", "both"),
    [
        ((41, 44), (41, 44), (41, 44)),
        ((41, 44), (50, 52), (41, 52)),
        ((50, 52), (41, 44), (41, 52)),
        ((41, 60), (50, 52), (41, 60)),
        ((41, 44), (60, EVENT_UNKNOWN), (41, EVENT_UNKNOWN)),
        ((60, EVENT_UNKNOWN), (5, 7), (5, EVENT_UNKNOWN)),
        ((EVENT_UNKNOWN, EVENT_UNKNOWN), (5, 7), (EVENT_UNKNOWN, EVENT_UNKNOWN)),
        ((5, 7), (EVENT_UNKNOWN, EVENT_UNKNOWN), (EVENT_UNKNOWN, EVENT_UNKNOWN)),
    ],
)
def test_two_gaps_are_one_that_holds_both(node, state, owed, new, both):
    stream = node.shard().events
    stream.gap_told, (stream.owed_first, stream.owed_last) = state, owed
    body = json.loads(say(node, Notice.GAP, *new).split(b"\r\n\r\n")[1])
    values = tuple(None if value == EVENT_UNKNOWN else value for value in both)
    assert (body["first"], body["second"]) == values
    assert told(node) == (GapTold.SAID, *both)


def test_what_the_stream_was_told_is_no_part_of_the_next_gap(node):
    stream = node.shard().events
    stream.owed_first, stream.owed_last = 5, EVENT_UNKNOWN
    say(node, Notice.GAP, 41, 44)
    assert told(node) == (GapTold.SAID, 41, 44)


def test_other_notices_are_not_owed(node):
    say(node, Notice.RESUMED, 40)
    say(node, Notice.NEW_SESSION, 40)
    assert told(node) == (GapTold.ALL, 0, 0)


def test_stuck_shard_says_nothing(node):
    node.shard().events.stuck = Stuck.DROPPED
    assert say(node, Notice.RESUMED) == b""


def test_without_room_it_is_left_out(node):
    node.box.next = node.box.first + ENTRIES
    assert say(node, Notice.RESUMED) == b""
    assert node.box.notice == 0


def test_each_has_an_id_of_its_own(node):
    say(node, Notice.RESUMED)
    text = say(node, Notice.RESUMED, n=1)
    assert b"Nats-Msg-Id: 3fa2c1d0-7\r\n" in text
    assert b"Nats-Msg-Id: 3fa2c1d0-8\r\n" in text
