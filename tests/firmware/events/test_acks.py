"""Acknowledgements: what counts, in which order, and what is given up."""

import pytest

from firmware.events.acks import outbox_answer, outbox_overdue
from firmware.events.outbox import outbox_publish
from firmware.layouts.events import Stuck
from firmware.layouts.gateway import GatewayState
from firmware.layouts.node import CORE
from firmware.layouts.outbox import ACK_TIMEOUT_MS, ENTRIES, EntryState
from tests.support.lab import Lab
from tests.support.publisher import MS, NOW, REGIONS, Publisher

LAB = Lab(outbox_publish, outbox_answer, outbox_overdue, extra=REGIONS)
TAKEN = b'{"stream":"SHARDFW_EV","seq":1}'
KNOWN = b'{"stream":"SHARDFW_EV","seq":1,"duplicate": true}'
OLD_SERVER = b'{"stream":"SHARDFW_EV", "seq":1}'
FULL = b'{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"E","seq":0}'
NEVER = 2**64 - 1


@pytest.fixture
def node():
    return Publisher(LAB)


def publish(node, sequence, n=0):
    name, body = LAB.machine.alloc(16), b"{}"
    LAB.machine.write(name, b"A")
    given = {"body": LAB.put(body), "length": len(body), "name": name, "name_len": 1}
    assert node.call(outbox_publish, n, sequence=sequence, **given).outputs["cf"] == 0


def answer(node, number, body=TAKEN, *, status=0):
    node.answer(number, body, status=status)
    node.call(outbox_answer)


def counts(node):
    box = node.box
    return (box.acknowledged, box.duplicates, box.refused, box.overdue)


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
    ("body", "status"), [(FULL, 0), (b"", 503), (b"{}", 0), (b'{"stream":"x"', 0), (b"x" * 40, 0)]
)
def test_refusal_makes_the_shard_resume(node, body, status):
    publish(node, 41)
    publish(node, 42)
    publish(node, 90, 1)
    answer(node, 0, body, status=status)
    stream = node.shard().events
    assert (stream.stuck, stream.stuck_at) == (Stuck.FAILED, NOW)
    assert LAB.g(CORE).slots[0].deadline == LAB.g(CORE).slots_due == 0
    assert LAB.g(CORE).slots[1].deadline == 2**63
    # What stands behind it was taken, but does not count: it will be repeated.
    answer(node, 1)
    answer(node, 2)
    assert [node.shard(n).gateway.seq_acked for n in range(2)] == [40, 90]
    assert counts(node) == (2, 0, 1, 0)


@pytest.mark.parametrize("state", [GatewayState.IDLE, GatewayState.WAIT_HELLO, GatewayState.ANSWER])
def test_nothing_counts_between_connections(node, state):
    publish(node, 41)
    node.shard().gateway.state = state
    answer(node, 0)
    assert (node.shard().gateway.seq_acked, node.box.first) == (40, 1)


def test_nothing_counts_of_another_connection(node):
    publish(node, 41)
    node.shard().connection += 1
    answer(node, 0, FULL)
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
