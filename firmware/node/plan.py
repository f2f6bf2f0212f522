"""Moves to another plan while the node runs: shards that stay feel nothing, the others start anew."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.log import RESHARD_REFUSED, RESHARDED
from firmware.layouts.node import CORE, PLAN, SLOT_ACTIVE, CoreState, Plan, Slot, core
from firmware.layouts.plan import (
    MOVES,
    NO_SHARD,
    Leaving,
    Moves,
)
from firmware.layouts.shard import ShardContext, ShardState
from firmware.limits import SHARDS_MAX
from firmware.log import log, log_write
from firmware.memory.windows import workspace_map
from firmware.node.lease import slots_wake
from firmware.shard.renew import shard_renew
from firmware.shard.reshard import LAST, plan_refusal
from toolchain.asm import (
    AE,
    CF,
    CL,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Z,
    routine,
)


@routine(
    outputs=[Out(EDX, "a shard of the plan that no row holds; NO_SHARD = there is none")],
    clobbers=[RAX, RCX, R8, R9],
    reads=[
        Plan.local_start,
        Plan.local_count,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.shard_id,
        ShardContext.leaving,
        Moves.next,
    ],
    writes=[Moves.next],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_next(a: Asm) -> None:
    """Give the next shard that wants a row; each is given once a move."""
    slot, shard = Slot.at(RCX), ShardContext.at(RAX)
    number, left, end = EDX, R8D, R9D
    none = a.label("none")
    a.mov(end, PLAN.it.local_start)
    a.add(end, PLAN.it.local_count)
    with a.loop() as numbers:
        a.mov(number, MOVES.it.next)
        a.cmp(number, end)
        a.j(AE, none)
        a.inc(MOVES.it.next)
        a.lea(RCX, CORE.it.slots.address)
        a.mov(left, core.slots_used)
        with a.loop() as rows:
            a.sub(left, 1)
            a.leave(B, rows)
            with a.block() as other:
                a.test(slot.flags, SLOT_ACTIVE)
                a.leave(Z, other)
                a.mov(EAX, slot.context)
                a.cmp(shard.leaving, Leaving.NO)
                a.leave(NE, other)
                a.cmp(shard.shard_id, number)
                a.j(E, numbers.top)
            a.add(RCX, Slot.SIZE)
            a.jmp(rows.top)
    a.ret()
    a.place(none)
    a.mov(number, NO_SHARD)
    a.ret()


@routine(
    outputs=[Out(EAX, "ShardContext of the row; 0 = none is left"), Out(CF, "1 = none is left")],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, CoreState.slots_used, Slot.flags, Slot.context],
    writes=[Slot.flags, Slot.context, Slot.deadline, CoreState.slots_used],
    calls=[workspace_map],
    saves=[RBX],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_row(a: Asm) -> None:
    """Take a row that a shard has left, or a new one with a workspace of its own."""
    slot, full = Slot.at(RBX), a.label("full")
    a.lea(RBX, CORE.it.slots.address)
    a.mov(ECX, core.slots_used)
    with a.loop() as rows:
        a.sub(ECX, 1)
        a.leave(B, rows)
        a.test(slot.flags, SLOT_ACTIVE)
        with a.if_(Z):
            a.mov(slot.flags, SLOT_ACTIVE)
            # What the last shard waited for is nothing to this one: it is due now.
            a.mov(slot.deadline, 0)
            a.mov(EAX, slot.context)
            a.clc()
            a.ret()
        a.add(RBX, Slot.SIZE)
        a.jmp(rows.top)
    a.mov(ECX, SHARDS_MAX)
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(E):
        a.mov(ECX, FLEET_SHARDS_MAX)  # the links have the last workspaces
    a.mov(EDI, core.slots_used)
    a.cmp(EDI, ECX)
    a.j(AE, full)
    a.call(workspace_map)
    a.j(C, full)
    a.mov(slot.context, EAX)
    a.mov(slot.flags, SLOT_ACTIVE)
    a.inc(core.slots_used)
    a.clc()
    a.ret()
    a.place(full)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(ECX, int, "Leaving: how a shard closes that does not stay"),
    ],
    outputs=[Out(EAX, "shards that stay")],
    clobbers=[RDX, RSI, R8, R9],
    reads=[
        Plan.local_start,
        Plan.local_count,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.shard_id,
        ShardContext.state,
    ],
    writes=[ShardContext.leaving, Moves.leaving],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_mark(a: Asm, how: Reg32) -> None:
    """Mark every shard that does not stay; with another total none does, and FATAL ones never do."""
    slot, shard, stays, left = Slot.at(RSI), ShardContext.at(RDX), R8D, R9D
    leaves, judged = a.label("leaves"), a.label("judged")
    a.xor(stays, stays)
    a.lea(RSI, CORE.it.slots.address)
    a.mov(left, core.slots_used)
    with a.loop() as rows:
        a.sub(left, 1)
        a.leave(B, rows)
        a.test(slot.flags, SLOT_ACTIVE)
        a.j(Z, judged)
        a.mov(EDX, slot.context)
        a.cmp(ECX, Leaving.ENDING)
        a.j(E, leaves)
        a.cmp(shard.state, ShardState.FATAL)
        a.j(E, leaves)
        a.mov(EAX, shard.shard_id)
        a.sub(EAX, PLAN.it.local_start)
        a.cmp(EAX, PLAN.it.local_count)
        with a.if_(B):
            a.inc(stays)
            a.jmp(judged)
        a.place(leaves)
        a.mov(shard.leaving, CL)
        a.inc(MOVES.it.leaving)
        a.place(judged)
        a.add(RSI, Slot.SIZE)
        a.jmp(rows.top)
    a.mov(EAX, stays)
    a.ret()


@routine(
    inputs=[
        In(EDI, int, "shards of the whole bot"),
        In(ESI, int, "first shard of this node"),
        In(EDX, int, "shards of this node"),
        In(ECX, int, "milliseconds that a new shard of the same total waits for a session"),
    ],
    outputs=[Out(EAX, "PlanRefusal: why not; 0 = the node moves")],
    clobbers=CALLER_SAVED,
    reads=[Plan, CoreState.now, Moves.times, Moves.leaving],
    writes=[Plan, Moves.times, Moves.next, Moves.wait_ms],
    calls=[
        plan_refusal,
        plan_mark,
        plan_row,
        plan_next,
        shard_renew,
        slots_wake,
        log_write,
    ],
    saves=[RBX, RBP, R12, R13, R14, R15],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_move(a: Asm, total: Reg32, start: Reg32, count: Reg32, wait: Reg32) -> None:
    """Take another plan as a new generation, or refuse it aloud."""
    plan, refused, full = PLAN.it, a.label("refused"), a.label("full")
    a.mov(R12D, total)
    a.mov(R13D, start)
    a.mov(R14D, count)
    a.mov(R15D, wait)
    a.call(plan_refusal)
    a.test(EAX, EAX)
    a.j(NZ, refused)
    for at in range(LAST, 0, -8):  # unrolled: the older ones move down
        a.mov(RAX, MOVES.it.times.m64(at - 8))
        a.mov(MOVES.it.times.m64(at), RAX)
    a.mov(RAX, core.now)
    a.mov(MOVES.it.times.m64(0), RAX)
    a.mov(ECX, Leaving.KEEPING)
    a.cmp(plan.global_total, R12D)
    with a.if_(NE):
        a.mov(ECX, Leaving.ENDING)
        a.xor(R15D, R15D)  # no session is of another total
    a.mov(MOVES.it.wait_ms, R15D)
    a.mov(plan.global_total, R12D)
    a.mov(plan.local_start, R13D)
    a.mov(plan.local_count, R14D)
    a.inc(plan.generation)
    a.mov(MOVES.it.next, R13D)
    a.call(plan_mark)
    # Shards that leave give their rows to new ones; what is beyond them gets rows at once.
    a.mov(R15D, R14D)
    a.sub(R15D, EAX)
    a.xor(ECX, ECX)
    a.sub(R15D, MOVES.it.leaving)
    a.cmov(B, R15D, ECX)
    with a.loop() as rows:
        a.sub(R15D, 1)
        a.leave(C, rows)
        a.call(plan_next)
        a.mov(EBP, EDX)
        a.call(plan_row)
        with a.if_(C):
            a.mov(MOVES.it.next, EBP)  # the first row that is left gets it
            a.jmp(full)
        a.mov(EBX, EAX)
        a.mov(EDX, EBP)
        a.call(shard_renew)
        a.jmp(rows.top)
    a.place(full)
    a.call(slots_wake)
    a.mov(EDX, R12D)
    a.mov(ECX, R13D)
    a.mov(R8D, R14D)
    a.mov(R9D, plan.generation)
    log(a, RESHARDED)
    a.xor(EAX, EAX)  # PlanRefusal.NONE
    a.ret()
    a.place(refused)
    a.mov(R15D, EAX)
    a.mov(EDX, R12D)
    a.mov(ECX, R13D)
    a.mov(R8D, R14D)
    a.mov(R9D, EAX)
    log(a, RESHARD_REFUSED)
    a.mov(EAX, R15D)
    a.ret()
