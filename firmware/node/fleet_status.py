"""What diagnostics say of the fleet: the watch, the plan, the slots that the node has, and its sessions in the store."""

from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    HELD_MAX,
    Fleet,
    HeldPhase,
    HeldSlot,
    PlanView,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.handover import HANDOVER, Handover
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.status import AGE_UNKNOWN, HeldStatus, StatusReply
from toolchain.asm import (
    AL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    In,
    Z,
    routine,
)


@routine(
    inputs=[In(RDI, StatusReply, "where the answer goes; zeroed")],
    clobbers=[RAX, RCX, RDX, RSI, R8, R9],
    reads=[
        FleetConfig.magic,
        Fleet.watch,
        Fleet.closing,
        Fleet.error,
        PlanView.mode,
        PlanView.epoch,
        HeldSlot.phase,
        HeldSlot.slot,
        HeldSlot.shards,
        HeldSlot.generation,
        HeldSlot.hard_stop,
        Handover.taken,
        Handover.saves,
        Handover.refused,
        Handover.late,
        Handover.lost,
        Handover.ignored,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        StatusReply.fleet_watch,
        StatusReply.fleet_plan,
        StatusReply.fleet_closing,
        StatusReply.fleet_epoch,
        StatusReply.fleet_error,
        StatusReply.sessions_taken,
        StatusReply.sessions_saved,
        StatusReply.sessions_refused,
        StatusReply.sessions_late,
        StatusReply.sessions_lost,
        StatusReply.sessions_ignored,
        HeldStatus,
    ],
    source="firmware/docs/lifecycle.md#diagnostics",
)
def describe_fleet(a: Asm, reply: StatusReply) -> None:
    """Fill the fleet's part of an answer; a node alone leaves it at zero."""
    plan, held, shown = FLEET_VIEW.it.plan, HeldSlot.at(RSI), HeldStatus.at(R9)
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(NE):
        a.ret()
    for source, target in (
        (FLEET.it.watch, reply.fleet_watch),
        (FLEET.it.closing, reply.fleet_closing),
    ):  # two bytes, unrolled
        a.movzx(EAX, source)
        a.mov(target, AL)
    a.mov(EAX, plan.mode)
    a.mov(reply.fleet_plan, AL)
    a.mov(EAX, plan.epoch)
    a.mov(reply.fleet_epoch, EAX)
    a.mov(EAX, FLEET.it.error)
    a.mov(reply.fleet_error, EAX)
    sessions = HANDOVER.it
    for count, told in (
        (sessions.taken, reply.sessions_taken),
        (sessions.saves, reply.sessions_saved),
        (sessions.refused, reply.sessions_refused),
        (sessions.late, reply.sessions_late),
        (sessions.lost, reply.sessions_lost),
        (sessions.ignored, reply.sessions_ignored),
    ):  # fmt: skip - six counters, unrolled
        a.mov(EAX, count)
        a.mov(told, EAX)

    a.lea(RSI, FLEET.it.held.address)
    a.lea(R9, reply.fleet_held.address)
    a.mov(R8D, HELD_MAX)
    with a.loop() as places:
        with a.block() as none:
            a.movzx(EAX, held.phase)
            a.cmp(EAX, HeldPhase.NONE)
            a.leave(E, none)
            a.mov(shown.phase, AL)
            a.movzx(EAX, held.slot)
            a.mov(shown.slot, AL)
            a.mov(EAX, held.shards)
            a.mov(shown.shards, AL)
            a.mov(EAX, held.generation)
            a.mov(shown.generation, EAX)
            a.mov(RAX, held.hard_stop)
            a.sub(RAX, core.now)
            a.leave(B, none)
            a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
            a.test(RCX, RCX)
            a.leave(Z, none)
            a.xor(EDX, EDX)
            a.div(RCX)
            a.mov(ECX, AGE_UNKNOWN)
            a.cmp(RAX, RCX)
            a.cmov(A, RAX, RCX)
            a.mov(shown.left_ms, EAX)
        a.add(RSI, HeldSlot.SIZE)
        a.add(R9, HeldStatus.SIZE)
        a.dec(R8D)
        a.again(NZ, places)
    a.ret()
