"""The Identify allowance: never more than so many in a day."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import DISCOVERY, DiscoveryMode, DiscoveryState
from firmware.layouts.fleet import FLEET_VIEW, PlanMode
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import SSES_VALID, Hold, ShardContext, ShardFlag
from firmware.layouts.survivor import SURVIVOR
from firmware.shard.allowance import (
    allowance_count,
    allowance_hold,
    allowance_spent,
    starts_spent,
)
from tests.support.lab import Lab

LAB = Lab(allowance_count, allowance_hold, allowance_spent, starts_spent, slots=1)
MS, UNIX, DAY = 1_000_000, 1_790_000_000, 86_400


def prepare(*, allowance=3, identified=0, window_at=UNIX, at_s=0, owned=0):
    LAB.reset()
    LAB.g(CONFIG).identify_allowance = allowance
    clock = LAB.g(CLOCK)
    clock.tsc_cycles_per_ms, clock.unix_time, clock.unix_tsc = MS, UNIX, 0
    LAB.g(CORE).now = at_s * 1000 * MS
    facts = LAB.g(SURVIVOR)
    facts.identified, facts.window_at = identified, window_at
    LAB.g(PERMITS).owned = owned
    return LAB.view(ShardContext, LAB.shard(0))


def spent():
    return LAB.call(allowance_spent).outputs["cf"]


def lines():
    return LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head).decode()


@pytest.mark.parametrize(
    ("identified", "owned", "wanted"),
    [(0, 0, 0), (2, 0, 0), (3, 0, 1), (2, 1, 1), (1, 1, 0), (4, 0, 1), (2**31, 0, 1)],
)
def test_what_was_sent_and_what_is_on_its_way_count(identified, owned, wanted):
    prepare(identified=identified, owned=owned)
    assert spent() == wanted


def test_zero_is_no_bound():
    prepare(allowance=0, identified=2**32 - 1)
    assert spent() == 0


@pytest.mark.parametrize(("at_s", "wanted"), [(0, 1), (DAY - 1, 1), (DAY, 0), (2 * DAY, 0)])
def test_a_window_lasts_a_day(at_s, wanted):
    prepare(identified=3, at_s=at_s)
    assert spent() == wanted
    facts = LAB.g(SURVIVOR)
    assert (facts.identified, facts.window_at) == ((3, UNIX) if wanted else (0, UNIX + at_s))


def test_a_date_that_went_back_begins_the_window_anew_with_its_count():
    prepare(identified=3, window_at=UNIX + 100)
    assert spent() == 1
    assert (LAB.g(SURVIVOR).identified, LAB.g(SURVIVOR).window_at) == (3, UNIX)


def test_a_shard_without_an_identify_is_held_and_says_so_once():
    shard = prepare(identified=3)
    shard.hold = Hold.NEW
    assert LAB.call(allowance_hold, shard=shard.address_).outputs["eax"] == Hold.NO_IDENT_BUDGET
    assert (
        lines().count(
            "code=lifecycle.identifyPermitFailed reason=no_ident_budget used=3 allowance=3"
        )
        == 1
    )
    shard.hold = Hold.NO_IDENT_BUDGET
    assert LAB.call(allowance_hold, shard=shard.address_).outputs["eax"] == Hold.NO_IDENT_BUDGET
    assert lines().count("code=lifecycle.identifyPermitFailed") == 1


def test_a_resume_needs_none():
    shard = prepare(identified=3)
    shard.session_ptr, shard.flags = shard.session.address_, ShardFlag.SEQ_VALID
    shard.session.valid = SSES_VALID
    assert LAB.call(allowance_hold, shard=shard.address_).outputs["eax"] == Hold.NONE


def test_while_some_are_left_nobody_is_held():
    shard = prepare(identified=2)
    assert LAB.call(allowance_hold, shard=shard.address_).outputs["eax"] == Hold.NONE


def test_the_first_begins_the_window_and_the_last_is_said_aloud():
    prepare(window_at=5, at_s=10)
    for n in range(1, 4):
        LAB.g(CORE).now = (10 + n) * 1000 * MS
        LAB.call(allowance_count)
        assert LAB.g(SURVIVOR).identified == n
        assert LAB.g(SURVIVOR).window_at == UNIX + 11
        assert lines().count("code=identify.spent") == int(n == 3)
    assert f"code=identify.spent used=3 allowance=3 next_in_s={DAY - 2}" in lines()


def test_without_a_bound_none_is_the_last():
    prepare(allowance=0)
    LAB.call(allowance_count)
    assert lines() == ""


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1),
    st.integers(0, 2**20), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_any_state(allowance, identified, window_at, at_s, owned):
    shard = prepare(
        allowance=allowance, identified=identified, window_at=window_at, at_s=at_s, owned=owned
    )
    LAB.call(allowance_hold, shard=shard.address_)
    LAB.call(allowance_count)


@pytest.mark.parametrize(
    ("total", "remaining", "owned", "now_s", "wanted", "left"),
    [
        (0, 0, 5, 0, 0, 0),
        (1000, 3, 2, 0, 0, 3),
        (1000, 3, 3, 0, 1, 3),
        (1000, 0, 0, 0, 1, 0),
        (1000, 0, 0, 59, 1, 0),
        (1000, 0, 0, 60, 0, 1000),
    ],
)
def test_session_starts_of_the_service_bound_identifies_too(
    total, remaining, owned, now_s, wanted, left
):
    prepare(allowance=0, owned=owned, at_s=now_s)
    permits = LAB.g(PERMITS)
    permits.total, permits.remaining, permits.reset_at = total, remaining, 60_000 * MS
    assert spent() == wanted
    assert permits.remaining == left
    came_back = total and now_s >= 60
    assert permits.reset_at == (60_000 + (DAY * 1000 if came_back else 0)) * MS


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_when_session_starts_come_back_is_compared_without_a_sign(late):
    prepare(allowance=0)
    permits = LAB.g(PERMITS)
    permits.total, permits.remaining, permits.reset_at = 1000, 0, 2**63
    LAB.g(CORE).now = 2**63 + late
    assert LAB.call(starts_spent).outputs["cf"] == (late < 0)


@given(allowance=st.integers(0, 3), total=st.integers(0, 2), remaining=st.integers(0, 3))
def test_both_bounds_hold_together(allowance, total, remaining):
    prepare(allowance=allowance, identified=1)
    permits = LAB.g(PERMITS)
    permits.total, permits.remaining, permits.reset_at = total, remaining, 60_000 * MS
    assert spent() == int(allowance == 1 or (total and not remaining))


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (7, 6)])
def test_an_identify_takes_one_of_the_session_starts(before, after):
    prepare()
    LAB.g(PERMITS).remaining = before
    LAB.call(allowance_count)
    assert LAB.g(PERMITS).remaining == after


@pytest.mark.parametrize(("remaining", "held"), [(6, Hold.NONE), (5, Hold.NO_IDENT_BUDGET)])
def test_a_bot_whose_session_starts_are_down_to_the_reserve_holds_its_shards(remaining, held):
    shard = prepare()
    config, view = LAB.g(FLEET_CONFIG), LAB.g(FLEET_VIEW)
    config.magic, config.reserve = FLEET_MAGIC, 5
    view.plan.mode, view.plan.max_concurrency = PlanMode.ACTIVE, 1
    view.budget.revision, view.budget.remaining, view.budget.total = 9, remaining, 1_000
    for _ in range(2):
        assert LAB.call(allowance_hold, shard=shard.address_).outputs["eax"] == held
    assert lines().count("code=fleet.budgetSpent remaining=5 reserve=5 total=1000") == bool(held)


def held_by_the_budget(**fields):
    """Return a shard of a fleet whose budget is spent; discovery is configured and has answered."""
    shard = prepare(at_s=1_000)
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    LAB.g(CONFIG).discovery = fields.get("mode", DiscoveryMode.HTTP)
    view = LAB.g(FLEET_VIEW)
    view.plan.mode, view.plan.max_concurrency = PlanMode.ACTIVE, 1
    view.budget.revision, view.budget.total = 9, 1_000
    LAB.g(DISCOVERY).state = fields.get("state", DiscoveryState.FOUND)
    permits = LAB.g(PERMITS)
    permits.total, permits.reset_at = fields.get("total", 1_000), LAB.g(CORE).now
    return shard


def test_a_spent_budget_is_asked_for_again_when_all_starts_are_back():
    shard = held_by_the_budget()
    now = LAB.g(CORE).now

    def hold():
        return LAB.call(allowance_hold, shard=shard.address_).outputs["eax"]

    for late, found, wanted in (
        (-1, DiscoveryState.FOUND, Hold.NO_IDENT_BUDGET),
        (0, DiscoveryState.IDLE, Hold.NONE),
        (60_000 * MS - 1, DiscoveryState.FOUND, Hold.NO_IDENT_BUDGET),
        (60_000 * MS, DiscoveryState.IDLE, Hold.NONE),
    ):
        LAB.g(DISCOVERY).state = DiscoveryState.FOUND
        LAB.g(CORE).now = now + late
        assert (hold(), LAB.g(DISCOVERY).state) == (wanted, found)
    # The record counts, whatever this node was told once.
    assert LAB.g(PERMITS).remaining == 0


@pytest.mark.parametrize(
    ("state", "total"),
    [
        (state, total)
        for state in DiscoveryState
        for total in (0, 1_000)
        if (state, total) != (DiscoveryState.FOUND, 1_000)
    ],
)
def test_whoever_was_never_told_asks_at_once(state, total):
    shard = held_by_the_budget(state=state, total=total)
    wanted = Hold.NONE if state < DiscoveryState.FOUND else Hold.NO_IDENT_BUDGET
    assert LAB.call(allowance_hold, shard=shard.address_).outputs["eax"] == wanted
    assert LAB.g(DISCOVERY).state == state


def test_without_discovery_nobody_is_asked():
    shard = held_by_the_budget(mode=DiscoveryMode.STATIC, state=DiscoveryState.IDLE)
    held = LAB.call(allowance_hold, shard=shard.address_).outputs["eax"]
    assert held == Hold.NO_IDENT_BUDGET


def test_in_a_fleet_the_record_counts_and_not_the_node():
    prepare()
    permits = LAB.g(PERMITS)
    permits.total, permits.reset_at = 5, 2**63
    assert LAB.call(starts_spent).outputs["cf"] == 1
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    assert LAB.call(starts_spent).outputs["cf"] == 0
