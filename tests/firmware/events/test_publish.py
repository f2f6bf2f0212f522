"""What a shard publishes: whole messages, stubs, and how a stuck one comes back."""

import pytest

from firmware.events.outbox import outbox_publish
from firmware.events.publish import publish_part, publish_rewind, publish_whole
from firmware.layouts.bus import BUS, DATA
from firmware.layouts.events import Stuck
from firmware.layouts.gateway import GatewayState
from firmware.layouts.outbox import ASSEMBLIES, ENTRIES, HEAD_MAX
from firmware.layouts.shard import ShardFlag
from firmware.limits import ASSEMBLY_BYTES, OUTBOX_BYTES
from tests.support.lab import Lab
from tests.support.publisher import NOW, REGIONS, Publisher

LAB = Lab(outbox_publish, publish_part, publish_whole, publish_rewind, extra=REGIONS)


@pytest.fixture
def node():
    return Publisher(LAB)


def part(node, body, n=0, *, first=False):
    given = {"part": LAB.put(body), "length": len(body), "first": int(first)}
    node.call(publish_part, n, **given)


def whole(node, body, n=0, *, only=False, sequence=41, name_len=14):
    given = {"part": LAB.put(body), "length": len(body), "only": int(only)}
    node.call(publish_whole, n, sequence=sequence, name_len=name_len, **given)


def body(node):
    return node.queued().split(b"\r\n\r\n", 1)[1][:-2]


def owners(node):
    return [node.box.assemblies[n].owner for n in range(ASSEMBLIES)]


def test_message_in_one_part(node):
    whole(node, b'{"op":0}', only=True)
    assert body(node) == b'{"op":0}'
    assert b".ev.5.MESSAGE_CREATE " in node.queued()
    assert owners(node) == [0, 0, 0, 0]


def test_messages_in_parts_do_not_mix(node):
    part(node, b"<aa", first=True)
    part(node, b"<bb", 1, first=True)
    assert owners(node) == [1, 2, 0, 0]
    part(node, b"AA")
    part(node, b"BB", 1)
    assert node.queued() == b""
    whole(node, b"bb>", 1)
    assert body(node) == b"<bbBBbb>"
    node.skip_to(node.box.end)
    whole(node, b"")
    assert body(node) == b"<aaAA"
    assert owners(node) == [0, 0, 0, 0]


def test_next_message_forgets_half_of_one(node):
    part(node, b"half", first=True)
    part(node, b"who", first=True)
    whole(node, b"le")
    assert body(node) == b"whole"


def test_name_that_does_not_fit(node):
    whole(node, b"{}", only=True, name_len=0)
    assert b".ev.5.UNKNOWN " in node.queued()


@pytest.mark.parametrize(
    ("limit", "stub"), [(0, False), (HEAD_MAX + 8, False), (HEAD_MAX + 7, True), (5, True)]
)
def test_server_takes_no_more_than_it_says(node, limit, stub):
    LAB.g(BUS).links[DATA].max_payload = limit
    whole(node, b'{"op":0}', only=True)
    text = b'{"t":"SHARDFW_OVERSIZE","size":8,"s":41,"type":"MESSAGE_CREATE"}'
    assert body(node) == (text if stub else b'{"op":0}')
    assert (b".ev.5.SHARDFW_OVERSIZE " in node.queued()) == stub
    assert node.box.oversize == stub


@pytest.mark.parametrize(
    ("refused", "stub"), [(0, False), (HEAD_MAX + 9, False), (HEAD_MAX + 8, True), (2, True)]
)
def test_what_the_stream_refused_for_its_size_is_told_by_a_stub(node, refused, stub):
    node.box.too_large = refused
    whole(node, b'{"op":0}', only=True)
    assert (b".ev.5.SHARDFW_OVERSIZE " in node.queued()) == stub
    assert (b"Nats-Msg-Id: 5f2c8e0a9b-41\r\n" in node.queued(), node.box.oversize) == (True, stub)


@pytest.mark.parametrize("more", [0, 900])
def test_message_larger_than_a_buffer_becomes_a_stub(node, more):
    part(node, b"x", first=True)
    node.box.assemblies[0].filled = ASSEMBLY_BYTES
    part(node, b"y" * more)
    whole(node, b"z")
    size = ASSEMBLY_BYTES + more + 1
    text = b'{"t":"SHARDFW_OVERSIZE","size":%d,"s":41,"type":"MESSAGE_CREATE"}'
    assert body(node) == text % size
    assert owners(node) == [0, 0, 0, 0]


def test_message_as_large_as_a_buffer_is_no_stub(node):
    """There is room for a stub alone, so the whole one is dropped."""
    part(node, b"x", first=True)
    node.box.assemblies[0].filled = ASSEMBLY_BYTES
    node.box.end = OUTBOX_BYTES - HEAD_MAX - 1_000
    whole(node, b"")
    assert (node.box.oversize, node.box.dropped) == (0, 1)


def test_the_end_of_a_message_whose_buffer_was_taken_away_is_a_hole(node):
    part(node, b"half", first=True)
    node.box.assemblies[0].owner = 0
    part(node, b"of ")
    assert owners(node) == [0, 0, 0, 0]
    whole(node, b"it")
    assert (node.shard().events.stuck, node.box.dropped) == (Stuck.DROPPED, 1)
    assert node.queued() == b""


def test_a_first_part_without_a_buffer_stays_where_it_is(node):
    for n in range(ASSEMBLIES):
        row = node.box.assemblies[n]
        row.owner, row.since, row.begun = 9, NOW, NOW
    part(node, b"half", first=True)
    stream = node.shard().events
    assert (stream.part_len, LAB.machine.read(stream.part_at, 4)) == (4, b"half")
    assert owners(node) == [9, 9, 9, 9]


def test_without_room_nothing_behind_the_hole_is_published(node):
    node.box.first = 1 - ENTRIES & 0xFFFF_FFFF
    node.box.next = 1
    whole(node, b"{}", only=True)
    stream = node.shard().events
    assert (stream.stuck, stream.stuck_at, node.box.dropped) == (Stuck.DROPPED, NOW, 1)
    node.box.first = 1
    whole(node, b"{}", only=True)
    part(node, b"{", first=True)
    whole(node, b"}")
    assert (node.queued(), owners(node), node.box.dropped) == (b"", [0, 0, 0, 0], 1)
    whole(node, b"{}", 1, only=True)
    assert b".ev.6." in node.queued()


@pytest.mark.parametrize(
    ("state", "flags", "sequence"),
    [
        (GatewayState.READY, ShardFlag.SEQ_VALID, 40),
        (GatewayState.WAIT_RESUMED, ShardFlag.SEQ_VALID, 40),
        (GatewayState.ANSWER, ShardFlag.SEQ_VALID, 55),
        (GatewayState.WAIT_HELLO, ShardFlag.SEQ_VALID, 55),
        (GatewayState.READY, 0, 55),
    ],
)
def test_resume_names_what_is_acknowledged(node, state, flags, sequence):
    shard = node.shard()
    shard.gateway.state, shard.flags, shard.sequence = state, flags, 55
    shard.events.stuck, shard.events.stalled_at = Stuck.FAILED, NOW
    shard.events.part_len = 9
    part(node, b"x", 1, first=True)
    node.call(publish_rewind, 0)
    assert shard.events.part_len == 0
    assert (shard.sequence, shard.events.stuck, shard.events.stalled_at) == (sequence, Stuck.NO, 0)
    assert owners(node) == [2, 0, 0, 0]
    node.call(publish_rewind, 1)
    assert owners(node) == [0, 0, 0, 0]


def test_without_an_outbox_nothing_is_rewound(node):
    node.box.base = 0
    node.shard().sequence = 55
    node.call(publish_rewind, 0)
    assert node.shard().sequence == 55
