"""What is published instead of a dispatch that is too large."""

from emulator.effects import World, model
from emulator.models.events.outbox import put_token, say
from emulator.models.log import log
from firmware.layouts.log import PUBLISH_OVERSIZE
from firmware.layouts.outbox import (
    OUTBOX,
)


@model
def publish_stub(w: World, length: int, sequence: int, name: int, name_len: int) -> tuple[int, int]:
    """How large it was, which one, of which type."""
    box = w.g(OUTBOX)
    box.oversize += 1
    log(w, PUBLISH_OVERSIZE, None, length, sequence)
    at = box.offset_of("stub")
    texts = (b'{"t":"SHARDFW_OVERSIZE","size":', length, b',"s":', sequence, b',"type":"')
    end = put_token(w, say(w, at, *texts), name, name_len)
    w.write(end, b'"}')
    return at, end + 2 - at
