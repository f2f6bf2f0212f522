"""Rows of the scheduler's table."""

from emulator.effects import World, model
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext


@model
def slot_wake(w: World, shard: int) -> None:
    """Deadline zero is always due."""
    w.g(CORE).slots[w.view(ShardContext, shard).slot].deadline = 0
    w.g(CORE).slots_due = 0
