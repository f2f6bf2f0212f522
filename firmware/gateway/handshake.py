"""The answer to Hello: Resume when a session can be resumed, else Identify."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.ticket import ticket_spend, ticket_take
from firmware.gateway.pace import gateway_pace_clear
from firmware.gateway.profile import profile_table
from firmware.gateway.send import gateway_identify, gateway_resume
from firmware.layouts.gateway import GatewayContext, GatewayFlag, GatewayState
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import SSES_VALID, Session, ShardContext, ShardFlag
from firmware.limits import RESUME_TIMEOUT_MS
from toolchain.asm import EDX, NE, RAX, RBX, RCX, Asm, C, In, Reg64, Z, routine


def later(a: Asm, milliseconds: int, into: Reg64 = RAX) -> None:
    """Set a register to the time of the turn plus a number of milliseconds."""
    a.imul(into, CLOCK.it.tsc_cycles_per_ms, milliseconds)
    a.add(into, core.now)


@routine(
    inputs=[In(RBX, ShardContext, "a shard in state ANSWER")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.session_ptr,
        ShardContext.flags,
        ShardContext.profile,
        ProfileTable.identify_spacing_ms,
        Session.valid,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
    ],
    writes=[
        ShardContext.flags,
        ShardContext.phase_deadline,
        GatewayContext.state,
        GatewayContext.flags,
    ],
    calls=[gateway_identify, gateway_resume, gateway_pace_clear, ticket_take, ticket_spend],
    source="firmware/docs/gateway.md#handshake",
)
def gateway_handshake(a: Asm, shard: ShardContext) -> None:
    """Send Resume or Identify; without room for it, or a ticket of the fleet, the next tick tries again."""
    identify, done = a.label("identify"), a.label("done")
    a.mov(RAX, shard.session_ptr)
    a.test(RAX, RAX)
    a.jz(identify)
    a.cmp(Session.at(RAX).valid, SSES_VALID)
    a.j(NE, identify)
    a.test(shard.flags, ShardFlag.SEQ_VALID)
    a.j(Z, identify)
    a.call(gateway_resume)
    a.j(C, done)
    a.mov(shard.gateway.state, GatewayState.WAIT_RESUMED)
    later(a, RESUME_TIMEOUT_MS)
    a.mov(shard.phase_deadline, RAX)
    a.ret()

    # A sequence belongs to a session; the next heartbeats say null until READY.
    a.place(identify)
    table = profile_table(a, shard, RCX, RAX)
    a.mov(EDX, table.identify_spacing_ms)
    a.call(ticket_take)
    with a.if_(C):
        a.or_(shard.gateway.flags, GatewayFlag.TICKET_WAIT)
        a.ret()
    a.and_(shard.gateway.flags, ~GatewayFlag.TICKET_WAIT & 0xFFFF_FFFF)
    a.call(gateway_identify)
    a.j(C, done)
    a.call(ticket_spend)
    a.and_(shard.flags, ~ShardFlag.SEQ_VALID & 0xFFFF_FFFF)
    a.mov(shard.gateway.state, GatewayState.WAIT_READY)
    a.jmp(gateway_pace_clear)
    a.place(done)
    a.ret()
