"""How a layer tells the lifecycle that the connection of a shard is over."""

from emulator.effects import World, model
from firmware.layouts.shard import ShardContext


@model
def shard_fail(w: World, shard: int, end: int, flags: int, close: int, error: int) -> None:
    """Keep the first cause of an attempt."""
    context = w.view(ShardContext, shard)
    if context.failure:
        return
    context.failure, context.failure_flags = end, flags
    context.failure_close, context.last_error = close, error
