"""A node that holds nothing."""

from emulator.effects import World, model
from emulator.models.bus.link import bus_fail
from emulator.models.fleet.operation import jitter
from emulator.models.fleet.watch import watch_end
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import FLEET, WatchState
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_sites import FLEET_IDLE, FLEET_UNANSWERED
from firmware.layouts.node import CLOCK, CORE


def _after(w: World, least_ms: int, spread_ms: int) -> int:
    spread = jitter(w, spread_ms)
    return int((spread + least_ms * w.g(CLOCK).tsc_cycles_per_ms + w.g(CORE).now) % 2**64)


@model
def watch_idle(w: World, due: int) -> None:
    """After 30 to 60 s without a delivery and without anything that may be claimed."""
    fleet = w.g(FLEET)
    if due != NEVER or fleet.watch != WatchState.SYNCED or fleet.holding:
        fleet.idle_at = 0
        return
    if not fleet.idle_at:
        fleet.idle_at = _after(w, 30_000, 30_000)
    if fleet.idle_at <= w.g(CORE).now:
        watch_end(w, FLEET_IDLE.code)
        fleet.idle_at = 0


@model
def server_leave(w: World, link: int, shard: int) -> None:
    """From the last server of a round on 10 to 20 s with each, unless something is held."""
    fleet, servers = w.g(FLEET), w.g(FLEET_CONFIG).servers_used
    if not fleet.holding and fleet.move_at >= w.g(CORE).now:
        fleet.resync_at = _after(w, 1_000, 1_000)
        return
    if fleet.left < servers:
        fleet.left += 1
    if fleet.left == servers:
        fleet.move_at = _after(w, 10_000, 10_000)
    bus_fail(w, link, shard, FLEET_UNANSWERED.code)
