"""The reset of one shard: exactly seed A's nine items, and nothing of any other shard."""

from firmware import limits
from firmware.abi import CALLER_SAVED
from firmware.layouts.gateway import LATENCY_UNKNOWN, GatewayContext
from firmware.layouts.log import SHARD_RETRY
from firmware.layouts.shard import SEQUENCE_NONE, ShardContext, ShardFlag
from firmware.layouts.tls import TlsContext, TlsKeys
from firmware.log import log, log_write
from firmware.shard.resume import restore_resume_state
from firmware.websocket.request import ws_build_request
from toolchain.asm import (
    EAX,
    ECX,
    R12,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RCX,
    RDI,
    Asm,
    In,
    routine,
)

LAYERS_START = ShardContext.tcp.offset
"""TCP page with the reliable queue, TLS, WebSocket and Discord workspaces lie in one run."""
LAYERS_END = ShardContext.gateway.offset + ShardContext.gateway.size


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDI],
    reads=[ShardContext.tx_base],
    writes=[
        ShardContext.sequence,
        ShardContext.flags,
        ShardContext.last_error,
        ShardContext.failure,
        ShardContext.failure_flags,
        ShardContext.required_wait_ms,
        ShardContext.failure_close,
        ShardContext.peer_close,
        ShardContext.reconnect_deadline,
        ShardContext.attempt_deadline,
        ShardContext.phase_deadline,
        ShardContext.close_deadline,
        ShardContext.connected_at,
        GatewayContext.latency_ms,
    ],
    source="firmware/docs/lifecycle.md#reset-scope",
)
def wipe_transport(a: Asm, shard: ShardContext) -> None:
    """Zero the private transport state of one shard; session, counters and evidence stay."""
    # TCP page, TLS, WebSocket and Discord workspaces, with lengths and heartbeat in them.
    a.xor(EAX, EAX)
    a.lea(RDI, shard.tcp.state)
    a.mov(ECX, (LAYERS_END - LAYERS_START) // 8)
    a.rep_stosq()
    a.lea(RDI, shard.tls_keys.send.secret.address)
    a.mov(ECX, TlsKeys.SIZE // 8)
    a.rep_stosq()
    # The reliable queue's contents; they may hold the token.
    a.mov(RDI, shard.tx_base)
    a.mov(ECX, limits.TX_BYTES // 8)
    a.rep_stosq()
    # Error state and deadlines.
    a.mov(shard.last_error, EAX)
    a.mov(shard.failure, EAX)
    a.mov(shard.failure_flags, EAX)
    a.mov(shard.required_wait_ms, EAX)
    a.mov(shard.failure_close, 0)
    a.mov(shard.peer_close, 0)
    a.mov(shard.reconnect_deadline, RAX)
    a.mov(shard.attempt_deadline, RAX)
    a.mov(shard.phase_deadline, RAX)
    a.mov(shard.close_deadline, RAX)
    a.mov(shard.connected_at, RAX)
    # No heartbeat was answered yet.
    a.mov(shard.gateway.latency_ms, LATENCY_UNKNOWN)
    # The wiped field holds all ones; only SEQ_VALID says whether it counts.
    a.mov(shard.sequence, SEQUENCE_NONE)
    a.and_(shard.flags, ~ShardFlag.SEQ_VALID & 0xFFFF_FFFF)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that starts over")],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.sequence, ShardContext.flags],
    writes=[TlsContext.tcp_ptr],
    calls=[wipe_transport, restore_resume_state, ws_build_request, log_write],
    saves=[R12, R14, R15],
    source="firmware/docs/lifecycle.md#reset-order",
)
def reset_shard(a: Asm, shard: ShardContext) -> None:
    """Wipe, restore what Resume needs, rebuild the request, rebind the layers, say so."""
    a.mov(R14D, shard.sequence)
    a.mov(R15D, shard.flags)
    a.call(wipe_transport)
    a.call(restore_resume_state)

    # The rebuilt upper layer must point at the rebuilt lower layer: request first, then binding.
    a.call(ws_build_request)
    a.lea(RAX, shard.tcp.state)
    a.mov(shard.tls.tcp_ptr, RAX)

    log(a, SHARD_RETRY, RBX)
    a.ret()
