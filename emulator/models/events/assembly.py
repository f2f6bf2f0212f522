"""Buffers for messages that come in parts."""

from emulator.effects import World, model
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.outbox import ASSEMBLIES, ASSEMBLY_MS, OUTBOX, Assembly
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
    """The first that nobody has, or has filled for too long."""
    patience = w.g(CLOCK).tsc_cycles_per_ms * ASSEMBLY_MS
    for n in range(ASSEMBLIES):
        buffer = w.g(OUTBOX).assemblies[n]
        if not buffer.owner:
            return buffer.address_, 0
        if (buffer.since + patience) % 2**64 < w.g(CORE).now:
            buffer.owner = 0
            return buffer.address_, 0
    return 0, 1


@model
def assembly_add(w: World, assembly: int, part: int, length: int) -> None:
    """Behind what is there, unless it is too much."""
    buffer = w.view(Assembly, assembly)
    before, buffer.filled = buffer.filled, buffer.filled + length
    if buffer.filled <= ASSEMBLY_BYTES:
        w.write(buffer.bytes_at + before, w.read(part, length))
    buffer.since = w.g(CORE).now


@model
def assembly_leave(w: World, shard: int) -> None:
    """It is free for the next."""
    buffer, none = assembly_find(w, shard)
    if not none:
        w.view(Assembly, buffer).owner = 0
