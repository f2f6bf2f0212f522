"""Sessions that a host keeps: a node that stopped and starts again resumes, or says why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.simulation.node_facts import CONTROL_KEY
from emulator.simulation.packet import ip
from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.log_line import Level
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import ANY_SHARD, SessionSnapshot
from firmware.layouts.shard import Hold, Session, ShardState
from firmware.layouts.stop import STOP, StopPhase
from tests.support.control import answer, command
from toolchain.layout.pack import pack, unpack

S, R = ShardState, ControlResult
SHARDS = 3
HTTP = {"discovery": DiscoveryMode.HTTP, "path": "/gateway/bot"}


class Host:
    """Who keeps the sessions: it has the key, and a clock of its own."""

    def __init__(self, rig):
        self.rig, self.counter, self.boot, self.saved = rig, 0, 0, {}

    def _say(self, verb, **fields):
        rig = self.rig
        while True:
            self.counter += 1
            datagram = command(
                verb, key=CONTROL_KEY, counter=self.counter, boot=self.boot, size=1000, **fields
            )
            rig._replies.clear()
            address, port = ip(rig.node.address()), rig.facts.diagnostics_port
            rig.operator.send_udp(address, port, 7701, datagram)
            rig.run(0.002)
            got = answer(rig._replies[-1], CONTROL_KEY)
            if got["result"] != R.BOOT:
                return got
            self.boot = got["boot"]

    def greet(self):
        """Wait until the node has an address, and learn its hardware address and its boot."""
        self.rig.world.run_until(lambda: any(self.rig.node.own_ip()))
        self.rig.status(0)

    def stop(self, *, take=True):
        """Stop the node and take every session; a second later it is off."""
        rig = self.rig
        self._say(ControlVerb.STOP)
        rig.run(0.2)
        for n in range(rig.facts.shards if take else 0):
            got = self._say(ControlVerb.SESSION_TAKE, slot=n)
            assert got["result"] == R.DONE
            if got["payload"]:
                self.saved[n] = (got["payload"], rig.now_s() - got["value"] / 1000)
        stop = rig.node.g(STOP)
        rig.world.run_until(lambda: stop.phase == StopPhase.OFF, within_ns=20 * 10**9)

    def offer(self, shard, *, age_s=None, **changes):
        payload, ended = self.saved[shard]
        if changes:
            payload = pack(SessionSnapshot, unpack(SessionSnapshot, payload) | changes)
        age = round(1000 * (self.rig.now_s() - ended if age_s is None else age_s))
        return self._say(
            ControlVerb.SESSION_OFFER, slot=shard, argument=age % 2**64, payload=payload
        )

    def offer_all(self):
        return [self.offer(n)["value"] for n in sorted(self.saved)]


def restart(rig, host, after_s=0.0):
    rig.power_off()
    if after_s:
        rig.run(after_s)
    rig.power_on()
    host.greet()


def codes(rig, name):
    rig.run(0)
    return [line for line in rig.node.log if line.get("code") == name]


def kept(facts, **more):
    options = {"session_provider": SessionProvider.HOST, "log_level": Level.DEBUG} | more
    return facts(shards=SHARDS, **options)


def started(rig_of, facts, options=None, **more):
    """A node whose shards have been READY for a while, with the first boot's empty store."""
    rig = rig_of(1, kept(facts, **more), **(options or {}))
    host = Host(rig)
    host.greet()
    assert {row.hold for row in rig.invariants.rows} == {Hold.SESSION_LOAD}
    assert host._say(ControlVerb.SESSION_OFFER, slot=ANY_SHARD)["result"] == R.DONE
    rig.until_ready()
    rig.run(5)
    return rig, host


@pytest.mark.parametrize("more", [{}, HTTP], ids=["static", "discovery"])
def test_a_node_that_stopped_resumes_every_session_in_the_exact_order(rig_of, facts, load, more):
    rig, host = started(rig_of, facts, **more)
    rig.load(load(rate=100))
    rig.run(3)
    host.stop()
    rig.load(None)
    assert sorted(host.saved) == list(range(SHARDS))
    assert len(codes(rig, "lifecycle.sessionSaved")) == SHARDS
    assert [dict(shard.closes) for shard in rig.stats.shards] == [{"4000": 1}] * SHARDS
    identified = [shard.identifies for shard in rig.stats.shards]
    for shard in range(SHARDS):
        for n in range(3):
            rig.gateway.core.dispatch(shard, "MESSAGE_CREATE", {"content": f"while off {n}"})
    rig.gateway.flush()
    restart(rig, host, after_s=8)
    assert host.offer_all() == [0] * SHARDS
    restored = codes(rig, "lifecycle.sessionRestored")
    assert [int(line["ageMs"]) // 1000 for line in restored] == [9] * SHARDS
    rig.until_ready()
    assert [shard.identifies for shard in rig.stats.shards] == identified
    assert [shard.resumes for shard in rig.stats.shards] == [1] * SHARDS
    assert [line["mode"] for line in codes(rig, "lifecycle.ready")] == ["resume"] * SHARDS
    assert [line["gap"] for line in codes(rig, "lifecycle.ready")] == ["replayed"] * SHARDS
    rig.run(1)
    for row, shard in zip(rig.invariants.rows, rig.stats.shards, strict=True):
        assert (row.identifies, row.resumes, row.sequence) == (0, 1, shard.sequence)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"magic": 7}, "malformed"),
        ({"age_s": 60}, "too_old"),
        ({"age_s": -5.001}, "saved_in_the_future"),
        ({"endpoint": bytes(16)}, "another_endpoint"),
        ({"shard_total": 9}, "another_plan"),
        ({"bot": bytes(16)}, "another_bot"),
        ({"plan_generation": 2}, "another_generation"),
    ],
)
def test_each_problem_is_named_and_its_shard_identifies(rig_of, facts, changes, problem):
    rig, host = started(rig_of, facts)
    host.stop()
    restart(rig, host)
    assert host.offer(1, **changes)["value"] != 0
    assert [host.offer(n)["value"] for n in (0, 2)] == [0, 0]
    (line,) = codes(rig, "lifecycle.sessionSnapshotIgnored")
    assert line["problem"] == problem
    rig.until_ready()
    assert [row.identifies for row in rig.invariants.rows] == [0, 1, 0]
    assert [row.resumes for row in rig.invariants.rows] == [1, 0, 1]


@pytest.mark.parametrize("more", [{}, HTTP], ids=["static", "discovery"])
def test_an_offered_session_with_a_foreign_resume_host_is_resumed_at_the_base(rig_of, facts, more):
    """Whoever writes into the store learns no token: the host is judged as READY's is (I7)."""
    rig, host = started(rig_of, facts, **more)
    host.stop()
    rig.internet.gateway("evil.example", "203.0.113.66", 6666, sessions_of="gateway.test")
    restart(rig, host)
    session = bytearray(unpack(SessionSnapshot, host.saved[0][0])["session"])
    fields: dict[str, int | bytes] = {
        "resume_host_len": 12,
        "resume_port": 6666,
        "resume_host": b"evil.example",
    }
    for name, value in fields.items():
        field = getattr(Session, name)
        raw = value if isinstance(value, bytes) else value.to_bytes(field.size, "little")
        session[field.offset : field.offset + len(raw)] = raw
    assert host.offer(0, session=bytes(session))["value"] == 0
    assert [host.offer(n)["value"] for n in (1, 2)] == [0, 0]
    rig.until_ready()
    (line,) = codes(rig, "gateway.resume_url_ignored")
    assert (line["reason"], line["shard"]) == ("foreign", "0")
    assert [(row.identifies, row.resumes) for row in rig.invariants.rows] == [(0, 1)] * SHARDS
    assert rig.monitor.dials("203.0.113.66", 6666) == []


def test_a_discovered_gateway_that_is_another_gets_no_old_session(rig_of, facts):
    """The endpoint is not known yet when the offer comes; the token goes nowhere before it is."""
    rig, host = started(rig_of, facts, **HTTP)
    host.stop()
    restart(rig, host)
    assert host.offer(0, endpoint=b"x" * 16)["value"] == 0
    assert [host.offer(n)["value"] for n in (1, 2)] == [0, 0]
    rig.until_ready()
    (line,) = codes(rig, "lifecycle.sessionSnapshotIgnored")
    assert line["problem"] == "another_endpoint"
    assert [row.identifies for row in rig.invariants.rows] == [1, 0, 0]
    assert [row.attempts for row in rig.invariants.rows] == [2, 1, 1]


def test_an_offer_that_never_comes_costs_five_seconds(rig_of, facts):
    rig = rig_of(1, kept(facts))
    host = Host(rig)
    host.greet()
    began = rig.now_s()
    rig.run(4.8)
    assert {(row.state, row.hold) for row in rig.invariants.rows} == {
        (S.ASSIGNED, Hold.SESSION_LOAD)
    }
    assert rig.monitor.dials("203.0.113.5", 80) == []
    rig.until_ready()
    assert rig.now_s() - began < 5.5
    assert len(codes(rig, "lifecycle.sessionLoadFailed")) == SHARDS
    assert host._say(ControlVerb.SESSION_OFFER, slot=0)["result"] == R.SESSION_UNWANTED


def test_a_stop_that_nobody_collects_from_says_so_and_ends(rig_of, facts):
    rig, host = started(rig_of, facts)
    began = rig.now_s()
    host.stop(take=False)
    assert 5 < rig.now_s() - began < 8
    assert len(codes(rig, "lifecycle.sessionSaveFailed")) == SHARDS
    assert codes(rig, "lifecycle.sessionSaved") == []


def test_a_live_session_is_not_handed_over(rig_of, facts):
    rig, host = started(rig_of, facts)
    assert host._say(ControlVerb.SESSION_TAKE, slot=0)["result"] == R.SESSION_LIVE
    peer = rig.gateway.peer_of(0)
    peer.policy = replace(peer.policy, answers_close=False)
    host._say(ControlVerb.STOP)
    rig.run(0.5)
    assert host._say(ControlVerb.SESSION_TAKE, slot=0)["result"] == R.SESSION_LIVE
    assert host._say(ControlVerb.SESSION_TAKE, slot=1)["payload"]
    rig.run(5)
    assert host._say(ControlVerb.SESSION_TAKE, slot=0)["payload"]


def test_a_shard_that_failed_for_good_saves_nothing(rig_of, facts):
    rig, host = started(rig_of, facts)
    rig.gateway.core.kick(1, 4004)
    rig.gateway.flush()
    rig.run(1)
    assert rig.states[1] == S.FATAL
    host.stop()
    assert sorted(host.saved) == [0, 2]


def test_a_restored_session_that_the_service_forgot_ends_in_a_new_one(rig_of, facts):
    rig, host = started(rig_of, facts, {"session_ttl_ms": 10_000})
    host.stop()
    restart(rig, host, after_s=12)
    assert host.offer_all() == [0] * SHARDS
    rig.until_ready(120)
    assert [row.identifies for row in rig.invariants.rows] == [1] * SHARDS
    assert {line["gap"] for line in codes(rig, "lifecycle.ready")} == {"possible"}
