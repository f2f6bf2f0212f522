"""The owner registry: who may be asked about, and what of the node belongs to it.

A pointer or an index from outside means a shard only when this node itself made it one.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.events import EVENTS, Events, EventStream
from firmware.layouts.gateway import GatewayContext, GatewayFlag
from firmware.layouts.log import LOG, LogState
from firmware.layouts.node import CORE, SLOT_ACTIVE, CoreState, Slot, core
from firmware.layouts.owner import OwnerServices, Task
from firmware.layouts.shard import ShardContext
from firmware.layouts.stop import STOP, Stop
from firmware.layouts.tcp import TcpContext
from firmware.limits import SHARDS_MAX, WORKSPACE_BASE, WORKSPACE_STRIDE
from firmware.node.verbs import HANDLER_INPUTS, HANDLER_OUTPUTS
from toolchain.asm import (
    AL,
    CF,
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    Asm,
    B,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    routine,
)


@routine(
    inputs=[In(EDX, int, "index in the slot table, from anywhere")],
    outputs=[Out(RDX, "its ShardContext; 0 = none"), Out(CF, "1 = no shard of this node")],
    clobbers=[RAX, RCX],
    reads=[CoreState.slots_used, Slot.flags, Slot.context],
    source="firmware/docs/control.md#owners",
)
def owner_at(a: Asm, index: Reg32) -> None:
    """Resolve an index: only a row in use has a shard."""
    row, none = Slot.at(RCX, index=RAX), a.label("none")
    a.mov(EAX, index)
    a.xor(EDX, EDX)
    a.cmp(EAX, core.slots_used)
    a.jae(none)
    a.shl(EAX, 4)  # a slot row is 16 bytes
    a.lea(RCX, CORE.it.slots.address)
    a.test(row.flags, SLOT_ACTIVE)
    a.jz(none)
    a.mov(EDX, row.context)
    a.test(EDX, EDX)
    a.jz(none)
    a.clc()
    a.ret()
    a.place(none)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RDX, int, "a pointer or an index, from anywhere; nothing is read through it")],
    outputs=[Out(RDX, "its ShardContext; 0 = none"), Out(CF, "1 = no shard of this node")],
    clobbers=[RAX, RCX],
    calls=[owner_at],
    saves=[RBX],
    source="firmware/docs/control.md#owners",
)
def owner_of(a: Asm, candidate: Reg64) -> None:
    """Resolve what may be a shard: a pointer counts only when it is the context of its slot."""
    foreign = a.label("foreign")
    a.cmp(candidate, SHARDS_MAX)
    with a.if_(B):
        a.jmp(owner_at)
    a.mov(RBX, candidate)
    a.sub(RDX, WORKSPACE_BASE)
    a.jb(foreign)
    a.shr(RDX, WORKSPACE_STRIDE.bit_length() - 1)
    a.cmp(RDX, SHARDS_MAX)
    a.jae(foreign)
    a.call(owner_at)
    with a.if_(C):
        a.ret()
    a.cmp(RDX, RBX)
    with a.if_(Z):
        a.clc()
        a.ret()
    a.place(foreign)
    a.xor(EDX, EDX)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard of this node")],
    outputs=[Out(EAX, "Task bits")],
    clobbers=[RCX],
    reads=[
        ShardContext.close_deadline,
        TcpContext.tx_start,
        TcpContext.tx_end,
        GatewayContext.flags,
        EventStream.open,
    ],
    source="firmware/docs/control.md#owners",
)
def owner_tasks(a: Asm, shard: ShardContext) -> None:
    """Tell what still runs for a shard."""
    a.xor(EAX, EAX)
    a.cmp(shard.close_deadline, 0)
    with a.if_(NE):
        a.or_(EAX, Task.FAREWELL)
    a.mov(ECX, shard.tcp.tx_start)
    a.cmp(ECX, shard.tcp.tx_end)
    with a.if_(NE):
        a.or_(EAX, Task.SENDING)
    a.test(shard.gateway.flags, GatewayFlag.ACK_PENDING | GatewayFlag.BEAT_OWED)
    with a.if_(NZ):
        a.or_(EAX, Task.BEAT)
    a.cmp(shard.events.open, 0)
    with a.if_(NE):
        a.or_(EAX, Task.EVENT)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard of this node"),
        In(RDI, OwnerServices, "where they go"),
    ],
    clobbers=[RAX, RCX],
    reads=[
        ShardContext.user_id,
        ShardContext.shard_id,
        ShardContext.slot,
        ShardContext.failure,
        ShardContext.last_error,
        EventStream.open,
        Events.listeners,
        LogState.head,
        LogState.tail,
        LogState.dropped,
        LogState.level,
        Stop.phase,
    ],
    writes=[OwnerServices],
    calls=[owner_tasks],
    source="firmware/docs/control.md#owners",
)
def owner_describe(a: Asm, shard: ShardContext, services: OwnerServices) -> None:
    """Write down what of the node belongs to a shard."""
    a.call(owner_tasks)
    a.mov(services.tasks, EAX)
    a.mov(services.context, RBX)
    a.mov(RAX, shard.user_id)
    a.mov(services.user_id, RAX)
    a.mov(RAX, LOG.it.head)
    a.sub(RAX, LOG.it.tail)
    a.mov(services.log_waiting, RAX)
    a.mov(RAX, LOG.it.dropped)
    a.mov(services.log_dropped, RAX)
    a.movzx(EAX, shard.slot)
    a.mov(services.slot, EAX)
    for source, target in (
        (shard.shard_id, services.shard_id),
        (shard.failure, services.failure),
        (shard.last_error, services.last_error),
        (EVENTS.it.listeners, services.listeners),
        (shard.events.open, services.event_open),
    ):  # fmt: skip - five values, unrolled
        a.mov(ECX, source)
        a.mov(target, ECX)
    a.mov(EAX, STOP.it.phase)
    a.mov(services.drain, AL)
    a.mov(CL, LOG.it.level)
    a.mov(services.log_level, CL)
    a.ret()


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[ControlRequest.argument],
    calls=[owner_of, owner_describe],
    saves=[RBX],
    source="firmware/docs/control.md#owners",
)
def control_owner(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Resolve the argument; the payload says what belongs to it, the value is its context."""
    nothing = a.label("nothing")
    a.mov(EAX, ControlResult.ARGUMENT)
    a.cmp(room, OwnerServices.SIZE)
    a.j(B, nothing)
    a.mov(RDX, request.argument)
    a.call(owner_of)
    a.mov(EAX, 0)  # ControlResult.DONE
    a.j(C, nothing)
    a.mov(RBX, RDX)
    a.call(owner_describe)
    a.mov(RDX, RBX)
    a.mov(ECX, OwnerServices.SIZE)
    a.xor(EAX, EAX)
    a.ret()
    a.place(nothing)
    a.xor(EDX, EDX)
    a.xor(ECX, ECX)
    a.ret()
