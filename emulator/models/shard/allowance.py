"""The Identify allowance."""

from emulator.effects import World, model
from emulator.models.cpu.date import date_now
from emulator.models.fleet.budget import budget_spent, budget_tell
from emulator.models.log import log_write
from emulator.models.memory.kept import survivor_store
from emulator.models.shard.resume import shard_is_resumable
from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import DISCOVERY, DiscoveryMode, DiscoveryState
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.fleet_tickets import FLEET_BUDGET
from firmware.layouts.log import IDENTIFY_REFUSED, IDENTIFY_SPENT
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import Hold, ShardContext
from firmware.layouts.survivor import ALLOWANCE_WINDOW_S, SURVIVOR


@model
def starts_spent(w: World) -> int:
    """What the service said is left, and all of it again a day after that; no word is no bound."""
    permits, now = w.g(PERMITS), w.g(CORE).now
    if w.g(FLEET_CONFIG).magic == FLEET_MAGIC or not permits.total:
        return 0
    if now >= permits.reset_at:
        permits.remaining = permits.total
        day = ALLOWANCE_WINDOW_S * 1000 * w.g(CLOCK).tsc_cycles_per_ms
        permits.reset_at = (now + day) % 2**64
    return int(permits.owned >= permits.remaining)


@model
def allowance_spent(w: World) -> int:
    """A window ends a day after it began; a date before its beginning moves that and keeps the count."""
    allowance, facts = w.g(CONFIG).identify_allowance, w.g(SURVIVOR)
    if not allowance:
        return starts_spent(w)
    now = date_now(w)
    if now - facts.window_at >= ALLOWANCE_WINDOW_S:
        facts.identified = 0
        facts.window_at = now
    elif now < facts.window_at:
        facts.window_at = now
    if (facts.identified + w.g(PERMITS).owned) % 2**32 >= allowance:
        return 1
    return starts_spent(w)


@model
def allowance_ask(w: World) -> int:
    """Who has no answer gets one; one that is over is asked for again, once a minute."""
    found, permits, op, now = w.g(DISCOVERY), w.g(PERMITS), w.g(FLEET_BUDGET), w.g(CORE).now
    if w.g(CONFIG).discovery != DiscoveryMode.HTTP or found.state > DiscoveryState.FOUND:
        return 1
    if found.state == DiscoveryState.FOUND:
        if not permits.total or now < permits.reset_at or now < op.ask_at:
            return 1
        op.ask_at = (now + 60_000 * w.g(CLOCK).tsc_cycles_per_ms) % 2**64
        found.state = DiscoveryState.IDLE
    return 0


@model
def allowance_hold(w: World, shard: int) -> int:
    """A Resume costs nothing; the line comes when the hold begins."""
    if shard_is_resumable(w, shard):
        return Hold.NONE
    if not allowance_spent(w):
        if not budget_spent(w, shard) or not allowance_ask(w):
            return Hold.NONE
        budget_tell(w)
        return Hold.NO_IDENT_BUDGET
    context = w.view(ShardContext, shard)
    if context.hold != Hold.NO_IDENT_BUDGET:
        used, allowance = w.g(SURVIVOR).identified, w.g(CONFIG).identify_allowance
        log_write(w, shard, IDENTIFY_REFUSED, Hold.NO_IDENT_BUDGET, used, allowance, 0)
    return Hold.NO_IDENT_BUDGET


@model
def allowance_count(w: World) -> None:
    """The first Identify begins the window; the last one is logged with the time to the next."""
    facts, allowance, now = w.g(SURVIVOR), w.g(CONFIG).identify_allowance, date_now(w)
    if not facts.identified:
        facts.window_at = now
    if w.g(PERMITS).remaining:
        w.g(PERMITS).remaining -= 1
    facts.identified += 1
    if facts.identified == allowance:
        left = (facts.window_at + ALLOWANCE_WINDOW_S - now) % 2**64
        log_write(w, 0, IDENTIFY_SPENT, facts.identified, allowance, left, 0)
    survivor_store(w)
