"""Messages while somebody listens."""

from emulator.effects import World, model
from emulator.models.events.assembly import assembly_leave
from emulator.models.events.publish import publish_part, publish_whole
from emulator.models.events.send import (
    events_abort,
    events_begin,
    events_end,
    events_notice,
    events_part,
)
from emulator.models.gateway.fail import gateway_violate
from emulator.models.gateway.ops import gateway_message
from emulator.models.gateway.session import kind, value
from firmware.layouts.events import EVENT_UNKNOWN, EVENTS, Notice, Verdict
from firmware.layouts.gateway import GatewayState
from firmware.layouts.json import INCOMPLETE, T_MAX, JsonField, JsonKind, JsonState
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import ShardContext, ShardFlag

_CONNECTED = (GatewayState.WAIT_RESUMED, GatewayState.READY)


def finish_message(w: World, shard: int) -> None:
    """A message is acted on when its text is whole."""
    parser = w.view(ShardContext, shard).gateway.parser
    if parser.state == JsonState.END:
        gateway_message(w, shard)
    else:
        gateway_violate(w, shard, INCOMPLETE.code | parser.state)


@model
def gateway_end(w: World, shard: int) -> None:
    """Act on it."""
    finish_message(w, shard)


@model
def gateway_is_private(w: World, shard: int) -> int:
    """No dispatch, READY, or a session id in who knows what."""
    context = w.view(ShardContext, shard)
    runs = context.gateway.parser.field
    op = kind(context, JsonField.OP)
    known = op != JsonKind.ABSENT and runs != JsonField.OP
    if known and (op, value(context, JsonField.OP)) != (JsonKind.INTEGER, 0):
        return 1
    length = value(context, JsonField.T)
    # Without letters it is one of which they still come.
    if kind(context, JsonField.T) == JsonKind.STRING and length:
        return int(bytes(context.gateway.parser.t[:length]) == b"READY")
    running = runs == JsonField.SESSION_ID
    return int(running or kind(context, JsonField.SESSION_ID) != JsonKind.ABSENT)


@model
def gateway_heard_part(w: World, shard: int, part: int, length: int, place: int) -> None:
    """Only what arrives on a session may be seen, and only from its first part on."""
    context = w.view(ShardContext, shard)
    stream = context.events
    if w.g(OUTBOX).base and context.gateway.state in (GatewayState.WAIT_READY, *_CONNECTED):
        publish_part(w, shard, part, length, place & 1)
    if not w.g(EVENTS).listeners:
        return
    if place & 1:
        if context.gateway.state not in _CONNECTED:
            return
        events_begin(w, shard)
    if not stream.open or stream.withheld:
        return
    if gateway_is_private(w, shard):
        stream.withheld = 1
    else:
        events_part(w, shard, part, length)


@model
def gateway_tell(w: World, shard: int, awaited: int) -> None:
    """After RESUMED what the replay left out is missing; a second READY leaves a gap whose end nobody knows."""
    context = w.view(ShardContext, shard)
    if awaited == GatewayState.WAIT_RESUMED:
        if context.flags & ShardFlag.RESTORED:
            events_notice(w, shard, Notice.RESTORED, context.sequence, 0)
        events_notice(w, shard, Notice.RESUMED, context.sequence, 0)
        if PROFILES[context.profile].stales_threads:
            events_notice(w, shard, Notice.THREADS_STALE, context.sequence, 0)
        events_notice(w, shard, Notice.GAP, context.hole_first, context.hole_last)
    elif context.flags & (ShardFlag.ESTABLISHED | ShardFlag.RESTORED):
        events_notice(w, shard, Notice.NEW_SESSION, context.sequence, 0)
        stream = context.events
        first = stream.gap_first if stream.gap_open else EVENT_UNKNOWN
        events_notice(w, shard, Notice.GAP, first, EVENT_UNKNOWN)


@model
def gateway_heard_whole(w: World, shard: int, part: int, length: int, place: int) -> None:
    """Dispatches that counted are handed on; of READY only that it came."""
    context = w.view(ShardContext, shard)
    gateway, stream = context.gateway, context.events
    awaited, before = gateway.state, (gateway.seq_lower, context.malformed)
    known = context.sequence
    gateway_end(w, shard)
    if context.failure:
        assembly_leave(w, shard)
        events_abort(w, shard)
        return
    passed_over = (gateway.seq_lower, context.malformed) != before
    counted = value(context, JsonField.OP) == 0 and not passed_over
    name_len = value(context, JsonField.T)
    if name_len > T_MAX:
        name_len = 0
    if not counted:
        assembly_leave(w, shard)
        if stream.open:
            events_end(w, shard, part, 0, Verdict.IGNORED, 0, 0)
        return
    ready = awaited == GatewayState.WAIT_READY
    if w.g(OUTBOX).base:
        sequence = value(context, JsonField.S)
        if ready or sequence > known:
            publish_whole(w, shard, part, length, place & 1, sequence, name_len)
        else:
            assembly_leave(w, shard)
    if ready or place & 1:
        events_begin(w, shard)
    hidden = ready or stream.withheld
    if stream.open:
        events_end(
            w,
            shard,
            part,
            0 if hidden else length,
            Verdict.WITHHELD if hidden else Verdict.OK,
            value(context, JsonField.S),
            name_len,
        )
    if gateway.state != awaited:
        gateway_tell(w, shard, awaited)


@model
def gateway_heard(w: World, shard: int, part: int, length: int, place: int) -> None:
    """The last part decides."""
    if place & 2:
        gateway_heard_whole(w, shard, part, length, place)
    else:
        gateway_heard_part(w, shard, part, length, place)
