"""The turn of one shard."""

from emulator.effects import World, model
from emulator.models.shard.defect import shard_defect
from emulator.models.shard.survive import survive_shard
from emulator.models.shard.tick import shard_tick
from firmware.layouts.cpu import FAULTS
from firmware.layouts.node import CORE


@model
def shard_turn(w: World, shard: int) -> int:
    """Tick it while it is named as the one whose code runs; a fault left `pending` set."""
    w.g(CORE).current_shard = shard
    deadline = int(shard_tick(w, shard))
    w.g(CORE).current_shard = 0
    if w.g(FAULTS).pending:
        shard_defect(w, shard)
        return 2**64 - 1
    survive_shard(w, shard)
    return deadline
