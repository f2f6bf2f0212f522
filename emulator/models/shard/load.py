"""The wait for a saved session."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.shard.startup import startup_begin
from firmware.layouts.config import CONFIG
from firmware.layouts.handover import LOAD_WAIT_MS
from firmware.layouts.log import SESSION_LOAD_FAILED
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.plan import MOVES
from firmware.layouts.policy import STARTUP, SessionProvider
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardFlag


@model
def session_wait(w: World, shard: int) -> int:
    """At least a millisecond, at most the load's timeout, never past the startup's end.

    A shard that a move brings has its deadline already.
    """
    context, config = w.view(ShardContext, shard), w.g(CONFIG)
    now, cycles = w.g(CORE).now, w.g(CLOCK).tsc_cycles_per_ms
    if config.session_provider == SessionProvider.NONE or context.load == SessionLoad.SETTLED:
        return 0
    if not context.load_deadline:
        if not config.load_timeout_ms:
            return 0
        if not w.g(STARTUP).deadline:
            startup_begin(w, shard)
        left = max(0, w.g(STARTUP).deadline - now)
        budget = max(cycles, min(config.load_timeout_ms * cycles, left))
        context.load_deadline = (now + budget) % 2**64
    if context.load_deadline > now:
        return Hold.SESSION_LOAD
    context.load = SessionLoad.SETTLED
    moved = context.flags & ShardFlag.ESTABLISHED
    told = w.g(MOVES).wait_ms if moved else config.load_timeout_ms
    if config.session_provider == SessionProvider.BUS:
        told = LOAD_WAIT_MS
    log_write(w, shard, SESSION_LOAD_FAILED, told, 0, 0, 0)
    return 0
