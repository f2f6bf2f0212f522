"""Answers of both kinds of server, in any mood."""

import pytest

from emulator.environment import Environment
from firmware.fleet.answer import answer_read, lease_answered
from firmware.layouts.fleet import (
    FLEET,
    HELD_MAX,
    OPS_MAX,
    HeldPhase,
)
from firmware.layouts.node import CLOCK, CORE
from tests.support.fleet import name_node, set_fields, take_in_hand
from tests.support.lab import Lab
from tests.support.states import MS, NOW

LAB = Lab(answer_read, lease_answered, slots=0)
GRANT = b'{"stream":"KV_shardfw","seq":8}'
REFUSALS = [
    b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 8"},"stream":"KV_shardfw","seq":0}',
    b'{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"KV_shardfw","seq":0}',
    b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}',
    b'{"error":{"code":400,"err_code":10071},"stream":"KV_shardfw","seq":9}',
    b'{"stream":"KV_shardfw","seq":0}',
    b'{"seq":8}',
    b'{"stream":"ORDERS","seq":8}',
    b'{"stream":"KV_shardfw2","seq":8}',
    b'{"stream":"KV_shardfw"}',
    b"",
]


@pytest.fixture(autouse=True)
def node():
    LAB.reset()
    name_node(LAB)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW


def hold(place, phase, **fields):
    held = LAB.g(FLEET).held[place]
    set_fields(held, phase=phase, slot=place, duration_ms=20_000, revision=7, generation=3)
    set_fields(held, **fields)
    return held


@pytest.mark.parametrize(
    ("body", "revision"),
    [
        (GRANT, 8),
        (b'{"stream":"KV_shardfw", "seq":1,"duplicate": true}', 1),
        (b'{"seq": 12,"stream":"KV_shardfw"}', 12),
    ],
)
def test_answer_read_of_a_grant(body, revision):
    take_in_hand(LAB, body, status=0)
    found = LAB.call(answer_read).outputs
    assert (found["cf"], found["rax"], LAB.g(FLEET).refused) == (0, revision, 0)


@pytest.mark.parametrize("body", REFUSALS)
def test_answer_read_of_anything_else_is_counted(body):
    take_in_hand(LAB, body, status=0)
    assert LAB.call(answer_read).outputs["cf"] == 1
    take_in_hand(LAB, GRANT, status=503)
    assert LAB.call(answer_read).outputs["cf"] == 1
    assert LAB.g(FLEET).refused == 2


def answered(body, inbox=9, status=0):
    take_in_hand(LAB, body, status=status)
    return LAB.call(lease_answered, Environment(), inbox=inbox).outputs["cf"]


@pytest.mark.parametrize("place", [0, HELD_MAX - 1])
@pytest.mark.parametrize("op", [0, OPS_MAX - 1])
def test_lease_answered_grants_the_operation_that_was_asked_for(place, op):
    held = hold(place, HeldPhase.CLAIMING, revision=0)
    set_fields(held.ops[op], op=5, inbox=9, sent_at=NOW - 3)
    assert answered(GRANT) == 0
    assert (held.phase, held.revision, held.granted_op) == (HeldPhase.HELD, 8, 5)
    assert held.deadline == NOW - 3 + 20_000 * MS
    assert LAB.g(FLEET).adopted == 0


@pytest.mark.parametrize("body", REFUSALS)
@pytest.mark.parametrize(
    "phase", [HeldPhase.CLAIMING, HeldPhase.HELD, HeldPhase.RUNNING, HeldPhase.RELEASING]
)
def test_lease_answered_a_refusal_is_no_evidence_of_anything(body, phase):
    held = hold(1, phase, deadline=5, hard_stop=4, release_inbox=9)
    set_fields(held.ops[3], op=5, inbox=9, sent_at=NOW - 3)
    assert answered(body) == 0
    assert answered(GRANT, status=503) == 0
    assert (held.phase, held.revision, held.deadline, held.hard_stop) == (phase, 7, 5, 4)


def test_lease_answered_a_release_is_confirmed():
    held = hold(1, HeldPhase.RELEASING, release_inbox=9)
    assert answered(GRANT) == 0
    assert held.phase == HeldPhase.NONE


def test_lease_answered_a_renewal_that_a_release_overtook_is_still_a_grant():
    held = hold(1, HeldPhase.RELEASING, release_inbox=8)
    set_fields(held.ops[3], op=5, inbox=9, sent_at=NOW - 3)
    assert answered(GRANT) == 0
    assert (held.phase, held.revision) == (HeldPhase.RELEASING, 8)


@pytest.mark.parametrize("phase", [HeldPhase.NONE, HeldPhase.GONE])
def test_lease_answered_of_an_entry_that_is_over_is_nobodys(phase):
    held = hold(1, phase, release_inbox=9)
    set_fields(held.ops[3], op=5, inbox=9)
    assert answered(GRANT) == 1


def test_lease_answered_of_another_request():
    held = hold(1, HeldPhase.RUNNING, release_inbox=9)
    set_fields(held.ops[0], op=0, inbox=9)
    set_fields(held.ops[1], op=5, inbox=8)
    assert answered(GRANT) == 1
    assert held.revision == 7
