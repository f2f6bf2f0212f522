"""What a lease becomes under a record that is not ours, and under another plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.fleet.judge import held_judge, held_judge_all, held_seen
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    HELD_MAX,
    HeldPhase,
    PlanMode,
    SlotState,
    WatchState,
)
from firmware.layouts.fleet_sites import (
    FLEET_ASKED,
    FLEET_DRAIN,
    FLEET_LATE,
    FLEET_LOST,
    FLEET_REPLANNED,
)
from firmware.layouts.node import CORE
from tests.support.fleet import set_fields
from tests.support.held import LAB, SLOT, hold, prepare, sent
from tests.support.states import MS, NOW

OWNED = (HeldPhase.HELD, HeldPhase.RUNNING, HeldPhase.STOPPING)


@pytest.fixture(autouse=True)
def node():
    prepare()


def show(**fields):
    """Let the view of SLOT be our own newest record."""
    view = LAB.g(FLEET_VIEW).slots[SLOT]
    given = {"state": SlotState.HELD, "mine": 1, "generation": 7, "op": 21, "revision": 101}
    set_fields(view, **{**given, **fields})


def seen(revision=101, slot=SLOT):
    LAB.call(held_seen, slot=slot, revision=revision)


def test_held_seen_of_our_own_renewal_grants_it_and_marks_the_claim_as_back():
    held = hold(phase=HeldPhase.CLAIMING, revision=0, seen=0, deadline=0)
    sent(held, 4, 21, NOW - 5)
    show()
    seen()
    assert (held.phase, held.revision, held.seen) == (HeldPhase.HELD, 101, 1)
    assert LAB.g(FLEET).adopted == 1


def test_held_seen_of_an_operation_that_is_forgotten_only_moves_the_revision():
    held = hold(seen=0)
    show(op=20)
    seen()
    assert (held.revision, held.seen, held.deadline) == (101, 1, NOW + 10_500 * MS)


def test_held_seen_of_an_unknown_operation_grants_no_claim():
    held = hold(phase=HeldPhase.CLAIMING, revision=0, seen=0, deadline=0)
    for op in (0, 20):
        show(op=op)
        seen()
        assert (held.phase, held.revision, held.seen) == (HeldPhase.CLAIMING, 0, 0)


def test_held_seen_of_an_old_record_of_ours_after_a_resync_changes_nothing():
    held = hold(seen=0)
    sent(held, 0, 21, NOW)
    show()
    seen(99)
    assert (held.revision, held.seen) == (100, 0)


STRANGE = [
    {"mine": 0}, {"state": SlotState.FREE, "mine": 0}, {"state": SlotState.ABSENT, "mine": 0},
    {"generation": 8}, {"generation": 6},
]  # fmt: skip


@pytest.mark.parametrize("record", STRANGE)
@pytest.mark.parametrize("phase", OWNED)
def test_held_seen_a_later_record_that_is_not_ours_ends_the_lease(record, phase):
    held = hold(phase=phase)
    show(**record)
    seen(100)
    assert held.phase == phase
    seen(101)
    assert (held.phase, held.reason, LAB.g(FLEET).lost) == (HeldPhase.GONE, FLEET_LOST.code, 1)
    seen(102)
    assert LAB.g(FLEET).lost == 1


@pytest.mark.parametrize("record", STRANGE)
def test_held_seen_a_claim_that_was_outrun_is_forgotten(record):
    held = hold(phase=HeldPhase.CLAIMING, revision=0)
    show(**record)
    seen(90)
    assert held.phase == HeldPhase.CLAIMING
    seen(91)
    assert (held.phase, LAB.g(FLEET).lost) == (HeldPhase.NONE, 0)


@pytest.mark.parametrize("record", STRANGE)
def test_held_seen_after_a_release_it_is_done(record):
    held = hold(phase=HeldPhase.RELEASING)
    show(**record)
    seen(100)
    assert held.phase == HeldPhase.RELEASING
    seen(101)
    assert (held.phase, LAB.g(FLEET).lost) == (HeldPhase.NONE, 0)


@pytest.mark.parametrize("later", [-1, 1])
@pytest.mark.parametrize("mine", [0, 1])
@pytest.mark.parametrize("phase", [HeldPhase.CLAIMING, HeldPhase.RUNNING])
def test_held_seen_compares_revisions_without_a_sign(phase, mine, later):
    held = hold(phase=phase, revision=2**63, seen=0, expected=2**63)
    show(mine=mine, op=20)
    seen(2**63 + later)
    ended = {HeldPhase.CLAIMING: HeldPhase.NONE, HeldPhase.RUNNING: HeldPhase.GONE}[phase]
    assert held.phase == (ended if later > 0 and not mine else phase)
    assert (held.revision, held.seen) == (2**63 + max(later * mine, 0), later > 0 and mine)


def test_held_seen_of_a_slot_that_nobody_holds_here():
    hold(phase=HeldPhase.NONE)
    hold(place=4, slot=6)
    show(mine=0)
    seen()
    assert LAB.g(FLEET).lost == 0


@settings(max_examples=120, deadline=None)
@given(
    phase=st.sampled_from(HeldPhase),
    state=st.sampled_from(SlotState),
    mine=st.integers(0, 1),
    generation=st.sampled_from([6, 7]),
    op=st.integers(0, 2),
    old=st.sampled_from([0, 100]),
    revision=st.integers(88, 102),
    slot=st.sampled_from([SLOT, SLOT + 1, SLOT + 0x40]),
)
def test_held_seen_any_record_matches_the_model(
    phase, state, mine, generation, op, old, revision, slot
):
    prepare()
    held = hold(phase=phase, revision=old, seen=0)
    sent(held, 0, 1, NOW - 4)
    show(state=state, mine=mine, generation=generation, op=op)
    seen(revision, slot & 0x3F)


def judge(held):
    LAB.call(held_judge, held=held.address_)


def test_held_judge_starts_what_came_back_under_the_plan_of_its_claim():
    held = hold(phase=HeldPhase.HELD, seen=0)
    judge(held)
    assert held.phase == HeldPhase.HELD
    held.seen = 1
    judge(held)
    assert held.phase == HeldPhase.RUNNING


@pytest.mark.parametrize(
    "plan",
    [{"mode": PlanMode.DRAIN}, {"mode": PlanMode.UNKNOWN}, {"revision": 41}, {"revision": 39}],
)
@pytest.mark.parametrize("came_back", [0, 1])
def test_held_judge_gives_back_what_was_claimed_under_another_plan(plan, came_back):
    held = hold(phase=HeldPhase.HELD, seen=came_back)
    set_fields(LAB.g(FLEET_VIEW).plan, **plan)
    judge(held)
    assert (held.phase, held.reason) == (HeldPhase.STOPPING, FLEET_LATE.code)


def test_held_judge_gives_back_what_was_granted_to_a_node_that_stops():
    held = hold(phase=HeldPhase.HELD)
    LAB.g(FLEET).closing = 1
    judge(held)
    assert (held.phase, held.reason) == (HeldPhase.STOPPING, FLEET_ASKED.code)


@pytest.mark.parametrize(("late", "phase"), [(-1, HeldPhase.RUNNING), (0, HeldPhase.HELD)])
def test_held_judge_starts_nothing_after_its_hard_stop(late, phase):
    held = hold(phase=HeldPhase.HELD, hard_stop=NOW - late)
    judge(held)
    assert held.phase == phase


@pytest.mark.parametrize(("now", "phase"), [(-1, HeldPhase.RUNNING), (0, HeldPhase.HELD)])
def test_held_judge_compares_times_without_a_sign(now, phase):
    held = hold(phase=HeldPhase.HELD, hard_stop=2**63)
    LAB.g(CORE).now = 2**63 + now
    judge(held)
    assert held.phase == phase


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({"mode": PlanMode.DRAIN}, FLEET_DRAIN),
        ({"epoch": 4}, FLEET_REPLANNED),
        ({"total": 65}, FLEET_REPLANNED),
        ({"slots": SLOT}, FLEET_REPLANNED),
        ({"mode": PlanMode.UNKNOWN, "epoch": 4}, None),
        ({"revision": 41}, None),
        ({"slots": SLOT + 1}, None),
    ],
)
def test_held_judge_of_a_slot_that_runs(plan, reason):
    held = hold()
    set_fields(LAB.g(FLEET_VIEW).plan, **plan)
    judge(held)
    if reason is None:
        assert (held.phase, held.reason) == (HeldPhase.RUNNING, 0)
    else:
        assert (held.phase, held.reason) == (HeldPhase.STOPPING, reason.code)


@pytest.mark.parametrize("field", ["start", "count"])
def test_held_judge_of_a_slot_that_the_plan_has_otherwise(field):
    held = hold()
    setattr(LAB.g(FLEET_VIEW).plan.ranges[SLOT], field, 7)
    judge(held)
    assert held.reason == FLEET_REPLANNED.code


@pytest.mark.parametrize("phase", set(HeldPhase) - {HeldPhase.HELD, HeldPhase.RUNNING})
def test_held_judge_leaves_other_phases_alone(phase):
    held = hold(phase=phase)
    LAB.g(FLEET_VIEW).plan.mode = PlanMode.DRAIN
    judge(held)
    assert held.phase == phase


@pytest.mark.parametrize("watch", WatchState)
@pytest.mark.parametrize(("mode", "epoch"), [(PlanMode.ACTIVE, 4), (PlanMode.DRAIN, 3)])
def test_held_judge_all_waits_for_all_records_unless_it_is_a_drain(watch, mode, epoch):
    entries = [hold(place=n, slot=n, start=8 * n) for n in range(HELD_MAX)]
    LAB.g(FLEET).watch = watch
    set_fields(LAB.g(FLEET_VIEW).plan, mode=mode, epoch=epoch)
    LAB.call(held_judge_all)
    stopped = watch == WatchState.SYNCED or mode == PlanMode.DRAIN
    phase = HeldPhase.STOPPING if stopped else HeldPhase.RUNNING
    assert [held.phase for held in entries] == [phase] * HELD_MAX
