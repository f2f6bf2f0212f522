"""Faults that other shard holders had with Resume (vectors 15 to 33)."""

from __future__ import annotations

import pytest

from emulator.simulation.corpus import Flow
from emulator.simulation.peers.websocket import TEXT, frame
from emulator.simulation.rig import GATEWAY_ADDRESS
from firmware.layouts.closes import RULES, Action, rule
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import ShardState
from tests.support.cases import RESUME_ADDRESS, RESUME_HOST, path_of

S = ShardState
ABNORMAL = 1006
CODES = (1000, 1001, 1005, ABNORMAL, 1011, 4000, *range(4001, 4004), *range(4005, 4010))


@pytest.mark.parametrize("status", [503, 500, 404])
def test_v15_the_resume_host_refuses_the_upgrade(case_of, status):
    case = case_of(resume_host=True)
    case.rig.internet.gateways[RESUME_HOST].server.policy.status = status
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.failed("network", then="resume")
    case.healed()
    first, again = case.talks
    assert again.host == first.host
    assert case.handshakes == [[2], [6]]
    assert len(case.rig.monitor.dials(RESUME_ADDRESS)) == 1


def test_v15_an_operator_interrupts_the_wait(case_of):
    case = case_of(noticed=True)
    case.rig.gateway.server.policy.status = 403
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.rig.gateway.server.policy.status = 0
    case.failed("network", then="resume", wait_ms=60_000, below_ms=60_001)
    # A reset of the node: the wait is over, the session is not.
    case.rig.warm_reset(after_s=5)
    case.until_ready(5)
    assert case.handshakes == [[2], [6]]


def test_v16_an_identify_goes_to_the_main_host(case_of):
    case = case_of(resume_host=True)
    case.act(lambda core: core.invalidate(0, resumable=False))
    case.healed()
    first, fresh = case.talks
    assert case.handshakes == [[2], [2]]
    assert fresh.host == first.host
    assert not case.rig.monitor.dials(RESUME_ADDRESS)


@pytest.mark.parametrize(
    "url",
    ["ws://resume.gateway.test", "ws://resume.gateway.test/", "ws://resume.gateway.test/?x=1"],
)
def test_v17_every_dial_has_the_query(case_of, url):
    case = case_of(resume_host=True, ready=False)
    case.core.edit_ready(resume_gateway_url=url)
    case.until_ready()
    case.act(lambda core: core.abort(0))
    case.healed()
    first, again = case.talks
    assert (first.target, again.target) == (path_of(ProfileId.DISCORD),) * 2
    assert again.host == RESUME_HOST
    assert case.handshakes == [[2], [6]]


@pytest.mark.parametrize("end", ["abort", "kick", "fin"])
def test_v18_v19_v20_a_resume_that_is_never_taken(case_of, profile, end):
    """FIN (18), reset (19) or close 4000 (20) in answer to each Resume: the third ends the session."""
    case = case_of(profile)
    if end == "fin":
        case.script("resume", "nothing", times=9)
    else:
        case.script("resume", end, times=9)
    case.act(lambda core: core.abort(0))
    for count in (2, 3, 4):
        if end == "fin":
            case.until(lambda count=count: case.handshakes == [[2], *[[6]] * (count - 1)])
            case.talk.peer.tcp.close()
        case.until_records(count)
    assert [record.next for record in case.records()] == ["resume"] * 3 + ["identify"]
    case.healed()
    assert case.handshakes == [[2], [6], [6], [6], [2]]


def test_v21_late_events_of_the_connection_before(case_of, profile):
    case = case_of(profile, hub=True)
    case.rig.gateway.server.policy.close_delay_ns = 3 * 10**9
    router = case.rig.internet.router
    old = case.talk
    flow = Flow.of(old.peer.tcp, case.rig.facts.mac, router.mac)
    case.say({"op": 7})
    case.until_records(1)
    case.failed("reconnectRequested", then="resume", below_ms=1_000)
    asked = case.now
    case.until(lambda: len(case.talks) == 2 and case.row.state == S.READY, within_s=9)
    # The next attempt waits for the end of the connection before, which the gateway drags out.
    assert case.talk.opened_s - asked == pytest.approx(3, abs=0.3)
    assert old.closed == 4000
    for op in (9, 7, 11):
        router.port.inject(flow.tcp(0x18, frame(TEXT, b'{"op":%d,"d":false}' % op)))
    case.run(90)
    assert case.row.state == S.READY
    assert len(case.records()) == 1
    assert case.handshakes == [[2], [6]]
    assert len(case.talk.beats) >= 2


def test_v23_the_new_session_is_the_one_that_is_resumed(case_of, profile):
    case = case_of(profile)
    (first,) = case.core.roster.of_shard(0)
    case.act(lambda core: core.invalidate(0, resumable=False))
    case.healed()
    (second,) = case.core.roster.of_shard(0)
    assert first.id != second.id
    case.act(lambda core: core.abort(0))
    case.until(lambda: case.handshakes == [[2], [2], [6]])
    assert case.talk.body["session_id"] == second.id


def test_v24_a_reconnect_keeps_the_sequence(case_of, profile):
    case = case_of(profile, guild_create=False)
    for _ in range(6):
        case.act(lambda core: core.dispatch(0, "X", {}))
    case.act(lambda core: core.abort(0))
    case.run(0)
    case.healed()
    # What the reset overtook was never received, and is asked for.
    assert case.talk.body["seq"] <= 7
    assert case.row.sequence == case.rig.stats.shards[0].sequence == 7
    case.act(lambda core: core.abort(0))
    case.until(lambda: len(case.handshakes) == 3 and case.handshakes[2])
    assert case.talk.body["seq"] == 7


def test_v25_a_gap_is_no_reason_to_reconnect(case_of, profile):
    case = case_of(profile, guild_create=False)
    for sequence in (10, 13):
        case.dispatch(sequence)
    case.run(0.1)
    assert case.row.state == S.READY
    case.act(lambda core: core.abort(0))
    case.until(lambda: len(case.handshakes) == 2 and case.handshakes[1])
    assert case.talk.body["seq"] == 13


@pytest.mark.parametrize("breaks_off", [False, True])
def test_v25_what_a_replay_leaves_out_is_told(case_of, profile, breaks_off):
    """A service need not keep every event; the range that it left out is in the record."""
    case = case_of(profile)
    case.dispatch(100)
    case.script("resume", "nothing", times=1 + breaks_off)
    case.run(0.1)
    case.act(lambda core: core.abort(0))
    case.until(lambda: case.handshakes == [[2], [6]])
    for sequence in (101, 150):
        case.dispatch(sequence)
    case.run(0.1)
    if breaks_off:
        case.act(lambda core: core.abort(0))
        case.until(lambda: case.handshakes == [[2], [6], [6]])
        assert case.talk.body["seq"] == 150
    case.dispatch(152 if case.discord else 151, "RESUMED", {})
    case.run(0.1)
    said = case.lines("lifecycle.ready")[-1]
    told = {key: said[key] for key in ("mode", "gap", "known", "missingFrom", "missingTo")}
    assert told == {
        "mode": "resume", "gap": "possible", "known": "100", "missingFrom": "102", "missingTo": "151"
    }  # fmt: skip
    # The next loss has a gap of its own.
    case.script("resume", "nothing")
    case.act(lambda core: core.abort(0))
    case.until(lambda: case.talks[-1].handshakes == [6] and len(case.talks) == 3 + breaks_off)
    case.dispatch(153 if case.discord else 151, "RESUMED", {})
    case.run(0.1)
    said = case.lines("lifecycle.ready")[-1]
    assert (said["gap"], said["missingFrom"], said["missingTo"]) == ("replayed", "0", "0")


def test_v27_a_dispatch_without_a_sequence(case_of, profile):
    case = case_of(profile, guild_create=False)
    case.dispatch(150)
    case.dispatch(None)
    case.until_records(1)
    case.failed("protocol", then="identify")
    case.healed()
    assert case.handshakes == [[2], [2]]


@pytest.mark.parametrize("code", CODES)
def test_v28_every_close_code_after_ready(case_of, profile, code):
    case = case_of(profile)
    case.act(lambda core: core.abort(0) if code == ABNORMAL else core.kick(0, code))
    case.until_records(1)
    asked = rule(profile, code).action
    if asked & Action.FATAL:
        case.ended("closed", RULES[profile][code].stop.name.lower(), close=code)
        return
    then = "identify" if asked & Action.IDENTIFY else "resume"
    close = 0 if code in (ABNORMAL, 1005) else code
    case.failed("network" if code == ABNORMAL else "closed", close=close, then=then)
    assert case.view.protocol_failures == bool(asked & Action.ANOMALY)
    case.healed()
    assert case.handshakes == [[2], [2 if then == "identify" else 6]]


def test_v28_what_the_tables_say(case_of):
    """The rules above come from the firmware's table, so the table is written here once more."""
    ends = {
        code for code in range(4000, 4016) if rule(ProfileId.DISCORD, code).action & Action.FATAL
    }
    assert ends == {4004, *range(4010, 4015)}
    assert {c for c in CODES if rule(ProfileId.DISCORD, c).action & Action.IDENTIFY} == {
        4003,
        4007,
        4009,
    }
    ends = {
        code for code in range(4000, 4016) if rule(ProfileId.FLUXER, code).action & Action.FATAL
    }
    assert ends == {*range(4001, 4006), *range(4010, 4015)}
    assert not {c for c in CODES if rule(ProfileId.FLUXER, c).action & Action.IDENTIFY}


def test_v29_op_9_after_a_minute_of_health(case_of, profile):
    case = case_of(profile)
    case.run(60)
    case.act(lambda core: core.invalidate(0, resumable=False))
    case.until_records(1)
    bounds = {"wait_ms": 1_000, "below_ms": 5_001} if case.discord else {"below_ms": 1_000}
    case.failed("invalidSession", then="identify", **bounds)
    case.healed(10)
    assert case.handshakes == [[2], [2]]


def test_v31_old_failures_do_not_slow_down_an_op_7(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=120_000)
    for count in range(1, 7):
        case.act(lambda core: core.abort(0))
        case.until_records(count)
        case.healed()
    assert case.view.recovery_step == 6
    case.run(3_600)
    count = len(case.records())
    case.act(lambda core: core.reconnect(0))
    case.until_records(count + 1)
    close = 0 if case.discord else 4000
    case.failed("reconnectRequested", close=close, then="resume", below_ms=1_000)
    case.healed(5)


def test_v32_resumed_never_comes_while_acks_flow(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=5_000)
    case.script("resume", "nothing", times=3)
    case.act(lambda core: core.abort(0))
    case.until_records(4, within_s=120)
    assert [record.reason for record in case.records()[1:]] == ["timeout"] * 3
    assert [record.next for record in case.records()] == ["resume"] * 3 + ["identify"]
    case.healed()
    assert case.handshakes == [[2], [6], [6], [6], [2]]


def test_v33_a_session_that_ended_while_the_shard_was_away(case_of, profile):
    case = case_of(profile, session_ttl_ms=10_000, heartbeat_interval_ms=600_000)
    case.act(lambda core: core.abort(0))
    case.until_records(1)
    case.rig.internet.cut(GATEWAY_ADDRESS)
    case.run(11)
    case.rig.internet.mend(GATEWAY_ADDRESS)
    case.healed()
    assert case.handshakes == [[2], [6], [2]]
    assert case.record.reason == "invalidSession"
    assert case.talks[1].closed == 1000
