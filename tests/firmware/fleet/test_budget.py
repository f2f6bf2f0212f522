"""The budget of session starts: what is left, what is paid, and what the service says of it."""

import pytest

from emulator.environment import Environment
from firmware.fleet.budget import (
    budget_answered,
    budget_pay,
    budget_restate,
    budget_spent,
    ticket_of,
)
from firmware.layouts.bus import LinkState
from firmware.layouts.fleet import FLEET_VIEW, PlanMode
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_tickets import FLEET_BUDGET
from firmware.layouts.node import CORE
from firmware.layouts.permit import PERMITS
from tests.support.fleet import set_fields
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW
from tests.support.tickets import BENCH, GRANT, LAB, REFUSED, SIGN, answer, prepare, ready, ticket


@pytest.fixture(autouse=True)
def node():
    prepare()


def test_ticket_of_a_shard():
    found = LAB.call(ticket_of, shard=BENCH.shards[1]).outputs
    assert (found["cf"], found["ecx"], found["eax"]) == (0, 2, 1)
    assert found["rsi"] == ticket().address_
    LAB.g(FLEET_VIEW).plan.mode = PlanMode.UNKNOWN
    assert LAB.call(ticket_of, shard=BENCH.shards[1]).outputs["cf"] == 1


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
