"""The lease: shards may talk only while the node owns it (seed A, decision 18)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.log import LEASE_EXPIRED, LEASE_GRANTED
from firmware.layouts.node import (
    CLOCK,
    CORE,
    LEASE,
    SLOT_ACTIVE,
    Clock,
    CoreState,
    Lease,
    Slot,
    core,
)
from firmware.layouts.shard import Hold
from firmware.log import log, log_write
from firmware.shard.hold import shard_hold
from toolchain.asm import (
    EAX,
    EBX,
    ECX,
    EDX,
    NZ,
    R8,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDX,
    Asm,
    B,
    E,
    In,
    Reg64,
    Z,
    routine,
)


@routine(
    clobbers=[RAX, RCX],
    reads=[CoreState.slots_used],
    writes=[Slot.deadline, CoreState.slots_due],
    source="firmware/docs/layers.md",
)
def slots_wake(a: Asm) -> None:
    """Make every shard due."""
    slot = Slot.at(RAX)
    a.mov(core.slots_due, 0)
    a.lea(RAX, CORE.it.slots.address)
    a.mov(ECX, core.slots_used)
    with a.loop() as wake:
        a.sub(ECX, 1)
        a.leave(B, wake)
        a.mov(slot.deadline, 0)
        a.add(RAX, Slot.SIZE)
        a.jmp(wake.top)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Lease.deadline,
        Lease.generation,
        CoreState.now,
        CoreState.slots_used,
        Slot.context,
        Slot.flags,
    ],
    writes=[Lease.expired],
    calls=[shard_hold, slots_wake, log_write],
    saves=[RBX, R12, R13],
    source="firmware/docs/lifecycle.md#lease-expiry",
)
def expire_lease(a: Asm) -> None:
    """Mark the lease expired, then hold every active shard: from here nothing leaves for them."""
    slot = Slot.at(R12)

    # First the mark: the transmit path tests it before anything else happens to a shard.
    a.mov(LEASE.it.expired, 1)
    a.mov(RDX, LEASE.it.generation)
    a.mov(RCX, core.now)
    a.sub(RCX, LEASE.it.deadline)
    log(a, LEASE_EXPIRED)

    a.lea(R12, CORE.it.slots.address)
    a.mov(R13D, core.slots_used)
    a.test(R13D, R13D)
    with a.if_(NZ), a.loop() as top:
        a.test(slot.flags, SLOT_ACTIVE)
        with a.if_(NZ):
            a.mov(EBX, slot.context)
            a.mov(EDX, Hold.LEASE_EXPIRED)
            a.call(shard_hold)
        a.add(R12, Slot.SIZE)
        a.dec(R13D)
        a.again(NZ, top)
    # A shard that was closing, because the node stops, falls silent in this very turn.
    a.call(slots_wake)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Lease.expired, Lease.deadline],
    calls=[expire_lease],
    source="firmware/docs/lifecycle.md#lease-tick",
)
def lease_tick(a: Asm) -> None:
    """Expire the lease when its deadline has passed (seed A's order); 0 = enforcement off."""
    done = a.label("done")
    a.cmp(LEASE.it.expired, 1)
    a.j(E, done)
    a.mov(R8, LEASE.it.deadline)
    a.test(R8, R8)
    a.j(Z, done)

    a.rdtsc64()  # RAX = now
    a.cmp(RAX, R8)
    a.j(B, done)

    a.call(expire_lease)
    a.place(done)
    a.ret()


@routine(
    inputs=[In(RDX, int, "deadline: TSC of the hard stop; 0 = enforcement off")],
    clobbers=CALLER_SAVED,
    reads=[CoreState.now, Lease.generation],
    writes=[Lease.generation, Lease.deadline, Lease.expired],
    calls=[slots_wake, log_write],
    source="firmware/docs/lifecycle.md#grant",
)
def lease_grant(a: Asm, deadline: Reg64) -> None:
    """Take a grant: generation and deadline first, then the mark is cleared (decision 19)."""
    a.inc(LEASE.it.generation)
    a.mov(LEASE.it.deadline, deadline)
    a.mov(LEASE.it.expired, 0)
    # What a slot waited for ended with the old grant: every shard is due now.
    a.call(slots_wake)
    a.mov(RCX, deadline)
    a.xor(EAX, EAX)
    a.sub(RCX, core.now)
    a.test(RDX, RDX)
    a.cmov(Z, RCX, RAX)
    a.mov(RDX, LEASE.it.generation)
    log(a, LEASE_GRANTED)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.lease_ms,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        Lease.generation,
        Lease.expired,
    ],
    calls=[lease_grant],
    source="firmware/docs/lifecycle.md#grant",
)
def lease_begin(a: Asm) -> None:
    """Give the configured grant: once, with a clock to count it by, unless the operator was first."""
    done = a.label("done")
    a.mov(RDX, CONFIG.it.lease_ms)
    a.imul(RDX, CLOCK.it.tsc_cycles_per_ms)
    a.test(RDX, RDX)
    a.j(Z, done)
    a.mov(RAX, LEASE.it.generation)
    a.or_(EAX, LEASE.it.expired)
    a.j(NZ, done)
    a.add(RDX, core.now)
    a.jmp(lease_grant)
    a.place(done)
    a.ret()
