"""The group start: one deadline for all shards of the node, and its end (seed B)."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.profile import profile_table
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.log import STARTUP_DEADLINE, STARTUP_DONE
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE, Clock, CoreState, Slot, core
from firmware.layouts.permit import PERMITS, Permits
from firmware.layouts.policy import STARTUP, OnLimit, Startup
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import ShardContext, ShardFlag, ShardState
from firmware.log import log, log_write
from firmware.shard.backoff import RECOVERING
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
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
    Z,
    routine,
)

BUDGET_MAX_MS = 0x7FFF_FFFF


def keep_to_startup(a: Asm, shard: ShardContext) -> None:
    """End the shard's attempt with the startup, whose end discovery may have moved. Clobbers RAX."""
    a.test(shard.flags, RECOVERING)
    with a.if_(Z):
        a.mov(RAX, STARTUP.it.deadline)
        a.mov(shard.attempt_deadline, RAX)


@routine(
    inputs=[In(RBX, ShardContext, "a shard of the node")],
    outputs=[Out(EAX, "milliseconds that the group start may take")],
    clobbers=[RCX, RDX, RSI],
    reads=[
        ShardContext.profile,
        ProfileTable.identify_groups,
        ProfileTable.identify_spacing_ms,
        ConfigBlob.startup_timeout_ms,
        Permits.max_concurrency,
        CoreState.slots_used,
    ],
    source="firmware/docs/lifecycle.md#startup",
)
def startup_budget(a: Asm, shard: ShardContext) -> None:
    """Add the spacing that Identifies need to the timeout, with as many keys as are known now."""
    # Who identifies one after another: groups, ceil(n / max_concurrency), or single shards.
    table = profile_table(a, shard, RSI, RCX)
    a.mov(EAX, core.slots_used)
    a.cmp(table.identify_groups, 0)
    with a.if_(NE):
        a.mov(ECX, PERMITS.it.max_concurrency)
        a.add(EAX, ECX)
        a.dec(EAX)
        a.xor(EDX, EDX)
        a.div(ECX)
    a.dec(EAX)
    a.mov(ECX, table.identify_spacing_ms)
    a.imul(RAX, RCX)
    a.mov(ECX, CONFIG.it.startup_timeout_ms)
    a.add(RAX, RCX)
    a.mov(ECX, BUDGET_MAX_MS)
    a.cmp(RAX, RCX)
    a.cmov(A, RAX, RCX)
    a.ret()


def _own_budget(a: Asm) -> None:
    """RAX := the end of an attempt of the recovery that begins now."""
    a.mov(EAX, CONFIG.it.attempt_timeout_ms)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, core.now)


def _say_budget(a: Asm) -> None:
    """Tell the budget in EDX."""
    a.mov(ECX, core.slots_used)
    log(a, STARTUP_DEADLINE)


@routine(
    inputs=[In(RBX, ShardContext, "the first shard that may start")],
    clobbers=CALLER_SAVED,
    reads=[CoreState.slots_used, CoreState.now, Clock.tsc_cycles_per_ms],
    writes=[Startup.deadline, Startup.budget_ms],
    calls=[startup_budget, log_write],
    source="firmware/docs/lifecycle.md#startup",
)
def startup_begin(a: Asm, shard: ShardContext) -> None:
    """Set the deadline of the group start."""
    a.call(startup_budget)
    a.mov(EDX, EAX)
    a.mov(STARTUP.it.budget_ms, EAX)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, core.now)
    a.mov(STARTUP.it.deadline, RAX)
    _say_budget(a)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose question was answered")],
    clobbers=CALLER_SAVED,
    reads=[
        Startup.deadline,
        Startup.budget_ms,
        CoreState.slots_used,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Startup.deadline, Startup.budget_ms],
    calls=[startup_budget, log_write],
    source="firmware/docs/lifecycle.md#startup",
)
def startup_adjust(a: Asm, shard: ShardContext) -> None:
    """Count the budget anew, from the same beginning, with the keys that discovery told."""
    a.cmp(STARTUP.it.deadline, 0)
    with a.if_(E):
        a.ret()
    a.call(startup_budget)
    a.mov(EDX, EAX)
    a.mov(ECX, STARTUP.it.budget_ms)
    a.mov(STARTUP.it.budget_ms, EAX)
    a.sub(RAX, RCX)
    with a.if_(E):
        a.ret()
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(STARTUP.it.deadline, RAX)
    _say_budget(a)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that may dial")],
    outputs=[Out(RAX, "TSC by which its attempt is given up")],
    reads=[
        ShardContext.flags,
        ConfigBlob.attempt_timeout_ms,
        ConfigBlob.on_limit,
        Startup.deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[ShardContext.flags],
    source="firmware/docs/lifecycle.md#attempt-budget",
)
def attempt_budget(a: Asm, shard: ShardContext) -> None:
    """Give an attempt its time: what is left of the startup, or the recovery's own budget."""
    recovery = a.label("recovery")
    a.test(shard.flags, RECOVERING)
    a.j(NZ, recovery)
    a.mov(RAX, STARTUP.it.deadline)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    # A shard that something else held so long starts late through no fault of its own.
    a.cmp(CONFIG.it.on_limit, OnLimit.FATAL)
    with a.if_(E):
        a.ret()
    a.or_(shard.flags, ShardFlag.STARTUP_OVER)
    a.place(recovery)
    _own_budget(a)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that waits for what somebody else does")],
    outputs=[Out(RAX, "TSC by which its attempt is given up")],
    reads=[
        ShardContext.flags,
        ConfigBlob.attempt_timeout_ms,
        ConfigBlob.on_limit,
        Startup.deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    source="firmware/docs/lifecycle.md#attempt-budget",
)
def wait_budget(a: Asm, shard: ShardContext) -> None:
    """Let the recovery's own budget begin now; a startup whose end is fatal ends the wait too."""
    own = a.label("own")
    a.test(shard.flags, RECOVERING)
    a.j(NZ, own)
    a.cmp(CONFIG.it.on_limit, OnLimit.FATAL)
    a.jne(own)
    a.mov(RAX, STARTUP.it.deadline)
    a.ret()
    a.place(own)
    _own_budget(a)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Startup.satisfied,
        Startup.deadline,
        Startup.budget_ms,
        CoreState.slots_used,
        CoreState.now,
        Slot.flags,
        Slot.context,
        ShardContext.state,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Startup.satisfied],
    calls=[log_write],
    source="firmware/docs/lifecycle.md#startup",
)
def startup_check(a: Asm) -> None:
    """Note the first moment when every local shard is READY."""
    slot, out = Slot.at(RSI), a.label("out")
    a.cmp(STARTUP.it.satisfied, 0)
    a.jne(out)
    a.lea(RSI, CORE.it.slots.address)
    a.mov(ECX, core.slots_used)
    with a.loop() as slots:
        a.sub(ECX, 1)
        a.leave(B, slots)
        a.test(slot.flags, SLOT_ACTIVE)
        with a.if_(NZ):
            a.mov(EAX, slot.context)
            a.cmp(ShardContext.at(RAX).state, ShardState.READY)
            a.jne(out)
        a.add(RSI, Slot.SIZE)
        a.jmp(slots.top)
    a.mov(STARTUP.it.satisfied, 1)
    # The start lies the budget before the deadline.
    a.mov(EDX, STARTUP.it.budget_ms)
    a.imul(RDX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RDX, core.now)
    a.sub(RDX, STARTUP.it.deadline)
    a.mov(ECX, core.slots_used)
    log(a, STARTUP_DONE)
    a.place(out)
    a.ret()


def attempt_restart(a: Asm, shard: ShardContext) -> None:
    """Let the attempt begin now: a wait that somebody else imposes spends none of its budget.

    What `wait_budget` clobbers changes.
    """
    a.mov(RAX, core.now)
    a.mov(shard.attempt_started, RAX)
    a.call(wait_budget)
    a.mov(shard.attempt_deadline, RAX)
