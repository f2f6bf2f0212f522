"""Rows of the scheduler's table: which shard is meant, and when it runs."""

from firmware.layouts.node import CORE, SLOT_ACTIVE, CoreState, Slot, core
from firmware.layouts.shard import ShardContext
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    R8,
    R8D,
    RAX,
    RBX,
    RCX,
    RDX,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Z,
    routine,
)


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


@routine(
    inputs=[In(ECX, int, "global shard number")],
    outputs=[Out(RDX, "its ShardContext; 0 = this node does not hold it")],
    clobbers=[RAX, R8],
    reads=[CoreState.slots_used, Slot.flags, Slot.context, ShardContext.shard_id],
    source="firmware/docs/layers.md",
)
def slot_find(a: Asm, number: Reg32) -> None:
    """Find the shard that a command names; slots keep no order among shards."""
    row, left = Slot.at(RAX), R8D
    a.lea(RAX, CORE.it.slots.address)
    a.mov(left, core.slots_used)
    with a.loop() as rows:
        a.xor(EDX, EDX)
        a.sub(left, 1)
        a.leave(B, rows)
        with a.block() as other:
            a.test(row.flags, SLOT_ACTIVE)
            a.leave(Z, other)
            a.mov(EDX, row.context)
            a.cmp(ShardContext.at(RDX).shard_id, number)
            a.leave(E, rows)
        a.add(RAX, Slot.SIZE)
        a.jmp(rows.top)
    a.ret()
