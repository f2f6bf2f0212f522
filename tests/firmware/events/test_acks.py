"""Acknowledgements: what counts, in which order, and what is given up."""

import pytest

from firmware.events.acks import outbox_answer, outbox_overdue, outbox_settle
from firmware.events.outbox import outbox_publish
from firmware.events.publish import publish_rewind
from firmware.layouts.bus import BUS, DATA
from firmware.layouts.events import GapTold, Stuck
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import LOG
from firmware.layouts.node import CORE
from firmware.layouts.outbox import (
    ACK_TIMEOUT_MS,
    AGAIN_MS,
    ENTRIES,
    HEAD_MAX,
    STUB_MAX,
    EntryState,
)
from firmware.layouts.shard import ShardFlag
from tests.support.lab import Lab
from tests.support.publisher import MS, NOW, REGIONS, Publisher

LAB = Lab(outbox_publish, outbox_answer, outbox_overdue, publish_rewind, extra=REGIONS)
TAKEN = b'{"stream":"SHARDFW_EV","seq":1}'
KNOWN = b'{"stream":"SHARDFW_EV","seq":1,"duplicate": true}'
OLD_SERVER = b'{"stream":"SHARDFW_EV", "seq":1}'
FULL = b'{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"E","seq":0}'
BUSY = b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"},"stream":"E","seq":0}'
TWICE = b'{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"},"stream":"E","seq":0}'
LARGE = b'{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"E","seq":0}'
NEVER = 2**64 - 1


@pytest.fixture
def node():
    return Publisher(LAB)


def publish(node, sequence, n=0, size=2):
    name, body = LAB.machine.alloc(16), b"x" * size
    LAB.machine.write(name, b"A")
    given = {"body": LAB.put(body), "length": len(body), "name": name, "name_len": 1}
    assert node.call(outbox_publish, n, sequence=sequence, **given).outputs["cf"] == 0


def answer(node, number, body=TAKEN, *, status=0):
    node.answer(number, body, status=status)
    node.call(outbox_answer)


def told(line):
    ring = LAB.machine.read(LAB.image.address("log_ring"), LAB.g(LOG).head).decode()
    return ring.count(line)


def counts(node):
    box = node.box
    return (box.acknowledged, box.duplicates, box.refused, box.overdue)


LEAST = b'{"stream":"SHARDFW_EV",'
"""How a yes begins; what has no room for `true}` behind it is none."""


@pytest.fixture(params=[0, ENTRIES + 3, 2**32 - 1])
def first(request, node):
    """The number of the next publication; entries are used again and again."""
    node.box.first = node.box.next = node.box.sending = request.param
    for n in range(ENTRIES):
        node.box.entries[n].end = 7
    return request.param


def number(first, n):
    return (first + n) % 2**32


def test_the_entry_of_a_number_is_its_low_bits(node, first):
    publish(node, 40, 1)
    publish(node, 41, 1, size=HEAD_MAX + STUB_MAX + 1)
    start, end = (node.box.entries[number(first, n) % ENTRIES].end for n in range(2))
    answer(node, number(first, 1), LARGE)
    assert node.box.too_large == end - start
    assert told("slot=1 sequence=41 status=0 error=10054\n") == 1
    answer(node, first)
    assert (node.shard(1).gateway.seq_acked, node.shard(1).events.stuck) == (40, Stuck.FAILED)


def test_the_oldest_begins_where_what_is_freed_ends(node, first):
    publish(node, 41, size=HEAD_MAX + STUB_MAX + 1)
    end = node.box.end
    answer(node, first, LARGE)
    assert node.box.too_large == end


def test_a_number_that_was_not_given_yet_is_none(node, first):
    publish(node, 41)
    node.box.entries[number(first, 1) % ENTRIES].state = EntryState.WAITING
    answer(node, number(first, 1))
    assert counts(node) == (0, 0, 0, 0)


def test_what_leaves_again_is_known_by_its_number(node, first):
    publish(node, 41)
    publish(node, 42)
    node.box.sending = number(first, 1)
    LAB.g(BUS).links[DATA].midway = 1
    answer(node, number(first, 1))
    assert counts(node) == (0, 0, 0, 0)
    answer(node, first)
    assert counts(node) == (1, 0, 0, 0)


def test_overdue_is_the_entry_of_its_number(node, first):
    publish(node, 41)
    node.now += ACK_TIMEOUT_MS * MS
    assert node.call(outbox_overdue).outputs["rax"] == NEVER
    assert (counts(node), node.shard().events.stuck) == ((0, 0, 0, 1), Stuck.FAILED)


def test_gap_of_a_number(node, first):
    publish(node, 40)
    stream = owe(node, first)
    answer(node, first)
    assert stream.gap_told == GapTold.ALL


@pytest.mark.parametrize(("more", "known"), [(0, 0), (1, HEAD_MAX + STUB_MAX + 1)])
def test_what_is_no_larger_than_a_stub_is_never_too_large(node, more, known):
    publish(node, 40, size=1_000)
    beside = node.box.end - 1_000
    publish(node, 41, size=HEAD_MAX + STUB_MAX - beside + more)
    answer(node, 1, LARGE)
    assert node.box.too_large == known


@pytest.mark.parametrize(("size", "taken"), [(27, 0), (28, 1)])
def test_a_yes_has_room_for_its_words(node, size, taken):
    publish(node, 41)
    answer(node, 0, LEAST.ljust(size, b"x"))
    assert counts(node) == (taken, 0, 1 - taken, 0)


def test_a_sequence_may_be_large(node):
    publish(node, 2**31)
    answer(node, 0)
    assert node.shard().gateway.seq_acked == 2**31


def test_a_refusal_names_its_slot_and_its_status(node):
    publish(node, 41, 1)
    answer(node, 0, b"", status=503)
    assert told("slot=1 sequence=41 status=503 error=0\n") == 1


@pytest.mark.parametrize(("body", "double"), [(TAKEN, 0), (OLD_SERVER, 0), (KNOWN, 1)])
def test_taken_counts(node, body, double):
    publish(node, 41)
    answer(node, 0, body)
    assert node.shard().gateway.seq_acked == 41
    assert (node.box.first, node.box.freed) == (1, node.box.end)
    assert counts(node) == (1, double, 0, 0)


def test_counts_in_order_only(node):
    for sequence in (41, 42, 43):
        publish(node, sequence)
    answer(node, 1)
    answer(node, 2)
    assert (node.shard().gateway.seq_acked, node.box.first) == (40, 0)
    answer(node, 0)
    assert (node.shard().gateway.seq_acked, node.box.first) == (43, 3)


def test_each_shard_has_its_own(node):
    publish(node, 41)
    publish(node, 90, 1)
    answer(node, 0)
    assert [node.shard(n).gateway.seq_acked for n in range(2)] == [41, 40]
    answer(node, 1)
    assert [node.shard(n).gateway.seq_acked for n in range(2)] == [41, 90]


def test_never_goes_back(node):
    publish(node, 41)
    node.shard().gateway.seq_acked = 60
    answer(node, 0)
    assert node.shard().gateway.seq_acked == 60


@pytest.mark.parametrize("number", [1, 2, ENTRIES, 2**32 - 1])
def test_answer_to_nothing_means_nothing(node, number):
    publish(node, 41)
    answer(node, number)
    assert (node.box.first, *counts(node)) == (0, 0, 0, 0, 0)


def test_second_answer_means_nothing(node):
    publish(node, 41)
    publish(node, 42)
    answer(node, 1)
    answer(node, 1, FULL)
    assert counts(node) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (FULL, 0, 10077),
        (BUSY, 0, 10008),
        (TWICE, 0, 10158),
        (LARGE, 0, 10054),  # as small as a stub
        (LARGE, 503, 0),
        (b"", 503, 0),
        (b"{}", 0, 0),
        (b'{"stream":"x"', 0, 0),
        (b'{"stream":"ORDERS","seq":1,"duplicate":true}', 0, 0),
        (b'{"stream":"SHARDFW_EV2","seq":1}', 0, 0),
        (b'{"stream":"SHARDFW_EV",x}', 0, 0),
        (b"x" * 40, 0, 0),
    ],
)
def test_what_is_not_taken_now_waits_to_go_again(node, body, status, error):
    for sequence in (41, 42, 43):
        publish(node, sequence)
    answer(node, 1, body, status=status)
    assert node.box.again_at == NOW + AGAIN_MS * MS
    node.now += 5 * MS
    answer(node, 2, body, status=status)
    assert (node.box.again_at, node.box.refusals) == (NOW + AGAIN_MS * MS, 1)
    assert node.box.too_large == 0
    row = node.box.entries[1]
    assert (row.state, node.shard().events.stuck) == (EntryState.WAITING, Stuck.NO)
    assert told(f"slot=0 sequence=42 status={status} error={error}\n") == 1
    assert told("events.publishRefused") == 1
    # It counts as soon as it is taken.
    for number in range(3):
        answer(node, number)
    assert node.shard().gateway.seq_acked == 43
    assert counts(node) == (3, 0, 2, 0)


def test_refusals_in_a_row_are_told_once(node):
    publish(node, 41)
    publish(node, 42)
    for times in (1, 2, 3):
        answer(node, 1, b"", status=503)
        node.box.again_at = 0
        assert (node.box.refusals, told("events.publishRefused")) == (times, 1)
    answer(node, 0)
    answer(node, 1, b"", status=503)
    assert (node.box.refusals, told("events.publishRefused")) == (1, 2)


@pytest.mark.parametrize("before", [0, 1])
def test_too_large_for_the_stream_is_known_from_then_on(node, before):
    for _ in range(before):
        publish(node, 40)
    size = HEAD_MAX + STUB_MAX + 1
    publish(node, 41, size=size)
    publish(node, 90, 1)
    at = node.box.entries[before].end - (node.box.entries[0].end if before else 0)
    answer(node, before, LARGE)
    assert (node.box.too_large, node.box.again_at) == (at, 0)
    assert at > size
    assert told("slot=0 sequence=41 status=0 error=10054\n") == 1
    for number in (*range(before), before + 1):
        answer(node, number)
    stream = node.shard().events
    assert (stream.stuck, stream.stuck_at) == (Stuck.FAILED, NOW)
    assert LAB.g(CORE).slots[0].deadline == LAB.g(CORE).slots_due == 0
    assert LAB.g(CORE).slots[1].deadline == 2**63
    assert [node.shard(n).gateway.seq_acked for n in range(2)] == [40, 90]
    assert counts(node) == (1 + before, 0, 1, 0)


def test_the_smallest_that_was_too_large_counts(node):
    for more in (200, 100, 300):
        publish(node, 41, size=HEAD_MAX + STUB_MAX + more)
    ends = [0, *(node.box.entries[n].end for n in range(3))]
    for number, smallest in ((2, 2), (1, 1), (0, 1)):
        answer(node, number, LARGE)
        assert node.box.too_large == ends[smallest + 1] - ends[smallest]


def test_answer_to_the_time_before_means_nothing_while_it_leaves_again(node):
    publish(node, 41)
    link = LAB.g(BUS).links[DATA]
    link.midway = 1
    for body in (TAKEN, BUSY):
        answer(node, 0, body)
    assert (node.box.entries[0].state, counts(node)) == (EntryState.WAITING, (0, 0, 0, 0))
    link.midway, node.box.sending = 0, 1
    answer(node, 0)
    assert counts(node) == (1, 0, 0, 0)


@pytest.mark.parametrize(("refused", "saved"), [(True, 40), (False, 43)])
def test_behind_a_refusal_no_answer_counts_for_what_is_saved(node, refused, saved):
    shard = node.shard()
    shard.gateway.state, shard.flags, shard.sequence = GatewayState.READY, ShardFlag.SEQ_VALID, 43
    for sequence in (41, 42, 43):
        publish(node, sequence)
    node.box.entries[0].state = EntryState.FAILED if refused else EntryState.DONE
    node.call(outbox_settle)
    # The connection ends, the answers come, and the slot leaves before the next connection.
    node.call(publish_rewind, 0)
    for number in (1, 2):
        answer(node, number)
    node.call(publish_rewind, 0)
    assert shard.sequence == saved


@pytest.mark.parametrize("state", [GatewayState.WAIT_RESUMED, GatewayState.READY])
def test_nothing_counts_behind_what_was_given_up(node, state):
    publish(node, 41)
    publish(node, 42)
    node.shard().gateway.state = state
    node.box.entries[0].state = EntryState.FAILED
    answer(node, 1)
    node.call(outbox_settle)
    assert (node.shard().events.stuck, node.shard().gateway.seq_acked) == (Stuck.FAILED, 40)


def owe(node, number, told=GapTold.SAID):
    stream = node.shard().events
    stream.gap_told, stream.owed_number = told, number
    return stream


@pytest.mark.parametrize("state", [GatewayState.IDLE, GatewayState.READY])
def test_gap_is_told_when_the_stream_has_it(node, state):
    """Also one of a connection that is over: what it says is no less true."""
    node.box.first = node.box.next = node.box.sending = 2**32 - 1
    publish(node, 40)
    publish(node, 40)
    node.shard().gateway.state = state
    stream = owe(node, 0)
    answer(node, 2**32 - 1)
    assert stream.gap_told == GapTold.SAID
    answer(node, 0)
    assert stream.gap_told == GapTold.ALL


def test_gap_that_was_given_up_is_owed_again(node):
    publish(node, 40)
    stream = owe(node, 0)
    node.now += ACK_TIMEOUT_MS * MS
    node.call(outbox_overdue)
    assert (stream.gap_told, stream.stuck) == (GapTold.OWED, Stuck.FAILED)


@pytest.mark.parametrize("told", [GapTold.ALL, GapTold.OWED])
def test_answer_to_an_older_gap_settles_nothing(node, told):
    publish(node, 40)
    publish(node, 40, 1)
    stream = owe(node, 0, told)
    answer(node, 0)
    answer(node, 1)
    assert stream.gap_told == told


def test_gap_of_a_shard_is_settled_by_its_own_entry(node):
    publish(node, 40, 1)
    stream = owe(node, 0)
    answer(node, 0)
    assert stream.gap_told == GapTold.SAID


@pytest.mark.parametrize("state", [GatewayState.IDLE, GatewayState.WAIT_HELLO, GatewayState.ANSWER])
def test_nothing_counts_between_connections(node, state):
    publish(node, 41)
    node.shard().gateway.state = state
    answer(node, 0)
    assert (node.shard().gateway.seq_acked, node.box.first) == (40, 1)


def test_nothing_counts_of_another_connection(node):
    publish(node, 41)
    node.shard().connection += 1
    node.now += ACK_TIMEOUT_MS * MS
    node.call(outbox_overdue)
    assert (node.shard().events.stuck, node.shard().gateway.seq_acked) == (Stuck.NO, 40)


def test_slot_without_a_shard(node):
    publish(node, 41)
    LAB.g(CORE).slots[0].context = 0
    answer(node, 0)
    assert node.box.first == 1


def test_overdue_is_given_up(node):
    publish(node, 41)
    node.now = NOW + 400 * MS
    publish(node, 90, 1)
    assert node.call(outbox_overdue).outputs["rax"] == NOW + ACK_TIMEOUT_MS * MS
    node.now = NOW + ACK_TIMEOUT_MS * MS - 1
    assert node.call(outbox_overdue).outputs["rax"] == NOW + ACK_TIMEOUT_MS * MS
    node.now += 1
    assert node.call(outbox_overdue).outputs["rax"] == NOW + (ACK_TIMEOUT_MS + 400) * MS
    assert [node.shard(n).events.stuck for n in range(2)] == [Stuck.FAILED, Stuck.NO]
    node.now += 400 * MS
    assert node.call(outbox_overdue).outputs["rax"] == NEVER
    assert node.shard(1).events.stuck == Stuck.FAILED
    assert counts(node) == (0, 0, 0, 2)
    assert node.box.freed == node.box.end


def test_what_was_answered_out_of_order_is_not_overdue(node):
    publish(node, 41)
    publish(node, 90, 1)
    answer(node, 1)
    node.now = NOW + ACK_TIMEOUT_MS * MS
    assert node.call(outbox_overdue).outputs["rax"] == NEVER
    assert node.box.entries[0].state == EntryState.FAILED
    assert [node.shard(n).gateway.seq_acked for n in range(2)] == [40, 90]
