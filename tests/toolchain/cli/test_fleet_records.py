"""The texts of a fleet's records: what is written is read again, what a node would not read is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.fleet import HIDDEN_MS
from firmware.layouts.plan import TOTAL_MAX
from toolchain.cli.fleet.records import (
    ACTIVE,
    DRAIN,
    Budget,
    Lease,
    Move,
    NodeOrder,
    Plan,
    Range,
    RecordError,
    Session,
    Ticket,
    hard_stop_s,
    split,
    takeover_s,
    ticket_wait_s,
)

WORDS = st.integers(0, 2**32 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,32}", fullmatch=True)
BOOTS = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
PLAN = "1 active 3 16 1 20000 4 0+4 4+4 8+4 12+4"
HELD = "1 held n7 3fa2c1d0 1 2 20000 3 0 4 16"
FREE = "1 free - - 1 4 0 3 0 4 16"


def test_the_records_of_the_measured_exchange_are_read_and_written():
    for kind, text in (
        (Plan, PLAN),
        (Lease, HELD),
        (Lease, FREE),
        (Ticket, "1 n7 3fa2c1d0 3 0"),
        (Ticket, "1 - - 0 0"),
        (Budget, "1 999 1000 n7 4"),
        (NodeOrder, "1 drain"),
        (Move, "1 4 n7"),
    ):
        assert str(kind.parse(text)) == text
    assert Session.parse("1 1 16 9 5f2c8e0a9b wss://gateway.lan") == Session(1, 16, 9)
    assert Session.parse("1 1 16 9 5f2c8e0a9b -") == Session(1, 16, 9)
    assert Session.parse("1 2 16 0 - -") == Session(2, 16, 0, ended=True)


@given(st.data())
def test_any_plan_is_read_as_it_was_written(data):
    total = data.draw(st.integers(1, 2000))
    slots = data.draw(st.integers(max(1, -(-total // 254)), min(64, total)))
    plan = Plan(
        data.draw(st.sampled_from([ACTIVE, DRAIN])),
        data.draw(WORDS),
        total,
        data.draw(st.integers(1, 256)),
        data.draw(st.integers(4000, 600_000)),
        split(total, slots),
    )
    assert Plan.parse(str(plan)) == plan
    assert plan.missing == 0
    sizes = {one.count for one in plan.slots}
    assert max(sizes) - min(sizes) <= 1


@given(
    NAMES.filter(lambda name: name != "-"),
    BOOTS,
    st.integers(0, 2**32 - 2),
    st.tuples(WORDS, WORDS),
    st.integers(4000, 600_000),
    st.data(),
)
def test_any_lease_is_read_as_it_was_written(name, boot, generation, numbers, duration, data):
    op, epoch = numbers
    total = data.draw(st.integers(1, TOTAL_MAX))
    start = data.draw(st.integers(0, total - 1))
    slot = Range(start, data.draw(st.integers(1, min(total - start, FLEET_SHARDS_MAX))))
    lease = Lease(name, boot, generation, op, duration, epoch, slot, total)
    assert Lease.parse(str(lease)) == lease
    assert lease.held
    free = lease.freed(op)
    assert Lease.parse(str(free)) == free
    assert not free.held
    assert free.generation == generation


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Plan, "", "the record begins with '', not 1: ''"),
        (Plan, PLAN.replace("1 active", "2 active"), "the record begins with '2', not 1"),
        (Plan, PLAN + " ", "the plan counts 4 slots and names 5"),
        (Plan, PLAN.replace("active", "Active"), "the plan is neither active nor drain"),
        (Plan, PLAN.replace(" 4 0+4", " 3 0+4"), "the plan counts 3 slots and names 4"),
        (
            Plan,
            PLAN.replace("4+4 8+4", "5+4 8+4"),
            "8+4 begins before 5+4 ends. Write the slots in",
        ),
        (Plan, PLAN.replace("12+4", "12+5"), "slot 3, 12+5, goes beyond the total of 16"),
        (Plan, PLAN.replace("20000", "3999"), "the duration in ms is 3999. Write 4000 to 600000"),
        (Plan, PLAN.replace("12+4", "12-4"), "'12-4' is no range. Write the first shard and how"),
        (Plan, PLAN.replace("3 16", "03 16"), "'03' is no number of 32 bits"),
        (Plan, PLAN.replace("3 16", "4294967296 16"), "'4294967296' is no number of 32 bits"),
        (Plan, "1 active 1 600 1 20000 1 0+255", "the number of shards of slot 0, 0+255, is 255"),
        (Plan, "1 active 1 16 257 20000 1 0+16", "max_concurrency is 257. Write 1 to 256"),
        (Plan, "1 active 1 16385 1 20000 1 0+16", "the total is 16385. Write 1 to 16384"),
        (Lease, HELD.replace("held", "taken"), "a slot is neither held nor free"),
        (Lease, HELD.replace("held", "free"), "a slot is neither held nor free"),
        (Lease, FREE.replace("free", "held"), "a held slot without node or boot"),
        (Lease, HELD.replace("3fa2c1d0", "3FA2C1D0"), "a held slot without node or boot"),
        (Lease, HELD.replace("n7", "n.7"), "'n.7' is no name: 1 to 32 letters, digits, _ or -"),
        (Lease, HELD + " 1", "the record has 12 words"),
        (Lease, FREE.replace("4 0 3", "4 9 3"), "a slot is neither held nor free"),
        (
            Lease,
            HELD.replace(" 1 2 ", " 4294967295 2 "),
            "the generation is 4294967295. Write 0 to",
        ),
        (
            Lease,
            HELD.replace("4 16", "0 16"),
            "the number of shards of the lease's slot, 0+0, is 0",
        ),
        (Lease, HELD.replace("4 16", "4 3"), "the lease's slot, 0+4, goes beyond the total of 3"),
        (Lease, HELD.replace("4 16", "4 0"), "the total is 0. Write 1 to 16384"),
        (Ticket, "1 n7 - 3 0", "a ticket has a node and its boot, or neither"),
        (Ticket, "1 n7 3FA2C1D0 3 0", "a ticket has a node and its boot, or neither"),
        (Budget, "1 1001 1000 n7 4", "what is left of the budget is 1001. Write 0 to 1000"),
        (Ticket, "1 - - 0", "the record has 4 words"),
        (NodeOrder, "1 closed", "a node is neither open nor drain"),
        (Move, "1 x n7", "'x' is no number of 32 bits"),
        (Session, "1 1 16 9 id", "the record has 5 words"),
    ],
)
def test_what_a_node_would_not_read_is_an_error(kind, text, message):
    with pytest.raises(RecordError) as caught:
        kind.parse(text)
    assert str(caught.value).startswith(message)


def test_more_slots_than_shards_are_refused():
    with pytest.raises(RecordError, match=r"the number of slots is 5\. Write 1 to 4"):
        split(4, 5)


def test_the_waits_are_those_of_the_proof():
    assert takeover_s(20_000) == pytest.approx(20.7)
    assert hard_stop_s(20_000) == pytest.approx(17.8)
    assert ticket_wait_s() == pytest.approx(6.16)
    for duration in (4000, 20_000, 600_000):
        # For clocks that are one per cent off, the other way each.
        assert takeover_s(duration) / 1.01 - hard_stop_s(duration) / 0.99 - HIDDEN_MS / 1000 > 0.7
