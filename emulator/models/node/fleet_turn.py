"""What a turn does for the fleet."""

from emulator.effects import World, model
from emulator.models.events.deliver import publish_next
from emulator.models.fleet.turn import fleet_next, fleet_tick
from emulator.models.node.commands import command_take, commands_tick
from emulator.models.node.fleet_diag import diag_heard
from emulator.models.node.handover import handover_tick
from emulator.models.node.handover_answer import handover_answer
from emulator.models.node.owning import owning_guard, owning_tick
from firmware.layouts.bus import BUS, CONTROL
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC


@model
def fleet_turn(w: World) -> int:
    """Messages first: they may end or begin what time asks for."""
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC or not w.g(BUS).links[CONTROL].context:
        return NEVER
    while fleet_next(w):
        handover_answer(w)
    deadline = fleet_tick(w)
    owning_guard(w)
    owning_tick(w)
    while publish_next(w):
        diag_heard(w)
        command_take(w)
    commands_tick(w)
    return int(min(deadline, handover_tick(w)))
