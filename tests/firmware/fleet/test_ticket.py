"""Identify tickets and the budget: who may identify, when, and for what was paid."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.fleet.budget import (
    budget_answered,
    budget_pay,
    budget_restate,
    budget_spent,
    budget_tell,
    ticket_of,
)
from firmware.fleet.ticket import (
    ticket_answered,
    ticket_ask,
    ticket_seen,
    ticket_spend,
    ticket_take,
)
from firmware.layouts.bus import LinkState
from firmware.layouts.fleet import (
    FLEET,
    FLEET_BUDGET,
    FLEET_TICKETS,
    FLEET_VIEW,
    Holder,
    PlanMode,
    Ticket,
    TicketPhase,
    WatchState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import ShardContext
from tests.support.bus import BusBench
from tests.support.fleet import BOT, set_fields, take_in_hand
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW
from tests.support.states import around

BENCH = BusBench(
    budget_answered, budget_pay, budget_restate, budget_spent, budget_tell, ticket_answered, ticket_ask, ticket_of,
    ticket_seen, ticket_spend, ticket_take,
)  # fmt: skip
LAB = BENCH.lab
SPACING_MS = 5_000
KNOWN = 6_160 * MS
"""(5 s + 1 s) 1.01 + 100 ms."""
GRANT = b'{"stream":"KV_shardfw","seq":9}'
REFUSED = b'{"error":{"code":400,"err_code":10071},"stream":"KV_shardfw","seq":0}'


@pytest.fixture(autouse=True)
def node():
    prepare()


def prepare():
    BENCH.reset()
    BENCH.up()
    config, view = LAB.g(FLEET_CONFIG), LAB.g(FLEET_VIEW)
    config.bot_len, config.bot[: len(BOT)] = len(BOT), BOT
    LAB.g(FLEET).watch = WatchState.SYNCED
    set_fields(view.plan, mode=PlanMode.ACTIVE, max_concurrency=4)
    set_fields(view.budget, revision=30, remaining=900, total=1000)
    for n in range(4):
        set_fields(view.tickets[n], revision=20 + n, seen_at=NOW - KNOWN)
    shard().shard_id = 6


def shard():
    return LAB.view(ShardContext, BENCH.shards[1])


def ticket(key=2):
    at = LAB.image.address(FLEET_TICKETS) + key * Ticket.SIZE
    return LAB.view(Ticket, at)


def take(now=NOW, tsc=None, spacing=SPACING_MS):
    LAB.g(CORE).now = now
    environment = Environment(tsc=lambda: now if tsc is None else tsc)
    inputs = {"shard": BENCH.shards[1], "spacing": spacing}
    return not LAB.call(ticket_take, environment, **inputs).outputs["cf"]


def test_ticket_of_a_shard():
    found = LAB.call(ticket_of, shard=BENCH.shards[1]).outputs
    assert (found["cf"], found["ecx"], found["eax"]) == (0, 2, 1)
    assert found["rsi"] == ticket().address_
    LAB.g(FLEET_VIEW).plan.mode = PlanMode.UNKNOWN
    assert LAB.call(ticket_of, shard=BENCH.shards[1]).outputs["cf"] == 1


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


def answer(routine, inbox, body, status=0):
    take_in_hand(LAB, body, status=status)
    return LAB.call(routine, inbox=inbox).outputs["cf"]


SAID_MS = 3_600_000


def say(remaining, total=1000, age_ms=0):
    """Let the service have said what is left, so long ago."""
    permits = LAB.g(PERMITS)
    set_fields(permits, remaining=remaining, total=total, reset_after_ms=SAID_MS)
    permits.said += 1
    permits.reset_at = NOW + (SAID_MS - age_ms) * MS


def restate(tsc=NOW):
    LAB.g(CORE).now = NOW
    before = len(BENCH.queued())
    LAB.call(budget_restate, Environment(tsc=lambda: tsc))
    return BENCH.queued()[before:]


def test_what_the_service_says_is_written_down_once():
    assert restate() == b""
    say(998)
    sent = restate()
    assert sent.startswith(b"HPUB $KV.shardfw.b1.ctl.budget _I.n7.3fa2c1d0.c.1 ")
    assert sent.endswith(b"Sequence: 30\r\n\r\n1 998 1000 n7 1\r\n")
    assert restate(NOW + 1) == b""
    answer(budget_answered, 1, GRANT)
    assert restate() == b""
    assert not any(ticket(key).paid for key in range(4))


def test_what_the_service_says_is_written_again_on_the_newer_record():
    say(998)
    assert restate().endswith(b"Sequence: 30\r\n\r\n1 998 1000 n7 1\r\n")
    answer(budget_answered, 1, REFUSED)
    LAB.g(FLEET_VIEW).budget.revision = 31
    assert restate().endswith(b"Sequence: 31\r\n\r\n1 998 1000 n7 2\r\n")
    # The answer is lost; meanwhile it says something else.
    say(700)
    assert restate(NOW + 999 * MS) == b""
    assert restate(NOW + 1_000 * MS).endswith(b"\r\n\r\n1 700 1000 n7 3\r\n")
    answer(budget_answered, 3, GRANT)
    assert restate() == b""


@pytest.mark.parametrize(("age_ms", "written"), [(30_000, True), (30_001, False), (-1, False)])
def test_what_the_service_said_long_ago_is_not_written(age_ms, written):
    say(998, age_ms=age_ms)
    assert bool(restate()) is written
    assert LAB.g(FLEET_BUDGET).restated == int(not written)


def test_a_record_that_is_not_known_or_a_payment_on_its_way_is_waited_for():
    say(998)
    LAB.g(FLEET_VIEW).budget.revision = 0
    assert restate() == b""
    LAB.g(FLEET_VIEW).budget.revision = 30
    set_fields(LAB.g(FLEET_BUDGET), sent_at=NOW, inbox=7, key=2)
    assert restate(NOW + 1) == b""
    BENCH.link.state = LinkState.HELLO
    answer(budget_answered, 7, GRANT)
    assert restate() == b""
    BENCH.link.state = LinkState.UP
    assert restate() != b""


def ready(**fields):
    """Return the ticket, paid for and decided."""
    given = {"paid": 1, "shard": 6, "ask_at": NOW, "revision": 22}
    set_fields(ticket(), **{**given, **fields})
    return ticket()


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


SIGN = 2**63
"""Times on either side of it are compared as they are: a TSC has no sign."""


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


def spent():
    return LAB.call(budget_spent, shard=BENCH.shards[1]).outputs["cf"]


@pytest.mark.parametrize(
    ("remaining", "reserve", "none"), [(1, 0, 0), (0, 0, 1), (11, 10, 0), (10, 10, 1), (9, 10, 1)]
)
def test_budget_spent_at_its_reserve(remaining, reserve, none):
    LAB.g(FLEET_VIEW).budget.remaining, LAB.g(FLEET_CONFIG).reserve = remaining, reserve
    assert spent() == none
    ready()
    assert spent() == 0


@pytest.mark.parametrize("unknown", ["magic", "budget", "plan"])
def test_budget_spent_what_is_not_known_holds_nobody(unknown):
    view = LAB.g(FLEET_VIEW)
    view.budget.remaining = 0
    if unknown == "magic":
        LAB.g(FLEET_CONFIG).magic = 0
    elif unknown == "budget":
        view.budget.revision = 0
    else:
        view.plan.mode = PlanMode.UNKNOWN
    assert spent() == 0


def pay(tsc=NOW):
    inputs = {"shard": BENCH.shards[1], "ticket": ticket().address_, "key": 2}
    return LAB.call(budget_pay, Environment(tsc=lambda: tsc), **inputs).outputs["cf"]


def test_budget_pay_of_what_is_spent_says_so_once():
    LAB.g(FLEET_VIEW).budget.remaining = 0
    assert [pay(), pay()] == [1, 1]
    assert len([line for line in BENCH.lines() if line.startswith("fleet.budgetSpent")]) == 1
    LAB.g(FLEET_VIEW).budget.revision = 31
    pay()
    assert len(BENCH.lines()) == 2
    assert BENCH.queued() == b""


def test_budget_tell_says_what_is_left_and_of_what():
    LAB.g(FLEET_VIEW).budget.remaining, LAB.g(FLEET_CONFIG).reserve = 3, 5
    assert pay() == 1
    (line,) = BENCH.lines()
    assert line == "fleet.budgetSpent remaining=3 reserve=5 total=1000"


def test_budget_pay_in_the_first_second_of_a_node_is_sent():
    assert pay(5) == 1
    assert BENCH.queued() != b""


def test_budget_pay_without_a_record_pays_nothing():
    LAB.g(FLEET_VIEW).budget.revision = 0
    assert pay() == 1
    assert BENCH.queued() == b""


@pytest.mark.parametrize(("late", "again"), [(-1, False), (0, True)])
def test_budget_pay_once_a_second_while_nothing_answers(late, again):
    pay()
    size = len(BENCH.queued())
    pay(NOW + 1_000 * MS + late)
    assert (len(BENCH.queued()) > size) is again


@pytest.mark.parametrize(("late", "again"), [(-1, False), (0, True)])
def test_budget_pay_compares_the_time_of_an_answer_without_a_sign(late, again):
    LAB.g(FLEET_BUDGET).sent_at = SIGN - 1_000 * MS
    assert pay(SIGN + late) == 1
    assert (BENCH.queued() != b"") is again


def test_budget_pay_without_room_is_tried_again():
    BENCH.link.state = LinkState.DOWN
    assert pay() == 1
    assert LAB.g(FLEET_BUDGET).sent_at == 0


@pytest.mark.parametrize(
    ("body", "status", "paid"), [(GRANT, 0, 1), (REFUSED, 0, 0), (b"", 503, 0)]
)
def test_budget_answered(body, status, paid):
    set_fields(LAB.g(FLEET_BUDGET), sent_at=NOW, inbox=5, key=3)
    assert answer(budget_answered, 6, body, status) == 1
    assert answer(budget_answered, 5, body, status) == 0
    assert (ticket(3).paid, LAB.g(FLEET_BUDGET).sent_at) == (paid, 0)
    assert answer(budget_answered, 5, body, status) == 1


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
