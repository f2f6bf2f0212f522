"""The group start of the node's shards."""

from emulator.effects import World, model
from emulator.models.log import log
from firmware.layouts.config import CONFIG
from firmware.layouts.log import STARTUP_DEADLINE, STARTUP_DONE
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE
from firmware.layouts.policy import STARTUP, OnLimit
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import ShardContext, ShardFlag, ShardState


@model
def startup_begin(w: World, shard: int) -> None:
    """The timeout, and the spacing of the service for each further group or shard that identifies."""
    config, start, count = w.g(CONFIG), w.g(STARTUP), w.g(CORE).slots_used
    service = PROFILES[w.view(ShardContext, shard).profile]
    turns = -(-count // config.max_concurrency) if service.identify_groups else count
    spacing = (turns - 1) * service.identify_spacing_ms
    start.budget_ms = min(config.startup_timeout_ms + spacing, 2**31 - 1)
    start.deadline = w.g(CORE).now + start.budget_ms * w.g(CLOCK).tsc_cycles_per_ms
    log(w, STARTUP_DEADLINE, None, start.budget_ms, count)


@model
def attempt_budget(w: World, shard: int) -> int:
    """What is left of the startup; afterwards, or when it was held so long, a budget of its own."""
    context, start, now = w.view(ShardContext, shard), w.g(STARTUP), w.g(CORE).now
    if not context.flags & (ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER):
        if start.deadline > now or w.g(CONFIG).on_limit == OnLimit.FATAL:
            return int(start.deadline)
        context.flags = context.flags | ShardFlag.STARTUP_OVER
    return int((now + w.g(CONFIG).attempt_timeout_ms * w.g(CLOCK).tsc_cycles_per_ms) % 2**64)


@model
def startup_check(w: World) -> None:
    """Once, when every active slot is READY."""
    start, core = w.g(STARTUP), w.g(CORE)
    if start.satisfied:
        return
    for n in range(core.slots_used):
        slot = core.slots[n]
        if not slot.flags & SLOT_ACTIVE:
            continue
        if w.view(ShardContext, slot.context).state != ShardState.READY:
            return
    start.satisfied = 1
    began = start.deadline - start.budget_ms * w.g(CLOCK).tsc_cycles_per_ms
    log(w, STARTUP_DONE, None, (core.now - began) % 2**64, core.slots_used)
