"""Orders: what is one, whom it concerns, and what a node gives back because of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.fleet.orders import move_put, move_wish, node_put, orders_obey, slot_yield
from firmware.layouts.fleet import FLEET, FLEET_VIEW, HELD_MAX, HeldPhase, HeldSlot, Holder
from firmware.layouts.fleet_sites import FLEET_ASKED
from firmware.layouts.node import CLOCK, CORE
from tests.support.fleet import name_node, set_fields, take_in_hand
from tests.support.lab import Lab
from tests.support.states import MS, NOW

LAB = Lab(move_put, move_wish, node_put, orders_obey, slot_yield, slots=0)
GRANTED = (HeldPhase.HELD, HeldPhase.RUNNING)


@pytest.fixture(autouse=True)
def node():
    prepare()


def prepare():
    LAB.reset()
    name_node(LAB)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW


def order(text):
    """Return whether this node is drained; None when the record cannot be read."""
    view = LAB.g(FLEET_VIEW)
    view.drained = 1
    take_in_hand(LAB, text)
    bad = LAB.call(node_put).outputs["cf"]
    assert not (bad and view.drained)
    return None if bad else bool(view.drained)


@pytest.mark.parametrize(("text", "drained"), [(b"1 open", False), (b"1 drain", True)])
def test_node_put(text, drained):
    assert order(text) is drained


@pytest.mark.parametrize(
    "text",
    [
        b"", b"1", b"1 ", b"2 drain", b"01 drain", b"1 drain ", b"1 drain x", b"1 drai",
        b"1 drains", b"1 drbin", b"1 drail", b"1 ope", b"1 opens", b"1 opem", b"1 OPEN",
        b" 1 open", b"1  open", b"1 open\n", b"1 closed",
    ],
)  # fmt: skip
def test_node_put_of_anything_else_asks_for_nothing(text):
    assert order(text) is None


def move(text, slot=5):
    """Return whom the slot shall go to, and for which generation; None when it cannot be read."""
    views = LAB.g(FLEET_VIEW).slots
    view = views[slot]
    set_fields(view, wish=Holder.MINE, wish_generation=77, claim_at=9)
    take_in_hand(LAB, text)
    bad = LAB.call(move_put, slot=slot).outputs["cf"]
    assert view.claim_at == 0
    assert [n for n in range(64) if views[n].wish and n != slot] == []
    if bad:
        assert (view.wish, view.wish_generation) == (Holder.NOBODY, 77)
        return None
    return view.wish, view.wish_generation


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"1 7 n7", (Holder.MINE, 7)),
        (b"1 0 n8", (Holder.OTHER, 0)),
        (b"1 4294967295 n", (Holder.OTHER, 2**32 - 1)),
        (b"1 7 n77", (Holder.OTHER, 7)),
        (b"1 7 " + b"n" * 32, (Holder.OTHER, 7)),
    ],
)
def test_move_put(text, found):
    assert move(text) == found


@pytest.mark.parametrize(
    "text",
    [
        b"", b"1", b"1 7", b"1 7 ", b"2 7 n7", b"1 07 n7", b"1 4294967296 n7", b"1 x n7", b"1 -7 n7",
        b"01 7 n7", b"1\t7 n7", b"1 7 n7 ", b"1 7 n7 x", b"1 7 n.7", b"1 7 " + b"n" * 33, b"1 n7 7", b"1 7  n7", b"1 7 n7\n",
    ],
)  # fmt: skip
def test_move_put_of_anything_else_asks_for_nothing(text):
    assert move(text) is None


@pytest.mark.parametrize("slot", [0, 63])
def test_move_put_of_the_first_and_the_last_slot(slot):
    assert move(b"1 7 n7", slot) == (Holder.MINE, 7)


@settings(max_examples=150, deadline=None)
@given(
    sample=st.sampled_from([b"1 open", b"1 drain", b"1 7 n7", b"1 12 n8"]),
    at=st.integers(0, 8),
    cut=st.integers(0, 4),
    more=st.text(alphabet="01 9-xndro", max_size=3).map(str.encode),
)
def test_orders_any_change_matches_the_model(sample, at, cut, more):
    text = sample[:at] + more + sample[at + cut :]
    order(text)
    move(text)


@pytest.mark.parametrize("wish", Holder)
@pytest.mark.parametrize(("generation", "counts"), [(6, False), (7, True), (8, False)])
def test_move_wish_counts_for_one_generation(wish, generation, counts):
    view = LAB.g(FLEET_VIEW).slots[3]
    set_fields(view, wish=wish, wish_generation=7)
    found = LAB.call(move_wish, view=view.address_, generation=generation).outputs["eax"]
    assert found == (wish if counts else Holder.NOBODY)


def hold(place=0, *, phase=HeldPhase.RUNNING, slot=3, generation=7):
    held = LAB.g(FLEET).held[place]
    set_fields(held, phase=phase, slot=slot, generation=generation, shards=4)
    return held


def avoided(slot=3):
    return int.from_bytes(LAB.g(FLEET).avoid_until[8 * slot : 8 * slot + 8], "little")


def test_slot_yield_leaves_the_slot_to_others():
    held = hold(2)
    LAB.call(slot_yield, held=held.address_, reason=FLEET_ASKED.code, span=5_000)
    assert (held.phase, held.reason) == (HeldPhase.STOPPING, FLEET_ASKED.code)
    assert (avoided(), avoided(2)) == (NOW + 5_000 * MS, 0)


@pytest.mark.parametrize("phase", HeldPhase)
@pytest.mark.parametrize("order", ["drained", "closing", "move"])
def test_orders_obey_gives_back_what_is_granted(phase, order):
    held = hold(phase=phase)
    fleet, view = LAB.g(FLEET), LAB.g(FLEET_VIEW)
    fleet.closing, view.drained = order == "closing", order == "drained"
    if order == "move":
        set_fields(view.slots[3], wish=Holder.OTHER, wish_generation=7)
    LAB.call(orders_obey)
    assert held.phase == (HeldPhase.STOPPING if phase in GRANTED else phase)
    assert avoided() == (NOW + 5_000 * MS if phase in GRANTED else 0)


@pytest.mark.parametrize(
    ("wish", "generation"),
    [
        (Holder.MINE, 7), (Holder.NOBODY, 7), (Holder.OTHER, 6), (Holder.OTHER, 8),
    ],
)  # fmt: skip
def test_orders_obey_a_move_to_this_node_or_of_another_generation_is_none(wish, generation):
    held = hold()
    set_fields(LAB.g(FLEET_VIEW).slots[3], wish=wish, wish_generation=generation)
    LAB.call(orders_obey)
    assert held.phase == HeldPhase.RUNNING


def test_orders_obey_a_move_concerns_one_slot_and_a_drain_all():
    held = [hold(n, slot=n, generation=n) for n in range(HELD_MAX)]
    set_fields(LAB.g(FLEET_VIEW).slots[2], wish=Holder.OTHER, wish_generation=2)
    LAB.call(orders_obey)
    assert [slot.phase for slot in held].count(HeldPhase.STOPPING) == 1
    assert held[2].phase == HeldPhase.STOPPING
    LAB.g(FLEET_VIEW).drained = 1
    LAB.call(orders_obey)
    assert {slot.phase for slot in held} == {HeldPhase.STOPPING}


def test_orders_obey_looks_at_no_more_entries_than_there_are():
    """What lies behind the last looks like one that runs."""
    LAB.g(FLEET_VIEW).drained = 1
    held = hold(HELD_MAX - 1)
    behind = LAB.view(HeldSlot, held.address_ + HeldSlot.SIZE)
    LAB.machine.write(behind.address_, LAB.machine.read(held.address_, HeldSlot.SIZE))
    LAB.call(orders_obey)
    assert (held.phase, behind.phase) == (HeldPhase.STOPPING, HeldPhase.RUNNING)


@settings(max_examples=40, deadline=None)
@given(
    phases=st.lists(st.sampled_from(HeldPhase), min_size=HELD_MAX, max_size=HELD_MAX),
    wishes=st.lists(st.sampled_from(Holder), min_size=HELD_MAX, max_size=HELD_MAX),
    closing=st.integers(0, 1),
    drained=st.integers(0, 1),
)
def test_orders_obey_any_state_matches_the_model(phases, wishes, closing, drained):
    prepare()
    LAB.g(FLEET).closing, LAB.g(FLEET_VIEW).drained = closing, drained
    for n in range(HELD_MAX):
        hold(n, phase=phases[n], slot=60 - n, generation=n)
        set_fields(LAB.g(FLEET_VIEW).slots[60 - n], wish=wishes[n], wish_generation=n // 2 * 2)
    LAB.call(orders_obey)
