"""One message, by its opcode."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.failure import shard_fail
from emulator.models.gateway.dispatch import gateway_op_dispatch
from emulator.models.gateway.fail import gateway_violate
from emulator.models.gateway.handshake import gateway_handshake
from emulator.models.gateway.send import gateway_heartbeat
from emulator.models.gateway.session import kind, value
from emulator.models.log import log, log_at_level
from firmware.layouts import gateway as layout
from firmware.layouts.gateway import GatewayFlag, GatewayState
from firmware.layouts.json import JsonField, JsonKind
from firmware.layouts.log import (
    GATEWAY_ACK,
    GATEWAY_HELLO,
    GATEWAY_INVALID,
    GATEWAY_LATE,
    GATEWAY_RECEIVE,
    GATEWAY_RECONNECT,
    GATEWAY_UNKNOWN,
)
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import End, FailureFlag, ShardContext


@model
def gateway_op_hello(w: World, shard: int) -> None:
    """Once, bounded interval, first beat at a random point, then the answer."""
    context = w.view(ShardContext, shard)
    gateway = context.gateway
    if gateway.state not in (GatewayState.IDLE, GatewayState.WAIT_HELLO):
        gateway_violate(w, shard, layout.SECOND_HELLO.code)
        return
    interval = value(context, JsonField.HEARTBEAT_INTERVAL)
    is_integer = kind(context, JsonField.HEARTBEAT_INTERVAL) == JsonKind.INTEGER
    if not is_integer or not 1000 <= interval < 2**31:
        gateway_violate(w, shard, layout.HELLO_INTERVAL.code)
        return
    gateway.heartbeat_interval_ms = interval
    cycles = interval * w.g(CLOCK).tsc_cycles_per_ms
    gateway.interval_cycles = cycles
    gateway.hb_next = w.g(CORE).now + (drbg_u64(w) * (cycles % 2**64) >> 64)
    gateway.latency_ms = layout.LATENCY_UNKNOWN
    gateway.seq_acked = context.sequence
    context.phase_deadline = 0
    gateway.state = GatewayState.ANSWER
    gateway_handshake(w, shard)
    resuming = gateway.state == GatewayState.WAIT_RESUMED
    log(w, GATEWAY_HELLO, shard, interval, int(resuming))


@model
def gateway_op_heartbeat(w: World, shard: int) -> None:
    """Answer at once; nothing is sent before Hello."""
    gateway = w.view(ShardContext, shard).gateway
    if not gateway.hb_next:
        gateway.unknown_ops += 1
    elif gateway_heartbeat(w, shard):
        gateway.flags |= GatewayFlag.BEAT_OWED


@model
def gateway_op_ack(w: World, shard: int) -> None:
    """Latency from the beat that is pending; others are ignored."""
    gateway = w.view(ShardContext, shard).gateway
    if not gateway.flags & GatewayFlag.ACK_PENDING:
        return
    gateway.flags &= ~GatewayFlag.ACK_PENDING
    gateway.acks += 1
    gateway.last_ack_at = w.g(CORE).now
    cycles = w.g(CLOCK).tsc_cycles_per_ms
    if cycles:
        gateway.latency_ms = (w.g(CORE).now - gateway.hb_sent_at) % 2**64 // cycles
        log_at_level(w, GATEWAY_ACK, shard)
        if gateway.latency_ms > 10_000:
            log(w, GATEWAY_LATE, shard)


@model
def gateway_op_reconnect(w: World, shard: int) -> None:
    """Close 4000, session kept."""
    log(w, GATEWAY_RECONNECT, shard)
    shard_fail(w, shard, End.RECONNECT_REQUESTED, 0, 4000, layout.RECONNECT.code)


@model
def gateway_op_invalid(w: World, shard: int) -> None:
    """Only a literal true, where the service says it, keeps the session, and only twice in a row."""
    context = w.view(ShardContext, shard)
    keep = (
        kind(context, JsonField.D) == JsonKind.TRUE and PROFILES[context.profile].invalid_resumable
    )
    keep = keep and context.resumable_invalid < 2
    if keep:
        context.resumable_invalid += 1
    log(w, GATEWAY_INVALID, shard, int(keep))
    flags, close = (0, 4000) if keep else (FailureFlag.RESET_SESSION, 1000)
    shard_fail(w, shard, End.INVALID_SESSION, flags, close, layout.SESSION_INVALID.code | keep)


@model
def gateway_op_unknown(w: World, shard: int) -> None:
    """Ignored, but counted."""
    w.view(ShardContext, shard).gateway.unknown_ops += 1
    log_at_level(w, GATEWAY_UNKNOWN, shard)


_BY_OP = {
    0: gateway_op_dispatch,
    1: gateway_op_heartbeat,
    7: gateway_op_reconnect,
    9: gateway_op_invalid,
    10: gateway_op_hello,
    11: gateway_op_ack,
}


@model
def gateway_message(w: World, shard: int) -> None:
    """A message without an integer opcode is an anomaly; an unknown opcode is ignored."""
    context = w.view(ShardContext, shard)
    if kind(context, JsonField.OP) != JsonKind.INTEGER:
        gateway_violate(w, shard, layout.OP_MISSING.code)
        return
    log_at_level(w, GATEWAY_RECEIVE, shard)
    _BY_OP.get(value(context, JsonField.OP), gateway_op_unknown)(w, shard)
