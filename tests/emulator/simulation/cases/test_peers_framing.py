"""Faults that other shard holders had with frames, sizes and malformed messages (vectors 50 to 58)."""

from __future__ import annotations

import pytest

from emulator.simulation.peers.websocket import PING, TEXT, frame
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import ShardState
from firmware.limits import MESSAGE_BYTES_MAX

S = ShardState
ACK = b'{"op":11}'
BIG = b'{"op":0,"s":%d,"t":"X","d":{"text":"half a mess'


def test_v50_a_reserved_bit(case_of, profile):
    case = case_of(profile)
    case.talk.peer.raw(bytes.fromhex("c1027b7d"))
    case.until_records(1)
    case.failed("protocol", then="resume", below_ms=1_000)
    case.healed()
    assert case.talks[0].closed == 1002
    assert case.handshakes == [[2], [6]]


def test_v51_fragments_with_a_ping_between(case_of, profile):
    case = case_of(profile)
    text = b'{"op":0,"s":77,"t":"X","d":{"text":"in parts"}}'
    case.talk.peer.fragments(text, [1, 20, 7], between=frame(PING, b"hi"))
    case.run(0.1)
    assert case.talk.peer.pongs == [b"hi"] * 3
    assert (case.row.state, case.row.sequence) == (S.READY, 77)


def test_v51_a_message_between_fragments(case_of, profile):
    case = case_of(profile)
    case.talk.peer.fragments(ACK, [3], between=frame(TEXT, ACK))
    case.until_records(1)
    case.failed("protocol", then="resume", below_ms=1_000)
    case.healed()
    assert case.talks[0].closed == 1002


def test_v52_a_frame_byte_by_byte(case_of, profile):
    case = case_of(profile)
    for byte in frame(TEXT, b'{"op":0,"s":77,"t":"X","d":{"k":[1,2,"\xc3\xa9"]}}'):
        case.talk.peer.raw(bytes([byte]))
        case.run(0.01)
    assert (case.row.state, case.row.sequence) == (S.READY, 77)


def test_v52_the_upgrade_and_hello_in_one_segment(case_of, profile):
    case = case_of(profile, ready=False)
    case.rig.gateway.server.policy.coalesce = True
    case.until_ready()
    assert case.handshakes == [[2]]


def test_v52_hello_and_op_7_in_one_segment(case_of, profile):
    case = case_of(profile)
    case.rig.gateway.server.policy.coalesce = True
    case.script("connect", "send_raw", text='{"op":10,"d":{"heartbeat_interval":41250}}')
    case.script("connect", "reconnect")
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    close = 0 if case.discord else 4000
    case.failed("reconnectRequested", close=close, then="resume", below_ms=2_000)
    case.healed()
    assert case.handshakes[-1] == [6]


@pytest.mark.parametrize("size", [60_000, 300_000, 1_500_000])
def test_v53_a_large_ready(case_of, profile, size):
    case = case_of(profile, ready=False)
    case.core.edit_ready(settings="x" * size)
    case.until_ready()
    assert case.handshakes == [[2]]
    case.act(lambda core: core.abort(0))
    case.healed()
    assert case.handshakes == [[2], [6]]


def test_v53_a_ready_above_the_cap_starts_no_loop(case_of, profile):
    case = case_of(profile, shards=1, ready=False)
    case.script("identify", "nothing", times=9)
    for count in (1, 2, 3):
        case.until(lambda count=count: case.handshakes == [[2]] * count)
        case.talk.peer.raw(b"\x81\x7f" + (MESSAGE_BYTES_MAX + 1).to_bytes(8, "big") + b'{"op":0')
        case.until_records(count)
    case.ended("protocol", "protocol_limit")
    assert case.handshakes == [[2]] * 3


def test_v56_half_a_message_leaks_into_no_other_connection(case_of, profile):
    case = case_of(profile)
    text = BIG % 90
    case.talk.peer.raw(b"\x81\x7e" + (2_000).to_bytes(2, "big") + text)
    case.run(0.1)
    case.talk.peer.abort()
    case.until_records(1)
    case.failed("network", then="resume", below_ms=1_000)
    case.healed()
    assert case.handshakes == [[2], [6]]
    # The half message counts for nothing.
    assert case.talk.body["seq"] < 90
    assert case.view.protocol_failures == 0


REFUSED = {
    "cut off": '{"op":0,"s":',
    "op is text": '{"op":"0","s":9,"t":"X","d":null}',
    "op twice": '{"op":11,"op":1}',
    "200 deep": '{"op":0,"s":9,"t":"X","d":' + "[" * 200 + "]" * 200 + "}",
}
IGNORED = {
    "unknown op": '{"op":99,"d":{"a":1}}',
    "unknown event": '{"op":0,"s":99,"t":"NEVER_HEARD_OF","d":{"a":1}}',
    "a key of d twice": '{"op":0,"s":99,"t":"X","d":{"a":1,"a":2}}',
    "an unknown key": '{"op":11,"more":[1,2]}',
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_v58_a_malformed_message(case_of, profile, name):
    case = case_of(profile)
    case.say(REFUSED[name])
    case.until_records(1)
    case.failed("protocol", then="identify", below_ms=1_000)
    case.healed()
    assert case.talks[0].closed == 4000
    assert case.handshakes == [[2], [2]]


@pytest.mark.parametrize("name", sorted(IGNORED))
def test_v58_an_unknown_message(case_of, name):
    case = case_of(ProfileId.DISCORD)
    case.say(IGNORED[name])
    case.run(60)
    assert case.row.state == S.READY
    assert case.handshakes == [[2]]
