"""What a boot makes of the kept pages."""

from emulator.effects import World, model
from emulator.models.cpu.date import date_now
from emulator.models.log import log_write
from emulator.models.memory.kept import kept_sum, survivor_store
from emulator.models.node.lease import slots_wake
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, NAME_MAX
from firmware.layouts.log import BOOT_WARM, NODE_CRASH_LOOP, NODE_RELEASED
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.survivor import (
    CRASH_WINDOW_S,
    CRASHES_HOLD,
    SURVIVAL,
    SURVIVOR,
    SURVIVOR_BYTES,
    SURVIVOR_MAGIC,
    HoldEnd,
    Survivor,
)
from firmware.layouts.token import TOKEN
from firmware.limits import SURVIVOR_PAGE, TOKEN_MAX

SUMMED = Survivor.boots.offset
MS_PER_S = 1000


@model
def survive_adopt(w: World) -> None:
    """Magic, bot and sum must fit; the token names the bot, in a fleet its name there does too."""
    facts, survival = w.g(SURVIVOR), w.g(SURVIVAL)
    bot = kept_sum(w, w.g(TOKEN).text.address, TOKEN_MAX // 8)
    if w.g(FLEET_CONFIG).magic == FLEET_MAGIC:
        bot ^= kept_sum(w, w.g(FLEET_CONFIG).bot.address, NAME_MAX // 8)
    survival.page = SURVIVOR_PAGE
    kept = w.view(Survivor, SURVIVOR_PAGE)
    known = kept.magic == SURVIVOR_MAGIC and kept.bot == bot
    if known and kept_sum(w, SURVIVOR_PAGE + SUMMED, (Survivor.SIZE - SUMMED) // 8) == kept.sum:
        w.write(facts.address_, w.read(SURVIVOR_PAGE, Survivor.SIZE))
        survival.taken_over, survival.before_at = 1, facts.alive_at
        return
    w.write(SURVIVOR_PAGE, bytes(SURVIVOR_BYTES))
    facts.magic, facts.bot = SURVIVOR_MAGIC, bot


@model
def survive_crash(w: World) -> None:
    """The oldest of the three dates decides."""
    facts, now = w.g(SURVIVOR), date_now(w)
    size = 8 * CRASHES_HOLD
    facts.crash_at[0:size] = (now or 1).to_bytes(8, "little") + bytes(facts.crash_at[0 : size - 8])
    oldest = int.from_bytes(facts.crash_at[size - 8 : size], "little")
    span = ((now or 1) - oldest) % 2**64
    if oldest and span <= CRASH_WINDOW_S:
        w.g(SURVIVAL).held = 1
        end = HoldEnd.POWER_CYCLE_OR_SHARDFW_RELEASE
        log_write(w, 0, NODE_CRASH_LOOP, CRASHES_HOLD, span, end, 0)


@model
def survive_begin(w: World) -> None:
    """One boot more; what a crash means is judged after the pages were taken over."""
    facts, survival = w.g(SURVIVOR), w.g(SURVIVAL)
    survive_adopt(w)
    facts.boots += 1
    facts.alive_at = date_now(w)
    if survival.taken_over:
        log_write(w, 0, BOOT_WARM, facts.boots, facts.identified, facts.window_at, 0)
    if survival.crashed:
        survive_crash(w)
    survivor_store(w)


@model
def survive_tick(w: World) -> None:
    """Once a second."""
    survival, now = w.g(SURVIVAL), w.g(CORE).now
    if now < survival.alive_due:
        return
    survival.alive_due = (now + w.g(CLOCK).tsc_cycles_per_ms * MS_PER_S) % 2**64
    w.g(SURVIVOR).alive_at = date_now(w)
    survivor_store(w)


@model
def survive_release(w: World) -> None:
    """No hold, no crashes; every shard looks again."""
    survival, facts = w.g(SURVIVAL), w.g(SURVIVOR)
    log_write(w, 0, NODE_RELEASED, survival.held, 0, 0, 0)
    survival.held = 0
    facts.crash_at[0 : 8 * CRASHES_HOLD] = bytes(8 * CRASHES_HOLD)
    slots_wake(w)
    survivor_store(w)
