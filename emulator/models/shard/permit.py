"""The Identify gate."""

from emulator.effects import World, model
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import IDENTIFY_REFUSED_MS, PERMITS
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import End, Phase, ShardContext


@model
def permit_take(w: World, shard: int) -> int:
    """Free when nobody owns the key, its spacing has passed, and nobody is known to wait longer."""
    context, permits = w.view(ShardContext, shard), w.g(PERMITS)
    permit = permits.keys[context.shard_id % permits.max_concurrency]
    me = context.slot + 1
    if permit.owner == me:
        return 0
    longest = not permit.waiter or context.permit_since < permit.waiting_since
    if permit.owner or w.g(CORE).now < permit.busy_until or not (longest or permit.waiter == me):
        if longest:
            permit.waiter, permit.waiting_since = me, context.permit_since
        return 1
    permit.owner, permit.waiter = me, 0
    permits.owned += 1
    return 0


@model
def permit_release(w: World, shard: int) -> None:
    """The key stays busy as long as the profile says, from the Identify or the attempt's end."""
    context, permits = w.view(ShardContext, shard), w.g(PERMITS)
    permit = permits.keys[context.shard_id % permits.max_concurrency]
    if permit.waiter == context.slot + 1:
        permit.waiter = 0
    if permit.owner != context.slot + 1:
        return
    spacing_ms = PROFILES[context.profile].identify_spacing_ms
    permit.busy_until = w.g(CORE).now + w.g(CLOCK).tsc_cycles_per_ms * spacing_ms
    permit.owner = 0
    permits.owned -= 1


@model
def permit_refuse(w: World, shard: int) -> None:
    """An op 9 to an Identify keeps its key busy for 5 s from then on."""
    context, permits = w.view(ShardContext, shard), w.g(PERMITS)
    if (context.failure, context.phase) != (End.INVALID_SESSION, Phase.IDENT):
        return
    permit = permits.keys[context.shard_id % permits.max_concurrency]
    until = w.g(CORE).now + w.g(CLOCK).tsc_cycles_per_ms * IDENTIFY_REFUSED_MS
    if until > permit.busy_until:
        permit.busy_until = until
