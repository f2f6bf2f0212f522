"""What an operator may do to the lease of a single node, by whichever way the order came; nothing in a fleet."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.control import ControlResult
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.log import LEASE_GRANTED
from firmware.layouts.node import CLOCK, LEASE, Clock, CoreState, Lease, core
from firmware.log import log, log_write
from firmware.node.lease import expire_lease, lease_grant, lease_tick
from toolchain.asm import (
    AE,
    EAX,
    R12,
    RAX,
    RCX,
    RDX,
    Asm,
    E,
    In,
    Label,
    Out,
    Reg64,
    Z,
    routine,
)

LEASE_MS_MAX = 0xFFFF_FFFF
BECAME = "ControlResult: what became of it"


def _alone(a: Asm, member: Label) -> None:
    """Go on when the lease is this node's own: in a fleet it is what those of its slots make of it."""
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(E, member)


def _span(a: Asm, milliseconds: Reg64, argument: Label, clock: Label) -> None:
    """RDX := the cycles of 1..LEASE_MS_MAX milliseconds."""
    a.mov(RDX, milliseconds)
    a.dec(RDX)
    a.mov(EAX, LEASE_MS_MAX)
    a.cmp(RDX, RAX)
    a.j(AE, argument)
    a.mov(RDX, milliseconds)
    a.imul(RDX, CLOCK.it.tsc_cycles_per_ms)
    a.test(RDX, RDX)
    a.j(Z, clock)  # without a clock no span can be granted


def _results(a: Asm, *places: tuple[Label, ControlResult]) -> None:
    """Return a result for each label that was jumped to."""
    for label, result in places:
        a.place(label)
        a.mov(EAX, result)
        a.ret()


@routine(
    inputs=[In(RAX, int, "milliseconds, 1..LEASE_MS_MAX")],
    outputs=[Out(EAX, BECAME)],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, Clock.tsc_cycles_per_ms, CoreState.now],
    calls=[lease_tick, lease_grant],
    saves=[R12],
    source="firmware/docs/lifecycle.md#operator-commands",
)
def lease_arm(a: Asm, milliseconds: Reg64) -> None:
    """Take a new grant of so many milliseconds."""
    argument, clock, member = a.label("argument"), a.label("clock"), a.label("member")
    _alone(a, member)
    a.mov(R12, milliseconds)
    # A lease that ran out since this turn began is over before anybody renews it.
    a.call(lease_tick)
    _span(a, R12, argument, clock)
    a.add(RDX, core.now)
    a.call(lease_grant)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()
    _results(
        a,
        (member, ControlResult.FLEET),
        (argument, ControlResult.ARGUMENT),
        (clock, ControlResult.NO_CLOCK),
    )


@routine(
    inputs=[In(RAX, int, "milliseconds, 1..LEASE_MS_MAX")],
    outputs=[Out(EAX, BECAME)],
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.magic,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        Lease.expired,
        Lease.generation,
    ],
    writes=[Lease.deadline],
    calls=[lease_tick, log_write],
    saves=[R12],
    source="firmware/docs/lifecycle.md#operator-commands",
)
def lease_renew(a: Asm, milliseconds: Reg64) -> None:
    """Move the deadline of a lease that still holds; an expired one needs a grant."""
    argument, clock, over = a.label("argument"), a.label("clock"), a.label("over")
    member = a.label("member")
    _alone(a, member)
    a.mov(R12, milliseconds)
    a.call(lease_tick)
    a.cmp(LEASE.it.expired, 0)
    a.jne(over)
    _span(a, R12, argument, clock)
    a.mov(RCX, RDX)
    a.add(RDX, core.now)
    a.mov(LEASE.it.deadline, RDX)
    a.mov(RDX, LEASE.it.generation)
    log(a, LEASE_GRANTED)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()
    _results(
        a,
        (member, ControlResult.FLEET),
        (over, ControlResult.LEASE_OVER),
        (argument, ControlResult.ARGUMENT),
        (clock, ControlResult.NO_CLOCK),
    )


@routine(
    outputs=[Out(EAX, BECAME)],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, CoreState.now, Lease.expired],
    writes=[Lease.deadline],
    calls=[lease_tick, expire_lease],
    source="firmware/docs/lifecycle.md#operator-commands",
)
def lease_end(a: Asm) -> None:
    """Let the lease run out now; without a clock too."""
    over, member = a.label("over"), a.label("member")
    _alone(a, member)
    a.call(lease_tick)
    a.cmp(LEASE.it.expired, 0)
    a.jne(over)
    a.mov(RAX, core.now)
    a.mov(LEASE.it.deadline, RAX)
    a.call(expire_lease)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()
    _results(a, (member, ControlResult.FLEET), (over, ControlResult.LEASE_OVER))
