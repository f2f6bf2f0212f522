"""Close code 4011: what the service wants, whether the node may move, and why a move is refused."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.log import RESHARD_WANTED
from firmware.layouts.node import CLOCK, PLAN, Clock, CoreState, Plan, core
from firmware.layouts.plan import MOVE_WINDOW_S, MOVES, MOVES_MAX, TOTAL_MAX, Moves
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import Evidence, ShardContext
from firmware.layouts.stop import STOP, Stop, StopPhase
from firmware.limits import SHARDS_MAX
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    AL,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    NZ,
    R8D,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    routine,
)

LAST = 8 * (MOVES_MAX - 1)


@routine(
    outputs=[Out(EAX, "moves in the last hour")],
    clobbers=[RCX, RDX, RSI],
    reads=[Moves.times, CoreState.now, Clock.tsc_cycles_per_ms],
    source="firmware/docs/lifecycle.md#moves",
)
def moves_recent(a: Asm) -> None:
    """Count the moves that are not older than an hour."""
    a.imul(RSI, CLOCK.it.tsc_cycles_per_ms, MOVE_WINDOW_S * 1000)
    a.xor(EAX, EAX)
    for at in range(0, LAST + 8, 8):  # unrolled: three moves
        a.mov(RCX, MOVES.it.times.m64(at))
        a.test(RCX, RCX)
        with a.if_(NZ):
            a.mov(RDX, core.now)
            a.sub(RDX, RCX)
            a.cmp(RDX, RSI)
            with a.if_(B):
                a.inc(EAX)
    a.ret()


@routine(
    inputs=[
        In(EDI, int, "shards of the whole bot"),
        In(ESI, int, "first shard of this node"),
        In(EDX, int, "shards of this node"),
    ],
    outputs=[Out(EAX, "PlanRefusal: why not; 0 = nothing speaks against it")],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, Stop.phase, Moves.leaving, Clock.tsc_cycles_per_ms],
    calls=[moves_recent],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_refusal(a: Asm, total: Reg32, start: Reg32, count: Reg32) -> None:
    """Judge a plan: who may decide it, its numbers, the node's state, then how often the node has moved."""
    bad = a.label("bad")
    a.mov(EAX, PlanRefusal.FLEET)
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(E, bad)
    a.mov(EAX, PlanRefusal.OUT_OF_BOUNDS)
    a.dec(EDX)
    a.cmp(EDX, SHARDS_MAX)
    a.j(AE, bad)
    a.cmp(EDI, TOTAL_MAX)
    a.j(A, bad)
    a.cmp(ESI, EDI)
    a.j(AE, bad)
    a.sub(EDI, ESI)
    a.cmp(EDX, EDI)
    a.j(AE, bad)
    a.mov(EAX, PlanRefusal.STOPPING)
    a.cmp(STOP.it.phase, StopPhase.RUNNING)
    a.j(NE, bad)
    a.mov(EAX, PlanRefusal.NO_CLOCK)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.j(E, bad)
    a.mov(EAX, PlanRefusal.STILL_MOVING)
    a.cmp(MOVES.it.leaving, 0)
    a.j(NE, bad)
    a.call(moves_recent)
    a.mov(ECX, EAX)
    a.mov(EAX, PlanRefusal.TOO_MANY_MOVES)
    a.cmp(ECX, MOVES_MAX)
    a.j(AE, bad)
    a.xor(EAX, EAX)
    a.place(bad)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that the service refuses because it has grown")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.shard_total,
        ConfigBlob.plan_auto,
        Plan.global_total,
        Plan.local_start,
        Plan.local_count,
    ],
    writes=[Evidence.refusal],
    calls=[plan_refusal],
    source="firmware/docs/lifecycle.md#moves",
)
def reshard_judge(a: Asm, shard: ShardContext) -> None:
    """Say in the evidence why the node does not move to the next total by itself; NONE = it does."""
    plan, judged = PLAN.it, a.label("judged")
    a.mov(EAX, PlanRefusal.NOT_AUTOMATIC)
    a.cmp(CONFIG.it.plan_auto, 0)
    a.j(E, judged)
    a.mov(EAX, PlanRefusal.NOT_THE_WHOLE_PLAN)
    a.cmp(plan.local_start, 0)
    a.j(NE, judged)
    a.mov(ECX, plan.local_count)
    a.cmp(ECX, plan.global_total)
    a.j(NE, judged)
    a.mov(EDI, shard.shard_total)
    a.inc(EDI)
    a.xor(ESI, ESI)
    a.mov(EDX, EDI)
    a.call(plan_refusal)
    a.place(judged)
    a.mov(shard.evidence.refusal, AL)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that the service refuses because it has grown")],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.shard_total, ConfigBlob.plan_auto, Moves.wanted, Moves.recommended],
    writes=[Moves.wanted],
    calls=[log_write],
    source="firmware/docs/lifecycle.md#moves",
)
def reshard_want(a: Asm, shard: ShardContext) -> None:
    """Report the smallest total that can follow, and what was recommended; the node may try the first."""
    a.mov(EDX, shard.shard_total)
    a.inc(EDX)
    a.cmp(EDX, MOVES.it.wanted)
    with a.if_(A):
        a.mov(MOVES.it.wanted, EDX)
    a.movzx(ECX, CONFIG.it.plan_auto)
    a.mov(R8D, MOVES.it.recommended)
    log(a, RESHARD_WANTED, RBX)
    a.ret()
