"""When a failed shard tries again: seed A's fixed delay, seed B's jitter, or a schedule."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.policy import STARTUP, STEP_MAX, Policy, Startup
from firmware.layouts.shard import Evidence, ShardContext, ShardFlag, ShardState, Stop
from firmware.limits import RECONNECT_BACKOFF_MS
from firmware.shard.wait import required_wait
from toolchain.asm import (
    AE,
    CL,
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Region,
    Z,
    mem32,
    routine,
)

RECOVERING = ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER
"""With one of these the recovery policy counts, before them the startup policy."""
SCHEDULE = Region("schedule", "delays of the configuration, below schedule_len")


@routine(
    inputs=[In(RBX, ShardContext, "the failing shard")],
    clobbers=[RAX, RDX, R8],
    reads=[Clock.tsc_cycles_per_ms],
    writes=[ShardContext.state, ShardContext.reconnects, ShardContext.reconnect_deadline],
    source="firmware/docs/lifecycle.md#backoff",
)
def schedule_backoff(a: Asm, shard: ShardContext) -> None:
    """Move one shard into BACKOFF and publish the TSC time of its next attempt (seed A's order)."""
    cycles, delay, now = RAX, R8, RAX
    no_tsc, done = a.label("no_tsc"), a.label("done")

    a.mov(shard.state, ShardState.BACKOFF)
    a.inc(shard.reconnects)

    a.mov(cycles, CLOCK.it.tsc_cycles_per_ms)
    a.test(cycles, cycles)
    a.jz(no_tsc)
    a.imul(cycles, RECONNECT_BACKOFF_MS)
    a.mov(delay, cycles)  # RDTSC overwrites RAX and RDX

    a.rdtsc64()  # RAX = now
    a.add(now, delay)
    a.mov(shard.reconnect_deadline, now)
    a.jmp(done)

    # An uncalibrated clock gives no deadline. Zero lets the tick schedule the backoff later.
    a.place(no_tsc)
    a.mov(shard.reconnect_deadline, 0)
    a.place(done)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the failing shard; evidence.delay_ms is chosen")],
    clobbers=[RAX, RDX, R8],
    reads=[Clock.tsc_cycles_per_ms, Evidence.delay_ms],
    writes=[ShardContext.state, ShardContext.reconnects, ShardContext.reconnect_deadline],
    source="firmware/docs/lifecycle.md#backoff",
)
def schedule_backoff_jittered(a: Asm, shard: ShardContext) -> None:
    """Move one shard into BACKOFF until its chosen delay has passed; a computed 0 becomes 1."""
    delay, now = R8, RAX
    a.mov(shard.state, ShardState.BACKOFF)
    a.inc(shard.reconnects)
    a.mov(R8, CLOCK.it.tsc_cycles_per_ms)
    a.test(R8, R8)
    with a.if_(Z):
        a.mov(shard.reconnect_deadline, R8)
        a.ret()
    a.mov(EAX, shard.evidence.delay_ms)
    a.imul(delay, RAX)
    a.rdtsc64()  # RAX = now
    a.add(now, delay)
    a.cmp(now, 1)
    a.adc(now, 0)
    a.mov(shard.reconnect_deadline, now)
    a.ret()


@routine(
    inputs=[
        In(EAX, int, "ceiling at step 0; milliseconds"),
        In(EDX, int, "largest ceiling; milliseconds"),
        In(ECX, int, "step"),
    ],
    outputs=[Out(EAX, "random part of the ceiling; milliseconds")],
    clobbers=CALLER_SAVED,
    calls=[drbg_u64],
    saves=[R12],
    source="firmware/docs/lifecycle.md#full-jitter",
)
def full_jitter(a: Asm, least: Reg32, most: Reg32, step: Reg32) -> None:
    """Draw uniformly below min(most, least << step)."""
    a.mov(R12D, most)
    a.mov(least, least)
    a.mov(EDX, STEP_MAX)
    a.cmp(step, EDX)
    a.cmov(A, step, EDX)
    a.shl(RAX, CL)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.call(drbg_u64)
    a.mov(EAX, EAX)
    a.imul(RAX, R12)
    a.shr(RAX, 32)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that recovers")],
    outputs=[Out(EAX, "delay; milliseconds"), Out(EDX, "Stop: SCHEDULE_ENDED, or 0")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.recovery_step,
        ConfigBlob.policy,
        ConfigBlob.schedule_len,
        SCHEDULE,
        ConfigBlob.min_delay_ms,
        ConfigBlob.max_delay_ms,
    ],
    writes=[ShardContext.recovery_step, Evidence.recovery_step],
    calls=[full_jitter],
    source="firmware/docs/lifecycle.md#recovery-policy",
)
def recovery_delay(a: Asm, shard: ShardContext) -> None:
    """Take the next step of the recovery policy."""
    config, ended = CONFIG.it, a.label("ended")
    a.movzx(ECX, shard.recovery_step)
    a.mov(shard.evidence.recovery_step, CL)
    a.cmp(config.policy, Policy.SCHEDULE)
    with a.if_(E):
        a.cmp(CL, config.schedule_len)
        a.j(AE, ended)
        a.inc(shard.recovery_step)
        a.lea(RDX, config.schedule_ms.address)
        a.mov(EAX, mem32(RDX, index=RCX, scale=4, ref=SCHEDULE))
        a.xor(EDX, EDX)
        a.ret()
    # The step saturates where the ceiling does.
    a.cmp(CL, STEP_MAX)
    with a.if_(B):
        a.inc(shard.recovery_step)
    a.mov(EAX, config.min_delay_ms)
    a.mov(EDX, config.max_delay_ms)
    a.call(full_jitter)
    a.xor(EDX, EDX)
    a.ret()
    a.place(ended)
    a.mov(EDX, Stop.SCHEDULE_ENDED)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose attempt failed; the evidence is copied")],
    outputs=[Out(EAX, "Stop: SCHEDULE_ENDED or STARTUP_DEADLINE; 0 = evidence.delay_ms is set")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.flags,
        ShardContext.attempts,
        ConfigBlob.policy,
        ConfigBlob.startup_min_ms,
        ConfigBlob.startup_max_ms,
        Startup.deadline,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Evidence.delay_ms],
    calls=[required_wait, recovery_delay, full_jitter],
    saves=[R12],
    source="firmware/docs/lifecycle.md#delay",
)
def choose_delay(a: Asm, shard: ShardContext) -> None:
    """Choose the delay by phase and policy, never shorter than what the peer asked for."""
    config = CONFIG.it
    chosen, startup, out = a.label("chosen"), a.label("startup"), a.label("out")
    a.call(required_wait)
    a.mov(R12D, EAX)

    a.mov(EAX, RECONNECT_BACKOFF_MS)
    a.cmp(config.policy, Policy.FIXED)
    a.j(E, chosen)
    a.test(shard.flags, RECOVERING)
    a.j(Z, startup)
    a.call(recovery_delay)
    a.test(EDX, EDX)
    a.j(Z, chosen)
    a.mov(EAX, EDX)
    a.ret()

    # Startup: the step is the number of attempts before this one.
    a.place(startup)
    a.mov(ECX, shard.attempts)
    a.sub(ECX, 1)
    a.adc(ECX, 0)  # an attempt that ended before it counted is the first
    a.mov(EAX, config.startup_min_ms)
    a.mov(EDX, config.startup_max_ms)
    a.call(full_jitter)

    a.place(chosen)
    a.cmp(EAX, R12D)
    a.cmov(B, EAX, R12D)
    a.mov(shard.evidence.delay_ms, EAX)

    # A startup that cannot try again before its deadline is over.
    a.test(shard.flags, RECOVERING)
    a.j(NZ, out)
    a.mov(RDX, STARTUP.it.deadline)
    a.test(RDX, RDX)
    a.j(Z, out)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, core.now)
    a.cmp(RAX, RDX)
    a.mov(EAX, Stop.STARTUP_DEADLINE)
    with a.if_(AE):
        a.ret()
    a.place(out)
    a.xor(EAX, EAX)
    a.ret()
