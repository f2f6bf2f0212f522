"""Hand-over: a shard that leaves gives its session to whoever keeps sessions, and another node resumes it."""

from __future__ import annotations

import pytest

from emulator.simulation.fleet import Fleet
from emulator.simulation.host import Host
from emulator.simulation.internet import SUBNET
from emulator.simulation.node_facts import CONTROL_KEY
from emulator.simulation.packet import ip
from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.log_line import Level
from firmware.layouts.node import CORE
from firmware.layouts.plan import MOVES, PlanOrder, PlanReport
from firmware.layouts.policy import SessionProvider
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.sessions import ANY_SHARD, HANDED_OVER, SessionProblem, SessionSnapshot
from firmware.layouts.shard import Hold, SessionLoad, ShardState
from firmware.layouts.status import STATUS_REQUEST_MAGIC, StatusReply
from firmware.layouts.stop import STOP, StopPhase
from pxe.gateway import LoadOptions
from tests.support.control import answer, command
from toolchain.layout.pack import pack, unpack

S, R = ShardState, ControlResult
TOTAL = 8
KEPT = {"session_provider": SessionProvider.HOST, "log_level": Level.DEBUG}


class Keeper:
    """Who commands one node and keeps sessions; its clock is the world's.

    Args:
        world: of the node.
        host: where it speaks from.
        station: the node: `node` and `facts`.
        port: of its own.
    """

    def __init__(self, world, host, station, port=7711):
        self.world, self.host, self.station, self.port = world, host, station, port
        self.counter = self.boot = 0
        self.heard: list[bytes] = []
        host.bind_udp(port, lambda datagram: self.heard.append(datagram.payload))

    def _exchange(self, datagram):
        self.heard.clear()
        for _ in range(3):
            address = ip(self.station.node.address())
            self.host.send_udp(address, self.station.facts.diagnostics_port, self.port, datagram)
            self.world.run_for(2_000_000)
            if self.heard:
                return self.heard[-1]
        raise AssertionError("the node does not answer")

    def greet(self):
        """Wait for the node's address, and make its own known to it."""
        self.world.run_until(lambda: any(self.station.node.own_ip()))
        self._exchange(pack(StatusReply, {"magic": STATUS_REQUEST_MAGIC, "slot": 0, "nonce": 1}))

    def say(self, verb, **fields):
        while True:
            self.counter += 1
            datagram = command(
                verb, key=CONTROL_KEY, counter=self.counter, boot=self.boot, size=1000, **fields
            )
            got = answer(self._exchange(datagram), CONTROL_KEY)
            if got["result"] != R.BOOT:
                return got
            self.boot = got["boot"]

    def move(self, total, start, count, wait_ms=0):
        order = {"total": total, "start": start, "count": count, "wait_ms": wait_ms}
        got = self.say(ControlVerb.PLAN, payload=pack(PlanOrder, order))
        return got["result"], unpack(PlanReport, got["payload"])

    def take(self, shard):
        """Return a session and when its connection ended; None while it may be used."""
        got = self.say(ControlVerb.SESSION_TAKE, slot=shard)
        if got["result"] != R.DONE:
            return None
        return got["payload"], self.world.now_ns - got["value"] * 1_000_000

    def offer(self, shard, saved):
        payload, ended_ns = saved
        age_ms = (self.world.now_ns - ended_ns) // 1_000_000
        return self.say(ControlVerb.SESSION_OFFER, slot=shard, argument=age_ms, payload=payload)

    def start_empty(self):
        """Tell a node that boots that nothing is kept."""
        self.greet()
        assert self.say(ControlVerb.SESSION_OFFER, slot=ANY_SHARD)["result"] == R.DONE


def codes(node, name):
    return [line for line in node.log if line.get("code") == name]


def numbers(node):
    core = node.g(CORE)
    rows = [node.shard(n) for n in range(core.slots_used) if core.slots[n].flags & 1]
    return sorted(row.shard_id for row in rows)


def started(rig_of, facts, **more):
    """One node with shards 0 to 3 of 8, READY."""
    rig = rig_of(1, facts(shards=4, total=TOTAL, **(KEPT | more)), shards=TOTAL)
    keeper = Keeper(rig.world, rig.operator, rig)
    keeper.start_empty()
    rig.until_ready()
    rig.run(2)
    return rig, keeper


def test_a_shard_changes_nodes_and_loses_nothing(facts):
    """Shards 2 and 3 go from the first node to the second, under load."""
    fleet = Fleet(1, nodes=2, shards=4, facts=facts(spare=2, **KEPT), watch=False)
    host = Host(fleet.segment, "operator", SUBNET + "20")
    giver, taker = (
        Keeper(fleet.world, host, station, 7711 + n) for n, station in enumerate(fleet.stations)
    )
    for keeper in (giver, taker):
        keeper.start_empty()
    fleet.until_ready()
    fleet.gateway.core.set_load(LoadOptions(rate=50))
    fleet.gateway.flush()
    fleet.run(5)
    identified = [shard.identifies for shard in fleet.stats.shards]

    result, report = giver.move(TOTAL, 0, 2)
    assert (result, report["leaving"], report["provider"]) == (R.DONE, 2, SessionProvider.HOST)
    fleet.run(0.2)
    assert numbers(fleet.stations[0].node) == [0, 1, 2, 3]
    saved = {n: giver.take(n) for n in (2, 3)}
    assert all(
        unpack(SessionSnapshot, payload)["plan_generation"] == HANDED_OVER
        for payload, _ in saved.values()
    )
    assert numbers(fleet.stations[0].node) == [0, 1]
    fleet.run(8)
    assert taker.move(TOTAL, 2, 6, wait_ms=5_000)[0] == R.DONE
    fleet.run(0.5)
    node = fleet.stations[1].node
    waiting = [node.shard(n) for n in (4, 5)]
    assert {(row.state, row.hold) for row in waiting} == {(S.ASSIGNED, Hold.SESSION_LOAD)}
    assert [taker.offer(n, saved[n])["value"] for n in (2, 3)] == [0, 0]
    fleet.run(1)
    fleet.gateway.core.set_load(None)
    fleet.run(5)
    assert numbers(node) == [2, 3, 4, 5, 6, 7]
    assert {node.shard(n).state for n in range(6)} == {S.READY}
    assert [shard.identifies for shard in fleet.stats.shards] == identified
    assert [shard.resumes for shard in fleet.stats.shards] == [0, 0, 1, 1, 0, 0, 0, 0]
    assert [dict(shard.closes) for shard in fleet.stats.shards[:4]] == [{}, {}, *[{"4000": 1}] * 2]
    for n in (4, 5):
        row = node.shard(n)
        assert row.sequence == fleet.stats.shards[row.shard_id].sequence
    restored = codes(node, "lifecycle.sessionRestored")
    assert sorted(line["shard"] for line in restored) == ["2", "3"]
    assert all(8_000 <= int(line["ageMs"]) < 10_000 for line in restored)
    resumed = [line for line in codes(node, "lifecycle.ready") if line["mode"] == "resume"]
    assert [line["gap"] for line in resumed] == ["replayed"] * 2
    assert codes(node, "lifecycle.sessionSnapshotIgnored") == []


def test_a_session_that_nobody_takes_is_given_up_after_five_seconds(rig_of, facts):
    rig, keeper = started(rig_of, facts)
    keeper.move(TOTAL, 0, 3)
    rig.run(4.5)
    assert numbers(rig.node) == [0, 1, 2, 3]
    result, report = keeper.move(TOTAL, 0, 2)
    assert (result, report["refusal"]) == (R.PLAN_REFUSED, PlanRefusal.STILL_MOVING)
    rig.run(1)
    assert numbers(rig.node) == [0, 1, 2]
    (line,) = codes(rig.node, "lifecycle.sessionSaveFailed")
    assert (line["shard"], line["origin"]) == ("3", "application")
    assert rig.node.g(MOVES).leaving == 0
    assert keeper.say(ControlVerb.SESSION_TAKE, slot=3)["result"] == R.ARGUMENT


def test_a_shard_that_takes_the_place_of_one_that_left_waits_as_well(rig_of, facts):
    rig, keeper = started(rig_of, facts)
    keeper.move(TOTAL, 1, 4, wait_ms=700)
    rig.run(0.2)
    assert numbers(rig.node) == [0, 1, 2, 3]
    assert keeper.take(0) is not None
    assert numbers(rig.node) == [1, 2, 3, 4]
    rig.run(0.3)
    assert rig.node.shard(0).hold == Hold.SESSION_LOAD
    rig.until_ready()
    (line,) = codes(rig.node, "lifecycle.sessionLoadFailed")
    assert (line["shard"], line["timeoutMs"]) == ("4", "700")
    assert rig.stats.shards[4].identifies == 1


def test_who_hears_that_nothing_was_kept_starts_at_once(rig_of, facts):
    rig, keeper = started(rig_of, facts, spare=1)
    keeper.move(TOTAL, 0, 5, wait_ms=60_000)
    rig.run(1)
    assert rig.node.shard(4).hold == Hold.SESSION_LOAD
    assert keeper.say(ControlVerb.SESSION_OFFER, slot=4)["result"] == R.DONE
    rig.run(1)
    assert rig.node.shard(4).state == S.READY


def test_with_another_total_nothing_is_handed_over_and_nobody_waits(rig_of, facts):
    rig, keeper = started(rig_of, facts, spare=1)
    rig.gateway.core.reshard(TOTAL + 1)
    assert keeper.move(TOTAL + 1, 0, 5, wait_ms=5_000)[0] == R.DONE
    assert keeper.say(ControlVerb.SESSION_TAKE, slot=3)["payload"] == b""
    rig.run(0.5)
    assert {rig.node.shard(n).load for n in range(5)} == {SessionLoad.SETTLED}
    rig.until_ready()
    assert codes(rig.node, "lifecycle.sessionSaved") == []
    assert codes(rig.node, "lifecycle.sessionSaveFailed") == []


def test_without_a_provider_a_place_passes_on_at_once(rig_of, facts):
    rig = rig_of(1, facts(shards=4, total=TOTAL), shards=TOTAL)
    keeper = Keeper(rig.world, rig.operator, rig)
    rig.until_ready()
    keeper.greet()
    keeper.move(TOTAL, 0, 3, wait_ms=5_000)
    rig.run(0.2)
    assert numbers(rig.node) == [0, 1, 2]
    keeper.move(TOTAL, 0, 4, wait_ms=5_000)
    rig.run(0.2)
    assert rig.node.shard(3).hold != Hold.SESSION_LOAD
    rig.until_ready()


@pytest.mark.parametrize("down", [False, True], ids=["ready", "between attempts"])
def test_a_reset_does_not_bring_back_what_was_handed_over(rig_of, facts, down):
    """Else two nodes would resume one session."""
    rig, keeper = started(rig_of, facts)
    if down:
        rig.gateway.core.kick(3, 4008)
        rig.gateway.flush()
        rig.run(0.5)
        assert rig.states[3] == S.BACKOFF
    keeper.move(TOTAL, 0, 3)
    rig.run(0.2)
    assert keeper.take(3)[0]
    assert numbers(rig.node) == [0, 1, 2]
    rig.warm_reset()
    rig.run(1)
    restored = codes(rig.node, "lifecycle.sessionRestored")
    assert sorted(line["shard"] for line in restored) == ["0", "1", "2"]
    keeper.boot = 0
    keeper.start_empty()
    rig.until_ready()
    assert [shard.identifies for shard in rig.stats.shards[:4]] == [1, 1, 1, 2]


def test_a_stop_in_the_middle_of_a_move_saves_the_sessions_of_both(rig_of, facts):
    rig, keeper = started(rig_of, facts)
    keeper.move(TOTAL, 0, 3)
    keeper.say(ControlVerb.STOP)
    rig.run(0.3)
    saved = {n: keeper.take(n)[0] for n in range(4)}
    assert all(saved.values())
    generations = {
        n: unpack(SessionSnapshot, payload)["plan_generation"] for n, payload in saved.items()
    }
    assert generations == {0: 2, 1: 2, 2: 2, 3: HANDED_OVER}
    phase = rig.node.g(STOP)
    rig.world.run_until(lambda: phase.phase == StopPhase.OFF, within_ns=5 * 10**9)


def test_what_a_stop_after_a_move_saved_is_refused_at_the_next_start(rig_of, facts):
    rig, keeper = started(rig_of, facts, spare=1)
    keeper.move(TOTAL, 0, 5)
    rig.until_ready()
    keeper.say(ControlVerb.STOP)
    rig.run(0.3)
    saved = keeper.take(0)
    rig.run(8)
    rig.power_off()
    rig.power_on()
    keeper.boot = 0
    keeper.greet()
    assert keeper.offer(0, saved)["value"] == SessionProblem.ANOTHER_GENERATION
