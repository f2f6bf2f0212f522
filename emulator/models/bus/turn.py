"""What the node's turn calls."""

from collections.abc import Callable

from emulator.effects import World, model
from emulator.models.bus.link import bus_fail
from emulator.models.bus.messages import bus_take
from emulator.models.bus.tick import bus_link_tick
from emulator.models.log import log
from emulator.models.tcp.timers import tcp_tick
from firmware.layouts.bus import BUS, BusKind, BusLink, LinkState
from firmware.layouts.bus_sites import FAULT
from firmware.layouts.clock import NEVER
from firmware.layouts.cpu import FAULTS
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import BUS_FAULT
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState


@model
def bus_defect(w: World, shard: int) -> None:
    """Its slot tells which link it is; its connection is no longer one."""
    context, faults = w.view(ShardContext, shard), w.g(FAULTS)
    link = w.g(BUS).links[255 - context.slot]
    faults.pending = 0
    context.tcp.state = TcpState.CLOSED
    log(w, BUS_FAULT, None, link.index, faults.vector, faults.rip, faults.address)
    bus_fail(w, link.address_, shard, FAULT.code | faults.vector)


def _guarded(w: World, shard: int, step: Callable[[], int], otherwise: int) -> int:
    w.g(CORE).current_shard = shard
    given = step()
    w.g(CORE).current_shard = 0
    if not w.g(FAULTS).pending:
        return given
    bus_defect(w, shard)
    return otherwise


@model
def bus_link_turn(w: World, link: int, shard: int) -> int:
    """Its own fault is its own end."""
    return _guarded(w, shard, lambda: bus_link_tick(w, link, shard), NEVER)


@model
def bus_link_flush(w: World, link: int, shard: int) -> int:
    """Its own fault is its own end."""
    return _guarded(w, shard, lambda: tcp_tick(w, shard), NEVER)


@model
def bus_next(w: World, link: int, shard: int) -> int:
    """Its own fault is its own end."""
    return _guarded(w, shard, lambda: bus_take(w, link, shard), BusKind.NONE)


def _links(w: World, each: Callable[[World, int, int], int]) -> int:
    soonest = NEVER
    if w.g(FLEET_CONFIG).magic == FLEET_MAGIC:
        for row in (w.g(BUS).links[n] for n in range(2)):
            if not row.context:
                break
            soonest = min(soonest, each(w, row.address_, row.context))
    return soonest


@model
def bus_tick(w: World) -> int:
    """CONTROL, then DATA; a link without a workspace ends the list."""
    return _links(w, bus_link_turn)


@model
def bus_flush(w: World) -> int:
    """What TCP sends; a failure is looked at in the next turn, which is now."""

    def each(world: World, link: int, shard: int) -> int:
        deadline = bus_link_flush(world, link, shard)
        failed = world.view(ShardContext, shard).tcp.state == TcpState.FAILED
        alive = world.view(BusLink, link).state != LinkState.DOWN
        return int(world.g(CORE).now if failed and alive else deadline)

    return _links(w, each)
