"""Raw dispatches on the whole image: the gateway's order, notices in their place, and what a burst costs."""

from __future__ import annotations

import json
import struct

import pytest

from emulator.simulation.listener import Listener
from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.events import EVENTS, Notice
from tests.emulator.simulation.test_node_control import nonce_of, order, ready_rig
from tests.emulator.simulation.test_node_stop import Operator
from toolchain.cli.event_stream import Dispatch, EventStream, NoticeEvent


class Published:
    """What the gateway published, by shard, in order."""

    def __init__(self, rig):
        self.of: dict[int, list[tuple[str, int, object]]] = {}
        roster = rig.gateway.core.roster
        publish = roster.publish

        def note(session, event, body):
            sequence = publish(session, event, body)
            known = None if event == "READY" else json.loads(body)
            self.of.setdefault(session.shard, []).append((event, sequence, known))
            return sequence

        roster.publish = note


def hear(listener, stream=None):
    """Return the events of a listener so far, by shard, and the stream that counted losses."""
    stream = stream or EventStream()
    by_shard: dict[int, list[Dispatch | NoticeEvent]] = {}
    for datagram in listener.datagrams:
        for event in stream.feed(datagram):
            by_shard.setdefault(event.shard, []).append(event)
    listener.datagrams.clear()
    stream.close()
    return by_shard, stream


def dispatches(events):
    return [(e.type, e.sequence, e.report()["d"]) for e in events if isinstance(e, Dispatch)]


def notices(events):
    return [(e.notice, e.values) for e in events if isinstance(e, NoticeEvent)]


@pytest.fixture
def rig(rig_of, facts):
    return rig_of(3, facts(shards=4))


def test_a_listener_gets_exactly_what_the_gateway_sent_in_its_order(rig, load):
    published, listener = Published(rig), Listener(rig)
    rig.run(0.001)
    listener.sit()
    rig.until_ready(20)
    rig.load(load(rate=30))
    rig.run(20)
    for shard in (0, 2):
        rig.gateway.core.abort(shard)
    rig.gateway.flush()
    rig.run(20)
    rig.load(None)
    rig.run(5)
    heard, stream = hear(listener)
    assert (stream.lost, stream.restarts, stream.strange) == (0, 0, 0)
    for shard in range(4):
        got = [e for e in dispatches(heard[shard]) if e[0] != "RESUMED"]
        assert got == published.of[shard]
        assert len(got) > 200
    assert notices(heard[0])[0][0] == Notice.RESUMED
    assert notices(heard[0])[1:] == [(Notice.GAP, (0, 0))]
    assert notices(heard[1]) == []


def test_the_same_over_a_lossy_wire_loses_datagrams_that_are_missed(rig, load):
    published, listener = Published(rig), Listener(rig)
    rig.run(0.001)
    listener.sit()
    rig.until_ready(20)
    rig.segment.set_faults("drop p=0.03")
    rig.load(load(rate=100))
    rig.run(15)
    rig.load(None)
    rig.segment.set_faults("")
    rig.run(15)
    heard, stream = hear(listener)
    assert listener.place.lost == 0
    assert stream.lost > 0
    for shard in range(4):
        got, sent = dispatches(heard[shard]), iter(published.of[shard])
        assert all(any(event == other for other in sent) for event in got)


def test_notices_of_a_lost_session_stand_between_its_dispatches(rig):
    published, listener = Published(rig), Listener(rig)
    rig.until_ready(20)
    rig.run(1)
    listener.sit()
    last = [published.of[n][-1][1] for n in range(4)]
    rig.gateway.core.dispatch(1, "TYPING_START", {"a": 1})
    rig.gateway.core.invalidate(1, resumable=False)
    rig.gateway.flush()
    rig.run(20)
    assert rig.all_ready()
    rig.gateway.core.dispatch(1, "TYPING_START", {"a": 2})
    rig.gateway.flush()
    rig.run(1)
    heard, stream = hear(listener)
    said = [e.notice if isinstance(e, NoticeEvent) else e.type for e in heard[1]]
    created = ["GUILD_CREATE"] * said.count("GUILD_CREATE")
    assert said == [
        "TYPING_START", Notice.NEW_SESSION, Notice.GAP,
        "READY", Notice.NEW_SESSION, Notice.GAP, *created, "TYPING_START",
    ]  # fmt: skip
    gap = (Notice.GAP, (last[1] + 2, None))
    assert notices(heard[1])[1::2] == [gap, gap]
    assert stream.lost == 0
    assert set(heard) == {1}


def test_no_datagram_holds_the_token_or_a_session_id(rig, load):
    listener = Listener(rig)
    rig.run(0.001)
    listener.sit()
    rig.until_ready(20)
    rig.load(load(rate=100))
    rig.run(3)
    rig.gateway.core.restart(keep_sessions=False)
    rig.gateway.flush()
    rig.run(30)
    sessions = [s.id for n in range(4) for s in rig.gateway.core.roster.of_shard(n)]
    everything = b"".join(listener.datagrams)
    assert len(everything) > 100_000
    assert sessions
    for secret in (*sessions, rig.facts.token):
        assert secret.encode() not in everything


def test_half_a_message_of_a_lost_connection_is_aborted(rig):
    listener = Listener(rig)
    rig.until_ready(20)
    rig.run(1)
    listener.sit()
    peer = rig.gateway.peer_of(2)
    text = b'{"t":"MESSAGE_CREATE","s":9,"op":0,"d":{"content":"' + b"x" * 3000
    peer.raw(b"\x81\x7e" + (5000).to_bytes(2, "big") + text)
    rig.run(1)
    assert len(listener.datagrams) > 1
    peer.abort()
    rig.run(20)
    heard, stream = hear(listener)
    assert (stream.aborted, stream.lost) == (1, 0)
    assert "MESSAGE_CREATE" not in [e[0] for e in dispatches(heard[2])]


def test_a_clean_stop_aborts_half_a_message(rig):
    listener = Listener(rig)
    rig.until_ready(20)
    listener.sit()
    peer = rig.gateway.peer_of(2)
    text = b'{"t":"MESSAGE_CREATE","s":9,"op":0,"d":{"content":"' + b"x" * 3000
    peer.raw(b"\x81\x7e" + (5000).to_bytes(2, "big") + text)
    rig.run(1)
    Operator(rig).stop()
    rig.run(10)
    heard, stream = hear(listener)
    assert (heard, stream.aborted, stream.lost) == ({}, 1, 0)


def test_a_burst_loses_events_with_a_count_and_never_a_heartbeat(rig_of, facts):
    rig = rig_of(3, facts(shards=4), heartbeat_interval_ms=2000)
    listeners = [Listener(rig, n) for n in range(4)]
    rig.until_ready(20)
    for listener in listeners:
        listener.sit()
    for _ in range(20):
        for shard in range(4):
            rig.gateway.core.dispatch(shard, "GUILD_CREATE", {"x": "y" * 20_000})
        rig.gateway.flush()
        rig.run(1)
    rig.run(5)
    # What is missing at the very end shows only when something comes after it.
    rig.gateway.core.dispatch(0, "TYPING_START", {})
    rig.gateway.flush()
    rig.run(1)
    lost = [listener.place.lost for listener in listeners]
    assert min(lost) > 0
    for listener, missing in zip(listeners, lost, strict=True):
        heard, stream = hear(listener)
        assert stream.lost == missing
        assert sum(map(len, heard.values())) + missing == listener.place.number
    stats = rig.stats.shards[:4]
    assert all(s.heartbeats == s.acks >= 10 for s in stats)
    assert [row.hb_misses for row in rig.invariants.rows] == [0] * 4
    assert all(s.last_beat == s.sequence for s in stats)


def test_a_listener_that_stopped_renewing_costs_nothing_any_more(rig):
    listener = Listener(rig)
    rig.until_ready(20)
    listener.sit(lease_s=2)
    rig.run(3)
    rig.gateway.core.dispatch(0, "TYPING_START", {})
    rig.gateway.flush()
    rig.run(1)
    assert listener.datagrams == []
    assert rig.node.g(EVENTS).listeners == 0
    assert [line["code"] for line in rig.node.log].count("events.ended") == 1


def test_an_expired_lease_of_the_node_silences_events_too(rig_of, facts):
    rig = rig_of(1, facts(shards=2, lease_ms=20_000))
    listener = Listener(rig)
    rig.until_ready(10)
    listener.sit()
    peer = rig.gateway.peer_of(1)
    peer.raw(b"\x81\x7e" + (5000).to_bytes(2, "big") + b'{"t":"X","s":9,"op":0,"d":"' + b"x" * 99)
    rig.run(20 - rig.now_s() - 0.001)
    listener.datagrams.clear()
    rig.run(30)
    assert listener.datagrams == []


def test_a_command_over_the_wire_makes_a_listener_and_another_ends_it(rig_of, facts):
    rig = ready_rig(rig_of, facts)
    boot = nonce_of(rig)
    wanted = struct.pack("<II", 1, 1)
    got = order(rig, ControlVerb.SUBSCRIBE, counter=10, boot=boot, argument=30_000, payload=wanted)
    assert got["result"] == ControlResult.DONE
    rig._replies.clear()
    for shard in range(3):
        rig.gateway.core.dispatch(shard, "TYPING_START", {"shard": shard})
    rig.gateway.flush()
    rig.run(1)
    stream = EventStream()
    heard = [event for datagram in rig._replies for event in stream.feed(datagram)]
    assert [(e.shard, e.report()["d"]) for e in heard] == [(1, {"shard": 1})]
    order(rig, ControlVerb.UNSUBSCRIBE, counter=11, boot=boot)
    assert rig.node.g(EVENTS).listeners == 0
    codes = [line["code"] for line in rig.node.log]
    assert (codes.count("events.subscribed"), codes.count("events.ended")) == (1, 1)
