"""Evidence before reset."""

from emulator.effects import World, model
from firmware.errors import Layer
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import ShardContext, ShardFlag
from firmware.layouts.tls_sites import SITES_MAX


@model
def copy_evidence(w: World, shard: int) -> None:
    """The record holds everything that the wipe will destroy and the operator needs."""
    context = w.view(ShardContext, shard)
    kept, now, cycles = context.evidence, w.g(CORE).now, w.g(CLOCK).tsc_cycles_per_ms
    kept.error, kept.end, kept.phase = context.last_error, context.failure, context.phase
    kept.tcp_state, kept.tls_state = context.tcp.state, context.tls.state
    in_tls = context.last_error >> 24 == Layer.TLS
    site = context.last_error >> 16 & 0xFF
    kept.tls_site = site if in_tls and site < SITES_MAX else 0
    kept.close_code, kept.http_status = context.peer_close, context.websocket.http_status
    kept.sequence, kept.failed_at = context.sequence, now
    kept.sequence_valid = int(bool(context.flags & ShardFlag.SEQ_VALID))
    kept.attempt = context.attempts
    kept.refusal = PlanRefusal.NONE
    kept.established = int(bool(context.flags & ShardFlag.ESTABLISHED))
    since = context.connected_at
    kept.lost = int(since != 0)
    kept.connected_ms = 0
    if since and cycles:
        kept.connected_ms = min((now - since) % 2**64 // cycles, 2**32 - 1)
