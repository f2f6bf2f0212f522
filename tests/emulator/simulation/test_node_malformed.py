"""Malformed input of every layer against the whole image: at most the shard aimed at suffers."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.simulation.corpus import MALFORMED, Flow, mutate
from emulator.simulation.listener import Listener
from emulator.simulation.node_facts import TOKEN
from emulator.simulation.peers.websocket import BINARY, CLOSE, CONTINUATION, PING, TEXT, frame
from firmware.layouts.log_line import Level
from firmware.layouts.policy import OnMalformed
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, ShardState
from tests.emulator.simulation.test_node_events import hear

S = ShardState
TARGET = 1


def flow_of(rig, shard):
    return Flow.of(rig.gateway.peer_of(shard).tcp, rig.facts.mac, rig.internet.router.mac)


def others_untouched(rig):
    rows = [row for row in rig.invariants.rows if row.slot != TARGET]
    return all(row.state == S.READY and row.reconnects == 0 for row in rows)


def test_the_whole_corpus_costs_at_most_the_shard_aimed_at(rig_of, fixed):
    rig = rig_of(1, fixed(shards=4), hub=True)
    rig.until_ready(10)
    for name, make in MALFORMED.items():
        try:
            flow = flow_of(rig, TARGET)
        except LookupError:
            rig.until_ready(20)
            flow = flow_of(rig, TARGET)
        rig.internet.router.port.inject(make(flow))
        rig.run(0.3)
        assert others_untouched(rig), name
    rig.until_ready(20)
    rig.run(90)
    assert rig.all_ready()
    assert others_untouched(rig)


def test_mutated_frames_of_a_live_flow_do_no_harm_to_others(rig_of, fixed):
    rig = rig_of(1, fixed(shards=4), hub=True)
    rig.until_ready(10)
    rng = random.Random(1)
    for _ in range(1500):
        if rig.states[TARGET] != S.READY:
            rig.until_ready(60)
        flow = flow_of(rig, TARGET)
        text = frame(TEXT, json.dumps({"op": 11, "d": None}).encode())
        base = rng.choice((flow.tcp(0x18, text), flow.tcp(), flow.arp(), flow.udp(68, text, 67)))
        rig.internet.router.port.inject(mutate(base, rng))
        rig.run(0.01)
        assert others_untouched(rig)
    rig.until_ready(60)
    assert others_untouched(rig)


BAD_STREAMS = {
    "reserved bits": frame(TEXT, b"{}", rsv=1),
    "reserved opcode": frame(3, b""),
    "masked": frame(TEXT, b"{}", mask=b"abcd"),
    "fragmented control": frame(PING, b"", fin=False),
    "long control": frame(PING, bytes(126)),
    "continuation of nothing": frame(CONTINUATION, b"{}"),
    "message in a message": frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"),
    "long form of a short length": frame(TEXT, b"{}", length_bytes=8),
    "length of 2**63": b"\x81\x7f" + b"\xff" * 8,
    "binary": frame(BINARY, b"{}"),
    "not UTF-8": frame(TEXT, b'{"op":11,"d":"\xff"}'),
    "close of one byte": frame(CLOSE, b"\x03"),
    "close 1006": frame(CLOSE, (1006).to_bytes(2, "big")),
    "close reason not UTF-8": frame(CLOSE, b"\x03\xe8\xff"),
    "no JSON": frame(TEXT, b"hello"),
    "empty message": frame(TEXT, b""),
    "array": frame(TEXT, b"[]"),
    "no op": frame(TEXT, b'{"d":null}'),
    "op is text": frame(TEXT, b'{"op":"0"}'),
    "op too large": frame(TEXT, b'{"op":99999999999999999999}'),
    "sequence too large": frame(TEXT, b'{"op":0,"s":4294967296,"t":"X","d":null}'),
    "cut off": frame(TEXT, b'{"op":0,"s":5,"t":"X","d":{'),
    "too deep": frame(TEXT, b'{"op":0,"s":5,"t":"X","d":' + b"[" * 200 + b"]" * 200 + b"}"),
    "bad string": frame(TEXT, b'{"op":0,"s":5,"t":"X","d":"\x01"}'),
    "hello without interval": frame(TEXT, b'{"op":10,"d":{}}'),
    "after the end": frame(TEXT, b'{"op":11} x'),
    "zero byte after the end": frame(TEXT, b'{"op":11}\0'),
    "byte order mark": frame(TEXT, b'\xef\xbb\xbf{"op":11}'),
    "spaces before the start": frame(TEXT, b" " * 100_000 + b'{"op":11}'),
    "another hello": frame(TEXT, b'{"op":10,"d":{"heartbeat_interval":41250}}'),
    "hello of zero": frame(TEXT, b'{"op":10,"d":{"heartbeat_interval":0}}'),
    "ready again": frame(TEXT, b'{"op":0,"s":9,"t":"READY","d":{"session_id":"other"}}'),
    "resumed unasked": frame(TEXT, b'{"op":0,"s":9,"t":"RESUMED","d":null}'),
    "sequence backwards": frame(TEXT, b'{"op":0,"s":1,"t":"X","d":null}'),
    "dispatch without sequence": frame(TEXT, b'{"op":0,"s":null,"t":"X","d":null}'),
    "opcode minus zero": frame(TEXT, b'{"op":-0}'),
    "3,000 requests to beat": frame(TEXT, b'{"op":1,"d":null}') * 3000,
    "3,000 pings": frame(PING, bytes(125)) * 3000,
    "5,000 empty fragments": frame(TEXT, b'{"op":11', fin=False)
    + frame(CONTINUATION, b"", fin=False) * 5000
    + frame(CONTINUATION, b"}"),
    "close, then more": frame(CLOSE, b"\x03\xe8") + frame(TEXT, b'{"op":7}'),
}


UNREADABLE = {
    "null": b'{"op":0,"s":%d,"t":"RATE_LIMITED","d":null}',
    "no body": b'{"op":0,"s":%d,"t":"RATE_LIMITED"}',
    "an array": b'{"op":0,"s":%d,"t":"RATE_LIMITED","d":[]}',
    "body first": b'{"d":7,"op":0,"s":%d,"t":"RATE_LIMITED"}',
    "a limit without numbers": b'{"op":0,"s":%d,"t":"RATE_LIMITED","d":{"opcode":8}}',
}
UNREAD = {
    "null": b'{"op":0,"s":%d,"t":"GUILD_CREATE","d":null}',
    "no body": b'{"op":0,"s":%d,"t":"X"}',
    "an array": b'{"op":0,"s":%d,"t":"PRESENCES_REPLACE","d":[]}',
    "an array of objects": b'{"op":0,"s":%d,"t":"SESSIONS_REPLACE","d":[{"status":"online"}]}',
    "body first": b'{"d":7,"op":0,"s":%d,"t":"X"}',
}


PATHS = {ProfileId.DISCORD: "/?v=10&encoding=json", ProfileId.FLUXER: "/?v=1&encoding=json"}


@pytest.mark.parametrize("name", sorted(UNREAD))
@pytest.mark.parametrize("policy", list(OnMalformed))
@pytest.mark.parametrize("profile", list(ProfileId))
def test_what_only_the_application_reads_is_handed_on(rig_of, fixed, name, policy, profile):
    options = {"profile": profile, "path": PATHS[profile], "on_malformed": policy}
    rig = rig_of(1, fixed(shards=2, **options))
    rig.until_ready(10)
    listener = Listener(rig)
    listener.sit()
    shard = rig.node.shard(TARGET)
    text = UNREAD[name] % (shard.sequence + 1)
    before = shard.sequence
    rig.gateway.peer_of(TARGET).raw(frame(TEXT, text))
    rig.run(1)
    assert rig.all_ready()
    assert (shard.malformed, shard.sequence) == (0, before + 1)
    heard, _stream = hear(listener)
    assert [event.payload for event in heard[TARGET]] == [text]
    assert others_untouched(rig)


@pytest.mark.parametrize("name", sorted(UNREADABLE))
@pytest.mark.parametrize("profile", list(ProfileId))
def test_a_dispatch_that_cannot_be_read_is_skipped(rig_of, fixed, name, profile):
    rig = rig_of(1, fixed(shards=2, profile=profile, path=PATHS[profile]))
    rig.until_ready(10)
    shard = rig.node.shard(TARGET)
    text = UNREADABLE[name] % (shard.sequence + 1)
    before = shard.sequence
    rig.gateway.peer_of(TARGET).raw(frame(TEXT, text))
    rig.run(1)
    assert rig.all_ready()
    assert (shard.malformed, shard.sequence) == (1, before + 1)
    (line,) = (row for row in rig.node.log if row["code"] == "gateway.dispatchRejected")
    assert (line["shard"], line["policy"], line["rejected"]) == ("1", "skip", "1")
    assert others_untouched(rig)


@pytest.mark.parametrize("profile", list(ProfileId))
def test_a_dispatch_that_cannot_be_read_ends_the_shard_when_so_configured(rig_of, fixed, profile):
    options = {"profile": profile, "path": PATHS[profile], "on_malformed": OnMalformed.TERMINATE}
    rig = rig_of(1, fixed(shards=2, **options))
    rig.until_ready(10)
    shard = rig.node.shard(TARGET)
    before = shard.sequence
    rig.gateway.peer_of(TARGET).raw(frame(TEXT, UNREADABLE["null"] % (before + 1)))
    rig.run(120)
    assert rig.states[TARGET] == S.FATAL
    assert (shard.evidence.end, shard.evidence.sequence) == (End.PROTOCOL, before)
    assert shard.session.valid == 1
    codes = [row["code"] for row in rig.node.log if row.get("shard") == "1"]
    at = codes.index("gateway.dispatchRejected")
    assert "lifecycle.connectionEnded" in codes[at:]
    assert "lifecycle.sessionReset" not in codes
    assert others_untouched(rig)


SECRETS = [TOKEN, "only-in-a-body", "only-in-a-name"]


@pytest.mark.parametrize("seed", range(4))
def test_no_line_holds_a_token_a_session_or_a_payload(rig_of, facts, seed):
    rng = random.Random(seed)
    profile = rng.choice(list(ProfileId))
    options = {"profile": profile, "path": PATHS[profile], "log_level": Level.TRACE}
    rig = rig_of(seed, facts(shards=3, **options))
    sessions = set()
    for _ in range(25):
        rig.until_ready(120)
        slot = rng.randrange(3)
        shard = rig.node.shard(slot)
        kept = shard.session
        sessions.add(bytes(kept.session_id[: kept.session_id_len]).decode())
        sessions.add(bytes(kept.resume_host[: kept.resume_host_len]).decode())
        bodies: list[object] = [{"content": "only-in-a-body"}, None, "only-in-a-body", []]
        body = rng.choice(bodies)
        name = rng.choice(["MESSAGE_CREATE", "only-in-a-name\ncode=x", "RATE_LIMITED", "X" * 70])
        op = rng.choice([0, 0, 0, 1, 7, 9, 12])
        message = {"op": op, "s": shard.sequence + 1, "t": name, "d": body}
        peer = rig.gateway.peer_of(slot)
        peer.raw(frame(TEXT, json.dumps(message).encode()))
        rig.run(rng.choice([0.1, 1, 30]))
    rig.until_ready(120)
    last = b'{"op":0,"s":%d,"t":"MESSAGE_CREATE","d":{"content":"only-in-a-body"}}'
    rig.gateway.peer_of(0).raw(frame(TEXT, last % (rig.node.shard(0).sequence + 1)))
    rig.gateway.peer_of(0).raw(frame(TEXT, b'{"op":"only-in-a-body"}'))
    rig.run(5)
    said = "\n".join(rig.node.serial.lines)
    written = {row["code"] for row in rig.node.log}
    assert {"gateway.receive", "gateway.send", "gateway.dispatch"} <= written
    assert len(sessions - {""}) > 3
    for secret in (*SECRETS, *(sessions - {""})):
        assert secret not in said
    assert "MESSAGE_CREATE" in said


REFUSED_FOR_GOOD = {"binary"}
"""Nothing asked for compression: a server that compresses will do so again."""


@pytest.mark.parametrize("name", sorted(BAD_STREAMS))
def test_a_bad_stream_costs_its_own_shard_at_most(rig_of, fixed, name):
    rig = rig_of(1, fixed(shards=3))
    rig.until_ready(10)
    rig.gateway.peer_of(TARGET).raw(BAD_STREAMS[name])
    rig.run(1)
    assert others_untouched(rig)
    if name in REFUSED_FOR_GOOD:
        rig.run(30)
        assert rig.states[TARGET] == S.FATAL
    else:
        rig.until_ready(30)
    assert others_untouched(rig)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.binary(min_size=1, max_size=300), st.booleans())
def test_any_bytes_in_a_stream_cost_its_own_shard_at_most(rig_of, fixed, data, framed):
    rig = rig_of(1, fixed(shards=2))
    rig.until_ready(10)
    rig.gateway.peer_of(TARGET).raw(frame(TEXT, data) if framed else data)
    rig.run(1)
    assert others_untouched(rig)
    rig.run(45)
    assert others_untouched(rig)


BAD_UPGRADES = {
    "not HTTP": lambda _u: b"220 mail.example ESMTP\r\n\r\n",
    "false accept": lambda u: u.response(accept="AAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    "extension": lambda u: u.response("Sec-WebSocket-Extensions: permessage-deflate"),
    "subprotocol": lambda u: u.response("Sec-WebSocket-Protocol: chat"),
    "endless": lambda _u: b"HTTP/1.1 101 X\r\n" + b"A: b\r\n" * 3000,
    "no colon": lambda u: u.response("nonsense"),
    "redirect": lambda _u: b"HTTP/1.1 301 Moved\r\nLocation: http://x/\r\n\r\n",
}


@pytest.mark.parametrize("name", sorted(BAD_UPGRADES))
def test_a_bad_upgrade_response_costs_the_attempt(rig_of, fixed, name):
    rig = rig_of(1, fixed(shards=2))
    policy = rig.gateway.server.policy
    policy.response = BAD_UPGRADES[name]
    rig.run(2)
    assert rig.states == [S.BACKOFF, S.BACKOFF]
    policy.response = None
    rig.until_ready(20)


def test_a_ready_that_comes_with_hello_holds_no_permit(rig_of, facts):
    rig = rig_of(1, facts(shards=2, max_concurrency=1))
    liars: list[object] = []
    core = rig.gateway.shared
    honest = core.open
    user = {"v": 10, "user": {"id": "1"}, "guilds": [], "session_id": "early", "shard": [0, 2]}

    def lie_once(peer):
        if liars:
            honest(peer)
            return
        liars.append(peer)
        with peer.tcp.corked():
            peer.send(json.dumps({"op": 10, "d": {"heartbeat_interval": 41_250}}))
            peer.send(json.dumps({"op": 0, "s": 1, "t": "READY", "d": user}))

    core.open = lie_once
    rig.run(20)
    # Its Identify was sent and is counted; the other shard of its key gets its turn.
    assert rig.all_ready()
    assert [row.identifies for row in rig.invariants.rows] == [1, 1]
