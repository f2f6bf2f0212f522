"""Notices on the bus."""

from emulator.effects import World, model
from emulator.models.events.outbox import outbox_publish, say
from firmware.events.notices import NAMES
from firmware.layouts.events import EVENT_UNKNOWN, GapTold, Notice, Stuck
from firmware.layouts.outbox import NOTICE_NAMES, OUTBOX
from firmware.layouts.shard import ShardContext


@model
def gap_owe(w: World, shard: int, first: int, last: int) -> int:
    """The smallest range that holds what was owed and what is new."""
    stream = w.view(ShardContext, shard).events
    if not first:
        return int(stream.gap_told != GapTold.OWED)
    if stream.gap_told != GapTold.ALL:
        unknown = EVENT_UNKNOWN in (first, stream.owed_first)
        first = EVENT_UNKNOWN if unknown else min(first, stream.owed_first)
        last = max(last, stream.owed_last)
    stream.owed_first, stream.owed_last, stream.gap_told = first, last, GapTold.OWED
    return 0


@model
def notice_publish(w: World, shard: int, kind: int, first: int, second: int) -> None:
    """An object of its own, with the sequence that it stands behind."""
    context, box = w.view(ShardContext, shard), w.g(OUTBOX)
    stream = context.events
    if kind == Notice.GAP:
        if gap_owe(w, shard, first, second):
            return
        first, second = stream.owed_first, stream.owed_last
    if stream.stuck != Stuck.NO or kind not in NOTICE_NAMES:
        return
    values = [b"null" if value == EVENT_UNKNOWN else value for value in (first, second)]
    name = NAMES[Notice(kind)]
    text = NOTICE_NAMES[Notice(kind)]
    at = box.offset_of("stub")
    end = say(
        w, at, b'{"t":"' + text + b'","s":', context.sequence,
        b',"first":', values[0], b',"second":', values[1], b"}",
    )  # fmt: skip
    box.notice = 1
    where, size = w.address(name), name.size
    full = outbox_publish(w, shard, at, end - at, context.sequence, where, size)
    box.notice = 0
    if kind == Notice.GAP and not full:
        stream.gap_told, stream.owed_number = GapTold.SAID, (box.next - 1) % 2**32
