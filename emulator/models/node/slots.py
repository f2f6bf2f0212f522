"""Rows of the scheduler's table."""

from emulator.effects import World, model
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext


@model
def slot_wake(w: World, shard: int) -> None:
    """Deadline zero is always due."""
    w.g(CORE).slots[w.view(ShardContext, shard).slot].deadline = 0
    w.g(CORE).slots_due = 0


@model
def slot_find(w: World, number: int) -> int:
    """The slot whose shard has that number."""
    core = w.g(CORE)
    held = (core.slots[n].context for n in range(core.slots_used) if core.slots[n].flags & 1)
    return next((at for at in held if w.view(ShardContext, at).shard_id == number), 0)
