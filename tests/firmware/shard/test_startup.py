"""The group start: its budget, what an attempt may take of it, and when it is over."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import STARTUP, OnLimit
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import ShardContext, ShardFlag, ShardState
from firmware.shard.startup import (
    attempt_budget,
    startup_adjust,
    startup_begin,
    startup_budget,
    startup_check,
)
from tests.support.lab import Lab
from tests.support.states import MS, NOW

LAB = Lab(startup_begin, startup_adjust, startup_budget, attempt_budget, startup_check, slots=3)


def prepare(slots=3):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    LAB.g(PERMITS).max_concurrency = 1
    core = LAB.g(CORE)
    core.slots_used = slots
    return core


def lines():
    state = LAB.g(LOG)
    return LAB.machine.read(LAB.image.address(LOG_RING), state.head).decode().splitlines()


@pytest.mark.parametrize(
    ("profile", "slots", "keys", "wanted"),
    [
        (ProfileId.DISCORD, 1, 1, 30_000),
        (ProfileId.DISCORD, 16, 1, 105_000),
        (ProfileId.DISCORD, 16, 16, 30_000),
        (ProfileId.DISCORD, 17, 16, 35_000),
        (ProfileId.FLUXER, 16, 16, 45_000),
        (ProfileId.FLUXER, 1, 1, 30_000),
    ],
)
def test_startup_begin_adds_the_spacing_of_identifies(profile, slots, keys, wanted):
    prepare(slots)
    LAB.g(PERMITS).max_concurrency = keys
    shard = LAB.shard()
    LAB.view(ShardContext, shard).profile = profile
    LAB.call(startup_begin, shard=shard)
    start = LAB.g(STARTUP)
    assert (start.budget_ms, start.deadline) == (wanted, NOW + wanted * MS)
    assert lines()[0].endswith(f"code=lifecycle.startupDeadline budgetMs={wanted} shards={slots}")


@settings(max_examples=40, deadline=None)
@given(
    slots=st.integers(1, 255),
    keys=st.integers(1, 256),
    timeout=st.sampled_from([1, 30_000, 2**31 - 1]),
    profile=st.sampled_from(ProfileId),
)
def test_startup_begin_any_plan_matches_model(slots, keys, timeout, profile):
    prepare(slots)
    LAB.g(PERMITS).max_concurrency, LAB.g(CONFIG).startup_timeout_ms = keys, timeout
    shard = LAB.shard()
    LAB.view(ShardContext, shard).profile = profile
    LAB.call(startup_begin, shard=shard)
    assert LAB.g(STARTUP).budget_ms < 2**31


@pytest.mark.parametrize(
    ("before", "after", "budget_ms"), [(16, 1, 105_000), (1, 16, 30_000), (4, 4, 45_000)]
)
def test_startup_adjust_moves_the_end_and_not_the_beginning(before, after, budget_ms):
    prepare(16)
    shard = LAB.shard()
    LAB.g(PERMITS).max_concurrency = before
    LAB.call(startup_begin, shard=shard)
    said = len(lines())
    LAB.g(PERMITS).max_concurrency, LAB.g(CORE).now = after, NOW + 9_000 * MS
    LAB.call(startup_adjust, shard=shard)
    start = LAB.g(STARTUP)
    assert (start.budget_ms, start.deadline) == (budget_ms, NOW + budget_ms * MS)
    assert len(lines()) - said == (before != after)


def test_startup_adjust_begins_nothing():
    prepare()
    LAB.call(startup_adjust, shard=LAB.shard())
    assert (LAB.g(STARTUP).budget_ms, LAB.g(STARTUP).deadline, lines()) == (0, 0, [])


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (0, NOW + 7 * MS),
        (ShardFlag.SEQ_VALID | ShardFlag.RESTORED, NOW + 7 * MS),
        (ShardFlag.ESTABLISHED, NOW + 30_000 * MS),
        (ShardFlag.STARTUP_OVER, NOW + 30_000 * MS),
    ],
)
def test_attempt_budget_is_the_startups_rest_or_its_own(flags, wanted):
    prepare()
    LAB.g(STARTUP).deadline = NOW + 7 * MS
    shard = LAB.shard()
    LAB.view(ShardContext, shard).flags = flags
    assert LAB.call(attempt_budget, shard=shard).outputs["rax"] == wanted


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_attempt_budget_compares_times_without_a_sign(late):
    prepare()
    LAB.g(STARTUP).deadline, LAB.g(CORE).now = 2**63, 2**63 + late
    shard = LAB.shard()
    LAB.call(attempt_budget, shard=shard)
    assert LAB.view(ShardContext, shard).flags == (ShardFlag.STARTUP_OVER if late >= 0 else 0)


@pytest.mark.parametrize(
    ("on_limit", "wanted", "flags"),
    [
        (OnLimit.RETRY, NOW + 30_000 * MS, ShardFlag.STARTUP_OVER),
        (OnLimit.FATAL, NOW, 0),
    ],
)
def test_attempt_budget_of_a_shard_that_was_held_past_the_startup(on_limit, wanted, flags):
    prepare()
    LAB.g(STARTUP).deadline, LAB.g(CONFIG).on_limit = NOW, on_limit
    shard = LAB.shard()
    assert LAB.call(attempt_budget, shard=shard).outputs["rax"] == wanted
    assert LAB.view(ShardContext, shard).flags == flags


@pytest.mark.parametrize(
    ("states", "active", "before", "after"),
    [
        ((2, 2, 2), (1, 1, 1), 0, 1),
        ((2, 1, 2), (1, 1, 1), 0, 0),
        ((2, 1, 2), (1, 0, 1), 0, 1),
        ((2, 2, 2), (1, 1, 1), 1, 1),
    ],
)
def test_startup_check_notes_the_first_time_that_all_are_ready(states, active, before, after):
    core = prepare()
    start = LAB.g(STARTUP)
    start.budget_ms, start.deadline, start.satisfied = 30_000, NOW + 29_000 * MS, before
    for n, (state, on) in enumerate(zip(states, active, strict=True)):
        address = LAB.shard(n)
        LAB.view(ShardContext, address).state = ShardState(state)
        core.slots[n].context, core.slots[n].flags = address, on
    LAB.call(startup_check)
    assert start.satisfied == after
    said = [line for line in lines() if "lifecycle.allReady durationMs=1000 shards=3" in line]
    assert len(said) == (after and not before)
