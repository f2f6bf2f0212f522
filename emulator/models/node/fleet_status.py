"""What diagnostics say of the fleet."""

from emulator.effects import World, model
from firmware.layouts.fleet import FLEET, FLEET_VIEW, HELD_MAX, HeldPhase
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.handover import HANDOVER
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.status import StatusReply


@model
def describe_fleet(w: World, reply: int) -> None:
    """Everything is zero without a fleet."""
    answer, fleet, plan = w.view(StatusReply, reply), w.g(FLEET), w.g(FLEET_VIEW).plan
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC:
        return
    now, cycles = w.g(CORE).now, w.g(CLOCK).tsc_cycles_per_ms
    answer.fleet_watch, answer.fleet_plan = fleet.watch, plan.mode
    answer.fleet_closing, answer.fleet_epoch = fleet.closing, plan.epoch
    answer.fleet_error = fleet.error
    sessions = w.g(HANDOVER)
    answer.sessions_taken, answer.sessions_saved = sessions.taken, sessions.saves
    answer.sessions_refused, answer.sessions_late = sessions.refused, sessions.late
    answer.sessions_lost, answer.sessions_ignored = sessions.lost, sessions.ignored
    for n in range(HELD_MAX):
        held = fleet.held[n]
        if held.phase == HeldPhase.NONE:
            continue
        shown = answer.fleet_held[n]
        shown.phase, shown.slot, shown.shards = held.phase, held.slot, held.shards
        shown.generation = held.generation
        if held.hard_stop >= now and cycles:
            shown.left_ms = min((held.hard_stop - now) // cycles, 2**32 - 1)
