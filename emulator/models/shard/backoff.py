"""When a failed shard tries again."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_u64
from emulator.models.shard.wait import required_wait
from firmware.layouts.config import CONFIG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.policy import STARTUP, Policy
from firmware.layouts.shard import ShardContext, ShardFlag, ShardState, Stop


@model
def schedule_backoff(w: World, shard: int) -> None:
    """BACKOFF, one reconnect more, and a deadline 5000 ms from now; 0 without a clock."""
    context, cycles = w.view(ShardContext, shard), w.g(CLOCK).tsc_cycles_per_ms
    context.state = ShardState.BACKOFF
    context.reconnects += 1
    context.reconnect_deadline = w.rdtsc() + cycles * 5000 if cycles else 0


@model
def schedule_backoff_jittered(w: World, shard: int) -> None:
    """BACKOFF until the chosen delay has passed; 0 says "no clock", so a deadline is never 0."""
    context, cycles = w.view(ShardContext, shard), w.g(CLOCK).tsc_cycles_per_ms
    context.state = ShardState.BACKOFF
    context.reconnects += 1
    if cycles:
        due = (w.rdtsc() + cycles * context.evidence.delay_ms) % 2**64
        context.reconnect_deadline = due or 1
    else:
        context.reconnect_deadline = 0


@model
def full_jitter(w: World, least: int, most: int, step: int) -> int:
    """Uniform in [0, min(most, least * 2 ** step)); a step counts up to 31."""
    ceiling = min(most, least * 2 ** min(step, 31))
    return int(drbg_u64(w) % 2**32 * ceiling >> 32)


@model
def recovery_delay(w: World, shard: int) -> tuple[int, int]:
    """The next delay of the schedule until it ends, or jitter under a doubling ceiling."""
    context, config = w.view(ShardContext, shard), w.g(CONFIG)
    step = context.recovery_step
    context.evidence.recovery_step = step
    if config.policy == Policy.SCHEDULE:
        if step >= config.schedule_len:
            return 0, Stop.SCHEDULE_ENDED
        context.recovery_step += 1
        return w.u32(config.schedule_ms.address + 4 * step), 0
    if step < 31:
        context.recovery_step += 1
    return full_jitter(w, config.min_delay_ms, config.max_delay_ms, step), 0


@model
def choose_delay(w: World, shard: int) -> int:
    """Fixed, recovery or startup; at least the required wait; startup ends at its deadline."""
    context, config = w.view(ShardContext, shard), w.g(CONFIG)
    wait = required_wait(w, shard)
    recovering = context.flags & (ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER)
    if config.policy == Policy.FIXED:
        delay = 5000
    elif recovering:
        delay, stop = recovery_delay(w, shard)
        if stop:
            return stop
    else:
        before = max(0, context.attempts - 1)
        delay = full_jitter(w, config.startup_min_ms, config.startup_max_ms, before)
    delay = max(delay, wait)
    context.evidence.delay_ms = delay
    deadline = w.g(STARTUP).deadline
    if recovering or not deadline:
        return Stop.NONE
    due = (w.g(CORE).now + delay * w.g(CLOCK).tsc_cycles_per_ms) % 2**64
    return Stop.STARTUP_DEADLINE if due >= deadline else Stop.NONE
