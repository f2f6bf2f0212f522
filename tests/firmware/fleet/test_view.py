"""Deliveries: which key, and what is kept of its value."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.fleet.view import (
    budget_put,
    key_kind,
    lease_put,
    plan_put,
    ticket_put,
    unreadable_note,
)
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    Holder,
    PlanMode,
    RecordKind,
    SlotState,
)
from tests.support.fleet import BOT, name_node, take_in_hand
from tests.support.lab import Lab
from tests.support.states import NOW

LAB = Lab(budget_put, key_kind, lease_put, plan_put, ticket_put, unreadable_note, slots=0)
KEY = b"$KV.shardfw." + BOT + b".ctl."


@pytest.fixture(autouse=True)
def node():
    LAB.reset()
    name_node(LAB)


def kind(subject):
    found = LAB.call(key_kind, subject=LAB.put(subject), size=len(subject)).outputs
    return found["eax"], found["edx"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"plan", (RecordKind.PLAN, 0)),
        (b"budget", (RecordKind.BUDGET, 0)),
        (b"lease.0", (RecordKind.LEASE, 0)),
        (b"lease.63", (RecordKind.LEASE, 63)),
        (b"ident.0", (RecordKind.TICKET, 0)),
        (b"ident.255", (RecordKind.TICKET, 255)),
        (b"move.0", (RecordKind.MOVE, 0)),
        (b"move.63", (RecordKind.MOVE, 63)),
        (b"node.n7", (RecordKind.NODE, 0)),
        (b"lease.64", (RecordKind.OTHER, 0)),
        (b"move.64", (RecordKind.OTHER, 0)),
        (b"move.", (RecordKind.OTHER, 0)),
        (b"node.n8", (RecordKind.OTHER, 0)),
        (b"node.n77", (RecordKind.OTHER, 0)),
        (b"node.n", (RecordKind.OTHER, 0)),
        (b"node.", (RecordKind.OTHER, 0)),
        (b"node", (RecordKind.OTHER, 0)),
        (b"node.n7.x", (RecordKind.OTHER, 0)),
        (b"nodexn7", (RecordKind.OTHER, 0)),
        (b"mode.n7", (RecordKind.OTHER, 0)),
        (b"move.1x", (RecordKind.OTHER, 0)),
        (b"move.1.2", (RecordKind.OTHER, 0)),
        (b"movex1", (RecordKind.OTHER, 0)),
        (b"ident.", (RecordKind.OTHER, 0)),
        (b"ident.1x", (RecordKind.OTHER, 0)),
        (b"ident.1.2", (RecordKind.OTHER, 0)),
        (b"identx1", (RecordKind.OTHER, 0)),
        (b"leasex1", (RecordKind.OTHER, 0)),
        (b"planx", (RecordKind.OTHER, 0)),
        (b"budgex", (RecordKind.OTHER, 0)),
        (b"ident.256", (RecordKind.OTHER, 0)),
        (b"lease.00", (RecordKind.OTHER, 0)),
        (b"lease.", (RecordKind.OTHER, 0)),
        (b"lease", (RecordKind.OTHER, 0)),
        (b"lease.1.2", (RecordKind.OTHER, 0)),
        (b"lease.1x", (RecordKind.OTHER, 0)),
        (b"leasf.1", (RecordKind.OTHER, 0)),
        (b"ident.x", (RecordKind.OTHER, 0)),
        (b"idenu.1", (RecordKind.OTHER, 0)),
        (b"idenx.1", (RecordKind.OTHER, 0)),
        (b"ident", (RecordKind.OTHER, 0)),
        (b"kease.1", (RecordKind.OTHER, 0)),
        (b"plan1", (RecordKind.OTHER, 0)),
        (b"pla", (RecordKind.OTHER, 0)),
        (b"budgets", (RecordKind.OTHER, 0)),
        (b"budge", (RecordKind.OTHER, 0)),
        (b"", (RecordKind.OTHER, 0)),
    ],
)
def test_key_kind(key, expected):
    assert kind(KEY + key) == expected


@pytest.mark.parametrize(
    "subject",
    [
        b"",
        b"$KV.shardfw",
        b"$KV.shardfw.b",
        b"$KV.shardfx.b1.ctl.plan",
        b"$KV.shardfw.b2.ctl.plan",
        b"$KV.shardfw.b1.cts.plan",
        b"$KV.shardfw.b1",
        b"$KV.shardfw.b1.ctl",
        b"_W.n7.3fa2c1d0.1",
    ],
)
def test_key_kind_of_other_subjects(subject):
    assert kind(subject) == (RecordKind.OTHER, 0)


@settings(max_examples=80, deadline=None)
@given(
    key=st.sampled_from([b"plan", b"budget", b"lease.12", b"ident.7", b"move.3", b"node.n7"]),
    at=st.integers(0, 30),
    cut=st.integers(0, 3),
    more=st.text(alphabet="0.alb", max_size=3).map(str.encode),
)
def test_key_kind_any_change_matches_the_model(key, at, cut, more):
    subject = KEY + key
    kind(subject[:at] + more + subject[at + cut :])


def test_plan_put_is_told_once_and_its_revision_counts_even_if_it_is_unreadable():
    take_in_hand(LAB, b"1 drain 3 16 1 20000 1 0+4")
    plan = LAB.g(FLEET_VIEW).plan
    for revision, told in ((7, 1), (7, 0), (6, 0), (8, 1)):
        found = LAB.call(plan_put, revision=revision)
        assert [e.key[1] for e in found.events if e.key[0] == "call"].count("log_write") == told
        assert (plan.mode, plan.epoch, plan.revision) == (PlanMode.DRAIN, 3, revision)
    take_in_hand(LAB, b"1 active 3 16 1 20000 1 0+")
    assert LAB.call(plan_put, revision=9).outputs["cf"] == 1
    assert (plan.mode, plan.revision) == (PlanMode.UNKNOWN, 9)


def test_lease_put_of_a_slot_counts_from_its_own_moment():
    take_in_hand(LAB, b"1 held n8 3fa2c1d0 5 2 20000 3 0 4 16")
    slots = LAB.g(FLEET_VIEW).slots
    slots[5].claim_at = 77
    assert LAB.call(lease_put, Environment(tsc=[NOW]), slot=5, revision=12).outputs["cf"] == 0
    view = slots[5]
    assert (view.revision, view.seen_at, view.claim_at) == (12, NOW, 0)
    assert (view.state, view.generation, view.mine) == (SlotState.HELD, 5, 0)
    assert [n for n in range(64) if slots[n].revision] == [5]
    take_in_hand(LAB, b"")
    assert LAB.call(lease_put, Environment(tsc=[NOW + 1]), slot=5, revision=13).outputs["cf"] == 1
    assert (view.revision, view.seen_at, view.state) == (13, NOW + 1, SlotState.ABSENT)


def test_ticket_put():
    take_in_hand(LAB, b"1 n7 3fa2c1d0 3 0")
    tickets = LAB.g(FLEET_VIEW).tickets
    found = LAB.call(ticket_put, Environment(tsc=[NOW]), key=255, revision=9).outputs
    assert (found["cf"], found["eax"], found["r10d"]) == (0, Holder.MINE, 3)
    assert (tickets[255].revision, tickets[255].seen_at) == (9, NOW)
    assert tickets[254].revision == 0
    take_in_hand(LAB, b"1 n7 3fa2c1d0 3")
    assert LAB.call(ticket_put, Environment(tsc=[NOW]), key=255, revision=10).outputs["cf"] == 1
    assert tickets[255].revision == 0


def test_budget_put():
    take_in_hand(LAB, b"1 990 1000 - 0")
    budget = LAB.g(FLEET_VIEW).budget
    assert LAB.call(budget_put, revision=4).outputs["cf"] == 0
    assert (budget.revision, budget.remaining, budget.total) == (4, 990, 1000)
    take_in_hand(LAB, b"1 990 980 - 0")
    assert LAB.call(budget_put, revision=5).outputs["cf"] == 1
    assert budget.revision == 0


@pytest.mark.parametrize(("revision", "told"), [(4, 0), (5, 0), (6, 1), (2**63, 1)])
def test_unreadable_note_tells_of_each_record_once(revision, told):
    fleet = LAB.g(FLEET)
    fleet.unreadable_at = 5
    found = LAB.call(unreadable_note, kind=RecordKind.LEASE, number=3, revision=revision)
    assert [e.key[1] for e in found.events if e.key[0] == "call"].count("log_write") == told
    assert (fleet.unreadable, fleet.unreadable_at) == (1, max(5, revision))
