"""Notices on the bus."""

from emulator.effects import World, model
from emulator.models.events.outbox import outbox_publish, say
from firmware.events.notices import NAMES
from firmware.layouts.events import EVENT_UNKNOWN, Notice, Stuck
from firmware.layouts.outbox import NOTICE_NAMES, OUTBOX
from firmware.layouts.shard import ShardContext


@model
def notice_publish(w: World, shard: int, kind: int, first: int, second: int) -> None:
    """An object of its own, with the sequence that it stands behind."""
    context, box = w.view(ShardContext, shard), w.g(OUTBOX)
    empty = kind == Notice.GAP and not first
    if context.events.stuck != Stuck.NO or empty or kind not in NOTICE_NAMES:
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
    outbox_publish(w, shard, at, end - at, context.sequence, where, size)
    box.notice = 0
