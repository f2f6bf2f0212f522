"""What a shard publishes."""

from emulator.effects import World, model
from emulator.models.events.assembly import (
    assembly_add,
    assembly_find,
    assembly_leave,
    assembly_take,
)
from emulator.models.events.outbox import outbox_publish
from emulator.models.events.stub import publish_stub
from emulator.models.log import log
from firmware.events.publish import UNKNOWN
from firmware.events.stub import OVERSIZE
from firmware.layouts.bus import BUS, DATA
from firmware.layouts.events import Stuck
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import PUBLISH_STUCK
from firmware.layouts.node import CORE
from firmware.layouts.outbox import (
    HEAD_MAX,
    OUTBOX,
    Assembly,
)
from firmware.layouts.shard import ShardContext, ShardFlag
from firmware.limits import ASSEMBLY_BYTES


@model
def publish_drop(w: World, shard: int) -> None:
    """Nothing behind the hole is published."""
    context = w.view(ShardContext, shard)
    assembly_leave(w, shard)
    w.g(OUTBOX).dropped += 1
    stream = context.events
    stream.stuck, stream.stuck_at, stream.stalled_at = Stuck.DROPPED, w.g(CORE).now, 0
    log(w, PUBLISH_STUCK, shard, Stuck.DROPPED, context.gateway.seq_acked)


@model
def publish_part(w: World, shard: int, part: int, length: int, first: int) -> None:
    """A first part takes a buffer, or waits for one where it lies."""
    context = w.view(ShardContext, shard)
    if context.events.stuck != Stuck.NO:
        return
    if first:
        assembly_leave(w, shard)
        buffer, none = assembly_take(w, shard)
        if none:
            context.events.part_at, context.events.part_len = part, length
            return
    else:
        buffer, none = assembly_find(w, shard)
        if none:
            return
    assembly_add(w, buffer, part, length)


@model
def publish_whole(
    w: World, shard: int, part: int, length: int, only: int, sequence: int, name_len: int
) -> None:
    """The message as it came, or a stub when that is too much."""
    context = w.view(ShardContext, shard)
    if context.events.stuck != Stuck.NO:
        assembly_leave(w, shard)
        return
    if not only:
        buffer, none = assembly_find(w, shard)
        if none:
            publish_drop(w, shard)
            return
        assembly_add(w, buffer, part, length)
        row = w.view(Assembly, buffer)
        part, length = row.bytes_at, row.filled
    if name_len:
        name = context.gateway.parser.offset_of("t")
    else:
        name, name_len = w.address(UNKNOWN), UNKNOWN.size
    limits = (w.g(BUS).links[DATA].max_payload, w.g(OUTBOX).too_large - 1)
    if length > ASSEMBLY_BYTES or any(0 < one < length + HEAD_MAX for one in limits):
        part, length = publish_stub(w, length, sequence, name, name_len)
        name, name_len = w.address(OVERSIZE), OVERSIZE.size
    if outbox_publish(w, shard, part, length, sequence, name, name_len):
        publish_drop(w, shard)
    else:
        assembly_leave(w, shard)


@model
def publish_rewind(w: World, shard: int) -> None:
    """The sequence goes back to the acknowledged one; the next connection publishes again."""
    context = w.view(ShardContext, shard)
    if not w.g(OUTBOX).base:
        return
    connected = context.gateway.state in (GatewayState.WAIT_RESUMED, GatewayState.READY)
    if connected and context.flags & ShardFlag.SEQ_VALID:
        context.sequence = context.gateway.seq_acked
    if context.events.stuck == Stuck.FAILED:
        context.connection += 1
    context.events.stuck = Stuck.NO
    context.events.stalled_at = context.events.waited_at = context.events.part_len = 0
    assembly_leave(w, shard)
