"""Whether a failed shard tries again: health, anomalies in a row, the limits, the kind of error."""

from firmware.layouts.closes import CLOSE_RULES, FIRST_CODE, RULES_PER_PROFILE
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.policy import STARTUP, Startup
from firmware.layouts.shard import (
    Classification,
    End,
    Evidence,
    FailureFlag,
    ShardContext,
    Stop,
)
from firmware.shard.backoff import RECOVERING
from toolchain.asm import (
    AE,
    AL,
    BE,
    CL,
    EAX,
    ECX,
    NE,
    NZ,
    RAX,
    RBX,
    RCX,
    RDX,
    Asm,
    B,
    E,
    In,
    Out,
    Z,
    mem8,
    routine,
)
from toolchain.layout.data import constant

CLASS_OF = {
    End.NONE: Classification.NONE,
    End.CLOSED: Classification.CLOSED,
    End.HEARTBEAT_TIMEOUT: Classification.NETWORK,
    End.RECONNECT_REQUESTED: Classification.CLOSED,
    End.INVALID_SESSION: Classification.CLOSED,
    End.PROTOCOL: Classification.PROTOCOL,
    End.NETWORK: Classification.NETWORK,
    End.TIMEOUT: Classification.TIMEOUT,
    End.SEND_FAILED: Classification.NETWORK,
    End.TCP_FAILED: Classification.NETWORK,
    End.TLS_FAILED: Classification.NETWORK,
    End.LEASE_EXPIRED: Classification.LEASE,
    End.DEFECT: Classification.DEFECT,
    End.CONFIG: Classification.CLOSED,
    End.CHALLENGED: Classification.NETWORK,
}
CLASSES = constant("failure_classes", bytes(CLASS_OF[end] for end in End), "Classification by End")
COUNT_MAX = 0xFF


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose attempt failed")],
    clobbers=[RAX, RCX],
    reads=[
        ShardContext.connected_at,
        ShardContext.protocol_failures,
        ShardContext.failure,
        ShardContext.failure_flags,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        ConfigBlob.healthy_reset_ms,
    ],
    writes=[
        ShardContext.recovery_step,
        ShardContext.protocol_failures,
        Evidence.protocol_failures,
    ],
    source="firmware/docs/lifecycle.md#health",
)
def judge_health(a: Asm, shard: ShardContext) -> None:
    """Start count and step again after a healthy connection; then count an anomaly."""
    with a.block() as short:
        a.mov(RCX, shard.connected_at)
        a.test(RCX, RCX)
        a.leave(Z, short)
        a.mov(EAX, CONFIG.it.healthy_reset_ms)
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
        a.sub(RCX, core.now)
        a.neg(RCX)  # how long it was READY
        a.cmp(RCX, RAX)
        a.leave(B, short)
        a.xor(EAX, EAX)
        a.mov(shard.recovery_step, AL)
        a.mov(shard.protocol_failures, AL)

    # Seed B's anomalies, and the close codes that say that we sent something wrong.
    with a.block() as counted:
        anomaly = a.label("anomaly")
        a.cmp(shard.failure, End.PROTOCOL)
        a.j(E, anomaly)
        a.test(shard.failure_flags, FailureFlag.ANOMALY)
        a.leave(Z, counted)
        a.place(anomaly)
        a.cmp(shard.protocol_failures, COUNT_MAX)
        a.leave(E, counted)
        a.inc(shard.protocol_failures)
    a.mov(AL, shard.protocol_failures)
    a.mov(shard.evidence.protocol_failures, AL)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose attempt failed; health was judged")],
    outputs=[Out(EAX, "Stop: why it does not try again; 0 = it may")],
    clobbers=[RCX, RDX],
    reads=[
        ShardContext.failure,
        ShardContext.failure_flags,
        ShardContext.profile,
        ShardContext.peer_close,
        ShardContext.protocol_failures,
        ShardContext.flags,
        ShardContext.attempts,
        ConfigBlob.protocol_failures_max,
        ConfigBlob.startup_attempts,
        CLOSE_RULES,
    ],
    source="firmware/docs/lifecycle.md#limits",
)
def shard_verdict(a: Asm, shard: ShardContext) -> None:
    """Look for a reason to stop, in seed B's order: the failure itself, anomalies, attempts."""
    retry, config = a.label("retry"), CONFIG.it
    a.test(shard.failure_flags, FailureFlag.FATAL | FailureFlag.RESHARD)
    with a.if_(NZ):
        # A close code has its own reason in the profile's table.
        with a.block() as other:
            a.cmp(shard.failure, End.CLOSED)
            a.leave(NE, other)
            a.movzx(EAX, shard.peer_close)
            a.sub(EAX, FIRST_CODE)
            a.cmp(EAX, RULES_PER_PROFILE)
            a.leave(AE, other)
            a.movzx(ECX, shard.profile)
            a.shl(ECX, RULES_PER_PROFILE.bit_length() - 1)
            a.add(ECX, EAX)
            a.lea(RDX, CLOSE_RULES.address)
            a.movzx(EAX, mem8(RDX, 1, index=RCX, scale=2, ref=CLOSE_RULES))
            a.test(EAX, EAX)
            a.leave(Z, other)
            a.ret()
        a.mov(EAX, Stop.CONFIG)
        a.test(shard.failure_flags, FailureFlag.CONFIG)
        with a.if_(Z):
            a.mov(EAX, Stop.REFUSED)
        a.ret()

    a.mov(EAX, Stop.PROTOCOL_LIMIT)
    a.mov(CL, shard.protocol_failures)
    a.cmp(CL, config.protocol_failures_max)
    with a.if_(AE):
        a.ret()

    a.test(shard.flags, RECOVERING)
    a.j(NZ, retry)
    a.mov(ECX, shard.attempts)
    a.cmp(ECX, config.startup_attempts)
    a.jb(retry)
    a.mov(EAX, Stop.STARTUP_ATTEMPTS)
    a.ret()
    a.place(retry)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose evidence is complete but for this")],
    clobbers=[RAX, RCX],
    reads=[
        ShardContext.failure_flags,
        Evidence.end,
        Evidence.stop,
        Evidence.required_wait_ms,
        Evidence.tls_site,
        Startup.budget_ms,
        CLASSES,
    ],
    writes=[Evidence.classification, Evidence.reported, Evidence.budget_ms],
    source="firmware/docs/lifecycle.md#classification",
)
def classify(a: Asm, shard: ShardContext) -> None:
    """Say what kind of error it was, and what it is reported as: the startup's end by its own name."""
    kept, done = shard.evidence, a.label("done")
    a.mov(AL, Classification.AUTHENTICATION)
    a.cmp(kept.stop, Stop.AUTH)
    a.j(E, done)
    a.mov(AL, Classification.DEFECT)
    a.cmp(kept.stop, Stop.DEFECT)
    a.j(E, done)
    a.mov(AL, Classification.RATE_LIMIT)
    a.test(shard.failure_flags, FailureFlag.WAIT)
    a.jnz(done)
    a.movzx(ECX, kept.end)
    a.lea(RAX, CLASSES.address)
    a.mov(AL, mem8(RAX, index=RCX, ref=CLASSES))
    a.place(done)
    a.mov(kept.classification, AL)

    # Whatever failed last: that no time is left is a timeout of the startup, or the rate limit
    # that takes the time.
    a.cmp(kept.stop, Stop.STARTUP_DEADLINE)
    with a.if_(E):
        a.mov(AL, Classification.TIMEOUT)
        with a.block() as own:
            a.cmp(kept.required_wait_ms, 0)
            a.leave(E, own)
            a.cmp(kept.tls_site, 0)
            a.leave(NE, own)  # the wait after a failure in TLS limits no rate
            a.mov(AL, Classification.RATE_LIMIT)
    a.mov(kept.reported, AL)
    a.xor(ECX, ECX)
    a.mov(AL, kept.stop)
    a.sub(AL, Stop.STARTUP_ATTEMPTS)
    a.cmp(AL, Stop.STARTUP_DEADLINE - Stop.STARTUP_ATTEMPTS)
    with a.if_(BE):
        a.mov(ECX, STARTUP.it.budget_ms)
    a.mov(kept.budget_ms, ECX)
    a.ret()
