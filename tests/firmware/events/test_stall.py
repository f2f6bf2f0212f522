"""Shards that wait for room: for how long, in which order, and what it costs in the end."""

import pytest

from firmware.events.outbox import outbox_publish
from firmware.events.publish import publish_part, publish_whole
from firmware.events.stall import publish_judge, publish_ready, publish_walk, stall_over
from firmware.layouts.events import PUBLISH_OVERDUE, GapTold, Stuck
from firmware.layouts.gateway import CLOSE_KEEPING_SESSION, GatewayFlag, GatewayState
from firmware.layouts.node import CORE
from firmware.layouts.outbox import (
    ACK_TIMEOUT_MS,
    AGAIN_MS,
    ASSEMBLIES,
    ASSEMBLY_MS,
    ASSEMBLY_WHOLE_MS,
    ENTRIES,
    HEAD_MAX,
    OWED_PART,
    STALL_PART,
    STALL_RETRY_MS,
    TURN_MS,
)
from firmware.layouts.shard import End
from firmware.limits import ASSEMBLY_BYTES, OUTBOX_BYTES, RESUME_TIMEOUT_MS, RING_BYTES
from tests.support.lab import Lab
from tests.support.publisher import INTERVAL_MS, MS, NOW, REGIONS, Publisher

LAB = Lab(
    outbox_publish, publish_part, publish_whole, publish_ready, publish_judge, publish_walk,
    stall_over, extra=REGIONS,
)  # fmt: skip
NEVER = 2**64 - 1
STALL_MS = INTERVAL_MS // STALL_PART
OWED_MS = INTERVAL_MS // OWED_PART


@pytest.fixture
def node():
    return Publisher(LAB)


def part(node, body, n=0, *, first=False):
    given = {"part": LAB.put(body), "length": len(body), "first": int(first)}
    node.call(publish_part, n, **given)


def whole(node, body, n=0, *, only=False):
    given = {"part": LAB.put(body), "length": len(body), "only": int(only)}
    node.call(publish_whole, n, sequence=41, name_len=14, **given)


def ready(node, n=0):
    return 1 - node.call(publish_ready, n).outputs["cf"]


def wakes(node, n=0):
    return node.call(publish_judge, n).outputs["rax"]


def over(node, n=0):
    return node.call(stall_over, n).outputs["cf"]


def walk(node):
    """Begin a walk over the shards; return the row that it begins with."""
    return node.call(publish_walk).outputs["eax"]


def next_walk(node):
    """Let the time of the next walk come, and begin it."""
    node.now = node.box.look_at
    return walk(node)


def owners(node):
    return [node.box.assemblies[n].owner for n in range(ASSEMBLIES)]


def occupy(node):
    """Let others hold every buffer."""
    for n in range(ASSEMBLIES):
        row = node.box.assemblies[n]
        row.owner, row.since, row.begun = 7 + n, node.now, node.now


def test_shard_waits_for_room_for_a_quarter_of_an_interval(node):
    assert ready(node)
    node.box.next = ENTRIES
    assert not ready(node)
    assert node.shard().events.stalled_at == NOW
    assert wakes(node) == NOW + STALL_RETRY_MS * MS
    node.now = NOW + STALL_MS * MS - 1
    walk(node)
    assert not ready(node)
    assert wakes(node) == node.now + STALL_RETRY_MS * MS
    node.box.first, node.box.look_at = 1, node.now
    walk(node)
    assert ready(node)
    assert node.shard().events.stalled_at == 0
    assert wakes(node) == NEVER


def test_shard_that_has_nothing_to_say_reads_on_and_loses_nothing(node):
    node.box.next = ENTRIES
    assert not ready(node)
    node.now = NOW + STALL_MS * MS
    for _ in range(2):
        assert ready(node)
        assert wakes(node) == NEVER
        node.now += 5_000 * MS
        walk(node)
    stream = node.shard().events
    assert (stream.stuck, node.box.dropped, stream.stalled_at) == (Stuck.NO, 0, NOW)
    node.box.first = 1
    assert ready(node)
    assert stream.stalled_at == 0
    whole(node, b"{}", only=True)
    assert b".ev.5." in node.queued()


def test_dispatch_that_finds_no_room_then_is_what_makes_it_stuck(node):
    node.box.next = ENTRIES
    ready(node)
    node.now = NOW + STALL_MS * MS
    assert ready(node)
    whole(node, b"{}", only=True)
    stream = node.shard().events
    assert (stream.stuck, stream.stuck_at, stream.stalled_at) == (Stuck.DROPPED, node.now, 0)
    assert node.box.dropped == 1
    assert ready(node)


@pytest.mark.parametrize(
    ("later_ms", "must"), [(0, 0), (STALL_MS - 1, 0), (STALL_MS, 1), (STALL_MS + 1, 1)]
)
def test_stall_is_over_after_a_quarter_of_an_interval(node, later_ms, must):
    node.shard().events.stalled_at = NOW
    node.now = NOW + later_ms * MS
    assert over(node) == must


@pytest.mark.parametrize("flag", [0, GatewayFlag.ACK_PENDING])
@pytest.mark.parametrize("early", [1, 0])
def test_stall_is_over_when_an_ack_is_owed_for_half_an_interval(node, flag, early):
    shard = node.shard()
    shard.events.stalled_at = NOW
    shard.gateway.flags, shard.gateway.hb_sent_at = flag, NOW - OWED_MS * MS + early
    assert over(node) == (bool(flag) and not early)


@pytest.mark.parametrize("early", [1, 0])
def test_stall_is_over_when_half_the_time_of_resumed_is(node, early):
    shard = node.shard()
    shard.gateway.state, shard.events.stalled_at = GatewayState.WAIT_RESUMED, NOW
    shard.phase_deadline = NOW + RESUME_TIMEOUT_MS // OWED_PART * MS + early
    assert over(node) == (not early)


@pytest.mark.parametrize("early", [1, 0])
def test_stall_is_over_as_long_before_the_attempt_is(node, early):
    """READY lies in the ring, and an Identify was spent for it."""
    shard = node.shard()
    shard.gateway.state, shard.events.stalled_at = GatewayState.WAIT_READY, NOW
    shard.attempt_deadline = NOW + RESUME_TIMEOUT_MS // OWED_PART * MS + early
    assert over(node) == (not early)


def test_stall_lasts_longer_than_what_the_outbox_held_when_it_began():
    assert ACK_TIMEOUT_MS < STALL_MS


def test_stall_is_over_before_the_ack_of_a_beat_is_missed_whenever_it_began(node):
    node.shard().gateway.flags = GatewayFlag.ACK_PENDING
    for began_ms in range(0, INTERVAL_MS, 997):
        node.shard().gateway.hb_sent_at = NOW
        node.shard().events.stalled_at = NOW + began_ms * MS
        node.now = NOW + (INTERVAL_MS - OWED_MS) * MS
        assert over(node)


def test_shard_waits_on_once_the_ack_that_was_owed_is_there(node):
    node.box.next = ENTRIES
    assert not ready(node)
    gateway = node.shard().gateway
    gateway.flags, gateway.hb_sent_at = GatewayFlag.ACK_PENDING, NOW - OWED_MS * MS
    assert ready(node)
    assert wakes(node) == NEVER
    gateway.flags = 0
    assert not ready(node)


def test_what_has_room_between_two_walks_is_for_those_that_wait(node):
    node.box.next = ENTRIES
    walk(node)
    assert not ready(node)
    assert node.box.look_at == NOW + STALL_RETRY_MS * MS
    node.box.first = 1
    node.now += STALL_RETRY_MS * MS - 1
    assert walk(node) == 0
    assert not ready(node, 1)
    assert wakes(node, 1) == node.box.look_at
    assert next_walk(node) == 0
    assert node.box.look_at == 0
    assert ready(node)
    assert ready(node, 1)


def test_walk_begins_with_the_one_that_found_no_room(node):
    node.box.first, node.box.next = 0, ENTRIES - 1
    walk(node)
    assert ready(node)
    whole(node, b"{}", only=True)
    # Row 0 had the first room of this walk, and there is none for row 1.
    assert not ready(node, 1)
    assert not ready(node)
    assert next_walk(node) == 1
    # Now row 1 has it, and finds none any more: it goes behind the others.
    node.box.first = 1
    assert ready(node, 1)
    whole(node, b"{}", 1, only=True)
    assert not ready(node, 1)
    assert node.box.begin == 2
    assert next_walk(node) == 0
    assert not ready(node)
    assert next_walk(node) == 0


def test_one_that_found_no_room_for_a_long_message_stays_the_first(node):
    """Who asks for less does not take what comes free bit by bit."""
    row = node.box.assemblies[0]
    row.owner, row.filled = 2, 200_000
    node.skip_to(OUTBOX_BYTES)
    node.box.end += OUTBOX_BYTES - HEAD_MAX - RING_BYTES - 200_000 + 1
    for _ in range(3):
        assert not ready(node, 1)
        assert not ready(node)
        assert next_walk(node) == 1
    node.box.freed += 1
    assert ready(node, 1)


@pytest.mark.parametrize(("begin", "row"), [(0, 0), (1, 1), (2, 0), (256, 0)])
def test_walk_begins_with_a_row_that_there_is(node, begin, row):
    node.box.begin, node.box.look_at, node.box.next = begin, NOW, 77
    assert node.lab.g(CORE).slots_used == 2
    assert walk(node) == row
    assert (node.box.look_at, node.box.walk) == (0, 77)
    assert walk(node) == 0


@pytest.mark.parametrize(
    ("filled", "most"),
    [(0, RING_BYTES), (100_000, RING_BYTES + 100_000), (2**31, RING_BYTES + ASSEMBLY_BYTES)],
)
def test_room_is_asked_for_what_has_come_of_a_message_too(node, filled, most):
    row = node.box.assemblies[1]
    row.owner, row.filled = 1, filled
    node.skip_to(OUTBOX_BYTES)
    node.box.end += OUTBOX_BYTES - HEAD_MAX - most
    assert ready(node)
    node.box.end += 1
    assert not ready(node)


def test_message_in_one_part_needs_no_buffer(node):
    occupy(node)
    assert ready(node)
    whole(node, b"{}", only=True)
    assert b".ev.5." in node.queued()
    assert owners(node) == [7, 8, 9, 10]


def test_first_part_waits_for_a_buffer_where_it_lies(node):
    occupy(node)
    part(node, b"<aa", first=True)
    stream = node.shard().events
    assert (stream.part_len, stream.stuck) == (3, Stuck.NO)
    assert not ready(node)
    assert wakes(node) == NOW + STALL_RETRY_MS * MS
    node.box.assemblies[2].owner = 0
    assert ready(node)
    assert (stream.part_len, stream.stalled_at, owners(node)) == (0, 0, [7, 8, 1, 10])
    part(node, b"AA")
    whole(node, b"aa>")
    assert node.queued().endswith(b"\r\n\r\n<aaAAaa>\r\n")


def test_message_without_a_buffer_is_found_out_at_its_end(node):
    occupy(node)
    part(node, b"<aa", first=True)
    assert not ready(node)
    node.now = NOW + STALL_MS * MS
    occupy(node)
    assert ready(node)
    stream = node.shard().events
    assert (stream.part_len, stream.stuck) == (0, Stuck.NO)
    part(node, b"AA")
    assert ready(node)
    whole(node, b"aa>")
    assert (stream.stuck, node.queued()) == (Stuck.DROPPED, b"")


def test_buffer_that_does_not_grow_is_taken_away(node):
    occupy(node)
    node.box.assemblies[3].owner, node.box.assemblies[3].since = 2, NOW - 1
    node.now = NOW + ASSEMBLY_MS * MS
    part(node, b"{", first=True)
    assert owners(node) == [7, 8, 9, 1]
    # Who had it finds out when its message ends.
    part(node, b"more", 1)
    whole(node, b"end", 1)
    assert (node.shard(1).events.stuck, node.queued()) == (Stuck.DROPPED, b"")


@pytest.mark.parametrize("free", range(ASSEMBLIES))
def test_free_buffer_is_taken_before_one_whose_message_is_late(node, free):
    occupy(node)
    node.box.assemblies[free].owner = 0
    node.now = NOW + ASSEMBLY_MS * MS + 1
    part(node, b"{", first=True)
    assert owners(node) == [1 if n == free else 7 + n for n in range(ASSEMBLIES)]


def test_first_of_those_that_are_late_is_taken_away(node):
    occupy(node)
    node.box.assemblies[0].since = node.box.assemblies[2].begun = NOW + 1
    node.now = NOW + ASSEMBLY_MS * MS + 1
    part(node, b"{", first=True)
    assert owners(node) == [7, 1, 9, 10]


def wait_for(node, ms):
    """Let row 0 wait for room for so long, in walks as they come."""
    node.box.next = node.box.first + ENTRIES
    assert not ready(node)
    until = node.now + ms * MS
    while node.now < until:
        next_walk(node)
        assert not ready(node)
    node.box.first = node.box.next
    next_walk(node)


def test_shard_that_waits_for_room_keeps_its_buffer(node):
    occupy(node)
    node.box.assemblies[0].owner = 0
    part(node, b"<aa", first=True)
    wait_for(node, ASSEMBLY_MS + 1_000)
    for n in range(1, ASSEMBLIES):
        node.box.assemblies[n].since = node.box.assemblies[n].begun = node.now
    # Another one reads first in this walk, and finds none.
    assert ready(node, 1)
    part(node, b"{bb", 1, first=True)
    assert node.shard(1).events.part_len == 3
    assert ready(node)
    whole(node, b"aa>")
    assert (node.shard().events.stuck, node.box.dropped) == (Stuck.NO, 0)
    assert node.queued().endswith(b"\r\n\r\n<aaaa>\r\n")


def test_message_is_as_old_as_what_its_shard_had_to_read_it(node):
    part(node, b"<aa", first=True)
    row = node.box.assemblies[0]
    for _ in range(2):
        began, since = row.begun, row.since
        node.now += 1_000 * MS
        wait_for(node, 2_000)
        assert (row.begun, row.since) == (began + 2_000 * MS, since + 2_000 * MS)
        assert ready(node)
        assert node.shard().events.waited_at == 0


def test_message_gets_older_while_its_shard_reads_without_room(node):
    part(node, b"<aa", first=True)
    node.box.next = ENTRIES
    assert not ready(node)
    gateway = node.shard().gateway
    gateway.flags, gateway.hb_sent_at = GatewayFlag.ACK_PENDING, NOW - OWED_MS * MS
    assert ready(node)
    node.now += 3_000 * MS
    gateway.flags = 0
    assert not ready(node)
    assert (node.box.assemblies[0].since, node.box.assemblies[0].begun) == (NOW, NOW)
    assert node.shard().events.waited_at == node.now


def test_message_that_trickles_gives_its_buffer_up_in_the_end(node):
    occupy(node)
    node.now = NOW + ASSEMBLY_WHOLE_MS * MS
    for n in range(ASSEMBLIES):
        node.box.assemblies[n].since = node.now
    part(node, b"{", first=True)
    assert owners(node) == [7, 8, 9, 10]
    node.now += 1
    assert ready(node)
    assert owners(node) == [1, 8, 9, 10]
    assert (node.box.assemblies[0].begun, node.box.assemblies[0].filled) == (node.now, 1)


def test_who_asked_first_gets_the_next_buffer(node):
    occupy(node)
    part(node, b"{", 1, first=True)
    assert (node.box.turn, node.box.turn_at) == (2, NOW)
    node.box.assemblies[0].owner = 0
    # The other one does not ask before it, though it asks earlier.
    part(node, b"{", first=True)
    assert (owners(node)[0], node.shard().events.part_len) == (0, 1)
    assert not ready(node)
    assert ready(node, 1)
    assert (owners(node)[0], node.box.turn) == (2, 0)
    assert not ready(node)
    assert node.box.turn == 1
    node.box.assemblies[1].owner = 0
    assert ready(node)
    assert owners(node)[:2] == [2, 1]


def test_turn_of_one_that_does_not_ask_any_more_is_over(node):
    occupy(node)
    part(node, b"{", 1, first=True)
    node.box.assemblies[0].owner = 0
    node.now = NOW + TURN_MS * MS
    part(node, b"{", first=True)
    assert owners(node)[0] == 0
    node.now += 1
    assert ready(node)
    assert (owners(node)[0], node.box.turn) == (1, 0)


def test_gap_that_is_owed_is_said_again(node):
    stream = node.shard().events
    stream.gap_told, stream.owed_first, stream.owed_last = GapTold.OWED, 41, 44
    node.box.next = ENTRIES
    assert wakes(node) == NOW + AGAIN_MS * MS
    assert stream.gap_told == GapTold.OWED
    node.box.first = ENTRIES
    assert wakes(node) == NOW + AGAIN_MS * MS
    assert b".ev.5.SHARDFW_GAP " in node.queued()
    assert b'"first":41,"second":44}' in node.queued()
    assert (stream.gap_told, stream.owed_number) == (GapTold.SAID, ENTRIES)
    assert wakes(node) == NEVER


@pytest.mark.parametrize("state", [s for s in GatewayState if s != GatewayState.READY])
def test_gap_is_said_of_a_session_that_runs(node, state):
    node.shard().gateway.state = state
    node.shard().events.gap_told = GapTold.OWED
    assert wakes(node) == NEVER
    assert node.queued() == b""


@pytest.mark.parametrize(
    ("stuck", "later", "over"),
    [
        (Stuck.DROPPED, ACK_TIMEOUT_MS * MS - 1, False),
        (Stuck.DROPPED, ACK_TIMEOUT_MS * MS, True),
        (Stuck.FAILED, 0, True),
    ],
)
def test_stuck_shard_is_closed(node, stuck, later, over):
    shard = node.shard()
    shard.events.stuck, shard.events.stuck_at = stuck, NOW
    node.now = NOW + later
    at = node.call(publish_judge, 0).outputs["rax"]
    if over:
        assert (shard.failure, shard.failure_close) == (End.SEND_FAILED, CLOSE_KEEPING_SESSION)
        assert (shard.last_error, at) == (PUBLISH_OVERDUE.code, NEVER)
    else:
        assert (shard.failure, at) == (End.NONE, NOW + ACK_TIMEOUT_MS * MS)
