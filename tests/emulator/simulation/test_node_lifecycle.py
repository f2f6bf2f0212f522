"""The release image on the virtual wire: from power-on to sixteen READY shards, and what ends them."""

from __future__ import annotations

import itertools

import pytest

from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.peers.websocket import CLOSE, TEXT, frame
from emulator.simulation.rig import GATEWAY_ADDRESS
from emulator.simulation.write_watch import WriteWatch
from firmware.layouts.log_line import Level
from firmware.layouts.node import CORE
from firmware.layouts.policy import Policy
from firmware.layouts.shard import End, ShardState
from pxe.gateway.script import Step

S = ShardState
SHARDS = 16
QUIET_MS = 600_000
"""A heartbeat interval so long that a quiet gateway has quiet minutes."""


def evidence(rig, slot):
    row = rig.invariants.rows[slot]
    return End(row.evidence_end), row.evidence_close_code


def test_sixteen_shards_become_ready_and_stay_so_for_five_minutes(rig_of, fixed):
    rig = rig_of(1, fixed())
    rig.until_ready(10)
    assert rig.now_s() < 3
    assert len(rig.monitor.dials(GATEWAY_ADDRESS, 80)) == SHARDS
    rig.run(300)
    stats = rig.stats
    assert rig.states == [S.READY] * SHARDS
    assert [s.identifies for s in stats.shards] == [1] * SHARDS
    # 300 s hold seven intervals of 41.25 s; the first beat comes at a random part of one.
    assert {s.heartbeats for s in stats.shards} <= {7, 8}
    assert [s.acks for s in stats.shards] == [s.heartbeats for s in stats.shards]
    assert all(s.beats_ahead == 0 and s.last_beat == s.sequence for s in stats.shards)
    assert stats.identify_gate_refusals == 0
    assert [row.reconnects for row in rig.invariants.rows] == [0] * SHARDS
    codes = [line["code"] for line in rig.node.log]
    assert codes.count("lifecycle.ready") == SHARDS
    assert not {"lifecycle.retry", "lifecycle.connectionLost", "lifecycle.connectionEnded"} & set(
        codes
    )


def test_one_key_lets_one_shard_identify_every_five_seconds(rig_of, fixed):
    rig = rig_of(1, fixed(shards=4, max_concurrency=1))
    rig.until_ready(30)
    assert rig.now_s() >= 15
    assert rig.stats.identify_gate_refusals == 0
    assert [s.identifies for s in rig.stats.shards] == [1] * 4


def test_the_wire_shows_the_same_digest_for_the_same_seed(rig_of, fixed):
    def digest(seed):
        rig = rig_of(seed, fixed(shards=4), faults="drop p=0.05")
        rig.run(20)
        return rig.world.digest()

    assert digest(5) == digest(5)
    assert digest(5) != digest(6)


def test_a_node_of_a_larger_bot_identifies_with_its_own_numbers(rig_of, fixed):
    rig = rig_of(1, fixed(shards=3, start=5, total=20))
    rig.until_ready(10)
    connected = [s.shard for s in rig.stats.shards if s.connected]
    assert connected == [5, 6, 7]


def test_the_card_behind_windows_serves_as_well(rig_of, fixed):
    rig = rig_of(1, fixed(shards=2), modern=True)
    rig.until_ready(10)


def quiet_rig(rig_of, wait_s):
    """Return a ready rig in which no timer but shard 7's is due within `wait_s`."""
    rig = rig_of(1, NodeFacts(policy=Policy.FIXED), heartbeat_interval_ms=QUIET_MS)
    rig.until_ready(10)
    slots = rig.node.g(CORE).slots
    for _ in range(600):
        rig.run(1)
        due = min(slots[n].deadline for n in range(SHARDS) if n != 7)
        if due - rig.node.g(CORE).now > wait_s * 1_000_000_000:
            return rig
    raise AssertionError("no quiet time was found")


def test_one_killed_connection_leaves_fifteen_workspaces_byte_identical(rig_of):
    rig = quiet_rig(rig_of, 12)
    others = [n for n in range(SHARDS) if n != 7]
    before = {n: rig.node.workspace_bytes(n) for n in others}
    reconnects = rig.invariants.rows[7].reconnects
    started = rig.stats.shards[7].resumes
    rig.gateway.peer_of(7).abort()
    rig.gateway.flush()
    rig.world.run_until(lambda: rig.states[7] == S.BACKOFF)
    rig.world.run_until(lambda: rig.states[7] == S.READY, within_ns=11 * 10**9)
    for n in others:
        assert rig.node.workspace_bytes(n) == before[n], f"workspace {n} changed"
    assert rig.invariants.rows[7].reconnects == reconnects + 1
    assert rig.stats.shards[7].resumes == started + 1
    assert all(s.resumes == 0 for s in rig.stats.shards if s.shard != 7)
    assert evidence(rig, 7)[0] == End.TCP_FAILED


def test_no_store_of_a_shard_s_code_lands_in_another_workspace(rig_of, fixed):
    rig = rig_of(1, fixed())
    watch = WriteWatch(rig.node)
    rig.attachment.after_turn.append(watch.judge)
    rig.until_ready(10)
    rig.gateway.core.kick(3, 4000)
    rig.gateway.flush()
    rig.run(8)
    assert watch.stores > 10_000
    watch.stop()


RESUMES = (1000, 1001, 1005, 1011, 4000, 4001, 4002, 4005, 4006, 4008, 4999)
IDENTIFIES = (4003, 4007, 4009)
FATAL = (4004, 4010, 4011, 4012, 4013, 4014)
ABORT = 1006
"""A reset: no close frame at all."""


@pytest.mark.parametrize("codes", [(*RESUMES, ABORT, *IDENTIFIES), FATAL], ids=["recover", "fatal"])
def test_every_close_code_of_the_discord_table(rig_of, codes, fixed):
    rig = rig_of(1, fixed())
    rig.until_ready(10)
    for shard, code in enumerate(codes):
        if code == ABORT:
            rig.gateway.core.abort(shard)
        else:
            rig.gateway.core.kick(shard, code)
    rig.gateway.flush()
    rig.run(4)
    fatal = codes == FATAL
    ended = S.FATAL if fatal else S.BACKOFF
    assert rig.states == [ended if n < len(codes) else S.READY for n in range(SHARDS)]
    rig.run(60)
    for shard, code in enumerate(codes):
        stats = rig.stats.shards[shard]
        expected = (0, 1) if fatal else (1, 1) if code not in IDENTIFIES else (0, 2)
        assert (stats.resumes, stats.identifies) == expected, f"close code {code}"
        assert rig.states[shard] == (S.FATAL if fatal else S.READY), f"close code {code}"
        if code not in (ABORT, 1005):
            assert evidence(rig, shard) == (End.CLOSED, code)
    others = rig.invariants.rows[len(codes) :]
    assert all(row.reconnects == 0 and row.state == S.READY for row in others)
    assert rig.stats.identify_gate_refusals == 0


def test_a_session_that_is_closed_as_soon_as_it_is_resumed_is_no_unanswered_resume(rig_of, fixed):
    """READY or RESUMED and the close come in one segment, five times: the shard had been READY."""
    script = (
        Step(on="ready", do="kick", code=4000),
        Step(on="resumed", do="kick", code=4000, times=4),
    )
    rig = rig_of(1, fixed(shards=1), script=script)
    rig.run(60)
    stats = rig.stats.shards[0]
    assert (stats.identifies, stats.resumes, rig.all_ready()) == (1, 5, True)
    codes = [line["code"] for line in rig.node.log]
    assert codes.count("lifecycle.ready") == 6
    assert codes.count("lifecycle.connectionLost") == 5
    assert codes.count("lifecycle.retry") == 0


@pytest.mark.parametrize("command", ["kick", "reconnect"])
def test_what_ends_a_connection_before_hello_ends_it_after_the_upgrade(rig_of, command, fixed):
    """The upgrade and what follows it come in one segment; the record tells them apart."""
    script = (Step(on="connect", do=command, code=1000, instead=True, times=2),)
    rig = rig_of(1, fixed(shards=1), script=script)
    rig.until_ready(60)
    records = [line for line in rig.node.log if line["code"] == "lifecycle.retry"]
    assert [line["stage"] for line in records] == ["hello"] * 2


def test_a_resume_replays_what_was_missed_and_nothing_twice(rig_of, fixed):
    rig = rig_of(1, fixed())
    rig.until_ready(10)
    rows = rig.invariants.rows
    before = rows[5].dispatches
    rig.gateway.core.abort(5)
    rig.gateway.flush()
    rig.run(1)
    assert rig.states[5] == S.BACKOFF
    for number in range(20):
        rig.gateway.core.dispatch(5, "MISSED", {"number": number})
    rig.gateway.flush()
    rig.run(10)
    assert rig.states[5] == S.READY
    stats = rig.stats.shards[5]
    assert (stats.resumes, stats.replayed) == (1, 20)
    # Twenty events and RESUMED itself.
    assert rows[5].dispatches - before in (20, 21)
    assert rows[5].sequence == stats.sequence
    rig.run(60)
    assert rig.stats.shards[5].last_beat == stats.sequence


@pytest.mark.parametrize("keep", [True, False])
def test_after_a_gateway_restart_all_shards_come_back(rig_of, keep, fixed):
    rig = rig_of(1, fixed())
    rig.until_ready(10)
    rig.gateway.core.restart(keep_sessions=keep)
    rig.gateway.flush()
    rig.run(1)
    assert rig.states == [S.BACKOFF] * SHARDS
    rig.until_ready(60)
    stats = rig.stats
    assert [s.resumes for s in stats.shards] == [int(keep)] * SHARDS
    assert [s.identifies for s in stats.shards] == [1 if keep else 2] * SHARDS
    assert stats.identify_gate_refusals == 0


def test_a_refused_connection_is_tried_again_every_five_seconds(rig_of, fixed):
    rig = rig_of(1, fixed(shards=1))
    listener = rig.internet.router.tcp.listeners[rig.gateway.server.address, 80]
    listener.refusing = True
    rig.run(22)
    assert rig.states == [S.BACKOFF]
    assert rig.invariants.rows[0].reconnects == 5
    dials = rig.monitor.dials(GATEWAY_ADDRESS, 80)
    gaps = [(b - a) / 1e9 for a, b in itertools.pairwise(dials)]
    assert all(4.99 < gap < 5.2 for gap in gaps)
    assert rig.monitor.most_dials_in() == 5
    listener.refusing = False
    rig.until_ready(10)


def test_diagnostics_over_the_wire_show_state_and_evidence(rig_of, fixed):
    rig = rig_of(1, fixed())
    rig.until_ready(10)
    rig.gateway.core.kick(6, 4000)
    rig.gateway.flush()
    rig.run(2)
    reply = rig.status(6)
    assert reply["slots_used"] == SHARDS
    assert (reply["global_total"], reply["local_start"], reply["local_count"]) == (16, 0, 16)
    assert int.from_bytes(reply["shard"][:4], "little") == S.BACKOFF
    assert rig.status(5)["gateway_state"] == 4
    assert rig.facts.token.encode() not in b"".join(rig._replies)
    assert rig.status(200)["ws_state"] == 0


def test_a_retry_at_once_cuts_no_close_frame_off(rig_of, facts):
    schedule = {"policy": Policy.SCHEDULE, "schedule_ms": (0,) * 8}
    rig = rig_of(1, facts(shards=4, **schedule))
    rig.until_ready(10)
    for shard in range(4):
        rig.gateway.core.reconnect(shard)
    rig.gateway.flush()
    rig.run(2)
    assert rig.all_ready()
    assert [stats.closes for stats in rig.stats.shards[:4]] == [{"4000": 1}] * 4
    assert [row.resumes for row in rig.invariants.rows] == [1] * 4


@pytest.mark.parametrize("level", list(Level))
def test_a_simulated_node_writes_what_its_configuration_says(rig_of, facts, level):
    rig = rig_of(1, facts(shards=2, log_level=level))
    rig.until_ready(10)
    rig.gateway.peer_of(0).raw(frame(TEXT, b'{"op":0,"s":9999,"t":"X","d":null}'))
    rig.gateway.peer_of(1).raw(frame(CLOSE, (4004).to_bytes(2, "big")))
    rig.run(1)
    written = {Level[line["level"].upper()] for line in rig.node.log}
    assert written == {other for other in Level if other >= level}
