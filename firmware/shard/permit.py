"""The Identify gate: a shard takes its key's permit before it dials (decision 20)."""

from firmware.gateway.profile import profile_table
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.permit import IDENTIFY_REFUSED_MS, PERMITS, Permit, Permits
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import End, Phase, ShardContext
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    RAX,
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
    routine,
)


def _find_key(a: Asm, shard: ShardContext) -> Permit:
    """RSI := the shard's permit. Clobbers RAX, RDX."""
    a.mov(EAX, shard.shard_id)
    a.xor(EDX, EDX)
    a.div(PERMITS.it.max_concurrency)
    a.shl(EDX, 5)  # a permit is 32 bytes
    a.lea(RSI, PERMITS.it.keys.address)
    a.add(RSI, RDX)
    return Permit.at(RSI)


def _mark(a: Asm, shard: ShardContext) -> None:
    """ECX := how the shard is named as an owner: slot + 1."""
    a.movzx(ECX, shard.slot)
    a.inc(ECX)


@routine(
    inputs=[In(RBX, ShardContext, "the shard that wants to identify")],
    outputs=[Out(CF, "1 = not now")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[
        ShardContext.shard_id,
        ShardContext.slot,
        ShardContext.permit_since,
        Permits.max_concurrency,
        Permits.owned,
        Permit.owner,
        Permit.busy_until,
        Permit.waiter,
        Permit.waiting_since,
        CoreState.now,
    ],
    writes=[Permits.owned, Permit.owner, Permit.waiter, Permit.waiting_since],
    source="firmware/docs/lifecycle.md#permits",
)
def permit_take(a: Asm, shard: ShardContext) -> None:
    """Take the permit of the shard's key, or say that it is busy or somebody's who waits longer.

    A shard that fails again and again comes back just when its key is free; without the order of
    arrival it would keep every other one from its turn.
    """
    permit = _find_key(a, shard)
    _mark(a, shard)
    mine, busy, free, out = map(a.label, ("mine", "busy", "free", "out"))

    a.mov(EAX, permit.owner)
    a.cmp(EAX, ECX)
    a.j(E, mine)
    a.test(EAX, EAX)
    a.jnz(busy)
    a.mov(RAX, core.now)
    a.cmp(RAX, permit.busy_until)
    a.j(B, busy)
    a.mov(EAX, permit.waiter)
    a.test(EAX, EAX)
    a.jz(free)
    a.cmp(EAX, ECX)
    a.j(E, free)
    a.mov(RAX, shard.permit_since)
    a.cmp(RAX, permit.waiting_since)
    a.jae(busy)
    a.place(free)
    a.mov(permit.owner, ECX)
    a.inc(PERMITS.it.owned)
    a.mov(permit.waiter, 0)
    a.place(mine)
    a.clc()
    a.ret()

    a.place(busy)
    a.mov(RAX, shard.permit_since)
    with a.block() as note:
        a.cmp(permit.waiter, 0)
        a.leave(E, note)
        a.cmp(RAX, permit.waiting_since)
        a.jae(out)
    a.mov(permit.waiter, ECX)
    a.mov(permit.waiting_since, RAX)
    a.place(out)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose Identify was sent or whose attempt ended")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[
        ShardContext.shard_id,
        ShardContext.slot,
        ShardContext.profile,
        ProfileTable.identify_spacing_ms,
        Permits.max_concurrency,
        Permits.owned,
        Permit.owner,
        Permit.waiter,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Permits.owned, Permit.owner, Permit.busy_until, Permit.waiter],
    source="firmware/docs/lifecycle.md#permits",
)
def permit_release(a: Asm, shard: ShardContext) -> None:
    """Give the permit back; its key stays busy as long as the profile says. Who only waits is out."""
    permit = _find_key(a, shard)
    _mark(a, shard)
    a.cmp(permit.waiter, ECX)
    with a.if_(E):
        a.mov(permit.waiter, 0)
    a.cmp(permit.owner, ECX)
    with a.if_(NE):
        a.ret()
    table = profile_table(a, shard, RDX, RCX)
    a.mov(EAX, table.identify_spacing_ms)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, core.now)
    a.mov(permit.busy_until, RAX)
    a.mov(permit.owner, 0)
    a.dec(PERMITS.it.owned)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose attempt failed, its phase still known")],
    clobbers=[RAX, RDX, RSI],
    reads=[
        ShardContext.failure,
        ShardContext.phase,
        ShardContext.shard_id,
        Permits.max_concurrency,
        Permit.busy_until,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Permit.busy_until],
    source="firmware/docs/lifecycle.md#permits",
)
def permit_refuse(a: Asm, shard: ShardContext) -> None:
    """Keep the key busy when an Identify was answered by op 9: the service wants a slower pace."""
    a.cmp(shard.failure, End.INVALID_SESSION)
    with a.if_(NE):
        a.ret()
    a.cmp(shard.phase, Phase.IDENT)
    with a.if_(NE):
        a.ret()
    permit = _find_key(a, shard)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, IDENTIFY_REFUSED_MS)
    a.add(RAX, core.now)
    a.cmp(RAX, permit.busy_until)
    with a.if_(A):
        a.mov(permit.busy_until, RAX)
    a.ret()
