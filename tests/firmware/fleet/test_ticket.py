"""Identify tickets: who may identify, and when."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.fleet.budget import budget_answered
from firmware.fleet.ticket import ticket_answered, ticket_seen, ticket_spend, ticket_take
from firmware.layouts.bus import LinkState
from firmware.layouts.fleet import FLEET, FLEET_VIEW, Holder, PlanMode, WatchState
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_tickets import FLEET_TICKETS, TicketPhase
from firmware.layouts.node import CORE
from tests.support.fleet import set_fields
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW
from tests.support.states import around
from tests.support.tickets import (
    BENCH,
    GRANT,
    KNOWN,
    LAB,
    REFUSED,
    SIGN,
    answer,
    prepare,
    ready,
    ticket,
)

SPACING_MS = 5_000


@pytest.fixture(autouse=True)
def node():
    prepare()


def take(now=NOW, tsc=None, spacing=SPACING_MS):
    LAB.g(CORE).now = now
    environment = Environment(tsc=lambda: now if tsc is None else tsc)
    inputs = {"shard": BENCH.shards[1], "spacing": spacing}
    return not LAB.call(ticket_take, environment, **inputs).outputs["cf"]


def test_ticket_take_without_a_fleet_is_always_right():
    LAB.g(FLEET_CONFIG).magic = 0
    assert take()
    LAB.call(ticket_spend, shard=BENCH.shards[1])


def test_ticket_take_pays_asks_waits_and_takes():
    assert not take()
    sent = BENCH.queued()
    assert sent.startswith(b"HPUB $KV.shardfw.b1.ctl.budget _I.n7.3fa2c1d0.c.1 ")
    assert sent.endswith(b"Sequence: 30\r\n\r\n1 899 1000 n7 1\r\n")
    assert not take(NOW + 1)
    assert BENCH.queued() == sent
    answer(budget_answered, 1, GRANT)
    assert ticket().paid == 1
    assert not take(NOW + 2)
    due = ticket().ask_at
    # Shard 6 is the second of its key.
    assert NOW + 2 + 10 * MS <= due < NOW + 2 + 18 * MS
    assert not take(due - 1)
    assert ticket().phase == TicketPhase.NONE
    assert not take(due)
    assert ticket().phase == TicketPhase.ASKED
    sent = BENCH.queued()[len(sent) :]
    assert sent.startswith(b"HPUB $KV.shardfw.b1.ctl.ident.2 _I.n7.3fa2c1d0.c.2 ")
    assert sent.endswith(b"Sequence: 22\r\n\r\n1 n7 3fa2c1d0 2 6\r\n")
    assert not take(due + 1)
    answer(ticket_answered, 2, GRANT)
    assert take(due + 3)
    assert take(due + 4)
    LAB.call(ticket_spend, shard=BENCH.shards[1])
    assert (ticket().phase, ticket().paid) == (TicketPhase.NONE, 0)


@pytest.mark.parametrize(("age", "asked"), [(KNOWN - 1, False), (KNOWN, True)])
def test_ticket_take_waits_until_the_record_is_known_long_enough(age, asked):
    LAB.g(FLEET_VIEW).tickets[2].seen_at = NOW - age
    found = ready()
    assert not take()
    assert (found.phase == TicketPhase.ASKED) is asked


@pytest.mark.parametrize(("age_ms", "asked"), [(6_161, False), (6_162, True)])
def test_ticket_take_rounds_the_wait_up(age_ms, asked):
    """(5001 + 1000) 1.01 are 6061.01 ms."""
    LAB.g(FLEET_VIEW).tickets[2].seen_at = NOW - age_ms * MS
    found = ready()
    assert not take(spacing=5_001)
    assert (found.phase == TicketPhase.ASKED) is asked


def test_ticket_take_counts_how_often_the_clock_stood_still():
    LAB.g(FLEET).frozen = 3
    found = ready()
    assert not take()
    assert (found.phase, found.frozen, found.ask_at) == (TicketPhase.ASKED, 3, 0)
    answer(ticket_answered, 1, GRANT)
    assert take(NOW + 1)


@pytest.mark.parametrize(
    "state",
    [
        {"watch": WatchState.SYNCING},
        {"watch": WatchState.OFF},
        {"revision": 0},
        {"mode": PlanMode.UNKNOWN},
    ],
)
def test_ticket_take_asks_for_nothing(state):
    found, view = ready(), LAB.g(FLEET_VIEW)
    LAB.g(FLEET).watch = state.get("watch", WatchState.SYNCED)
    view.tickets[2].revision = state.get("revision", 22)
    view.plan.mode = state.get("mode", PlanMode.ACTIVE)
    assert not take()
    assert (found.phase, BENCH.queued()) == (TicketPhase.NONE, b"")


@pytest.mark.parametrize(("late", "good"), [(-1, True), (0, False)])
@pytest.mark.parametrize("phase", [TicketPhase.ASKED, TicketPhase.MINE])
def test_ticket_take_is_void_a_second_after_it_was_sent(late, good, phase):
    LAB.g(FLEET_VIEW).tickets[2].seen_at = NOW
    found = ready(phase=phase, sent_at=NOW - 1_000 * MS)
    assert take(tsc=NOW + late) is (good and phase == TicketPhase.MINE)
    assert found.phase == (phase if good else TicketPhase.NONE)
    assert found.paid == 1


def test_ticket_take_does_not_outlast_a_clock_that_stood_still():
    found = ready(phase=TicketPhase.MINE, sent_at=NOW)
    LAB.g(FLEET).frozen = 1
    assert not take(tsc=NOW + 1)
    assert found.phase == TicketPhase.NONE


def test_ticket_take_of_another_shards_ticket():
    ready(phase=TicketPhase.MINE, sent_at=NOW, shard=10)
    assert not take(tsc=NOW + 1)


@pytest.mark.parametrize(("late", "mine"), [(0, False), (1, True)])
def test_ticket_take_of_a_turn_that_another_shard_let_pass(late, mine):
    found = ready(shard=10, ask_at=NOW - 1_000 * MS - late)
    assert not take()
    assert found.shard == (6 if mine else 10)
    assert found.phase == TicketPhase.NONE


@pytest.mark.parametrize(("now", "good"), [(SIGN - 1, True), (SIGN, False)])
def test_ticket_take_compares_when_a_ticket_is_void_without_a_sign(now, good):
    ready(phase=TicketPhase.MINE, sent_at=SIGN - 1_000 * MS)
    assert take(tsc=now) is good


@pytest.mark.parametrize(
    ("known", "ask", "now", "asked"),
    [
        (0, -1, -1, False),
        (-1, -1, 0, True),
        (-1, 0, -1, False),
        (-1, 0, 0, True),
    ],
)
def test_ticket_take_compares_when_it_may_ask_without_a_sign(known, ask, now, asked):
    LAB.g(FLEET_VIEW).tickets[2].seen_at = SIGN + known - KNOWN
    found = ready(ask_at=SIGN + ask)
    assert not take(SIGN + now)
    assert (found.phase == TicketPhase.ASKED) is asked


@pytest.mark.parametrize(("passed", "now", "mine"), [(0, -1, False), (-1, 0, True), (0, 0, False)])
def test_ticket_take_compares_when_a_turn_has_passed_without_a_sign(passed, now, mine):
    LAB.g(FLEET_VIEW).tickets[2].seen_at = SIGN - 2 * KNOWN
    found = ready(shard=10, ask_at=SIGN + passed - 1_000 * MS)
    assert not take(SIGN + now)
    assert found.shard == (6 if mine else 10)


def test_ticket_take_decides_once_for_a_record():
    found = ready(ask_at=0)
    assert not take()
    assert NOW < found.ask_at < NOW + 18 * MS
    due = found.ask_at
    take()
    assert found.ask_at == due


def test_ticket_spend_without_a_plan_spends_nothing():
    found = ready(phase=TicketPhase.MINE)
    LAB.g(FLEET_VIEW).plan.mode = PlanMode.UNKNOWN
    LAB.call(ticket_spend, shard=BENCH.shards[1])
    assert (found.phase, found.paid) == (TicketPhase.MINE, 1)


def test_ticket_take_decides_anew_for_a_new_record():
    found = ready(revision=21, ask_at=NOW - 1)
    assert not take()
    assert (found.revision, found.phase) == (22, TicketPhase.NONE)
    assert found.ask_at > NOW


def test_ticket_take_that_cannot_be_sent_is_tried_again():
    BENCH.link.state = LinkState.DOWN
    found = ready()
    assert not take()
    assert (found.phase, found.ask_at) == (TicketPhase.NONE, NOW)


@pytest.mark.parametrize(
    ("body", "status", "phase"),
    [
        (GRANT, 0, TicketPhase.MINE),
        (REFUSED, 0, TicketPhase.ASKED),
        (b"", 503, TicketPhase.ASKED),
    ],
)
@pytest.mark.parametrize("key", [0, 255])
def test_ticket_answered(body, status, phase, key):
    set_fields(ticket(key), phase=TicketPhase.ASKED, inbox=5)
    set_fields(ticket(7), phase=TicketPhase.MINE, inbox=6)
    assert answer(ticket_answered, 6, body, status) == 1
    assert answer(ticket_answered, 5, body, status) == 0
    assert ticket(key).phase == phase


def test_ticket_answered_looks_at_no_more_tickets_than_there_are():
    """What lies behind the last looks like one that waits for this answer."""
    set_fields(ticket(FLEET_TICKETS.count), phase=TicketPhase.ASKED, inbox=5)
    assert answer(ticket_answered, 5, GRANT) == 1


@pytest.mark.parametrize(
    ("holder", "op", "before", "after"),
    [
        (Holder.MINE, 7, TicketPhase.ASKED, TicketPhase.MINE),
        (Holder.MINE, 6, TicketPhase.ASKED, TicketPhase.NONE),
        (Holder.OTHER, 7, TicketPhase.ASKED, TicketPhase.NONE),
        (Holder.NOBODY, 7, TicketPhase.ASKED, TicketPhase.NONE),
        (Holder.MINE, 7, TicketPhase.NONE, TicketPhase.NONE),
        (Holder.OTHER, 7, TicketPhase.MINE, TicketPhase.MINE),
    ],
)
def test_ticket_seen(holder, op, before, after):
    set_fields(ticket(3), phase=before, op=7)
    LAB.call(ticket_seen, key=3, holder=holder, op=op)
    assert ticket(3).phase == after


@settings(max_examples=80, deadline=None)
@given(
    phase=st.sampled_from(TicketPhase),
    sent=around(NOW, NOW - 1_000 * MS),
    ask=around(NOW, NOW - 1_000 * MS),
    owner=st.sampled_from([6, 10]),
    revision=st.sampled_from([0, 21, 22]),
    seen=around(NOW - KNOWN),
    paid=st.integers(0, 1),
)
def test_ticket_take_any_state_matches_the_model(phase, sent, ask, owner, revision, seen, paid):
    prepare()
    ready(phase=phase, sent_at=sent, ask_at=ask, shard=owner, paid=paid)
    set_fields(LAB.g(FLEET_VIEW).tickets[2], revision=revision, seen_at=seen)
    take()
