"""How a move goes on: rows that are released pass on, and what the service or an operator asks for."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.log import RESHARD_REFUSED, SESSION_SAVE_FAILED
from firmware.layouts.node import CLOCK, CORE, PLAN, SLOT_ACTIVE, Clock, CoreState, Plan, Slot, core
from firmware.layouts.plan import (
    LOAD_WAIT_MAX_MS,
    MOVES,
    NO_SHARD,
    Leaving,
    Moves,
    PlanOrder,
    PlanReport,
)
from firmware.layouts.policy import SessionProvider
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.sessions import (
    DIGEST_BYTES,
    SAVE_TIMEOUT_MS,
    SESSIONS,
    SaveState,
    Sessions,
)
from firmware.layouts.shard import Session, ShardContext, ShardFlag, ShardState
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.log import log, log_write
from firmware.node.plan import plan_move, plan_next
from firmware.node.sessions import session_due
from firmware.node.slots import slot_wake
from firmware.node.verbs import HANDLER_INPUTS, HANDLER_OUTPUTS
from firmware.shard.identity import session_identity
from firmware.shard.renew import shard_renew
from firmware.shard.reshard import moves_recent
from firmware.shard.survive import survive_shard
from toolchain.asm import (
    AE,
    BE,
    CF,
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
    RAX,
    RBX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "a shard that leaves and is released")],
    outputs=[Out(CF, "1 = its session waits to be taken")],
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.session_provider,
        ShardContext.saved,
        ShardContext.save_deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[ShardContext.saved, ShardContext.save_deadline],
    calls=[session_due, log_write],
    source="firmware/docs/lifecycle.md#session-save",
)
def plan_save(a: Asm, shard: ShardContext) -> None:
    """Keep a place until its session is taken, within the time of a save; then it is given up aloud."""
    done = a.label("done")
    a.cmp(CONFIG.it.session_provider, SessionProvider.NONE)
    a.j(E, done)
    a.cmp(shard.saved, 0)
    a.j(NE, done)
    a.call(session_due)
    a.cmp(EAX, SaveState.DUE)
    a.j(NE, done)
    a.mov(RAX, shard.save_deadline)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, SAVE_TIMEOUT_MS)
        a.add(RAX, core.now)
        a.mov(shard.save_deadline, RAX)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.stc()
        a.ret()
    a.mov(shard.saved, 1)
    log(a, SESSION_SAVE_FAILED, RBX)
    a.place(done)
    a.clc()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Moves.leaving,
        CoreState.slots_used,
        CoreState.slots_due,
        Slot.flags,
        Slot.context,
        ShardContext.leaving,
        ShardContext.state,
        ShardContext.close_deadline,
        ShardContext.save_deadline,
        ShardContext.flags,
        TcpContext.state,
    ],
    writes=[
        ShardContext.leaving,
        ShardContext.flags,
        Session.valid,
        Slot.flags,
        Slot.deadline,
        CoreState.slots_due,
        Moves.leaving,
    ],
    calls=[plan_save, plan_next, shard_renew, slot_wake, survive_shard],
    saves=[RBX, R12, R13],
    source="firmware/docs/lifecycle.md#moves",
)
def plan_settle(a: Asm) -> None:
    """Give the row of each shard that has left, released and saved, to the next one, or free it."""
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
            a.call(plan_save)
            with a.if_(C):
                # The turn that gives up must come although nobody speaks.
                a.mov(RAX, shard.save_deadline)
                a.mov(slot.deadline, RAX)
                a.cmp(RAX, core.slots_due)
                a.leave(AE, stays)
                a.mov(core.slots_due, RAX)
                a.jmp(stays)
            a.dec(MOVES.it.leaving)
            a.call(plan_next)
            a.cmp(EDX, NO_SHARD)
            with a.if_(NE):
                a.call(shard_renew)
                a.call(slot_wake)
            with a.else_():
                a.mov(slot.flags, 0)
                a.mov(shard.leaving, Leaving.NO)
                a.mov(shard.session.valid, 0)
                a.and_(shard.flags, ~ShardFlag.SEQ_VALID & 0xFFFF_FFFF)
            # Another node may have the session by now: a reset must not bring it back.
            a.call(survive_shard)
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
    a.xor(ECX, ECX)
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
    reads=[PlanOrder, Plan, Moves.leaving, ConfigBlob.session_provider, Sessions.bot],
    writes=[PlanReport],
    calls=[plan_move, moves_recent, session_identity],
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
    a.mov(ECX, LOAD_WAIT_MAX_MS)
    a.cmp(order.wait_ms, ECX)
    a.cmov(B, ECX, order.wait_ms)
    a.mov(ESI, order.start)
    a.call(plan_move)
    a.mov(R13D, EAX)
    a.place(told)
    a.call(session_identity)
    for at in range(0, DIGEST_BYTES, 8):  # unrolled: two quadwords
        a.mov(RAX, SESSIONS.it.bot.m64(at))
        a.mov(report.bot.m64(at), RAX)
    a.movzx(EAX, CONFIG.it.session_provider)
    a.mov(report.provider, EAX)
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
