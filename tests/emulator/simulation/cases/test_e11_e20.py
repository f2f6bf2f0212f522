"""Cases E11 to E20: server beats, backlogs, READY and its fields, sequences, bad messages."""

from __future__ import annotations

import pytest

from emulator.simulation.peers.websocket import TEXT, frame
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import ShardState, Stop
from firmware.limits import MESSAGE_BYTES_MAX
from tests.support.cases import RESUME_ADDRESS, RESUME_HOST

S = ShardState
BEAT_MS = 5_000
LIMIT = Stop.PROTOCOL_LIMIT.name.lower()


def violated(case, count=1):
    """Assert on the last of `count` anomalies: the session is gone, the close code is ours."""
    case.until_records(count)
    record = case.failed("protocol", then="identify")
    assert record.classification == "protocol"
    assert case.view.protocol_failures == count
    return record


def ends_at_the_third(case, offend, close=4000):
    """Offend the shard three times within a minute; the third anomaly is its last.

    Args:
        case: with a READY target.
        offend: lets the gateway do it on the newest connection.
        close: the node's answer, 4000 or a code of RFC 6455 for what its framing forbids.
    """
    for count in (1, 2):
        offend()
        violated(case, count)
        case.healed()
        assert case.talks[count - 1].closed == close
    offend()
    case.until_records(3)
    case.ended("protocol", LIMIT)
    assert case.handshakes == [[2], [2], [2]]


def test_e11_op_1_while_an_ack_is_pending(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=20_000)
    case.script("heartbeat", "nothing", shard=0)
    case.until(lambda: case.talk.beats)
    case.run(1)
    pending_since = case.row.gateway_hb_sent_at
    case.script("heartbeat", "nothing", shard=0)
    case.act(lambda core: core.request_heartbeat(0))
    case.run(0.1)
    (scheduled, _), (asked, _) = case.talk.beats
    assert asked - scheduled == pytest.approx(1, abs=0.1)
    assert case.row.gateway_hb_sent_at == pending_since
    case.say({"op": 11})
    case.run(0.1)
    assert case.view.gateway.latency_ms == pytest.approx(1_100, abs=20)
    case.run(60)
    assert case.row.hb_misses == 0
    assert case.handshakes == [[2]]


def test_e12_a_missing_ack_is_a_dead_connection_whatever_else_flows(case_of, profile, load):
    case = case_of(profile, heartbeat_interval_ms=BEAT_MS, heartbeat_grace_ms=60_000)
    case.script("heartbeat", "nothing", shard=0)
    case.rig.load(load(rate=20))
    case.until_records(1)
    case.failed("heartbeatTimeout", then="resume", below_ms=1_000)
    (beat, _sequence) = case.talk.beats[-1]
    assert case.now - beat == pytest.approx(BEAT_MS / 1000, abs=0.1)
    assert case.row.hb_misses == 1
    case.healed()
    case.rig.load(None)
    assert case.talks[0].closed == 4000
    assert case.handshakes == [[2], [6]]
    case.run(1)
    assert case.row.sequence == case.rig.stats.shards[0].sequence


def test_e13_ready_without_a_resume_url(case_of, profile):
    case = case_of(profile, ready=False)
    case.core.edit_ready(resume_gateway_url=None)
    case.until_ready()
    said = case.lines("gateway.resume_url_ignored")
    assert [line["reason"] for line in said] == (["absent"] if case.discord else [])
    case.act(lambda core: core.abort(0))
    case.healed()
    assert case.handshakes == [[2], [6]]
    assert case.talks[0].host == case.talks[1].host


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("wss://gateway.discord.gg", "security"),
        ("http://resume.gateway.test", "scheme"),
        ("ws://resume.gateway.test@other.test", "port"),
        ("ws://" + "a" * 129, "host"),
        ("ws://" + "a" * 300, "too_long"),
        ("ws://", "host"),
        ("ws://resume.gateway.test:0", "port"),
    ],
)
def test_e14_a_resume_url_that_cannot_be_used(case_of, url, reason):
    case = case_of(ready=False)
    case.core.edit_ready(resume_gateway_url=url)
    case.rig.internet.gateway(RESUME_HOST, RESUME_ADDRESS, sessions_of="gateway.test")
    case.until_ready()
    (said,) = case.lines("gateway.resume_url_ignored")
    assert said["reason"] == reason
    case.act(lambda core: core.abort(0))
    case.healed()
    assert case.handshakes == [[2], [6]]
    assert case.talks[0].host == case.talks[1].host
    assert not case.rig.monitor.dials(RESUME_ADDRESS)


EVIL_ADDRESS = "203.0.113.66"


@pytest.mark.parametrize(
    ("base", "suffix", "host", "taken"),
    [
        ("gateway.test", "", "evil.example", False),
        ("gateway.test", "", "evil.test", False),
        ("gateway.test", "", "notgateway.test", False),
        ("gateway.test", "", "gateway.test.evil.example", False),
        ("gateway.test", "", EVIL_ADDRESS, False),
        ("203.0.113.5", "", EVIL_ADDRESS, False),
        ("gateway.test", "discord.gg", "evil.example", False),
        ("gateway.test", "discord.gg", "us.discord.gg", True),
        ("gateway.chat.test", "", "other.chat.test", True),
        ("gateway.test", "", "A.Gateway.TEST", True),
        ("203.0.113.5", "", "203.0.113.5", True),
    ],
)
def test_e14_the_token_goes_to_no_foreign_host(case_of, profile, base, suffix, host, taken):
    case = case_of(profile, ready=False, config={"host": base, "resume_suffix": suffix})
    internet = case.rig.internet
    internet.dns.add(base, "203.0.113.5")
    internet.gateway(host, EVIL_ADDRESS, 6666, sessions_of="gateway.test")
    internet.gateway("base", "203.0.113.5", 6666, sessions_of="gateway.test")
    case.core.edit_ready(resume_gateway_url=f"ws://{host}:6666/")
    case.until_ready()
    said = [line["reason"] for line in case.lines("gateway.resume_url_ignored")]
    assert said == ([] if taken else ["foreign"])
    case.act(lambda core: core.abort(0))
    case.healed()
    assert case.handshakes == [[2], [6]]
    first, again = case.talks
    assert again.host == (f"{host}:6666" if taken else first.host)
    if not taken:
        assert case.rig.monitor.dials(EVIL_ADDRESS) == []


@pytest.mark.parametrize("pair", [[1, 2], [0, 3], [0], [0, 2, 2], "0", None])
def test_e15_ready_for_another_shard(case_of, profile, pair):
    case = case_of(profile, shards=1, config={"total": 2}, ready=False)
    case.core.edit_ready(shard=pair)
    violated(case)
    assert case.record.stage == "ident"
    case.core.edit_ready()
    case.healed()
    assert case.talks[0].closed == 4000
    assert case.handshakes == [[2], [2]]


def test_e16_ready_while_replaying(case_of, profile):
    case = case_of(profile)
    case.script("resume", "nothing")
    case.act(lambda core: core.abort(0))
    case.until(lambda: case.handshakes == [[2], [6]])
    case.dispatch(9, "READY", {"session_id": "other", "shard": [0, 2]})
    case.until_records(2)
    case.failed("protocol", then="identify", below_ms=2_000)
    case.healed()
    assert case.talks[1].closed == 4000
    assert case.handshakes == [[2], [6], [2]]


def test_e16_a_second_ready(case_of, profile):
    case = case_of(profile)
    case.dispatch(9, "READY", {"session_id": "other", "shard": [0, 2]})
    violated(case)
    case.healed()
    assert case.talks[0].closed == 4000
    assert case.handshakes == [[2], [2]]


def test_e16_resumed_after_identify(case_of, profile):
    case = case_of(profile, shards=1, ready=False)
    case.script("identify", "send_raw", text='{"op":0,"s":1,"t":"RESUMED","d":{}}')
    violated(case)
    assert case.record.stage == "ident"
    case.healed()
    assert case.talks[0].closed == 4000
    assert case.handshakes == [[2], [2]]


def test_e17_a_lower_sequence_when_ready(case_of, profile):
    case = case_of(profile)

    def offend():
        case.dispatch(500)
        case.dispatch(499)

    ends_at_the_third(case, offend)


def test_e18_lower_sequences_while_replaying(case_of, profile):
    case = case_of(profile)
    case.dispatch(150)
    case.script("resume", "nothing")
    case.run(0.1)
    case.act(lambda core: core.abort(0))
    case.until(lambda: case.handshakes == [[2], [6]])
    assert case.talk.body["seq"] == 150
    for sequence, event in ((149, "X"), (151, "X"), (110, "RESUMED")):
        case.dispatch(sequence, event, {})
    case.run(0.1)
    assert (case.row.state, case.row.sequence, case.row.gateway_seq_acked) == (S.READY, 151, 151)
    # RESUMED is exempt: older servers put the sequence of the Resume there.
    assert [line["got"] for line in case.lines("gateway.sequence_lower")] == ["149"]
    assert len(case.records()) == 1


def test_e19_an_equal_sequence_or_a_gap(case_of, profile):
    case = case_of(profile)
    for sequence in (100, 100, 250):
        case.dispatch(sequence)
    case.run(0.1)
    assert (case.row.state, case.row.sequence) == (S.READY, 250)
    case.run(90)
    assert case.handshakes == [[2]]
    assert case.rig.stats.shards[0].last_beat == 250


BAD = {
    "above the cap": (b"\x81\x7f" + (MESSAGE_BYTES_MAX + 1).to_bytes(8, "big"), 1009),
    "not UTF-8": (frame(TEXT, b'{"op":11,"d":"\xff"}'), 1007),
    "UTF-8 cut off": (frame(TEXT, b'{"op":11,"d":"\xc3"}'), 1007),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_e20_a_message_that_a_resume_would_bring_again(case_of, profile, name):
    case = case_of(profile)
    data, close = BAD[name]
    ends_at_the_third(case, lambda: case.talk.peer.raw(data), close)


def test_e20_sizes_up_to_the_cap_are_read(case_of):
    case = case_of(ProfileId.DISCORD)
    case.talk.peer.raw(b"\x81\x7f" + MESSAGE_BYTES_MAX.to_bytes(8, "big") + b'{"op":')
    case.run(1)
    assert case.row.state == S.READY
