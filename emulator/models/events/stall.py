"""Shards that wait for room in turns, and the end of a connection that publishes nothing more."""

from emulator.effects import World, model
from emulator.models.events.assembly import (
    assembly_add,
    assembly_find,
    assembly_take,
    assembly_wait,
)
from emulator.models.events.notices import notice_publish
from emulator.models.events.outbox import outbox_room
from emulator.models.failure import shard_fail
from firmware.layouts.events import PUBLISH_OVERDUE, GapTold, Notice, Stuck
from firmware.layouts.gateway import CLOSE_KEEPING_SESSION, GatewayFlag, GatewayState
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.outbox import (
    ACK_TIMEOUT_MS,
    AGAIN_MS,
    ENTRIES,
    OUTBOX,
    OWED_PART,
    STALL_PART,
    STALL_RETRY_MS,
    Assembly,
)
from firmware.layouts.shard import End, ShardContext
from firmware.limits import ASSEMBLY_BYTES, RESUME_TIMEOUT_MS, RING_BYTES

NEVER = 2**64 - 1


@model
def publish_walk(w: World) -> int:
    """Once all of them may ask again; who begins is known since they could not."""
    box, core = w.g(OUTBOX), w.g(CORE)
    box.walk = box.next
    if not box.look_at or box.look_at > core.now:
        return 0
    box.look_at = 0
    return int(box.begin) if box.begin < core.slots_used else 0


@model
def stall_over(w: World, shard: int) -> int:
    """After a quarter of an interval, half the time of an ACK or of RESUMED, or as long before the attempt ends."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    gateway = context.gateway
    times = [context.events.stalled_at + gateway.interval_cycles // STALL_PART]
    if gateway.flags & GatewayFlag.ACK_PENDING:
        times.append(gateway.hb_sent_at + gateway.interval_cycles // OWED_PART)
    half = w.g(CLOCK).tsc_cycles_per_ms * (RESUME_TIMEOUT_MS // OWED_PART)
    ends = (context.phase_deadline, context.attempt_deadline)
    if any(end and end <= (now + half) % 2**64 for end in ends):
        return 1
    return int(any(time % 2**64 <= now for time in times))


def _has_room(w: World, shard: int) -> bool:
    """Room for what the ring may hold and what has come of a message; a buffer for one that waits for it."""
    context, box = w.view(ShardContext, shard), w.g(OUTBOX)
    stream = context.events
    if stream.part_len:
        buffer, none = assembly_take(w, shard)
        if none:
            return False
        length, stream.part_len = stream.part_len, 0
        assembly_add(w, buffer, stream.part_at, length)
    if box.look_at:
        return False
    buffer, none = assembly_find(w, shard)
    kept = 0 if none else min(w.view(Assembly, buffer).filled, ASSEMBLY_BYTES)
    if not outbox_room(w, RING_BYTES + kept):
        return True
    box.look_at = (w.g(CORE).now + w.g(CLOCK).tsc_cycles_per_ms * STALL_RETRY_MS) % 2**64
    published = box.next != box.walk
    had_first = published and box.entries[box.walk % ENTRIES].slot == context.slot
    box.begin = context.slot + had_first
    return False


@model
def publish_ready(w: World, shard: int) -> int:
    """Wait for room as long as nothing that must be heard suffers, then read on."""
    stream = w.view(ShardContext, shard).events
    if stream.stuck != Stuck.NO:
        return 0
    if _has_room(w, shard):
        stream.stalled_at = stream.waited_at = 0
        return 0
    if not stream.stalled_at:
        stream.stalled_at = w.g(CORE).now
    if not stall_over(w, shard):
        assembly_wait(w, shard)
        return 1
    stream.part_len = stream.waited_at = 0
    return 0


@model
def publish_judge(w: World, shard: int) -> int:
    """A failed publication ends the connection at once, a dropped one after as long as an answer may take."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    stream = context.events
    per_ms = w.g(CLOCK).tsc_cycles_per_ms
    if stream.stuck == Stuck.NO:
        if stream.stalled_at and not stall_over(w, shard):
            look_at = w.g(OUTBOX).look_at
            return int(look_at if look_at > now else (now + per_ms * STALL_RETRY_MS) % 2**64)
        if stream.gap_told != GapTold.OWED or context.gateway.state != GatewayState.READY:
            return NEVER
        notice_publish(w, shard, Notice.GAP, 0, 0)
        return int((now + per_ms * AGAIN_MS) % 2**64)
    due = (stream.stuck_at + per_ms * ACK_TIMEOUT_MS) % 2**64
    if stream.stuck == Stuck.DROPPED and due > now:
        return int(due)
    shard_fail(w, shard, End.SEND_FAILED, 0, CLOSE_KEEPING_SESSION, PUBLISH_OVERDUE.code)
    return NEVER
