"""Rows of the scheduler's table: which shard is meant, and when it runs."""

from firmware.layouts.node import CORE, CoreState, Slot, core
from firmware.layouts.shard import ShardContext
from toolchain.asm import EAX, RAX, RBX, RCX, Asm, In, routine


@routine(
    inputs=[In(RBX, ShardContext, "a shard that has something to do")],
    clobbers=[RAX, RCX],
    reads=[ShardContext.slot],
    writes=[Slot.deadline, CoreState.slots_due],
    source="firmware/docs/layers.md",
)
def slot_wake(a: Asm, shard: ShardContext) -> None:
    """Make a shard due in this turn."""
    a.movzx(EAX, shard.slot)
    a.shl(EAX, 4)  # a slot row is 16 bytes
    a.lea(RCX, CORE.it.slots.address)
    a.mov(Slot.at(RCX, index=RAX).deadline, 0)
    a.mov(core.slots_due, 0)
    a.ret()
