"""Records of the fleet: the real ones are read, and one wrong character makes any of them nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.fleet.plan import plan_record
from firmware.fleet.records import budget_record, holder_take, lease_record, ticket_record
from firmware.layouts.bus import BUS
from firmware.layouts.fleet import (
    BudgetView,
    Holder,
    PlanMode,
    PlanView,
    SlotState,
    SlotView,
)
from tests.support.lab import Lab

LAB = Lab(budget_record, holder_take, lease_record, plan_record, ticket_record, slots=0)
HELD = b"1 held n7 3fa2c1d0 1 2 20000 3 0 4 16"
FREE = b"1 free - - 7 4 0 3 12 4 16"
PLAN = b"1 active 3 16 1 20000 4 0+4 4+4 8+4 12+4"
TICKET = b"1 n7 3fa2c1d0 3 0"
BUDGET = b"1 998 1000 n7 4"


@pytest.fixture(autouse=True)
def node():
    LAB.reset()
    name_us(b"n7", b"3fa2c1d0")


def name_us(name, boot):
    bus = LAB.g(BUS)
    bus.node[: len(name)] = name
    bus.node_len = len(name)
    bus.boot_text[:8] = boot


WHERE = {SlotView: "view", PlanView: "plan", BudgetView: "budget"}


def read(routine, struct, text):
    """Return the struct, which held junk before, and whether the text was read."""
    where = LAB.put(b"\xa5" * struct.SIZE, first=True)
    inputs = {"text": LAB.put(text), "size": len(text), WHERE[struct]: where}
    good = not LAB.call(routine, **inputs).outputs["cf"]
    return LAB.view(struct, where), good


def lease(text):
    found, good = read(lease_record, SlotView, text)
    if not good:
        assert (found.state, found.mine) == (SlotState.ABSENT, 0)
        return None
    names = ("generation", "op", "duration_ms", "epoch", "start", "count", "total")
    return (found.state, found.mine, *(getattr(found, name) for name in names))


def test_lease_record_reads_what_real_nodes_wrote():
    assert lease(HELD) == (SlotState.HELD, 1, 1, 2, 20000, 3, 0, 4, 16)
    assert lease(FREE) == (SlotState.FREE, 0, 7, 4, 0, 3, 12, 4, 16)


@pytest.mark.parametrize(
    ("name", "boot"), [(b"n8", b"3fa2c1d0"), (b"n7", b"3fa2c1d1"), (b"n", b"3fa2c1d0")]
)
def test_lease_record_of_another_node_or_another_boot_is_a_strangers(name, boot):
    name_us(name, boot)
    assert lease(HELD)[:2] == (SlotState.HELD, 0)


@pytest.mark.parametrize(
    ("old", "new", "good"),
    [
        (b"1 held", b"2 held", False),
        (b"1 held", b"01 held", False),
        (b"1 held", b" 1 held", False),
        (b"held", b"hold", False),
        (b"held", b"helds", False),
        (b"held", b"free", False),
        (b"n7 3fa2c1d0", b"- -", False),
        (b"n7 3fa2c1d0", b"- 3fa2c1d0", True),
        (b"n7 3fa2c1d0", b"n7 -", False),
        (b"n7 ", b"n.7 ", False),
        (b"n7 ", b"n" * 32 + b" ", True),
        (b"n7 ", b"n" * 33 + b" ", False),
        (b"3fa2c1d0", b"3fa2c1d", False),
        (b"3fa2c1d0", b"3fa2c1d00", False),
        (b"3fa2c1d0", b"3fa2c1dg", False),
        (b"3fa2c1d0", b"3FA2C1D0", False),
        (b"d0 1 2", b"d0 4294967294 2", True),
        (b"d0 1 2", b"d0 4294967295 2", False),
        (b" 2 20000", b" 4294967295 20000", True),
        (b" 2 20000", b" 4294967296 20000", False),
        (b"20000", b"3999", False),
        (b"20000", b"4000", True),
        (b"20000", b"600000", True),
        (b"20000", b"600001", False),
        (b"20000", b"0", False),
        (b" 3 0 4 16", b" 4294967295 0 4 16", True),
        (b" 3 0 4 16", b" 4294967296 0 4 16", False),
        (b" 0 4 16", b" 0 0 16", False),
        (b" 0 4 16", b" 12 4 16", True),
        (b" 0 4 16", b" 13 4 16", False),
        (b" 0 4 16", b" 4294967295 4 16", False),
        (b" 0 4 16", b" 0 254 16384", True),
        (b" 0 4 16", b" 0 255 16384", False),
        (b" 0 4 16", b" 0 4 16385", False),
        (b" 0 4 16", b" 0 4 0", False),
        (b" 0 4 16", b" 0 4 16 ", False),
        (b" 0 4 16", b" 0 4 16 1", False),
        (b" 0 4 16", b" 0 4", False),
        (b" 0 4 16", b" 0 4 16\n", False),
        (b" 0 4 16", b"  0 4 16", False),
        (b" 0 4 16", b" 0 +4 16", False),
    ],
)
def test_lease_record_bounds(old, new, good):
    assert HELD.count(old) == 1
    assert (lease(HELD.replace(old, new)) is not None) is good


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"- -", b"n7 3fa2c1d0"),
        (b"- -", b"- x"),
        (b"- -", b"x -"),
        (b"- -", b"-- -"),
        (b"- -", b"- --"),
        (b" 4 0 3", b" 4 20000 3"),
        (b"free", b"FREE"),
    ],
)
def test_lease_record_a_free_slot_has_no_holder_and_no_duration(old, new):
    assert lease(FREE.replace(old, new)) is None


def test_lease_record_of_a_deleted_key_is_absent():
    assert lease(b"") is None


def plan(text):
    found, good = read(plan_record, PlanView, text)
    if not good:
        assert found.mode == PlanMode.UNKNOWN
        return None
    ranges = [(found.ranges[n].start, found.ranges[n].count) for n in range(found.slots)]
    return (
        found.mode, found.epoch, found.total, found.max_concurrency, found.duration_ms, ranges,
    )  # fmt: skip


def test_plan_record_reads_what_a_real_operator_wrote():
    ranges = [(0, 4), (4, 4), (8, 4), (12, 4)]
    assert plan(PLAN) == (PlanMode.ACTIVE, 3, 16, 1, 20000, ranges)
    assert plan(PLAN.replace(b"active", b"drain")) == (PlanMode.DRAIN, 3, 16, 1, 20000, ranges)
    assert plan(b"1 active 0 9 2 4000 1 3+5") == (PlanMode.ACTIVE, 0, 9, 2, 4000, [(3, 5)])


def test_plan_record_of_as_many_slots_as_fit():
    ranges = b" ".join(b"%d+2" % (2 * n) for n in range(65))
    assert len(plan(b"1 active 1 128 16 20000 64 " + ranges.rpartition(b" ")[0])[-1]) == 64
    assert plan(b"1 active 1 130 16 20000 65 " + ranges) is None


@pytest.mark.parametrize(
    ("old", "new", "good"),
    [
        (b"1 active", b"0 active", False),
        (b"active", b"activf", False),
        (b"active", b"bctive", False),
        (b"active", b"actve", False),
        (b"active", b"draim", False),
        (b"active", b"drbin", False),
        (b" 3 16", b" 4294967295 16", True),
        (b" 3 16", b" 4294967296 16", False),
        (b" 16 1 ", b" 15 1 ", False),
        (b" 16 1 ", b" 16384 1 ", True),
        (b" 16 1 ", b" 16385 1 ", False),
        (b" 16 1 ", b" 16 0 ", False),
        (b" 16 1 ", b" 16 256 ", True),
        (b" 16 1 ", b" 16 257 ", False),
        (b"20000", b"3999", False),
        (b"20000", b"600001", False),
        (b" 4 0+4", b" 3 0+4", False),
        (b" 4 0+4", b" 5 0+4", False),
        (b" 4 0+4", b" 0 0+4", False),
        (b" 4 0+4", b" 4 0-4", False),
        (b" 4 0+4", b" 4 0+ 4", False),
        (b" 4 0+4", b" 4 0 +4", False),
        (b" 4 0+4", b" 4 0+5", False),
        (b" 4 0+4", b" 4 0+0", False),
        (b" 4 0+4", b" 4 1+3", True),
        (b" 8+4", b" 7+4", False),
        (b" 12+4", b" 12+4 ", False),
        (b" 12+4", b" 12+4+1", False),
        (b" 12+4", b" 12+5", False),
        (b" 12+4", b" 12", False),
        (b" 12+4", b" 4294967295+4", False),
        (b" 12+4", b" 4294967296+4", False),
        (b" 12+4", b" 12+4294967295", False),
        (b" 12+4", b" 12+4294967296", False),
    ],
)
def test_plan_record_bounds(old, new, good):
    assert PLAN.count(old) == 1
    assert (plan(PLAN.replace(old, new)) is not None) is good


def test_plan_record_a_slot_has_no_more_shards_than_a_node_has_rows():
    assert plan(b"1 active 1 300 1 20000 1 0+254") is not None
    assert plan(b"1 active 1 300 1 20000 1 0+255") is None


def ticket(text):
    found = LAB.call(ticket_record, text=LAB.put(text), size=len(text)).outputs
    return None if found["cf"] else (found["eax"], found["r10d"])


def test_ticket_record():
    assert ticket(TICKET) == (Holder.MINE, 3)
    assert ticket(b"1 n8 3fa2c1d0 9 1") == (Holder.OTHER, 9)
    assert ticket(b"1 - - 0 0") == (Holder.NOBODY, 0)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1",
        b"1 ",
        b"2 - - 0 0",
        b"1 - -",
        b"1 - - 0",
        b"1 - - 0 0 0",
        b"1 - - 0 4294967296",
        b"1 - - 4294967296 0",
    ],
)
def test_ticket_record_refuses(text):
    assert ticket(text) is None


def budget(text):
    found, good = read(budget_record, BudgetView, text)
    return (found.remaining, found.total) if good else None


def test_budget_record():
    assert budget(BUDGET) == (998, 1000)
    assert budget(b"1 1000 1000 - 0") == (1000, 1000)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"1", b"2 1 1 - 0", b"1 2 1 - 0", b"1 1 4294967296 - 0", b"1 1 1 - ", b"1 1 1 a.b 0",
        b"1 1 1 " + b"n" * 33 + b" 0", b"1 1 1 - 0 0", b"1 1 1 - x", b"1 1 1  0",
        b"1 1 1 - 4294967296",
    ],
)  # fmt: skip
def test_budget_record_refuses(text):
    assert budget(text) is None


@settings(max_examples=200, deadline=None)
@given(
    sample=st.sampled_from([HELD, FREE, PLAN, TICKET, BUDGET]),
    at=st.integers(0, 45),
    cut=st.integers(0, 4),
    more=st.text(alphabet="01 9+-xn", max_size=3).map(str.encode),
)
def test_records_any_change_matches_the_model(sample, at, cut, more):
    text = sample[:at] + more + sample[at + cut :]
    lease(text)
    plan(text)
    ticket(text)
    budget(text)
