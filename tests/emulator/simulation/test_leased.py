"""Whole nodes share shards by leases in NATS: they take over, step aside, and never speak twice."""

from __future__ import annotations

import pytest

from emulator.simulation.campaign import Trial
from emulator.simulation.fleet_shape import Shape
from emulator.simulation.fleet_storm import fleet_storm
from emulator.simulation.invariants import InvariantError
from emulator.simulation.leased import SPACING_NS, LeasedFleet
from emulator.simulation.timeline import FleetTimeline, Line
from firmware.layouts.bus import BUS, DATA
from firmware.layouts.fleet import FLEET, WatchState
from firmware.layouts.handover import HANDOVER
from pxe.gateway import LoadOptions
from tests.support.cut_off import owners

SHAPE = Shape(nodes=3, slots=3, total=6, max_concurrency=2)


def names(fleet, shard: int) -> list[str]:
    """What the gateway saw of a shard, in order."""
    wanted = ("identify", "resume", "resumed", "ready")
    events = fleet.gateway.events
    return [event.name for event in events if event.shard == shard and event.name in wanted]


def test_three_nodes_own_all_slots_and_no_shard_twice():
    fleet = LeasedFleet(1, SHAPE)
    fleet.until_owned()
    assert "-" not in owners(fleet)
    assert [len(fleet.rows_of(shard)) for shard in range(6)] == [1] * 6
    assert len({station.holder for station in fleet.stations}) == 3


def test_of_a_shard_without_a_session_at_the_gateway_nothing_is_published_yet():
    fleet = LeasedFleet(1, Shape(nodes=1, slots=2, total=2, max_concurrency=2))
    assert not fleet.published()
    fleet.until_owned()
    fleet.world.run_until(fleet.published)
    fleet.world.actions["gateway-close"]("0 4009")
    assert not fleet.published()
    fleet.until_owned()
    fleet.until_published()


def test_a_node_without_power_is_taken_over_and_its_sessions_go_on():
    fleet = LeasedFleet(2, SHAPE, load=LoadOptions(rate=4))
    fleet.until_owned()
    fleet.run(10)
    before = owners(fleet)
    victim = next(station for station in fleet.stations if station.name == before[0])
    victim.power_off()
    fleet.run(45)
    fleet.gateway.core.set_load(None)
    fleet.until_owned()
    after = owners(fleet)
    assert victim.name not in after
    lost = [shard for shard in range(6) if before[shard] == victim.name]
    assert [after[n] for n in range(6) if n not in lost] == [
        before[n] for n in range(6) if n not in lost
    ]
    for shard in lost:
        assert names(fleet, shard)[-2:] == ["resume", "resumed"]
    fleet.world.run_until(fleet.published)
    fleet.judge_events()
    assert fleet.events.repeated == 0
    assert {shard for shard, _ in fleet.ownership.handovers} == set(lost)


@pytest.mark.parametrize("seed", [9, 10])
def test_a_server_that_has_not_learned_of_a_session_costs_nobody_the_session(seed):
    """The next owner reads where the first save arrives after 18 s; its watch is elsewhere."""
    fleet = LeasedFleet(seed, Shape(nodes=2, slots=1, total=1, cap=1, duration_ms=4_000))
    cluster, (first, second) = fleet.nats.cluster, fleet.stations
    cluster.leaders["KV_shardfw"] = cluster.servers[0]

    def until(reached):
        for _ in range(200):
            fleet.run(0.2)
            if reached() and not cluster.servers[1].consumers:
                return
            fleet.world.actions["nats-lose"]("1")
        pytest.fail("never reached")

    second.power_off()
    fleet.world.actions["nats-behind"]("1 18000")
    until(lambda: owners(fleet) == [first.name])
    second.power_on()
    until(lambda: any(second.node.own_ip()))
    fleet.world.actions["nats-only"](f"{second.name} 1")
    until(fleet.owned)
    until(lambda: second.node.g(FLEET).watch == WatchState.SYNCED)
    fleet.run(1)
    first.power_off()
    until(lambda: owners(fleet) == [second.name])
    fleet.until_owned()
    assert names(fleet, 0) == ["identify", "ready", "resume", "resumed"]
    assert second.node.g(HANDOVER).refused > 0


def _goes_on(fleet, action, argument) -> None:
    """Let something happen to NATS while events come; no connection to the gateway may end of it."""
    fleet.until_owned()
    fleet.run(5)
    before = [names(fleet, shard) for shard in range(6)]
    fleet.world.actions[action](argument)
    fleet.run(25)
    fleet.world.actions["nats-mend"]("")
    fleet.gateway.core.set_load(None)
    fleet.until_owned()
    assert [names(fleet, shard) for shard in range(6)] == before
    fleet.world.run_until(fleet.published)
    fleet.judge_events()


def test_an_election_costs_no_shard_its_connection():
    fleet = LeasedFleet(11, SHAPE, load=LoadOptions(rate=4))
    _goes_on(fleet, "nats-depose", "")


def test_events_leave_over_another_server_than_one_that_is_cut_off():
    fleet = LeasedFleet(12, SHAPE, load=LoadOptions(rate=4))
    cluster = fleet.nats.cluster
    fleet.until_owned()
    # The list of node 0 begins with server 0.
    cut = fleet.stations[0].node.g(BUS).links[DATA].server
    # Who led before had nothing left that only it could end.
    fleet.world.run_until(lambda: not any(each.pending for each in cluster.streams.values()))
    for name in cluster.leaders:
        cluster.leaders[name] = cluster.servers[cut - 1]
    _goes_on(fleet, "nats-isolate", str(cut))


def test_a_node_that_loses_nats_is_silent_before_another_speaks():
    fleet = LeasedFleet(3, SHAPE)
    fleet.until_owned()
    loser = next(s for s in fleet.stations if s.name == owners(fleet)[0])
    now_s = fleet.world.now_ns // 1_000_000_000
    rules = [f"drop match=port:4222 {way}={loser.name} after={now_s}s" for way in ("from", "to")]
    fleet.segment.set_faults("; ".join(rules))
    fleet.run(60)
    assert loser.name not in owners(fleet)
    assert loser.shards == []
    gaps = [seconds for _, seconds in fleet.ownership.handovers]
    assert gaps
    assert min(gaps) > 0.7


def test_a_machine_that_is_paused_as_soon_as_it_owns_something_comes_back_silent():
    fleet = LeasedFleet(11, Shape(nodes=2, slots=1, total=1, cap=1))
    first, second = fleet.stations
    second.power_off()
    fleet.world.run_until(lambda: owners(fleet) == [first.name])
    second.power_on()
    fleet.world.actions["freeze"](f"{first.name} 24000")
    fleet.run(30)
    assert owners(fleet) == [second.name]
    assert first.node.g(FLEET).frozen == 1
    fleet.until_owned()


def test_a_new_plan_moves_shards_without_overlap():
    fleet = LeasedFleet(4, SHAPE)
    fleet.until_owned()
    fleet.world.actions["replan"]("2")
    fleet.run(5)
    fleet.until_owned()
    assert fleet.ownership.plan == fleet.operator.plan
    assert fleet.operator.plan.epoch == 2
    assert len(set(owners(fleet))) <= 2


def test_a_stranger_who_speaks_is_found():
    fleet = LeasedFleet(5, SHAPE)
    fleet.until_owned()
    owner = next(s for s in fleet.stations if s.name == owners(fleet)[0])
    grant = fleet.ownership.owner(0)
    assert grant is not None
    slot = grant.record
    fleet.operator.put("lease.0", str(slot.freed(1, slot.start, slot.count, slot.total)))
    fleet.gateway.core.request_heartbeat(0)
    fleet.gateway.flush()
    # The node cannot have seen yet that its record is gone.
    owner.attachment.halt(1)
    with pytest.raises(InvariantError, match=r"rule 'one owner': node\d .* whose owner is nobody"):
        fleet.run(5)


def test_two_identifies_of_a_key_are_found():
    fleet = LeasedFleet(6, Shape(max_concurrency=1))
    fleet.identified(3)
    fleet.world.run_for(SPACING_NS - 1)
    with pytest.raises(InvariantError, match=r"rule 'identify spacing': shard 5 .* of key 0"):
        fleet.identified(5)


def test_a_run_replays_exactly():
    digests = set()
    for _ in range(2):
        fleet = LeasedFleet(7, SHAPE)
        fleet.run(8)
        digests.add(fleet.world.digest())
    assert len(digests) == 1


def test_a_timeline_tells_records_and_logs_by_node():
    lines: list[Line] = []
    fleet = LeasedFleet(8, SHAPE)
    FleetTimeline(fleet, lines.append).listen()
    fleet.run(5)
    assert lines[0].text.startswith("fleet Shape(nodes=3")
    told = {line.source for line in lines}
    assert {"node", "gateway", "nats", "plan"} <= told
    claims = [line.text for line in lines if line.source == "nats" and " held node" in line.text]
    assert claims[0].split()[1].startswith("$KV.shardfw.b1.ctl.lease.")
    assert any(line.text.startswith("node1 info fleet.granted") for line in lines)


@pytest.mark.parametrize("seed", [1, 21, 57])
def test_seeds_that_found_something_once(seed):
    fleet = fleet_storm(Trial(seed))
    assert "-" not in owners(fleet)
