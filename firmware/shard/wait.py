"""How long the peer wants us to wait before the next attempt; jitter never shortens it."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.gateway.profile import profile_table
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.policy import (
    FORBIDDEN_WAIT_MS,
    RATE_LIMIT_AGAIN_MS,
    RATE_LIMIT_REPEAT_MS,
    RATE_LIMIT_WAIT_MS,
)
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import End, Evidence, FailureFlag, ShardContext
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
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
    Region,
    Z,
    mem8,
    routine,
)

RATE_LIMITED = 4008
_FORBIDDEN = (401, 403)
COMPUTED = Region("nothing", "LEA only computes")


def _at_least(a: Asm, milliseconds: int) -> None:
    """R12D := the larger of itself and a number of milliseconds."""
    a.mov(EAX, milliseconds)
    a.cmp(EAX, R12D)
    a.cmov(A, R12D, EAX)


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose attempt failed")],
    outputs=[Out(EAX, "milliseconds; 0 = the peer asked for nothing")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.failure,
        ShardContext.failure_flags,
        ShardContext.profile,
        ProfileTable.invalid_spread_ms,
        ProfileTable.invalid_wait_ms,
        ShardContext.peer_close,
        ShardContext.required_wait_ms,
        ShardContext.rate_limited_at,
        Evidence.http_status,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[ShardContext.rate_limited_at, Evidence.required_wait_ms],
    calls=[drbg_u64],
    saves=[R12],
    source="firmware/docs/lifecycle.md#required-waits",
)
def required_wait(a: Asm, shard: ShardContext) -> None:
    """Take the longest of what the failing layer noted and what the policy's table says."""
    flags, now = shard.failure_flags, RAX
    a.mov(R12D, shard.required_wait_ms)

    # A lost session: where the profile says so a random wait, so that no fleet identifies at once.
    with a.block() as invalid:
        a.cmp(shard.failure, End.INVALID_SESSION)
        a.leave(NE, invalid)
        a.test(flags, FailureFlag.RESET_SESSION)
        a.leave(Z, invalid)
        table = profile_table(a, shard, RCX, RDX)
        a.cmp(table.invalid_spread_ms, 0)
        a.leave(E, invalid)
        a.call(drbg_u64)
        a.mov(EAX, EAX)
        table = profile_table(a, shard, RCX, RDX)
        a.mov(EDX, table.invalid_spread_ms)
        a.imul(RAX, RDX)
        a.shr(RAX, 32)
        a.add(EAX, table.invalid_wait_ms)
        a.cmp(EAX, R12D)
        a.cmov(A, R12D, EAX)

    # 4xx: asking again at once can only make it worse (case E32).
    a.movzx(ECX, shard.evidence.http_status)
    a.lea(EAX, mem8(RCX, -400, ref=COMPUTED))
    a.cmp(EAX, 100)
    with a.if_(B):
        _at_least(a, RATE_LIMIT_WAIT_MS)
    for status in _FORBIDDEN:  # two statuses, unrolled
        a.cmp(ECX, status)
        with a.if_(E):
            _at_least(a, FORBIDDEN_WAIT_MS)

    with a.block() as waits:
        a.test(flags, FailureFlag.WAIT)
        a.leave(Z, waits)
        _at_least(a, RATE_LIMIT_WAIT_MS)
        a.cmp(shard.peer_close, RATE_LIMITED)
        a.leave(NE, waits)
        # A second rate limit within a minute costs half a minute.
        a.mov(now, core.now)
        a.mov(RCX, shard.rate_limited_at)
        a.mov(shard.rate_limited_at, now)
        a.test(RCX, RCX)
        a.leave(Z, waits)
        a.sub(now, RCX)
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, RATE_LIMIT_REPEAT_MS)
        a.cmp(now, RCX)
        with a.if_(B):
            _at_least(a, RATE_LIMIT_AGAIN_MS)

    a.mov(EAX, R12D)
    a.mov(shard.evidence.required_wait_ms, EAX)
    a.ret()
