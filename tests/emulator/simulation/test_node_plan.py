"""Moves to another plan: shards that stay feel nothing, the others close, and begin anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.simulation.node_facts import CONTROL_KEY
from emulator.simulation.packet import ip
from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.node import CORE, PLAN
from firmware.layouts.plan import PlanOrder, PlanReport
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import Hold, ShardFlag, ShardState
from tests.support.control import answer, command
from toolchain.cli.diagnostics import shard_report
from toolchain.layout.pack import pack, unpack

S, R, P = ShardState, ControlResult, PlanRefusal
HOUR_S = 3_600


class Operator:
    """Whoever holds the key."""

    def __init__(self, rig):
        self.rig, self.counter, self.boot = rig, 0, 0
        rig.status(0)

    def say(self, payload=b""):
        rig = self.rig
        while True:
            self.counter += 1
            datagram = command(
                ControlVerb.PLAN,
                key=CONTROL_KEY,
                counter=self.counter,
                boot=self.boot,
                payload=payload,
            )
            rig._replies.clear()
            address, port = ip(rig.node.address()), rig.facts.diagnostics_port
            rig.operator.send_udp(address, port, 7701, datagram)
            rig.run(0.002)
            got = answer(rig._replies[-1], CONTROL_KEY)
            if got["result"] != R.BOOT:
                return got["result"], unpack(PlanReport, got["payload"])
            self.boot = got["boot"]

    def move(self, total, start, count):
        return self.say(pack(PlanOrder, {"total": total, "start": start, "count": count}))


def held(rig):
    """Number and total of every shard that the node holds, by number."""
    core = rig.node.g(CORE)
    rows = [rig.node.shard(n) for n in range(core.slots_used) if core.slots[n].flags & 1]
    return sorted((row.shard_id, row.shard_total) for row in rows)


def codes(rig, name):
    return [line for line in rig.node.log if line.get("code") == name]


def closes(rig):
    return [dict(shard.closes) for shard in rig.stats.shards]


def started(rig_of, facts, shards=4, **more):
    gateway = more.pop("gateway_shards", None)
    options = {} if gateway is None else {"shards": gateway}
    rig = rig_of(1, facts(shards=shards, **more), **options)
    rig.until_ready()
    rig.run(2)
    return rig, Operator(rig)


def test_a_question_changes_nothing(rig_of, facts):
    rig, operator = started(rig_of, facts)
    result, report = operator.say()
    assert result == R.DONE
    assert (report["total"], report["start"], report["count"]) == (4, 0, 4)
    assert (report["generation"], report["moves"], report["leaving"]) == (1, 0, 0)
    rig.run(1)
    assert closes(rig) == [{}] * 4


def test_with_the_same_total_who_stays_is_not_touched(rig_of, facts):
    """Shards 2 and 3 go, 4 and 5 come; they close with 4000 and their rows pass on."""
    rig, operator = started(rig_of, facts, total=8, gateway_shards=8, spare=2)
    before = {n: rig.node.workspace_bytes(n) for n in (0, 1)}
    result, report = operator.move(8, 0, 2)
    assert (result, report["generation"], report["moves"]) == (R.DONE, 2, 1)
    rig.run(0.2)
    assert {n: rig.node.workspace_bytes(n) for n in (0, 1)} == before
    assert held(rig) == [(0, 8), (1, 8)]
    assert closes(rig)[:4] == [{}, {}, {"4000": 1}, {"4000": 1}]
    assert len(codes(rig, "shard.held")) == 2
    assert operator.move(8, 0, 6)[0] == R.DONE
    rig.until_ready()
    assert held(rig) == [(n, 8) for n in range(6)]
    assert closes(rig)[:2] == [{}, {}]


def test_a_row_that_is_left_passes_on_at_once(rig_of, facts):
    rig, operator = started(rig_of, facts, total=8, gateway_shards=8)
    operator.move(8, 2, 4)
    rig.until_ready()
    rig.run(1)
    assert held(rig) == [(n, 8) for n in range(2, 6)]
    assert closes(rig)[:4] == [{"4000": 1}, {"4000": 1}, {}, {}]
    for row in rig.invariants.rows:
        shard = rig.node.shard(row.slot)
        assert shard.flags & ShardFlag.ESTABLISHED
        assert shard.plan_generation == (1 if shard.shard_id < 4 else 2)
        assert (shard.identifies, shard.resumes) == (1, 0)
    assert operator.say()[1]["leaving"] == 0


@pytest.mark.parametrize(("before", "after", "spare"), [(4, 6, 2), (16, 8, 0)])
def test_with_another_total_every_shard_starts_anew(rig_of, facts, before, after, spare):
    rig, operator = started(rig_of, facts, before, spare=spare)
    rig.gateway.core.reshard(after)
    result, report = operator.move(after, 0, after)
    assert result == R.DONE
    assert report["leaving"] == before
    rig.until_ready()
    assert operator.say()[1]["leaving"] == 0
    assert held(rig) == [(n, after) for n in range(after)]
    assert all(count == {"1000": 1} for count in closes(rig)[:before])
    (line,) = codes(rig, "lifecycle.resharded")
    assert (line["total"], line["shards"], line["generation"]) == (str(after), str(after), "2")
    for n in range(after):
        shard = rig.node.shard(n)
        assert (shard.plan_generation, shard.identifies, shard.resumes) == (2, 1, 0)
    assert {line["hold"] for line in codes(rig, "shard.held")} == {"plan_changed"}


def test_a_peer_that_does_not_answer_the_close_holds_its_row_five_seconds(rig_of, facts):
    rig, operator = started(rig_of, facts, total=8, gateway_shards=8)
    peer = rig.gateway.peer_of(0)
    peer.policy = replace(peer.policy, answers_close=False)
    operator.move(8, 1, 3)
    rig.run(4.9)
    assert (0, 8) in held(rig)
    assert rig.invariants.rows[0].hold == Hold.PLAN_CHANGED
    assert operator.move(8, 0, 4)[1]["refusal"] == P.STILL_MOVING
    rig.run(0.5)
    assert held(rig) == [(1, 8), (2, 8), (3, 8)]


def test_a_shard_that_failed_for_good_begins_anew_with_the_next_plan(rig_of, facts):
    rig, operator = started(rig_of, facts)
    rig.gateway.core.kick(1, 4004)
    rig.gateway.flush()
    rig.run(1)
    assert rig.states[1] == S.FATAL
    before = rig.node.workspace_bytes(0)
    operator.move(4, 0, 4)
    assert rig.node.workspace_bytes(0) == before
    rig.until_ready()
    assert held(rig) == [(n, 4) for n in range(4)]
    assert [rig.node.shard(n).attempts for n in range(4)] == [1, 1, 1, 1]


def test_the_fourth_move_of_an_hour_is_refused_aloud(rig_of, facts):
    rig, operator = started(rig_of, facts, total=8, gateway_shards=8)
    for start in (1, 2, 1):
        assert operator.move(8, start, 4)[0] == R.DONE
        rig.run(8)
    result, report = operator.move(8, 0, 4)
    assert (result, report["refusal"]) == (R.PLAN_REFUSED, P.TOO_MANY_MOVES)
    assert (report["start"], report["generation"], report["moves"]) == (1, 4, 3)
    (line,) = codes(rig, "lifecycle.reshardRefused")
    assert line["reason"] == "too_many_moves"
    rig.attachment.jump_clock(HOUR_S * 10**9)
    rig.run(1)
    assert operator.move(8, 0, 4)[0] == R.DONE


@pytest.mark.parametrize(
    ("total", "start", "count"),
    [(4, 0, 0), (4, 0, 5), (4, 4, 1), (8, 5, 4), (16_385, 0, 1), (0, 0, 1)],
)
def test_a_plan_out_of_bounds_is_refused(rig_of, facts, total, start, count):
    _, operator = started(rig_of, facts)
    result, report = operator.move(total, start, count)
    assert (result, report["refusal"], report["generation"]) == (R.PLAN_REFUSED, P.OUT_OF_BOUNDS, 1)


class TestRestart:
    """No boot knows of moves: the plan is the configuration's, and the line of the start says so."""

    def moved(self, rig_of, facts):
        """Shards 0 to 3 of the configuration; then 4 and 5 have the places of 0 and 1."""
        rig, operator = started(rig_of, facts, total=8, gateway_shards=8)
        operator.move(8, 2, 4)
        rig.until_ready()
        rig.run(2)
        assert held(rig) == [(n, 8) for n in range(2, 6)]
        return rig, operator

    def check_plan(self, rig):
        (line,) = codes(rig, "node.started")
        assert [line[key] for key in ("total", "start", "count", "plan")] == [
            "8", "0", "4", "configuration",
        ]  # fmt: skip
        rig.until_ready()
        assert held(rig) == [(n, 8) for n in range(4)]
        assert rig.node.g(PLAN).generation == 1
        _, report = Operator(rig).say()
        assert (report["start"], report["count"], report["moves"]) == (0, 4, 0)

    def test_after_a_warm_reset_only_who_had_stayed_is_resumed(self, rig_of, facts):
        rig, _ = self.moved(rig_of, facts)
        rig.warm_reset()
        rig.run(0.1)
        restored = codes(rig, "lifecycle.sessionRestored")
        ignored = codes(rig, "lifecycle.sessionSnapshotIgnored")
        assert sorted(line["shard"] for line in restored) == ["2", "3"]
        told = sorted((line["shard"], line["problem"]) for line in ignored)
        assert told == [("0", "another_plan"), ("1", "another_plan")]
        self.check_plan(rig)
        # Each of 0 and 1 had a session of its own before the move.
        assert [shard.identifies for shard in rig.stats.shards[:6]] == [2, 2, 1, 1, 1, 1]

    def test_after_a_power_cycle_all_begin_anew(self, rig_of, facts):
        rig, _ = self.moved(rig_of, facts)
        rig.power_off()
        rig.power_on()
        rig.run(0.1)
        assert codes(rig, "lifecycle.sessionRestored") == []
        assert codes(rig, "lifecycle.sessionSnapshotIgnored") == []
        self.check_plan(rig)
        assert [shard.identifies for shard in rig.stats.shards[:6]] == [2, 2, 2, 2, 1, 1]


class TestReshard:
    """Close code 4011: the service wants more shards."""

    def grown(self, rig_of, facts, total=4, **more):
        """The service serves one shard more, and tells one of the node's shards so."""
        rig, operator = started(rig_of, facts, spare=2, total=total, **more)
        rig.gateway.core.reshard(total + 1)
        rig.gateway.core.kick(2, 4011)
        rig.gateway.flush()
        rig.run(1)
        return rig, operator

    def test_it_is_reported_and_the_shard_stays_fatal(self, rig_of, facts):
        rig, operator = self.grown(rig_of, facts)
        assert rig.states == [S.READY, S.READY, S.FATAL, S.READY]
        (line,) = codes(rig, "lifecycle.reshardWanted")
        assert (line["total"], line["moves_itself"]) == ("5", "0")
        (ended,) = codes(rig, "lifecycle.connectionEnded")
        assert (ended["stop"], ended["closeCode"]) == ("reshard", "4011")
        assert ended["refusal"] == "not_automatic"
        assert rig.node.g(PLAN).generation == 1
        assert operator.move(5, 0, 5)[0] == R.DONE
        rig.until_ready()

    def test_what_discovery_recommended_is_said_once_and_stands_in_the_report(self, rig_of, facts):
        """The node does not follow a recommendation: it goes on with its plan."""
        http = {"discovery": DiscoveryMode.HTTP, "path": "/gateway/bot", "plan_auto": True}
        rig = rig_of(1, facts(shards=4, total=8, **http), shards=8, recommended=24)
        rig.until_ready()
        rig.run(60)
        (line,) = codes(rig, "lifecycle.reshardRecommended")
        assert (line["total"], line["recommended"]) == ("8", "24")
        assert rig.status(0)["recommended"] == 24
        assert rig.node.g(PLAN).generation == 1
        rig.gateway.core.kick(2, 4011)
        rig.gateway.flush()
        rig.run(1)
        (line,) = codes(rig, "lifecycle.reshardWanted")
        assert (line["total"], line["recommended"]) == ("9", "24")

    def test_with_auto_the_node_moves_itself(self, rig_of, facts):
        rig, _ = self.grown(rig_of, facts, plan_auto=True)
        rig.until_ready()
        assert rig.node.g(PLAN).generation == 2
        assert held(rig) == [(n, 5) for n in range(5)]
        (ended,) = codes(rig, "lifecycle.connectionEnded")
        assert ended["refusal"] == "none"
        (line,) = codes(rig, "lifecycle.resharded")
        assert (line["total"], line["start"], line["shards"]) == ("5", "0", "5")
        assert [count.get("1000", 0) for count in closes(rig)] == [1, 1, 0, 1, 0]

    def test_a_node_that_is_not_alone_refuses_with_its_reason(self, rig_of, facts):
        rig, _ = self.grown(rig_of, facts, total=8, plan_auto=True)
        assert rig.states[2] == S.FATAL
        (line,) = codes(rig, "lifecycle.reshardRefused")
        assert (line["total"], line["reason"]) == ("9", "not_the_whole_plan")
        (ended,) = codes(rig, "lifecycle.connectionEnded")
        assert (ended["shard"], ended["refusal"]) == ("2", "not_the_whole_plan")
        assert shard_report(rig.status(2))["last_failure"]["refusal"] == "not_the_whole_plan"
