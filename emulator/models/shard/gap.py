"""What subscribers are told when a connection is lost."""

from emulator.effects import World, model
from emulator.models.events.send import events_abort, events_notice
from emulator.models.shard.resume import shard_is_resumable
from firmware.layouts.events import EVENT_UNKNOWN, Notice
from firmware.layouts.shard import FailureFlag, ShardContext, ShardFlag


@model
def shard_gap_begin(w: World, shard: int) -> None:
    """Told once a session that had been READY cannot be resumed: from the last sequence that counts on."""
    context = w.view(ShardContext, shard)
    stream = context.events
    events_abort(w, shard)
    stops = context.failure_flags & (FailureFlag.FATAL | FailureFlag.RESHARD)
    told = stream.gap_open or not context.flags & (ShardFlag.ESTABLISHED | ShardFlag.RESTORED)
    if stops or told or shard_is_resumable(w, shard):
        return
    known = context.sequence
    stream.gap_open = 1
    # Behind the last of all sequences there is none that could be named.
    named = context.evidence.sequence_valid and known < EVENT_UNKNOWN
    stream.gap_first = known + 1 if named else EVENT_UNKNOWN
    # What a replay before this left out may lie before it.
    if context.hole_first:
        stream.gap_first = min(stream.gap_first, context.hole_first)
    events_notice(w, shard, Notice.NEW_SESSION, EVENT_UNKNOWN, 0)
    events_notice(w, shard, Notice.GAP, stream.gap_first, EVENT_UNKNOWN)
