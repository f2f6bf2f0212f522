"""Nodes of a simulated fleet on a server of NATS that is cut off from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulator.simulation.fleet_shape import Shape
from emulator.simulation.leased import LeasedFleet
from firmware.layouts.bus import BUS, CONTROL
from firmware.layouts.fleet import FLEET, WatchState

if TYPE_CHECKING:
    from emulator.simulation.leased import Member


def owners(fleet: LeasedFleet) -> list[str]:
    """Name of the owner of each shard."""
    grants = [fleet.ownership.owner(shard) for shard in range(fleet.shape.total)]
    return [grant.record.node if grant else "-" for grant in grants]


def standby_fleet(seed: int) -> tuple[LeasedFleet, Member, Member]:
    """Let node 0 hold the only slot; node 1, which is off, stands by. Server 0 leads everything."""
    fleet = LeasedFleet(seed, Shape(nodes=2, slots=1, total=1, cap=1, duration_ms=4_000))
    cluster, (holder, standby) = fleet.nats.cluster, fleet.stations
    for name in cluster.leaders:
        cluster.leaders[name] = cluster.servers[0]
    standby.power_off()
    fleet.until_owned()
    return fleet, holder, standby


def boot_on(fleet: LeasedFleet, station: Member, server: int) -> None:
    """Boot a node that reaches one server alone."""
    station.power_on()
    while not any(station.node.own_ip()):
        fleet.run(0.1)
    fleet.world.actions["nats-only"](f"{station.name} {server}")


def control_of(station: Member) -> Any:
    """The node's link CONTROL."""
    return station.node.g(BUS).links[CONTROL]


def server_of(station: Member) -> int:
    """Which server a node speaks to: its list begins with the one of its own number."""
    return (int(control_of(station).server) + int(station.name.removeprefix("node"))) % 3


def standby_on_a_server_that_will_be_cut(seed: int) -> tuple[LeasedFleet, Member, Member]:
    """Let node 1 watch a consumer that lives on its own server 1, so that a cut takes nothing from it."""
    fleet, holder, standby = standby_fleet(seed)
    servers = fleet.nats.cluster.servers
    boot_on(fleet, standby, 1)
    for _ in range(100):
        fleet.run(0.5)
        watch = standby.node.g(FLEET)
        if watch.watch == WatchState.SYNCED and server_of(standby) == 1:
            subjects = [c.config.deliver_subject for c in servers[1].consumers]
            if any(s.startswith("_W.node1.") and s.endswith(f".{watch.resyncs}") for s in subjects):
                fleet.world.actions["nats-any"]("")
                return fleet, holder, standby
            for server in servers[::2]:
                for consumer in list(server.consumers):
                    consumer.end()
    pytest.fail("its watch never lived there")


def owned_by(fleet: LeasedFleet, station: Member, seconds: int) -> bool:
    """Run until a node owns the only slot, and say whether it did in time."""
    for _ in range(seconds):
        fleet.run(1)
        if owners(fleet) == [station.name]:
            return True
    return False
