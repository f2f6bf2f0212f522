"""The turn of one shard, so that a fault in it costs that shard only (decision 6)."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.traps import guarded_call
from firmware.layouts.cpu import FAULTS, Faults
from firmware.layouts.node import CoreState
from firmware.layouts.shard import ShardContext
from firmware.shard.defect import shard_defect
from firmware.shard.survive import survive_shard
from firmware.shard.tick import shard_tick
from toolchain.asm import NZ, R12, R13, R14, R15, RAX, RBP, RBX, Asm, In, Out, routine


@routine(
    inputs=[In(RBX, ShardContext, "an active shard that is due")],
    outputs=[Out(RAX, "TSC at which it wants to run again; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[Faults.pending],
    writes=[CoreState.current_shard],
    calls=[shard_tick, survive_shard, shard_defect],
    saves=[RBX, RBP, R12, R13, R14, R15],
    guard=True,
    source="firmware/docs/boot.md#faults",
)
def shard_turn(a: Asm, shard: ShardContext) -> None:
    """Tick one shard; when its code faults, make it FATAL and go on."""
    guarded_call(a, shard_tick)
    a.cmp(FAULTS.it.pending, 0)
    with a.if_(NZ):
        a.call(shard_defect)
        a.mov(RAX, -1)
        a.ret()
    a.mov(R12, RAX)
    a.call(survive_shard)
    a.mov(RAX, R12)
    a.ret()
