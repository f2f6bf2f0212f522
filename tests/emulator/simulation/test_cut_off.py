"""A node that holds nothing, or waits for its token, leaves a server of NATS that is cut off."""

from __future__ import annotations

from emulator.simulation.fleet_shape import Shape
from emulator.simulation.leased import LeasedFleet
from firmware.layouts.bus import LinkState
from firmware.layouts.fleet import FLEET, FLEET_VIEW, PlanMode, WatchState
from tests.support.cut_off import (
    boot_on,
    control_of,
    owned_by,
    owners,
    server_of,
    standby_fleet,
    standby_on_a_server_that_will_be_cut,
)


def test_a_node_that_holds_nothing_leaves_a_server_that_is_cut_off():
    """Its watch beats on and shows what was; nothing but its own claim tells."""
    fleet, holder, standby = standby_on_a_server_that_will_be_cut(14)
    fleet.world.actions["nats-isolate"]("1")
    fleet.run(1)
    holder.power_off()
    fleet.run(3)
    assert (server_of(standby), standby.node.g(FLEET).watch) == (1, WatchState.SYNCED)
    # One wait for the record by the old watch, one by the new one.
    assert owned_by(fleet, standby, 20)
    assert server_of(standby) != 1
    fleet.world.actions["nats-mend"]("")
    fleet.until_owned()


def test_a_node_that_boots_on_a_server_that_is_cut_off_leaves_it():
    fleet, holder, standby = standby_fleet(15)
    fleet.world.actions["nats-isolate"]("1")
    fleet.run(20)
    boot_on(fleet, standby, 1)
    link = control_of(standby)
    fleet.world.run_until(lambda: server_of(standby) == 1 and link.state == LinkState.UP)
    fleet.run(0.1)
    assert (server_of(standby), standby.node.g(FLEET).watch) == (1, WatchState.OFF)
    fleet.world.actions["nats-any"]("")
    fleet.run(8)
    assert (server_of(standby) != 1, standby.node.g(FLEET).watch) == (True, WatchState.SYNCED)
    holder.power_off()
    assert owned_by(fleet, standby, 20)
    fleet.world.actions["nats-mend"]("")
    fleet.until_owned()


def test_an_election_does_not_send_a_claimer_round_the_servers():
    """The slot is free, and nobody leads: each claim ends unconfirmed, and each server gets its time."""
    fleet, holder, standby = standby_fleet(16)
    standby.power_on()
    fleet.run(10)
    link = control_of(standby)
    before = link.ups
    holder.power_off()
    grant = fleet.ownership.owner(0)
    assert grant is not None
    freed = grant.record.freed(1, 0, 1, 1)
    fleet.operator.put("lease.0", str(freed))
    fleet.world.actions["nats-depose"]("")
    fleet.run(3)
    assert owners(fleet) == ["-"]
    assert owned_by(fleet, standby, 60)
    assert link.ups - before <= 3


def test_a_drained_node_leaves_a_server_that_is_cut_off():
    """It may not claim, so no claim tells; that it is open again is written where it does not see it."""
    fleet, holder, standby = standby_on_a_server_that_will_be_cut(14)
    fleet.world.actions["drain"]("node1")
    fleet.world.run_until(lambda: standby.node.g(FLEET_VIEW).drained)
    fleet.world.actions["nats-isolate"]("1")
    fleet.run(1)
    fleet.world.actions["undrain"]("node1")
    holder.power_off()
    fleet.run(20)
    assert (server_of(standby), standby.node.g(FLEET_VIEW).drained) == (1, 1)
    assert owned_by(fleet, standby, 60)
    assert server_of(standby) != 1
    fleet.world.actions["nats-mend"]("")
    fleet.until_owned()


def test_a_node_that_saw_the_drain_of_a_plan_and_not_the_next_one_leaves_its_server():
    fleet, holder, standby = standby_on_a_server_that_will_be_cut(14)
    fleet.world.actions["replan"]("1")
    fleet.world.run_until(lambda: standby.node.g(FLEET_VIEW).plan.mode == PlanMode.DRAIN)
    fleet.world.actions["nats-isolate"]("1")
    fleet.world.run_until(lambda: not fleet.operator.busy)
    fleet.run(5)
    assert owners(fleet) == [holder.name]
    holder.power_off()
    assert owned_by(fleet, standby, 80)
    assert server_of(standby) != 1
    fleet.world.actions["nats-mend"]("")
    fleet.until_owned()


def test_a_drained_node_asks_for_nothing_while_others_hold_slots():
    """Their renewals show that its server has the cluster."""
    fleet, _holder, standby = standby_fleet(17)
    fleet.world.actions["drain"]("node1")
    standby.power_on()
    fleet.run(10)
    before = standby.node.g(FLEET).resyncs, control_of(standby).ups
    fleet.run(180)
    assert (standby.node.g(FLEET).resyncs, control_of(standby).ups) == before


def test_an_idle_node_of_one_server_keeps_its_connection():
    """Its watch is made anew now and then, nothing else."""
    fleet = LeasedFleet(18, Shape(nodes=1, slots=1, total=1, cap=1, servers=1))
    fleet.world.actions["drain"]("node0")
    fleet.run(10)
    node = fleet.stations[0]
    before, link = node.node.g(FLEET).resyncs, control_of(node)
    assert (node.node.g(FLEET).watch, link.ups) == (WatchState.SYNCED, 1)
    fleet.run(300)
    assert 4 <= node.node.g(FLEET).resyncs - before <= 10
    assert (link.state, link.ups) == (LinkState.UP, 1)
    fleet.world.actions["undrain"]("node0")
    fleet.until_owned()


def test_a_cluster_without_a_majority_is_not_stormed_by_idle_nodes():
    fleet, holder, standby = standby_fleet(19)
    cluster = fleet.nats.cluster
    standby.power_on()
    fleet.run(10)
    holder.power_off()
    fleet.world.actions["drain"]("node1")
    fleet.run(5)
    for server in cluster.servers:
        fleet.world.actions["nats-isolate"](str(server.index))
    fleet.run(120)
    watch, link = standby.node.g(FLEET), control_of(standby)
    before = watch.resyncs, link.ups
    fleet.run(300)
    # Half a second after its connection is made for three seconds, later one to two.
    assert link.ups - before[1] <= 30
    assert watch.resyncs - before[0] <= 300
    fleet.world.actions["undrain"]("node1")
    fleet.world.actions["nats-mend"]("")
    assert owned_by(fleet, standby, 30)
    fleet.until_owned()


def _waiting_for_the_token(seed, *, cut, **shape):
    """Let a node announce itself by another server than the one on which somebody listens."""
    fleet = LeasedFleet(seed, Shape(nodes=1, slots=1, total=1, cap=1, enrol=True, **shape))
    cluster, station = fleet.nats.cluster, fleet.stations[0]
    desk = next(server.index for server in cluster.servers if server.sessions)
    for name in cluster.leaders:
        cluster.leaders[name] = cluster.servers[desk]
    station.power_off()
    other = (desk + 1) % 3
    if cut:
        fleet.world.actions["nats-isolate"](str(other))
    boot_on(fleet, station, other)
    link = control_of(station)
    fleet.world.run_until(lambda: link.state == LinkState.UP and server_of(station) == other)
    fleet.world.actions["nats-any"]("")
    return fleet, station, other, link.ups


def test_a_node_that_waits_for_its_token_leaves_a_server_on_which_nobody_hears_it():
    fleet, station, server, ups = _waiting_for_the_token(16, cut=True)
    fleet.run(45)
    assert (server_of(station), control_of(station).ups) == (server, ups)
    assert not fleet.desk.approved
    # A minute for twelve announcements; whoever approves takes up to 15 s.
    fleet.run(40)
    assert server_of(station) != server
    assert fleet.desk.joined == {station.holder}
    fleet.world.actions["nats-mend"]("")
    fleet.until_owned()


def test_a_node_that_somebody_hears_keeps_its_server_while_he_decides():
    fleet, station, server, ups = _waiting_for_the_token(16, cut=False, refused=("node0",))
    fleet.run(100)
    assert (server_of(station), control_of(station).ups) == (server, ups)
    fleet.run(40)
    assert control_of(station).ups == ups + 1
