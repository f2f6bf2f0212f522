"""The reset of one shard: seed A's nine items."""

from emulator.effects import World, model
from emulator.models.log import log
from emulator.models.shard.resume import restore_resume_state
from emulator.models.websocket.request import ws_build_request
from firmware.layouts.gateway import LATENCY_UNKNOWN
from firmware.layouts.log import SHARD_RETRY
from firmware.layouts.shard import SEQUENCE_NONE, ShardContext, ShardFlag
from firmware.limits import TX_BYTES


@model
def wipe_transport(w: World, shard: int) -> None:
    """Zero layers, queue, errors and deadlines; the sequence field becomes all ones, invalid."""
    context = w.view(ShardContext, shard)
    for layer in (
        context.tcp,
        context.tls,
        context.tls_keys,
        context.websocket,
        context.gateway,
    ):
        layer.wipe()
    w.write(context.tx_base, bytes(TX_BYTES))
    context.last_error = context.failure = context.failure_flags = context.required_wait_ms = 0
    context.failure_close = context.peer_close = 0
    context.reconnect_deadline = context.attempt_deadline = 0
    context.phase_deadline = context.close_deadline = context.connected_at = 0
    context.gateway.latency_ms = LATENCY_UNKNOWN
    context.sequence = SEQUENCE_NONE
    context.flags = context.flags & ~ShardFlag.SEQ_VALID


@model
def reset_shard(w: World, shard: int) -> None:
    """Wipe, restore, rebuild the request, rebind TLS to TCP, log the retry."""
    context = w.view(ShardContext, shard)
    sequence, flags = context.sequence, context.flags
    wipe_transport(w, shard)
    restore_resume_state(w, shard, sequence, flags)
    ws_build_request(w, shard)
    context.tls.tcp_ptr = context.tcp.address_
    log(w, SHARD_RETRY, shard)
