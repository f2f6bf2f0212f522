"""Exceptions: whose fault it is."""

from emulator.effects import World, model
from firmware.layouts.cpu import FAULTS, TrapFrame
from firmware.layouts.node import CORE
from firmware.limits import (
    SHARDS_MAX,
    STACK_BYTES,
    STACK_TOP,
    WORKSPACE_BASE,
    WORKSPACE_STRIDE,
)

STACK = range(STACK_TOP - STACK_BYTES, STACK_TOP)
NMI, DOUBLE_FAULT, MACHINE_CHECK = 2, 8, 18


def _guarded(w: World, frame: int) -> tuple[int, int] | None:
    """Return stack pointer and address behind the guarded call, when it may be trusted."""
    core, trap = w.g(CORE), w.view(TrapFrame, frame)
    shard = core.current_shard
    if not shard or trap.vector in (NMI, DOUBLE_FAULT, MACHINE_CHECK):
        return None
    if core.slots_used > SHARDS_MAX:
        return None
    rows = {*range(core.slots_used), *range(SHARDS_MAX - 2, SHARDS_MAX)}  # shards, and two links
    owned = {core.slots[n].context: WORKSPACE_BASE + n * WORKSPACE_STRIDE for n in rows}
    if shard not in owned or not owned[shard] <= shard < owned[shard] + WORKSPACE_STRIDE:
        return None
    stack = w.u64(STACK_TOP - 8)
    if trap.rsp not in STACK or stack - 8 not in STACK:
        return None
    back = w.u64(stack - 8)
    return (stack, back) if w.address("text_start") <= back < w.address("text_end") else None


@model
def fault_charge(w: World, frame: int) -> int:
    """A shard's own fault: note it, and go on behind the guarded call; else change nothing."""
    way = _guarded(w, frame)
    if way is None:
        return 1
    faults, trap, shard = w.g(FAULTS), w.view(TrapFrame, frame), w.g(CORE).current_shard
    faults.shard, faults.vector, faults.rip = shard, trap.vector, trap.rip
    faults.error, faults.address, faults.pending = trap.error, w.control("cr2"), 1
    faults.count += 1
    trap.rsp, trap.rip = way
    trap.rbx, trap.rax, trap.rflags = shard, -1, 2
    return 0


@model
def fault_handle(w: World, frame: int) -> None:
    """Only the charged fault comes back from here."""
    fault_charge(w, frame)
