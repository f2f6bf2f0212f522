"""Cases E1 to E10: invalid sessions, op 7, missing answers, late acknowledgements."""

from __future__ import annotations

import pytest

from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import ShardState
from tests.support.cases import RESUME_HOST

S = ShardState
BEAT_MS = 5_000


def after_op_9(case):
    """Return the bounds of the delay after an op 9 that lost the session, at the first steps."""
    return {"wait_ms": 1_000, "below_ms": 5_001} if case.discord else {"below_ms": 2_000}


def test_e01_op_9_false_while_replaying(case_of, profile):
    case = case_of(profile, resume_host=profile == ProfileId.DISCORD)
    case.script("resume", "invalidate")
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.failed("invalidSession", then="identify", **after_op_9(case))
    case.healed()
    first, replay, fresh = case.talks
    assert case.handshakes == [[2], [6], [2]]
    assert replay.closed == 1000
    assert replay.host == (RESUME_HOST if case.discord else first.host)
    assert fresh.host == first.host
    assert case.view.protocol_failures == 0


def test_e02_op_9_false_after_identify(case_of, profile):
    case = case_of(profile, ready=False)
    case.script("identify", "invalidate", shard=0)
    case.until_records(1)
    case.failed("invalidSession", then="identify", **after_op_9(case))
    case.healed()
    refused, fresh = case.talks
    assert case.handshakes == [[2], [2]]
    assert refused.closed == 1000
    # The key stays busy for five seconds after an Identify that was refused.
    assert fresh.at(2) - refused.at(2) >= 5
    assert case.row.identifies == 2
    assert case.rig.stats.identify_gate_refusals == 0


def test_e03_op_9_true(case_of, profile):
    case = case_of(profile)
    case.say({"op": 9, "d": True})
    case.until_records(1)
    if case.discord:
        case.failed("invalidSession", then="resume", below_ms=1_000)
    else:
        case.failed("invalidSession", then="identify", below_ms=1_000)
    case.healed()
    assert case.talks[0].closed == (4000 if case.discord else 1000)
    assert case.handshakes == [[2], [6 if case.discord else 2]]


@pytest.mark.parametrize("body", [{"op": 9}, {"op": 9, "d": None}, {"op": 9, "d": "true"}])
def test_e03_op_9_without_a_boolean_counts_as_false(case_of, profile, body):
    case = case_of(profile)
    case.say(body)
    case.until_records(1)
    case.failed("invalidSession", then="identify", **after_op_9(case))
    case.healed()
    assert case.talks[0].closed == 1000
    assert case.handshakes == [[2], [2]]


def test_e03_the_third_op_9_true_in_a_row_counts_as_false(case_of):
    case = case_of()
    case.script("resume", "invalidate", resumable=True, times=9)
    case.say({"op": 9, "d": True})
    case.until_records(3)
    assert [record.next for record in case.records()] == ["resume", "resume", "identify"]
    case.failed("invalidSession", then="identify", wait_ms=1_000, below_ms=5_001)
    case.healed()
    assert [talk.closed for talk in case.talks[:3]] == [4000, 4000, 1000]
    assert case.handshakes == [[2], [6], [6], [2]]


def test_e04_op_9_false_when_ready(case_of, profile):
    case = case_of(profile)
    case.act(lambda core: core.invalidate(0, resumable=False))
    case.until_records(1)
    case.failed("invalidSession", then="identify", **after_op_9(case))
    case.healed()
    assert case.talks[0].closed == 1000
    assert case.handshakes == [[2], [2]]
    assert case.view.protocol_failures == 0


@pytest.mark.parametrize("on", ["connect", "identify"])
def test_e05_op_7_before_ready(case_of, profile, on):
    case = case_of(profile, shards=1, ready=False)
    case.script(on, "reconnect")
    case.until_records(1)
    # The first step of the startup: at most a second.
    case.failed(
        "reconnectRequested", close=0 if case.discord else 4000, then="identify", below_ms=1_000
    )
    case.healed()
    asked = [] if on == "connect" else [2]
    assert case.handshakes == [asked, [2]]
    assert case.talks[0].closed == 4000
    assert case.view.protocol_failures == 0


def test_e05_op_7_before_hello_with_a_session(case_of, profile):
    case = case_of(profile)
    case.script("connect", "reconnect")
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.failed(
        "reconnectRequested", close=0 if case.discord else 4000, then="resume", below_ms=2_000
    )
    case.healed()
    assert case.handshakes == [[2], [], [6]]
    assert case.talks[1].closed == 4000


def test_e06_a_beat_before_any_sequence_says_null(case_of, profile):
    case = case_of(profile, ready=False, heartbeat_interval_ms=1_000)
    case.script("identify", "nothing", shard=0)
    case.run(6)
    beats = case.talk.beats
    assert len(beats) >= 4
    assert {sequence for _at, sequence in beats} == {None}
    assert case.row.state == S.STARTING


def test_e06_a_beat_after_a_lost_session_says_null(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=1_000)
    case.dispatch(77)
    case.script("identify", "nothing", shard=0)
    case.run(0.1)
    case.act(lambda core: core.invalidate(0, resumable=False))
    case.until(lambda: len(case.talks) == 2 and len(case.talk.beats) == 3)
    assert {sequence for _at, sequence in case.talk.beats} == {None}
    assert case.handshakes == [[2], [2]]


def test_e07_hello_never_comes(case_of, profile):
    case = case_of(profile, shards=1, ready=False)
    case.script("connect", "nothing")
    case.until_records(1)
    record = case.failed("timeout", then="identify", below_ms=1_000)
    assert (record.stage, record.classification) == ("hello", "ConnectionTimeoutError")
    assert case.now - case.talks[0].opened_s == pytest.approx(10, abs=0.2)
    case.healed()
    assert case.handshakes == [[], [2]]
    assert case.talks[0].closed == 4000


def test_e07_hello_never_comes_to_a_session(case_of, profile):
    case = case_of(profile)
    case.script("connect", "nothing")
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.failed("timeout", then="resume", below_ms=2_000)
    assert case.now - case.talks[1].opened_s == pytest.approx(10, abs=0.2)
    case.healed()
    assert case.handshakes == [[2], [], [6]]


def test_e08_identify_is_never_answered(case_of, profile):
    case = case_of(profile, ready=False, heartbeat_interval_ms=BEAT_MS)
    case.script("identify", "nothing", shard=0)
    case.until_records(1)
    record = case.failed("timeout", then="identify", below_ms=1_000)
    assert record.stage == "ident"
    # Fluxer's second shard gives the startup a second more.
    assert case.now == pytest.approx(30 if case.discord else 31, abs=0.5)
    case.healed()
    silent = case.talks[0]
    assert (silent.handshakes, silent.closed) == ([2], 4000)
    assert len(silent.beats) >= 5
    assert case.handshakes == [[2], [2]]


def test_e08_resume_is_never_answered(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=BEAT_MS)
    case.script("resume", "nothing")
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    record = case.failed("timeout", then="resume", below_ms=2_000)
    assert record.stage == "replay"
    silent = case.talks[1]
    assert case.now - silent.at(6) == pytest.approx(20, abs=0.2)
    case.healed()
    assert (silent.handshakes, silent.closed) == ([6], 4000)
    assert len(silent.beats) >= 3
    assert case.handshakes == [[2], [6], [6]]


def test_e09_a_late_ack_counts(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=20_000)
    case.script("heartbeat", "nothing", shard=0)
    case.until(lambda: case.talk.beats)
    case.run(12)
    case.say({"op": 11})
    case.run(0.5)
    assert case.view.gateway.latency_ms == pytest.approx(12_000, abs=50)
    assert [int(line["durationMs"]) for line in case.lines("gateway.heartbeatLate")] == [
        case.view.gateway.latency_ms
    ]
    case.run(60)
    assert (case.row.state, case.row.hb_misses) == (S.READY, 0)
    assert len(case.lines("gateway.heartbeatLate")) == 1
    assert case.handshakes == [[2]]


def test_e10_an_ack_after_the_verdict_is_ignored(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=BEAT_MS, heartbeat_grace_ms=60_000)
    case.rig.gateway.server.policy.close_delay_ns = 3 * 10**9
    case.script("heartbeat", "nothing", shard=0)
    case.until_records(1)
    case.failed("heartbeatTimeout", then="resume", below_ms=1_000)
    case.talk.peer.raw(b'\x81\x09{"op":11}')
    case.healed()
    assert case.talks[0].closed == 4000
    assert len(case.records()) == case.row.hb_misses == 1
    assert case.handshakes == [[2], [6]]
