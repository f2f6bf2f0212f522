"""One turn of the node."""

from emulator.effects import World, model
from emulator.models.bus.turn import bus_flush, bus_tick
from emulator.models.events.deliver import publish_tick
from emulator.models.events.lines import lines_publish
from emulator.models.events.stall import publish_walk
from emulator.models.fleet.guard import fleet_guard
from emulator.models.log import log_drain
from emulator.models.net.dns import dns_tick
from emulator.models.net.dns_message import dns_input
from emulator.models.net.input import net_input
from emulator.models.net.tick import net_tick
from emulator.models.nic.queue import nic_flush, nic_leave, nic_poll, nic_release
from emulator.models.node.clock import clock_retry
from emulator.models.node.console import console_poll
from emulator.models.node.control import operator_input
from emulator.models.node.fleet_diag import diag_publish
from emulator.models.node.fleet_turn import fleet_turn
from emulator.models.node.guard import shard_turn
from emulator.models.node.lease import lease_tick
from emulator.models.node.moving import plan_tick
from emulator.models.node.owning import owning_guard, owning_look
from emulator.models.node.slots import slot_wake
from emulator.models.node.stop import stop_tick
from emulator.models.node.survive import survive_tick
from emulator.models.tcp.input import tcp_input
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.node import CORE

FRAMES_PER_TURN = 64
TCP, UDP = 6, 17


@model
def receive_frames(w: World) -> int:
    """TCP goes to its shard, which is due then; UDP to diagnostics by port, else to DNS."""
    for taken in range(FRAMES_PER_TURN):
        frame, length = nic_poll(w)
        if not length or frame is None:
            return taken
        if not taken and owning_look(w):
            nic_leave(w)
            return FRAMES_PER_TURN
        _, kind, payload, size, source, middle, port = net_input(w, frame, length)
        if kind == TCP:
            shard = tcp_input(w, payload, size, source, middle)
            if shard:
                slot_wake(w, shard)
        elif kind == UDP and port == w.g(CONFIG).diagnostics_port != 0:
            operator_input(w, payload, size, source, middle)
        elif kind == UDP:
            dns_input(w, payload, size, source, middle, port)
        nic_release(w)
    return FRAMES_PER_TURN


@model
def step_shards(w: World) -> int:
    """Only active slots cost anything, only due ones run; before the earliest none is looked at."""
    core, soonest = w.g(CORE), NEVER
    if core.slots_due > core.now:
        return int(core.slots_due)
    if owning_look(w):
        return int(core.now)
    core.slots_due = NEVER
    first = publish_walk(w)
    for n in (*range(first, core.slots_used), *range(first)):
        slot = core.slots[n]
        if not slot.flags & 1:
            continue
        if slot.deadline <= core.now:
            slot.deadline = shard_turn(w, slot.context)
        soonest = min(soonest, slot.deadline)
    core.slots_due = min(soonest, core.slots_due)
    return int(core.slots_due)


@model
def node_step(w: World) -> int:
    """The order of a turn; a full receive budget means coming back at once."""
    core = w.g(CORE)
    clock_retry(w)
    core.now = w.rdtsc()
    core.turns += 1
    lease_tick(w)
    fleet_guard(w)
    owning_guard(w)
    survive_tick(w)
    taken = receive_frames(w)
    soonest = min(net_tick(w), dns_tick(w), bus_tick(w))
    soonest = min(soonest, fleet_turn(w))
    console_poll(w)
    soonest = min(soonest, step_shards(w))
    plan_tick(w)
    soonest = min(soonest, core.slots_due)
    soonest = min(soonest, stop_tick(w))
    if w.g(FLEET_CONFIG).magic == FLEET_MAGIC:
        soonest = min(soonest, publish_tick(w))
        lines_publish(w)
        soonest = min(soonest, diag_publish(w))
        soonest = min(soonest, bus_flush(w))
    nic_flush(w)
    log_drain(w)
    core.next_deadline = core.now if taken == FRAMES_PER_TURN else soonest
    return int(core.next_deadline)
