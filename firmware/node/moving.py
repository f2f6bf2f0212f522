"""How a move goes on: rows that are released pass on, and what the service or an operator asks for."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.log import RESHARD_REFUSED
from firmware.layouts.node import CORE, PLAN, SLOT_ACTIVE, CoreState, Plan, Slot, core
from firmware.layouts.plan import (
    MOVES,
    NO_SHARD,
    Leaving,
    Moves,
    PlanOrder,
    PlanRefusal,
    PlanReport,
)
from firmware.layouts.shard import ShardContext, ShardState
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.log import log, log_write
from firmware.node.plan import moves_recent, plan_move, plan_next
from firmware.node.slots import slot_wake
from firmware.node.verbs import HANDLER_INPUTS, HANDLER_OUTPUTS
from firmware.shard.renew import shard_renew
from toolchain.asm import (
    BE,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    RBX,
    RSI,
    Asm,
    B,
    E,
    Reg32,
    Reg64,
    Z,
    routine,
)


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Moves.leaving,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.leaving,
        ShardContext.state,
        ShardContext.close_deadline,
        TcpContext.state,
    ],
    writes=[ShardContext.leaving, Slot.flags, Moves.leaving],
    calls=[plan_next, shard_renew, slot_wake],
    saves=[RBX, R12, R13],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_settle(a: Asm) -> None:
    """Give the row of each shard that has left and is released to the next one, or free it."""
    slot, shard = Slot.at(R12), ShardContext.at(RBX)
    a.cmp(MOVES.it.leaving, 0)
    with a.if_(E):
        a.ret()
    a.lea(R12, CORE.it.slots.address)
    a.mov(R13D, core.slots_used)
    with a.loop() as rows:
        a.sub(R13D, 1)
        a.leave(B, rows)
        with a.block() as stays:
            released = a.label("released")
            a.test(slot.flags, SLOT_ACTIVE)
            a.leave(Z, stays)
            a.mov(EBX, slot.context)
            a.cmp(shard.leaving, Leaving.NO)
            a.leave(E, stays)
            a.cmp(shard.close_deadline, 0)
            a.leave(NE, stays)
            a.cmp(shard.state, ShardState.FATAL)
            with a.if_(NE):
                a.cmp(shard.state, ShardState.ASSIGNED)
                a.leave(NE, stays)
            a.cmp(shard.tcp.state, TcpState.CLOSED)
            a.j(E, released)
            a.cmp(shard.tcp.state, TcpState.FAILED)
            a.leave(NE, stays)
            a.place(released)
            a.dec(MOVES.it.leaving)
            a.call(plan_next)
            a.cmp(EDX, NO_SHARD)
            with a.if_(NE):
                a.call(shard_renew)
                a.call(slot_wake)
            with a.else_():
                a.mov(slot.flags, 0)
                a.mov(shard.leaving, Leaving.NO)
        a.add(R12, Slot.SIZE)
        a.jmp(rows.top)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.plan_auto,
        Moves.wanted,
        Plan.global_total,
        Plan.local_start,
        Plan.local_count,
    ],
    writes=[Moves.wanted],
    calls=[plan_move, log_write],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_obey(a: Asm) -> None:
    """Move to the total that the service asked for, when the node may and holds every shard."""
    plan = PLAN.it
    others, none = a.label("others"), a.label("none")
    a.xor(EDI, EDI)
    a.mov(EDX, MOVES.it.wanted)
    a.mov(MOVES.it.wanted, EDI)
    a.cmp(EDX, plan.global_total)
    a.j(BE, none)  # none was asked for, or the node has moved since
    a.cmp(CONFIG.it.plan_auto, 0)
    a.j(E, none)
    a.cmp(plan.local_start, EDI)
    a.j(NE, others)
    a.mov(EAX, plan.local_count)
    a.cmp(EAX, plan.global_total)
    a.j(NE, others)
    a.xor(ESI, ESI)
    a.mov(EDI, EDX)
    a.jmp(plan_move)
    a.place(others)
    a.mov(ECX, plan.local_start)
    a.mov(R8D, plan.local_count)
    a.mov(R9D, PlanRefusal.NOT_THE_WHOLE_PLAN)
    log(a, RESHARD_REFUSED)
    a.place(none)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    calls=[plan_obey, plan_settle],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_tick(a: Asm) -> None:
    """Carry a move on."""
    a.call(plan_obey)
    a.jmp(plan_settle)


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[PlanOrder, Plan, Moves.leaving],
    writes=[PlanReport],
    calls=[plan_move, moves_recent],
    saves=[R12, R13],
    source="firmware/docs/lifecycle.md#moves",
)
def control_plan(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Tell the plan, or move to the one of the payload; the value is the refusal."""
    order, report = PlanOrder.at(RSI, ControlRequest.SIZE), PlanReport.at(R12)
    told, wrong = a.label("told"), a.label("wrong")
    a.mov(R12, answer)
    a.xor(R13D, R13D)
    a.cmp(EDX, PlanReport.SIZE)
    a.j(B, wrong)
    a.test(ECX, ECX)
    a.j(Z, told)
    a.cmp(ECX, PlanOrder.SIZE)
    a.j(NE, wrong)
    a.mov(EDI, order.total)
    a.mov(EDX, order.count)
    a.mov(ESI, order.start)
    a.call(plan_move)
    a.mov(R13D, EAX)
    a.place(told)
    a.call(moves_recent)
    a.mov(report.moves, EAX)
    for source, target in (
        (PLAN.it.global_total, report.total),
        (PLAN.it.local_start, report.start),
        (PLAN.it.local_count, report.count),
        (PLAN.it.generation, report.generation),
        (MOVES.it.leaving, report.leaving),
    ):  # fmt: skip - five values, unrolled
        a.mov(EAX, source)
        a.mov(target, EAX)
    a.mov(report.refusal, R13D)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.test(R13D, R13D)
    with a.if_(NZ):
        a.mov(EAX, ControlResult.PLAN_REFUSED)
    a.mov(EDX, R13D)
    a.mov(ECX, PlanReport.SIZE)
    a.ret()
    a.place(wrong)
    a.mov(EAX, ControlResult.ARGUMENT)
    a.xor(EDX, EDX)
    a.xor(ECX, ECX)
    a.ret()
