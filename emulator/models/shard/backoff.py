"""When a failed shard tries again."""

from emulator.effects import World, model
from firmware.layouts.node import CLOCK
from firmware.layouts.shard import ShardContext, ShardState
from firmware.limits import RECONNECT_BACKOFF_MS


@model
def schedule_backoff(w: World, shard: int) -> None:
    """BACKOFF, one more reconnect, deadline `now + 5000 ms`; 0 while the clock is unknown."""
    context = w.view(ShardContext, shard)
    context.state = ShardState.BACKOFF
    context.reconnects += 1
    cycles = w.g(CLOCK).tsc_cycles_per_ms
    context.reconnect_deadline = w.rdtsc() + cycles * RECONNECT_BACKOFF_MS if cycles else 0
