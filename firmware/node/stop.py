"""The clean stop: nothing new begins, every shard closes, everything is released, then the node goes off."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.power import power_pressed
from firmware.fleet.turn import fleet_close, fleet_left
from firmware.layouts.control import ControlRequest
from firmware.layouts.log import NODE_STOPPED, NODE_STOPPING
from firmware.layouts.node import CLOCK, CORE, PLAN, SLOT_ACTIVE, Clock, CoreState, Plan, Slot, core
from firmware.layouts.shard import ShardContext, ShardState
from firmware.layouts.stop import (
    STOP,
    STOP_LINGER_MS,
    STOP_TIMEOUT_MS,
    Stop,
    StopPhase,
    StopReason,
    StopReport,
)
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.log import log, log_write
from firmware.node.lease import slots_wake
from firmware.node.sessions import stop_save
from firmware.node.verbs import HANDLER_INPUTS, HANDLER_OUTPUTS
from toolchain.asm import (
    AE,
    EAX,
    EBX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Routine,
    Z,
    routine,
)


@routine(
    outputs=[Out(EAX, "connections that are not released yet")],
    clobbers=[RCX, RDX],
    reads=[
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.state,
        ShardContext.close_deadline,
        TcpContext.state,
    ],
    saves=[RBX],
    source="firmware/docs/stop.md#released",
)
def stop_open(a: Asm) -> None:
    """Count the shards that still own a socket, or have not been told to stop."""
    slot, shard = Slot.at(RCX), ShardContext.at(RBX)
    a.xor(EAX, EAX)
    a.lea(RCX, CORE.it.slots.address)
    a.mov(EDX, core.slots_used)
    with a.loop() as top:
        a.sub(EDX, 1)
        a.leave(B, top)
        with a.block() as released:
            counted = a.label("counted")
            a.test(slot.flags, SLOT_ACTIVE)
            a.leave(Z, released)
            a.mov(EBX, slot.context)
            a.cmp(shard.state, ShardState.FATAL)
            with a.block() as settled:
                a.leave(E, settled)
                a.cmp(shard.state, ShardState.ASSIGNED)
                a.j(NE, counted)
            a.cmp(shard.close_deadline, 0)
            a.j(NE, counted)
            a.cmp(shard.tcp.state, TcpState.CLOSED)
            a.leave(E, released)
            a.cmp(shard.tcp.state, TcpState.FAILED)
            a.leave(E, released)
            a.place(counted)
            a.inc(EAX)
        a.add(RCX, Slot.SIZE)
        a.jmp(top.top)
    a.ret()


WAITS: tuple[Routine, ...] = (stop_open, fleet_left)
"""What a stop waits for: each tells in EAX how much of its work is left. All have the time of
STOP_TIMEOUT_MS together; sessions are saved after it, in a time of their own."""


@routine(
    inputs=[In(EDX, int, "StopReason: who asks for it")],
    clobbers=CALLER_SAVED,
    reads=[
        Stop.phase,
        Stop.reason,
        CoreState.now,
        Plan.local_count,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        Stop.phase,
        Stop.reason,
        Stop.closed,
        Stop.reset,
        Stop.began,
        Stop.deadline,
    ],
    calls=[fleet_close, slots_wake, log_write],
    source="firmware/docs/stop.md#begin",
)
def stop_begin(a: Asm, reason: Reg32) -> None:
    """Begin to stop, once: from here on every shard only drains."""
    a.cmp(STOP.it.phase, StopPhase.RUNNING)
    with a.if_(NE):
        a.ret()
    a.mov(STOP.it.phase, StopPhase.DRAINING)
    a.mov(STOP.it.reason, reason)
    # What a move closed before is none of the stop's.
    a.xor(EAX, EAX)
    a.mov(STOP.it.closed, EAX)
    a.mov(STOP.it.reset, EAX)
    a.mov(RAX, core.now)
    a.mov(STOP.it.began, RAX)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, STOP_TIMEOUT_MS)
    a.add(RAX, RCX)
    a.mov(STOP.it.deadline, RAX)
    # Slots go back to the fleet as soon as their shards are closed.
    a.call(fleet_close)
    a.call(slots_wake)
    a.mov(EDX, STOP.it.reason)
    a.mov(ECX, PLAN.it.local_count)
    log(a, NODE_STOPPING)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC when it wants to run again; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        Stop.phase,
        Stop.began,
        Stop.deadline,
        Stop.closed,
        Stop.reset,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Stop.phase, Stop.deadline, Stop.left, Stop.took],
    calls=[power_pressed, stop_begin, *WAITS, stop_save, log_write],
    saves=[R12],
    source="firmware/docs/stop.md#phases",
)
def stop_tick(a: Asm) -> None:
    """Look at the power button, or carry the stop on."""
    state = STOP.it
    draining, stopped, never, ended = map(a.label, ("draining", "stopped", "never", "ended"))
    a.mov(EAX, state.phase)
    a.cmp(EAX, StopPhase.DRAINING)
    a.j(E, draining)
    a.j(AE, stopped)
    a.call(power_pressed)
    with a.if_(C):
        a.mov(EDX, StopReason.POWER_BUTTON)
        a.call(stop_begin)
        a.mov(RAX, core.now)
        a.ret()
    a.jmp(never)

    a.place(draining)
    a.xor(R12D, R12D)
    for wait in WAITS:  # unrolled: one call per row
        a.call(wait)
        a.add(R12D, EAX)
    a.test(R12D, R12D)
    a.jz(ended)
    a.mov(RAX, state.deadline)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.place(ended)
    a.call(stop_save)
    a.test(RAX, RAX)
    with a.if_(NZ):
        a.ret()
    a.mov(state.left, R12D)
    a.mov(RAX, core.now)
    a.mov(R9, RAX)
    a.sub(R9, state.began)
    a.mov(state.took, R9)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, STOP_LINGER_MS)
    a.add(RAX, RCX)
    a.mov(state.deadline, RAX)
    a.mov(state.phase, StopPhase.STOPPED)
    a.mov(EDX, state.closed)
    a.mov(ECX, state.reset)
    a.mov(R8D, R12D)
    log(a, NODE_STOPPED)
    a.mov(RAX, state.deadline)
    a.ret()

    # Whoever asked may still read the report; then it is over.
    a.place(stopped)
    a.cmp(EAX, StopPhase.STOPPED)
    a.j(NE, never)
    a.mov(RAX, state.deadline)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.mov(state.phase, StopPhase.OFF)
    a.place(never)
    a.mov(RAX, -1)
    a.ret()


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[
        Stop.phase,
        Stop.reason,
        Stop.closed,
        Stop.reset,
        Stop.left,
        Stop.took,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[StopReport],
    calls=[stop_begin, stop_open],
    saves=[R12],
    source="firmware/docs/stop.md#report",
)
def control_stop(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Begin to stop, or tell how far the stop is; the value is the phase, the payload the report."""
    report = StopReport.at(R12)
    a.mov(R12, answer)
    a.mov(EDX, StopReason.COMMAND)
    a.call(stop_begin)
    a.call(stop_open)
    a.mov(report.open, EAX)
    for source, target in (
        (STOP.it.reason, report.reason),
        (STOP.it.closed, report.closed),
        (STOP.it.reset, report.reset),
        (STOP.it.left, report.left),
    ):  # fmt: skip - four values, unrolled
        a.mov(EAX, source)
        a.mov(target, EAX)
    a.mov(RAX, STOP.it.took)
    a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
    a.test(RCX, RCX)
    with a.if_(NZ):
        a.xor(EDX, EDX)
        a.div(RCX)
    a.mov(report.took, RAX)
    a.mov(EDX, STOP.it.phase)
    a.mov(report.phase, EDX)
    a.mov(ECX, StopReport.SIZE)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()
