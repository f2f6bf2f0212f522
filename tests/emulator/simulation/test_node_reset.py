"""Warm resets: sessions are resumed, Identifies stay counted, a node that crashes again is held."""

from __future__ import annotations

import pytest

from emulator.simulation.campaign import Trial
from emulator.simulation.clock import NS_PER_S
from emulator.simulation.faults import FaultPlan
from emulator.simulation.node_facts import CONTROL_KEY
from emulator.simulation.packet import ip
from emulator.simulation.storm import storm
from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.shard import Hold, ShardState
from firmware.layouts.survivor import SURVIVOR
from tests.support.control import answer, command

S = ShardState
DAY_S = 86_400


def codes(rig, name):
    """The lines of one code since the newest boot; those of the boot leave in its first turn."""
    rig.run(0)
    return [line for line in rig.node.log if line.get("code") == name]


def identifies(rig):
    """How many Identifies the gateway has accepted."""
    return sum(shard.identifies for shard in rig.stats.shards)


def order(rig, verb):
    """Send a command as a client does: learn the boot's nonce from the refusal, then repeat it."""
    boot, counter = 0, rig.world.now_ns
    for _ in range(2):
        rig._replies.clear()
        request = command(verb, key=CONTROL_KEY, boot=boot, counter=counter)
        rig.operator.send_udp(ip(rig.node.address()), rig.facts.diagnostics_port, 7701, request)
        rig.run(0.2)
        got = answer(rig._replies[-1], CONTROL_KEY)
        if got["result"] != ControlResult.BOOT:
            return got
        boot = got["boot"]
    raise AssertionError("the node refused its own nonce twice")


def test_after_a_warm_reset_every_session_is_resumed(rig_of):
    rig = rig_of(1)
    rig.until_ready()
    rig.run(5)
    identified = [shard.identifies for shard in rig.stats.shards]
    rig.warm_reset(after_s=8)
    for shard in range(rig.facts.shards):
        rig.gateway.core.dispatch(shard, "MESSAGE_CREATE", {"content": "while it booted"})
    rig.gateway.flush()
    assert len(codes(rig, "lifecycle.sessionRestored")) == rig.facts.shards
    rig.until_ready()
    assert [shard.identifies for shard in rig.stats.shards] == identified
    assert [shard.resumes for shard in rig.stats.shards] == [1] * rig.facts.shards
    rig.run(1)
    for row, shard in zip(rig.invariants.rows, rig.stats.shards, strict=True):
        assert (row.identifies, row.resumes, row.sequence) == (0, 1, shard.sequence)
    facts = rig.node.g(SURVIVOR)
    assert (facts.boots, facts.identified) == (2, sum(identified))
    assert codes(rig, "boot.warm")[0]["boots"] == "2"


def test_what_was_handed_on_before_the_reset_is_known_to_a_second(rig_of, load):
    """A Resume names a sequence that is at most one second old, and never a later one."""
    rig = rig_of(2)
    rig.until_ready()
    rig.load(load(rate=200))
    rig.run(10)
    known = [row.sequence for row in rig.invariants.rows]
    rig.run(1.2)
    before = [row.sequence for row in rig.invariants.rows]
    rig.warm_reset()
    named = [row.sequence for row in rig.invariants.rows]
    assert all(a <= b <= c for a, b, c in zip(known, named, before, strict=True))
    rig.until_ready()
    assert identifies(rig) == rig.facts.shards


@pytest.mark.parametrize("seed", [3, 5, 8])
def test_in_bad_weather_a_reset_loses_and_invents_nothing(seed):
    """The ledger holds what is resumed against what was handed on before the reset."""
    plan = "drop p=0.01 to=node; at 20s warm-reset node; at 60s warm-reset node; at 90s warm-reset node"
    rig = storm(Trial(seed, FaultPlan.parse(plan)))
    assert rig.boots == 4
    assert rig.node.g(SURVIVOR).boots == 4
    rig.save_coverage()


def test_after_a_power_cycle_everything_is_fresh(rig_of):
    rig = rig_of(1)
    rig.until_ready()
    rig.run(10)
    rig.power_off()
    rig.power_on()
    assert codes(rig, "lifecycle.sessionRestored") == codes(rig, "boot.warm") == []
    rig.until_ready()
    assert rig.node.g(SURVIVOR).boots == 1
    assert [row.identifies for row in rig.invariants.rows] == [1] * rig.facts.shards


def test_a_session_that_grew_old_while_the_machine_was_down_is_not_offered(rig_of):
    rig = rig_of(1)
    rig.until_ready()
    rig.warm_reset(after_s=61)
    problems = [line["problem"] for line in codes(rig, "lifecycle.sessionSnapshotIgnored")]
    assert problems == ["too_old"] * rig.facts.shards
    rig.until_ready()
    assert [row.identifies for row in rig.invariants.rows] == [1] * rig.facts.shards


def test_a_shard_that_was_down_long_before_the_reset_is_not_resumed(rig_of):
    """The age counts from the end of its connection, not from the reset."""
    rig = rig_of(1)
    rig.until_ready()
    rig.world.port("node").set_link(up=False)
    rig.run(200)
    rig.warm_reset()
    assert {line["problem"] for line in codes(rig, "lifecycle.sessionSnapshotIgnored")} == {
        "too_old"
    }
    rig.until_ready()


def test_three_crashes_in_ten_minutes_hold_the_node_until_it_is_released(rig_of):
    rig = rig_of(1)
    for _ in range(2):
        rig.until_ready()
        rig.warm_reset(crashed=True)
    rig.until_ready()
    identified = identifies(rig)
    rig.warm_reset(crashed=True)
    (line,) = codes(rig, "node.crash_loop")
    assert line["crashes"] == "3"
    assert line["shards_held_until"] == "power_cycle_or_shardfw_release"
    rig.run(30)
    assert {(row.state, row.hold) for row in rig.invariants.rows} == {(S.ASSIGNED, Hold.CRASH_LOOP)}
    assert identifies(rig) == identified

    assert order(rig, ControlVerb.NODE_RELEASE)["value"] == 1
    rig.until_ready()
    assert order(rig, ControlVerb.NODE_RELEASE)["value"] == 0
    rig.warm_reset(crashed=True)
    rig.until_ready()


def test_a_power_cycle_ends_the_hold(rig_of):
    rig = rig_of(1)
    for _ in range(3):
        rig.warm_reset(crashed=True)
    rig.run(5)
    assert rig.states == [S.ASSIGNED] * rig.facts.shards
    rig.power_off()
    rig.power_on()
    rig.until_ready()


@pytest.mark.parametrize("apart_s", [250, 290])
def test_crashes_further_apart_do_not_hold(rig_of, apart_s):
    rig = rig_of(1)
    for n in range(3):
        rig.warm_reset(crashed=True, after_s=apart_s if n else 0)
    rig.run(5)
    held = 2 * apart_s <= 600
    assert bool(codes(rig, "node.crash_loop")) == held


def test_a_spent_allowance_holds_who_needs_an_identify_until_the_next_window(rig_of, facts):
    rig = rig_of(1, facts(shards=4, identify_allowance=2))
    rig.run(20)
    assert sorted(rig.states) == [S.ASSIGNED, S.ASSIGNED, S.READY, S.READY]
    held = [row.slot for row in rig.invariants.rows if row.state == S.ASSIGNED]
    assert {rig.invariants.rows[n].hold for n in held} == {Hold.NO_IDENT_BUDGET}
    said = codes(rig, "lifecycle.identifyPermitFailed")
    assert [line["reason"] for line in said] == ["no_ident_budget"] * len(held)
    (spent,) = codes(rig, "identify.spent")
    assert (spent["used"], spent["allowance"]) == ("2", "2")
    assert identifies(rig) == 2

    # A Resume costs nothing, and a reset does not give the allowance back.
    ready = next(row.shard_id for row in rig.invariants.rows if row.state == S.READY)
    rig.gateway.core.abort(ready)
    rig.gateway.flush()
    rig.run(10)
    assert rig.stats.shards[ready].resumes == 1
    rig.warm_reset()
    rig.run(20)
    assert sorted(rig.states) == [S.ASSIGNED, S.ASSIGNED, S.READY, S.READY]
    assert identifies(rig) == 2

    rig.attachment.jump_clock(DAY_S * NS_PER_S)
    rig.until_ready(120)
    assert identifies(rig) == 4


def test_a_session_lost_with_the_allowance_spent_waits_without_dialling(rig_of, facts):
    rig = rig_of(1, facts(shards=1, identify_allowance=1))
    rig.until_ready()
    rig.gateway.core.kick(0, 4009)
    rig.gateway.flush()
    rig.run(20)
    (row,) = rig.invariants.rows
    assert (row.state, row.hold) == (S.ASSIGNED, Hold.NO_IDENT_BUDGET)
    connections = rig.stats.shards[0].connections
    rig.run(30)
    assert rig.stats.shards[0].connections == connections == 1
