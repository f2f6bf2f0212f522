"""The group start of the node's shards."""

from emulator.effects import World, model
from emulator.models.log import log
from firmware.layouts.config import CONFIG
from firmware.layouts.log import STARTUP_DEADLINE, STARTUP_DONE
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import STARTUP, OnLimit
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import ShardContext, ShardFlag, ShardState


@model
def startup_budget(w: World, shard: int) -> int:
    """The timeout, and the spacing of the service for each further group or shard that identifies."""
    count, keys = w.g(CORE).slots_used, w.g(PERMITS).max_concurrency
    service = PROFILES[w.view(ShardContext, shard).profile]
    turns = -(-count // keys) if service.identify_groups else count
    spacing = (turns - 1) * service.identify_spacing_ms
    return int(min(w.g(CONFIG).startup_timeout_ms + spacing, 2**31 - 1))


def keep_to_startup(w: World, shard: int) -> None:
    """Until its first READY a shard's attempt ends with the startup."""
    context = w.view(ShardContext, shard)
    if not context.flags & (ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER):
        context.attempt_deadline = w.g(STARTUP).deadline


@model
def startup_begin(w: World, shard: int) -> None:
    """The deadline lies the budget after the beginning."""
    start = w.g(STARTUP)
    start.budget_ms = startup_budget(w, shard)
    start.deadline = w.g(CORE).now + start.budget_ms * w.g(CLOCK).tsc_cycles_per_ms
    log(w, STARTUP_DEADLINE, None, start.budget_ms, w.g(CORE).slots_used)


@model
def startup_adjust(w: World, shard: int) -> None:
    """Another budget moves the end, not the beginning."""
    start = w.g(STARTUP)
    if not start.deadline:
        return
    before, start.budget_ms = start.budget_ms, startup_budget(w, shard)
    if start.budget_ms != before:
        moved = (start.budget_ms - before) * w.g(CLOCK).tsc_cycles_per_ms
        start.deadline = (start.deadline + moved) % 2**64
        log(w, STARTUP_DEADLINE, None, start.budget_ms, w.g(CORE).slots_used)


@model
def attempt_budget(w: World, shard: int) -> int:
    """What is left of the startup; afterwards, or when it was held so long, a budget of its own."""
    context, start, now = w.view(ShardContext, shard), w.g(STARTUP), w.g(CORE).now
    if not context.flags & (ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER):
        if start.deadline > now or w.g(CONFIG).on_limit == OnLimit.FATAL:
            return int(start.deadline)
        context.flags = context.flags | ShardFlag.STARTUP_OVER
    return _own_budget(w)


@model
def wait_budget(w: World, shard: int) -> int:
    """What somebody else imposes spends no budget, but a startup whose end is fatal ends it."""
    recovering = w.view(ShardContext, shard).flags & (
        ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER
    )
    if w.g(CONFIG).on_limit == OnLimit.FATAL and not recovering:
        return int(w.g(STARTUP).deadline)
    return _own_budget(w)


def _own_budget(w: World) -> int:
    """Return the end of an attempt that begins now."""
    budget = w.g(CONFIG).attempt_timeout_ms * w.g(CLOCK).tsc_cycles_per_ms
    return int((w.g(CORE).now + budget) % 2**64)


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
