"""Shards that wait for room, and the end of a connection that publishes nothing more."""

from emulator.effects import World, model
from emulator.models.events.assembly import assembly_add, assembly_find, assembly_take
from emulator.models.events.notices import notice_publish
from emulator.models.events.outbox import outbox_room
from emulator.models.failure import shard_fail
from firmware.layouts.events import PUBLISH_OVERDUE, GapTold, Notice, Stuck
from firmware.layouts.gateway import CLOSE_KEEPING_SESSION, GatewayState
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.outbox import ACK_TIMEOUT_MS, AGAIN_MS, STALL_MS, STALL_RETRY_MS, Assembly
from firmware.layouts.shard import End, ShardContext
from firmware.limits import ASSEMBLY_BYTES, RING_BYTES

NEVER = 2**64 - 1


def _has_room(w: World, shard: int) -> bool:
    """Room for what the ring may hold and what has come of a message; a buffer for one that waits for it."""
    stream = w.view(ShardContext, shard).events
    if stream.part_len:
        buffer, none = assembly_take(w, shard)
        if none:
            return False
        length, stream.part_len = stream.part_len, 0
        assembly_add(w, buffer, stream.part_at, length)
    buffer, none = assembly_find(w, shard)
    kept = 0 if none else min(w.view(Assembly, buffer).filled, ASSEMBLY_BYTES)
    return not outbox_room(w, RING_BYTES + kept)


@model
def publish_ready(w: World, shard: int) -> int:
    """Wait a second for room, then read on."""
    stream, now = w.view(ShardContext, shard).events, w.g(CORE).now
    if stream.stuck != Stuck.NO:
        return 0
    if _has_room(w, shard):
        stream.stalled_at = 0
        return 0
    if not stream.stalled_at:
        stream.stalled_at = now
        return 1
    if (stream.stalled_at + w.g(CLOCK).tsc_cycles_per_ms * STALL_MS) % 2**64 > now:
        return 1
    stream.part_len = 0
    return 0


@model
def publish_judge(w: World, shard: int) -> int:
    """A failed publication ends the connection at once, a dropped one after as long as an answer may take."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    stream = context.events
    per_ms = w.g(CLOCK).tsc_cycles_per_ms
    if stream.stuck == Stuck.NO:
        waits = (stream.stalled_at + per_ms * STALL_MS) % 2**64 > now
        if waits:
            return int((now + per_ms * STALL_RETRY_MS) % 2**64)
        if stream.gap_told != GapTold.OWED or context.gateway.state != GatewayState.READY:
            return NEVER
        notice_publish(w, shard, Notice.GAP, 0, 0)
        return int((now + per_ms * AGAIN_MS) % 2**64)
    due = (stream.stuck_at + per_ms * ACK_TIMEOUT_MS) % 2**64
    if stream.stuck == Stuck.DROPPED and due > now:
        return int(due)
    shard_fail(w, shard, End.SEND_FAILED, 0, CLOSE_KEEPING_SESSION, PUBLISH_OVERDUE.code)
    return NEVER
