"""How a question for the gateway ends without an answer: for now, or for good."""

from firmware.abi import CALLER_SAVED
from firmware.failure import shard_fail
from firmware.gateway.pace import gateway_ms_until
from firmware.layouts.discovery import DISCOVERY, SPACING_MS, Discovery, DiscoveryState
from firmware.layouts.log import DISCOVERY_REFUSED, DISCOVERY_WAIT
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.websocket import WebSocketContext
from firmware.log import log, log_write
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9,
    R9D,
    RAX,
    RBX,
    RCX,
    RDX,
    Asm,
    B,
    E,
    In,
    Reg32,
    routine,
)

D = DISCOVERY.it
TOO_MANY = 429


@routine(
    inputs=[In(RBX, ShardContext, "a shard that needs the answer")],
    clobbers=[RAX, RCX, RDX, R8, R9],
    reads=[
        Discovery.status,
        Discovery.state,
        Discovery.error,
        Discovery.retry_after_ms,
        Discovery.not_before,
    ],
    writes=[WebSocketContext.http_status, ShardContext.required_wait_ms],
    calls=[gateway_ms_until, shard_fail],
    source="firmware/docs/gateway.md#discovery-verdicts",
)
def discovery_share(a: Asm, shard: ShardContext) -> None:
    """Let the verdict on the last question be this shard's failure."""
    a.mov(AX, D.status)
    a.mov(shard.websocket.http_status, AX)
    # What is left of the wait that was asked for holds for each shard.
    a.cmp(D.retry_after_ms, 0)
    with a.if_(NE):
        a.mov(RAX, D.not_before)
        a.call(gateway_ms_until)
        a.mov(shard.required_wait_ms, EAX)
    a.mov(EDX, End.NETWORK)
    a.xor(ECX, ECX)
    a.cmp(D.status, TOO_MANY)
    with a.if_(E):
        a.mov(ECX, FailureFlag.WAIT)
    a.cmp(D.state, DiscoveryState.REFUSED)
    with a.if_(E):
        a.mov(ECX, FailureFlag.FATAL)
    a.xor(R8D, R8D)
    a.mov(R9D, D.error)
    a.call(shard_fail)
    a.ret()


@routine(
    inputs=[In(R9D, int, "the error")],
    clobbers=CALLER_SAVED,
    reads=[
        Discovery.error,
        Discovery.status,
        Discovery.retry_after_ms,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        Discovery.error,
        Discovery.state,
        Discovery.owner,
        Discovery.failed_at,
        Discovery.not_before,
    ],
    calls=[log_write],
    source="firmware/docs/gateway.md#discovery-verdicts",
)
def discovery_later(a: Asm, error: Reg32) -> None:
    """Free the question; nobody of the node asks again before the wait is over."""
    wait = R8
    a.mov(D.error, error)
    a.mov(D.state, DiscoveryState.IDLE)
    a.mov(D.owner, 0)
    a.mov(wait, SPACING_MS)
    a.cmp(wait, D.retry_after_ms)
    a.cmov(B, wait, D.retry_after_ms)
    a.mov(RAX, core.now)
    a.mov(D.failed_at, RAX)
    a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
    a.imul(RCX, wait)
    a.add(RAX, RCX)
    a.mov(D.not_before, RAX)
    a.mov(EDX, D.error)
    a.movzx(ECX, D.status)
    log(a, DISCOVERY_WAIT)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that asks"), In(R9D, int, "the error")],
    clobbers=CALLER_SAVED,
    calls=[discovery_later, discovery_share],
    source="firmware/docs/gateway.md#discovery-verdicts",
)
def discovery_retry(a: Asm, shard: ShardContext, error: Reg32) -> None:
    """End the question for now, and the attempt of who asked."""
    a.call(discovery_later)
    a.jmp(discovery_share)


@routine(
    inputs=[In(RBX, ShardContext, "the shard that asks"), In(R9D, int, "the error")],
    clobbers=CALLER_SAVED,
    reads=[Discovery.error, Discovery.status],
    writes=[Discovery.error, Discovery.state, Discovery.owner],
    calls=[log_write, discovery_share],
    source="firmware/docs/gateway.md#discovery-verdicts",
)
def discovery_refuse(a: Asm, shard: ShardContext, error: Reg32) -> None:
    """End the question for good: asking again would bring the same answer."""
    a.mov(D.error, error)
    a.mov(D.state, DiscoveryState.REFUSED)
    a.mov(D.owner, 0)
    a.mov(EDX, D.error)
    a.movzx(ECX, D.status)
    log(a, DISCOVERY_REFUSED)
    a.jmp(discovery_share)
