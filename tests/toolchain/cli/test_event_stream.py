"""Datagrams to events: chunks in any order, losses by number, and what is none of a node's."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.events import EVENT_BODY_MAX, EVENT_UNKNOWN, EventKind, Notice, Verdict
from tests.support.event_datagrams import datagram, dispatch, notice
from toolchain.cli.event_stream import WINDOW, EventStream


def feed(stream, *datagrams):
    return [event for one in datagrams for event in stream.feed(one)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=8), st.randoms(use_true_random=False))
def test_chunks_in_any_order_make_every_event_once(sizes, chance):
    sent = [dispatch(n, "E", n, "x" * size, shard=n % 3) for n, size in enumerate(sizes)]
    chunks = [chunk for event in sent for chunk in event]
    chance.shuffle(chunks)
    stream = EventStream()
    got = feed(stream, *chunks, *chunks)
    assert sorted((e.number, e.shard, e.report()["d"]) for e in got) == [
        (n, n % 3, "x" * size) for n, size in enumerate(sizes)
    ]
    stream.close()
    assert (stream.lost, stream.open) == (0, 0)


def test_a_number_that_never_comes_is_lost_at_the_end():
    stream = EventStream()
    feed(stream, *dispatch(0), *dispatch(3), *dispatch(4, data="y" * 3000)[:-1])
    assert (stream.lost, stream.open) == (0, 3)
    stream.close()
    assert stream.lost == 3
    assert feed(stream, *dispatch(1)) == []


def test_a_number_far_behind_is_lost_while_others_come():
    stream = EventStream()
    feed(stream, *(chunk for n in range(1, WINDOW + 2) for chunk in dispatch(n)))
    assert (stream.lost, stream.open) == (1, 0)


@pytest.mark.parametrize(("what", "aborted"), [(Verdict.ABORTED, 1), (Verdict.IGNORED, 0)])
def test_what_did_not_count_is_no_event_and_no_loss(what, aborted):
    stream = EventStream()
    assert feed(stream, *dispatch(0, data="y" * 3000, what=what)) == []
    stream.close()
    assert (stream.lost, stream.aborted) == (0, aborted)


def test_a_withheld_body_is_none():
    (event,) = feed(EventStream(), *dispatch(0, "READY", 1, what=Verdict.WITHHELD, shard=7))
    assert event.report() == {"shard": 7, "type": "READY", "sequence": 1, "d": None}


def test_a_name_that_the_node_cannot_keep_is_taken_from_the_payload():
    whole = dispatch(0, "N" * 70)[0]
    head = datagram(whole[48:-70], number=0, last=1, sequence=1)
    assert feed(EventStream(), head)[0].type == "N" * 70


@pytest.mark.parametrize(
    ("kind", "values", "report"),
    [
        (Notice.GAP, (0, 0), {"missing": False, "first": None, "last": None}),
        (Notice.GAP, (42, EVENT_UNKNOWN), {"missing": True, "first": 42, "last": None}),
        (
            Notice.GAP,
            (EVENT_UNKNOWN, EVENT_UNKNOWN),
            {"missing": True, "first": None, "last": None},
        ),
        (Notice.GAP, (4, 9), {"missing": True, "first": 4, "last": 9}),
        (Notice.RESUMED, (43, 0), {"sequence": 43}),
        (Notice.NEW_SESSION, (EVENT_UNKNOWN, 0), {"sequence": None}),
    ],
)
def test_notices_report_what_is_known(kind, values, report):
    (event,) = feed(EventStream(), notice(0, kind, *values, shard=3))
    assert event.report() == {"shard": 3, "notice": kind.name} | report


def test_another_stream_begins_anew_and_what_was_open_is_lost():
    stream = EventStream()
    feed(stream, *dispatch(0), *dispatch(2))
    assert len(feed(stream, *dispatch(0, stream=1))) == 1
    assert (stream.restarts, stream.lost) == (1, 1)


@pytest.mark.parametrize(
    "strange",
    [
        b"",
        datagram()[:-1],
        datagram(magic=1),
        datagram(kind=9),
        datagram(kind=EventKind.NOTICE, what=0),
        datagram(what=7),
        datagram(b"abc") + b"d",
        datagram(b"x" * (EVENT_BODY_MAX + 65)),
    ],
)
def test_what_no_node_sends_is_counted_and_ignored(strange):
    stream = EventStream()
    assert stream.feed(strange) == []
    assert (stream.strange, stream.stream) == (1, None)


def test_noise_changes_nothing():
    stream, chance = EventStream(), random.Random(5)
    for _ in range(500):
        stream.feed(chance.randbytes(chance.randrange(100)))
    assert (stream.strange, stream.lost) == (500, 0)
