"""A workspace that becomes another shard's: nothing of the old one is left."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.node import CLOCK, PLAN, Clock, CoreState, Plan, core
from firmware.layouts.plan import MOVES, Moves
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardFlag
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.shard.reset import wipe_transport
from firmware.tls.pool import tls_arena_give
from firmware.tls.transport import tls_abort
from toolchain.asm import (
    AL,
    EAX,
    EBP,
    ECX,
    EDX,
    NE,
    NZ,
    R12,
    R13,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RDI,
    Asm,
    In,
    Reg32,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "a workspace whose connection is released"),
        In(EDX, int, "number of the shard that gets it"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        TcpContext.state,
        ShardContext.tx_base,
        ShardContext.ring_base,
        ShardContext.slot,
        ShardContext.connection,
        ConfigBlob.profile,
        Plan.global_total,
        Plan.generation,
        Moves.wait_ms,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[ShardContext],
    calls=[tls_abort, tls_arena_give, wipe_transport],
    saves=[R12, R13, R14, R15, RBP],
    source="firmware/docs/lifecycle.md#moves",
)
def shard_renew(a: Asm, shard: ShardContext, number: Reg32) -> None:
    """Make the shard anew under the plan that counts now: established, without a session of its own."""
    a.mov(EBP, number)
    a.cmp(shard.tcp.state, TcpState.CLOSED)
    with a.if_(NE):
        a.call(tls_abort)
    with a.else_():
        a.call(tls_arena_give)
    # The transmit buffer may hold the token.
    a.call(wipe_transport)
    a.mov(R12, shard.tx_base)
    a.mov(R13, shard.ring_base)
    a.mov(R14D, shard.connection)
    a.movzx(R15D, shard.slot)
    a.lea(RDI, shard.state)
    a.mov(ECX, ShardContext.SIZE // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(shard.tx_base, R12)
    a.mov(shard.ring_base, R13)
    # What still belongs to an older connection stays without an owner.
    a.mov(shard.connection, R14D)
    a.mov(EAX, R15D)
    a.mov(shard.slot, AL)
    a.mov(shard.shard_id, EBP)
    a.mov(EAX, PLAN.it.global_total)
    a.mov(shard.shard_total, EAX)
    a.mov(EAX, PLAN.it.generation)
    a.mov(shard.plan_generation, EAX)
    a.mov(AL, CONFIG.it.profile)
    a.mov(shard.profile, AL)
    a.mov(shard.hold, Hold.NEW)
    a.mov(shard.flags, ShardFlag.ESTABLISHED)
    # A session of it may be offered, when the move says so.
    a.mov(EAX, MOVES.it.wait_ms)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
        a.add(RAX, core.now)
        a.mov(shard.load_deadline, RAX)
    with a.else_():
        a.mov(shard.load, SessionLoad.SETTLED)
    a.lea(RAX, shard.session.valid)
    a.mov(shard.session_ptr, RAX)
    a.ret()
