"""Rows of the scheduler's table: found by their shard, made due one by one or all."""

import pytest

from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext
from firmware.node.lease import slots_wake
from firmware.node.slots import slot_find, slot_wake
from tests.support.lab import Lab

LAB = Lab(slot_find, slot_wake, slots_wake, slots=4)
NEVER = 2**64 - 1


def rows(*numbers, flags=1):
    """Give each shard a row in that order; return where their contexts are."""
    LAB.reset()
    core, made = LAB.g(CORE), []
    core.slots_used, core.slots_due = len(numbers), NEVER
    for n, number in enumerate(numbers):
        context = LAB.view(ShardContext, LAB.shard(n))
        context.shard_id = number
        row = core.slots[n]
        row.context, row.flags, row.deadline = context.address_, flags, NEVER - 1
        made.append(context.address_)
    return made


def find(number):
    return LAB.call(slot_find, number=number).outputs["rdx"]


@pytest.mark.parametrize("place", range(3))
def test_slot_find_looks_into_each_row(place):
    made = rows(5, 3, 9)
    assert find((5, 3, 9)[place]) == made[place]


@pytest.mark.parametrize("held", [(), (5,), (5, 3, 9)])
def test_slot_find_of_a_shard_that_is_elsewhere_finds_none(held):
    rows(*held)
    LAB.view(ShardContext, LAB.shard(len(held))).shard_id = 4
    LAB.g(CORE).slots[len(held)].context = LAB.shard(len(held), wipe=False)
    LAB.g(CORE).slots[len(held)].flags = 1  # behind those that are used
    assert find(4) == 0


def test_slot_find_passes_over_a_row_that_a_shard_has_left():
    made = rows(7, 3, 7)
    assert find(7) == made[0]
    LAB.g(CORE).slots[0].flags = 0
    assert find(7) == made[2]
    LAB.g(CORE).slots[2].flags = 0
    assert find(7) == 0


def test_slot_wake_makes_one_row_due():
    made = rows(7, 3, 9)
    LAB.call(slot_wake, shard=made[1])
    core = LAB.g(CORE)
    assert [core.slots[n].deadline for n in range(3)] == [NEVER - 1, 0, NEVER - 1]
    assert core.slots_due == 0


@pytest.mark.parametrize("used", range(4))
def test_slots_wake_makes_those_due_that_are_used(used):
    rows(7, 3, 9)
    core = LAB.g(CORE)
    core.slots_used = used
    LAB.call(slots_wake)
    assert [core.slots[n].deadline for n in range(3)] == [0] * used + [NEVER - 1] * (3 - used)
    assert core.slots_due == 0
