"""What is held: grants, what is found again, and the lease that the node shows of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.fleet.held import held_find, held_grant, held_stop, lease_mirror, op_find
from firmware.layouts.fleet import FLEET, HELD_MAX, OPS_MAX, FleetOp, HeldPhase, HeldSlot
from firmware.layouts.fleet_sites import FLEET_DRAIN
from firmware.layouts.node import LEASE
from tests.support.held import D_MS, LAB, SLOT, hold, prepare, sent
from tests.support.states import DWORD, MS, NOW, QWORD, around


@pytest.fixture(autouse=True)
def node():
    prepare()


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
