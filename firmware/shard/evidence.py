"""Evidence before reset: why the connection failed, copied before anything is wiped."""

from firmware.errors import Layer
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import Evidence, ShardContext, ShardFlag
from firmware.layouts.tcp import TcpContext
from firmware.layouts.tls import TlsContext
from firmware.layouts.tls_sites import SITES_MAX
from firmware.layouts.websocket import WebSocketContext
from toolchain.asm import AE, AL, AX, DL, EAX, EDX, NE, RAX, RBX, RDX, A, Asm, In, routine

CONNECTED_MS_MAX = 0xFFFF_FFFF
"""Longer than 49 days counts as that."""


@routine(
    inputs=[In(RBX, ShardContext, "the shard whose connection failed")],
    clobbers=[RAX, RDX],
    reads=[
        ShardContext.last_error,
        ShardContext.failure,
        ShardContext.phase,
        ShardContext.peer_close,
        ShardContext.sequence,
        ShardContext.connected_at,
        ShardContext.attempts,
        ShardContext.flags,
        TcpContext.state,
        TlsContext.state,
        WebSocketContext.http_status,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        Evidence.error,
        Evidence.tls_site,
        Evidence.tcp_state,
        Evidence.tls_state,
        Evidence.end,
        Evidence.phase,
        Evidence.close_code,
        Evidence.sequence,
        Evidence.sequence_valid,
        Evidence.failed_at,
        Evidence.connected_ms,
        Evidence.http_status,
        Evidence.lost,
        Evidence.established,
        Evidence.attempt,
        Evidence.refusal,
    ],
    source="firmware/docs/lifecycle.md#evidence",
)
def copy_evidence(a: Asm, shard: ShardContext) -> None:
    """Copy error, TCP and TLS state, phase, close code and times of the failure."""
    kept = shard.evidence

    a.mov(EAX, shard.last_error)
    a.mov(kept.error, EAX)
    a.shr(EAX, 16)
    a.sub(EAX, Layer.TLS << 8)
    a.cmp(EAX, SITES_MAX)
    with a.if_(AE):
        a.xor(EAX, EAX)  # another layer's
    a.mov(kept.tls_site, AL)
    a.mov(EAX, shard.tcp.state)
    a.mov(kept.tcp_state, EAX)
    a.mov(EAX, shard.tls.state)
    a.mov(kept.tls_state, EAX)
    a.mov(EAX, shard.failure)
    a.mov(kept.end, AL)
    a.mov(AL, shard.phase)
    a.mov(kept.phase, AL)
    a.mov(AX, shard.peer_close)
    a.mov(kept.close_code, AX)
    a.mov(AX, shard.websocket.http_status)
    a.mov(kept.http_status, AX)
    a.mov(EAX, shard.sequence)
    a.mov(kept.sequence, EAX)

    a.mov(EAX, shard.attempts)
    a.mov(kept.attempt, EAX)
    a.mov(kept.refusal, PlanRefusal.NONE)
    # SEQ_VALID alone says whether the sequence counts (decision 12).
    a.mov(EAX, shard.flags)
    a.mov(EDX, EAX)
    a.and_(DL, ShardFlag.SEQ_VALID)
    a.mov(kept.sequence_valid, DL)
    # Lost is what had been READY; everything else is an attempt that failed.
    a.shr(EAX, ShardFlag.ESTABLISHED.bit_length() - 1)
    a.and_(AL, 1)
    a.mov(kept.established, AL)
    a.mov(RDX, shard.connected_at)
    a.test(RDX, RDX)
    a.set(NE, AL)
    a.mov(kept.lost, AL)

    # How long the connection was READY; 0 when it never was or the clock is unknown.
    a.mov(RAX, core.now)
    a.mov(kept.failed_at, RAX)
    unknown = a.label("unknown")
    a.mov(kept.connected_ms, 0)
    a.jz(unknown)  # as TEST left it
    a.sub(RAX, RDX)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.jz(unknown)
    a.xor(EDX, EDX)
    a.div(CLOCK.it.tsc_cycles_per_ms)
    a.mov(EDX, CONNECTED_MS_MAX)
    a.cmp(RAX, RDX)
    a.cmov(A, RAX, RDX)
    a.mov(kept.connected_ms, EAX)
    a.place(unknown)
    a.ret()
