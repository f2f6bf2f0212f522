"""Buffers for messages that come in parts."""

from emulator.effects import World, model
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.outbox import (
    ASSEMBLIES,
    ASSEMBLY_MS,
    ASSEMBLY_WHOLE_MS,
    OUTBOX,
    TURN_MS,
    Assembly,
)
from firmware.layouts.shard import ShardContext
from firmware.limits import ASSEMBLY_BYTES


@model
def assembly_find(w: World, shard: int) -> tuple[int, int]:
    """The one that says the shard's slot."""
    mark = w.view(ShardContext, shard).slot + 1
    for n in range(ASSEMBLIES):
        buffer = w.g(OUTBOX).assemblies[n]
        if buffer.owner == mark:
            return buffer.address_, 0
    return 0, 1


@model
def assembly_free(w: World) -> tuple[int, int]:
    """The first that nobody has, else the first that has not grown, or not become whole, for too long."""
    per_ms, now = w.g(CLOCK).tsc_cycles_per_ms, w.g(CORE).now
    buffers = [w.g(OUTBOX).assemblies[n] for n in range(ASSEMBLIES)]
    for buffer in buffers:
        if not buffer.owner:
            return buffer.address_, 0
    for buffer in buffers:
        grown, begun = (
            buffer.since + per_ms * ASSEMBLY_MS,
            buffer.begun + per_ms * ASSEMBLY_WHOLE_MS,
        )
        if grown % 2**64 < now or begun % 2**64 < now:
            buffer.owner = 0
            return buffer.address_, 0
    return 0, 1


@model
def assembly_take(w: World, shard: int) -> tuple[int, int]:
    """To whom it is due: who asked first and still asks."""
    box, now, mark = w.g(OUTBOX), w.g(CORE).now, w.view(ShardContext, shard).slot + 1
    kept = box.turn_at + w.g(CLOCK).tsc_cycles_per_ms * TURN_MS
    if box.turn not in (0, mark) and kept % 2**64 >= now:
        return 0, 1
    box.turn, box.turn_at = mark, now
    buffer, none = assembly_free(w)
    if none:
        return 0, 1
    row = w.view(Assembly, buffer)
    row.owner, row.filled, row.begun, box.turn = mark, 0, now, 0
    return int(buffer), 0


@model
def assembly_add(w: World, assembly: int, part: int, length: int) -> None:
    """Behind what is there, unless it is too much."""
    buffer = w.view(Assembly, assembly)
    before, buffer.filled = buffer.filled, buffer.filled + length
    if buffer.filled <= ASSEMBLY_BYTES:
        w.write(buffer.bytes_at + before, w.read(part, length))
    buffer.since = w.g(CORE).now


@model
def assembly_wait(w: World, shard: int) -> None:
    """What it waited since it last looked makes its message no older."""
    stream, now = w.view(ShardContext, shard).events, w.g(CORE).now
    before, stream.waited_at = stream.waited_at, now
    if not before:
        return
    buffer, none = assembly_find(w, shard)
    if not none:
        row, waited = w.view(Assembly, buffer), now - before
        row.since, row.begun = (row.since + waited) % 2**64, (row.begun + waited) % 2**64


@model
def assembly_leave(w: World, shard: int) -> None:
    """It is free for the next."""
    buffer, none = assembly_find(w, shard)
    if not none:
        w.view(Assembly, buffer).owner = 0
