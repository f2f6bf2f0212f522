"""What is held: grants, strangers' records, and the plan's word."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.fleet.held import held_find, held_grant, held_stop, lease_mirror, op_find
from firmware.fleet.judge import held_judge, held_judge_all, held_seen, plan_differs
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    HELD_MAX,
    OPS_MAX,
    FleetOp,
    HeldPhase,
    HeldSlot,
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
from firmware.layouts.node import CLOCK, CORE, LEASE
from tests.support.fleet import name_node, set_fields
from tests.support.lab import Lab
from tests.support.states import DWORD, MS, NOW, QWORD, around

LAB = Lab(
    held_find, held_grant, held_judge, held_judge_all, held_seen, held_stop, lease_mirror, op_find,
    plan_differs, slots=0,
)  # fmt: skip
D_MS = 20_000
SLOT, PLACE = 5, 3
OWNED = (HeldPhase.HELD, HeldPhase.RUNNING, HeldPhase.STOPPING)


@pytest.fixture(autouse=True)
def node():
    prepare()


def prepare():
    LAB.reset()
    name_node(LAB)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    LAB.g(FLEET).watch = WatchState.SYNCED
    plan = LAB.g(FLEET_VIEW).plan
    set_fields(
        plan, revision=40, mode=PlanMode.ACTIVE, epoch=3, total=64, max_concurrency=1,
        duration_ms=D_MS, slots=8,
    )  # fmt: skip
    for n in range(8):
        set_fields(plan.ranges[n], start=8 * n, count=8)


def hold(place=PLACE, **fields):
    """Return an entry that holds SLOT as the plan has it."""
    held = LAB.g(FLEET).held[place]
    given = {
        "phase": HeldPhase.RUNNING, "slot": SLOT, "seen": 1, "generation": 7, "revision": 100,
        "start": 40, "count": 8, "total": 64, "epoch": 3, "duration_ms": D_MS, "expected": 90,
        "plan_revision": 40, "hard_stop": NOW + 10_000 * MS, "deadline": NOW + 10_500 * MS,
    }  # fmt: skip
    set_fields(held, **{**given, **fields})
    return held


def sent(held, place, op, at, inbox=9):
    set_fields(held.ops[place], op=op, sent_at=at, inbox=inbox)
    return held.ops[place]


def show(**fields):
    """Let the view of SLOT be our own newest record."""
    view = LAB.g(FLEET_VIEW).slots[SLOT]
    given = {"state": SlotState.HELD, "mine": 1, "generation": 7, "op": 21, "revision": 101}
    set_fields(view, **{**given, **fields})


def grant(held, op, revision, told=0):
    LAB.call(held_grant, held=held.address_, op=op.address_, revision=revision, told=told)


def test_held_grant_counts_from_before_the_request_left():
    held = hold(phase=HeldPhase.CLAIMING, revision=0, deadline=0, hard_stop=0)
    grant(held, sent(held, 0, 21, NOW - 70 * MS), 101)
    assert held.deadline == NOW - 70 * MS + D_MS * MS
    assert held.hard_stop == NOW - 70 * MS + (19_800 - 2_000) * MS
    assert held.renew_at == NOW - 70 * MS + 5_000 * MS
    assert (held.phase, held.revision, held.granted_op) == (HeldPhase.HELD, 101, 21)
    assert (LAB.g(FLEET).grants, held.renewals) == (1, 0)


@pytest.mark.parametrize(
    ("duration_ms", "trusted_ms"), [(4_000, 1_960), (4_001, 1_960), (600_000, 592_000)]
)
def test_held_grant_rounds_what_it_trusts_down(duration_ms, trusted_ms):
    held = hold(deadline=0, duration_ms=duration_ms)
    grant(held, sent(held, 0, 21, NOW), 101)
    assert (held.hard_stop, held.deadline) == (NOW + trusted_ms * MS, NOW + duration_ms * MS)


def test_held_grant_never_shortens_what_was_granted():
    held = hold(deadline=NOW + D_MS * MS, hard_stop=NOW + 1, renew_at=NOW + 2)
    grant(held, sent(held, 0, 21, NOW), 101)
    assert (held.deadline, held.hard_stop, held.renew_at) == (NOW + D_MS * MS, NOW + 1, NOW + 2)
    assert (held.revision, held.renewals) == (101, 1)


def test_held_grant_of_an_overtaken_answer_changes_nothing():
    held = hold()
    op = sent(held, 0, 21, NOW)
    grant(held, op, 99)
    assert (held.revision, held.deadline, held.granted_op) == (100, NOW + 10_500 * MS, 0)


@pytest.mark.parametrize("number", [21, 2**31])
def test_held_grant_forgets_the_operations_that_can_no_longer_be_granted(number):
    held = hold()
    for n, op in enumerate((number - 1, number + 1, number, number - 2)):
        sent(held, n, op, NOW)
    grant(held, held.ops[2], 101)
    assert [held.ops[n].op for n in range(4)] == [0, number + 1, number, 0]


@pytest.mark.parametrize("later", [-1, 0, 1])
def test_held_grant_compares_deadlines_without_a_sign(later):
    held = hold(deadline=2**63, hard_stop=7)
    grant(held, sent(held, 0, 21, 2**63 + later - D_MS * MS), 101)
    assert (held.deadline, held.hard_stop == 7) == (2**63 + max(later, 0), later <= 0)


@pytest.mark.parametrize(("revision", "adopted", "renewals"), [(100, 0, 0), (101, 1, 1)])
def test_held_grant_that_the_watch_told_first_is_adopted(revision, adopted, renewals):
    held = hold()
    grant(held, sent(held, 0, 21, NOW), revision, told=1)
    assert (LAB.g(FLEET).adopted, held.renewals) == (adopted, renewals)


@settings(max_examples=80, deadline=None)
@given(
    phase=st.sampled_from(HeldPhase),
    at=around(NOW, NOW - 20_000 * MS),
    old=around(100),
    deadline=around(NOW, NOW + 20_000 * MS),
    duration=st.sampled_from([4_000, 4_099, 20_000, 600_000]),
    revision=QWORD,
    told=st.integers(0, 1),
    ops=st.lists(st.integers(0, 4), min_size=OPS_MAX, max_size=OPS_MAX),
)
def test_held_grant_any_state_matches_the_model(
    phase, at, old, deadline, duration, revision, told, ops
):
    prepare()
    held = hold(phase=phase, revision=old, deadline=deadline, duration_ms=duration)
    for n, op in enumerate(ops):
        sent(held, n, op, at + n)
    grant(held, held.ops[2], revision, told)


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


def test_held_find_and_op_find():
    held = hold(place=7)
    assert LAB.call(held_find, slot=SLOT).outputs["rax"] == held.address_
    assert LAB.call(held_find, slot=SLOT + 1).outputs["rax"] == 0
    held.phase = HeldPhase.NONE
    assert LAB.call(held_find, slot=SLOT).outputs["rax"] == 0
    sent(held, OPS_MAX - 1, 9, NOW)
    found = LAB.call(op_find, held=held.address_, number=9).outputs["rax"]
    assert LAB.view(FleetOp, found).sent_at == NOW
    assert LAB.call(op_find, held=held.address_, number=8).outputs["rax"] == 0


def test_held_find_and_op_find_look_at_no_more_entries_than_there_are():
    """What lies behind the last looks like one that would be found."""
    held = hold(place=HELD_MAX - 1, slot=SLOT + 1)
    behind = held.address_ + HeldSlot.SIZE
    LAB.machine.write(behind, LAB.machine.read(held.address_, HeldSlot.SIZE))
    LAB.view(HeldSlot, behind).slot = SLOT
    assert LAB.call(held_find, slot=SLOT).outputs["rax"] == 0
    LAB.view(FleetOp, held.ops[OPS_MAX - 1].address_ + FleetOp.SIZE).op = 9
    assert LAB.call(op_find, held=held.address_, number=9).outputs["rax"] == 0


def mirror():
    LAB.call(lease_mirror)
    lease = LAB.g(LEASE)
    return lease.expired, lease.deadline


def test_lease_mirror_follows_the_longest_slot():
    lease = LAB.g(LEASE)
    lease.deadline = 5
    assert mirror() == (1, 5)
    hold(place=0, phase=HeldPhase.CLAIMING, hard_stop=0)
    hold(place=1, phase=HeldPhase.GONE, hard_stop=NOW + 9)
    hold(place=2, phase=HeldPhase.RELEASING, hard_stop=NOW + 9)
    LAB.g(FLEET).grants = 12
    assert mirror() == (1, 5)
    assert (LAB.g(FLEET).holding, lease.generation) == (3, 12)
    for place, (phase, stop) in enumerate(
        ((HeldPhase.HELD, NOW + 1), (HeldPhase.RUNNING, NOW + 3), (HeldPhase.STOPPING, NOW + 2)), 3
    ):
        hold(place=place, phase=phase, hard_stop=stop)
    assert mirror() == (0, NOW + 3)
    assert LAB.g(FLEET).holding == 6


@settings(max_examples=60, deadline=None)
@given(
    phases=st.lists(st.sampled_from(HeldPhase), min_size=HELD_MAX, max_size=HELD_MAX),
    stops=st.lists(QWORD, min_size=HELD_MAX, max_size=HELD_MAX),
    grants=DWORD,
)
def test_lease_mirror_any_entries_match_the_model(phases, stops, grants):
    prepare()
    LAB.g(FLEET).grants = grants
    for n, (phase, stop) in enumerate(zip(phases, stops, strict=True)):
        hold(place=n, phase=phase, hard_stop=stop)
    mirror()


def test_held_stop_gives_the_reason():
    held = hold()
    LAB.call(held_stop, held=held.address_, reason=FLEET_DRAIN.code)
    assert (held.phase, held.reason) == (HeldPhase.STOPPING, FLEET_DRAIN.code)
    assert LAB.view(HeldSlot, held.address_).slot == SLOT
