"""Dispatches: what counts, and what cannot be read."""

from emulator.effects import View, World, model
from emulator.models.failure import shard_fail
from emulator.models.gateway.fail import gateway_violate
from emulator.models.gateway.pace import gateway_rate_limited
from emulator.models.gateway.session import gateway_ready, kind, value
from emulator.models.log import log, log_at_level
from firmware.layouts import gateway as layout
from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import GatewayState
from firmware.layouts.json import JsonField, JsonKind
from firmware.layouts.log import GATEWAY_DISPATCH, GATEWAY_REJECTED, GATEWAY_SEQUENCE
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.policy import OnMalformed
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import End, FailureFlag, ShardContext, ShardFlag

_NUMBERS = (JsonKind.INTEGER, JsonKind.DECIMAL, JsonKind.NUMBER)


@model
def gateway_reject(w: World, shard: int) -> None:
    """Counted and said; a configuration that terminates gets no reconnect, and keeps the session."""
    context, policy = w.view(ShardContext, shard), w.g(CONFIG).on_malformed
    context.malformed += 1
    log(w, GATEWAY_REJECTED, shard, policy)
    if policy == OnMalformed.TERMINATE:
        code = layout.DISPATCH_MALFORMED.code
        shard_fail(w, shard, End.PROTOCOL, FailureFlag.FATAL, 4000, code)


def _note_hole(context: View, last: int) -> None:
    """From behind the known sequence to `last`: nobody repeated it."""
    if last > context.sequence:
        if not context.hole_first:
            context.hole_first = context.sequence + 1
        context.hole_last = last


def _readable(w: World, shard: int, event: bytes) -> bool:
    """RATE_LIMITED has two numbers, and is obeyed anyway; nothing of any other is read."""
    context = w.view(ShardContext, shard)
    if event != b"RATE_LIMITED":
        return True
    gateway_rate_limited(w, shard)
    is_opcode = kind(context, JsonField.RATE_OPCODE) == JsonKind.INTEGER
    return is_opcode and kind(context, JsonField.RETRY_AFTER) in _NUMBERS


@model
def gateway_op_dispatch(w: World, shard: int) -> None:
    """What counts depends on event and state."""
    context = w.view(ShardContext, shard)
    gateway, state = context.gateway, context.gateway.state
    if kind(context, JsonField.S) != JsonKind.INTEGER:
        gateway_violate(w, shard, layout.SEQUENCE_FORM.code)
        return
    if kind(context, JsonField.T) != JsonKind.STRING:
        gateway_violate(w, shard, layout.EVENT_NAME.code)
        return
    log_at_level(w, GATEWAY_DISPATCH, shard)
    sequence, length = value(context, JsonField.S), value(context, JsonField.T)
    event = bytes(gateway.parser.t[:length]) if length <= 64 else b""
    if event == b"READY":
        if state != GatewayState.WAIT_READY:
            gateway_violate(w, shard, layout.READY_UNEXPECTED.code)
            return
        context.dispatches += 1
        gateway_ready(w, shard)
        return
    if event == b"RESUMED":
        if state != GatewayState.WAIT_RESUMED:
            gateway_violate(w, shard, layout.RESUMED_UNEXPECTED.code)
            return
        gateway.state = GatewayState.READY
        context.flags |= ShardFlag.RESUMED
        context.phase_deadline = 0
        _note_hole(context, sequence - PROFILES[context.profile].resumed_numbered)
        sequence = max(sequence, context.sequence)
    elif state not in (GatewayState.WAIT_RESUMED, GatewayState.READY):
        gateway_violate(w, shard, layout.DISPATCH_EARLY.code)
        return
    elif sequence < context.sequence:
        if state == GatewayState.READY:
            gateway_violate(w, shard, layout.SEQUENCE_BACK.code)
            return
        context.dispatches += 1
        gateway.seq_lower += 1
        log(w, GATEWAY_SEQUENCE, shard, sequence, context.sequence)
        return
    else:
        if state == GatewayState.WAIT_RESUMED:
            _note_hole(context, sequence - 1)
        if not _readable(w, shard, event):
            gateway_reject(w, shard)
            if context.failure:
                return
    context.dispatches += 1
    context.sequence = sequence
    if not w.g(OUTBOX).base:
        gateway.seq_acked = sequence
