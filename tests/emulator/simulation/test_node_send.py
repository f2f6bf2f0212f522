"""The send path of the whole image, commanded over the wire: pacing, limits, and beats on time."""

from __future__ import annotations

import json

import pytest

from emulator.simulation.node_facts import CONTROL_KEY
from emulator.simulation.packet import ip
from emulator.simulation.rig import OPERATOR_PORT
from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.profile import PROFILES
from firmware.layouts.send import ROOM_WAIT_MS, part_argument
from firmware.layouts.shard import ShardState
from firmware.limits import TX_BYTES
from pxe.gateway import protocol
from tests.support.control import answer, command
from toolchain.cli.send import PART_BYTES

R = ControlResult
DONE = (R.DONE, 0)
SERVICES = {p.name: p for p in (protocol.DISCORD, protocol.FLUXER)}
PRESENCE = b'{"since":null,"activities":[],"status":"online","afk":false}'
BEAT_MS = 10_000


class Sender:
    """A node of one shard on a service, and an operator who sends through it."""

    def __init__(self, rig_of, facts, profile, **options):
        self.profile = profile
        service = SERVICES[profile.id.name.lower()]
        path = f"/?v={profile.version}&encoding=json"
        options = {"heartbeat_interval_ms": BEAT_MS, "profile": service} | options
        config = {"identify_fields": options.pop("identify_fields", b"")}
        self.rig = rig_of(1, facts(shards=1, path=path, **config), **options)
        self.rig.node.shard(0).profile = profile.id
        self.counter = self.boot = self.number = 0
        self.rig.until_ready(10)
        self.rig.status(0)  # from here on the operator knows the node's hardware address

    @property
    def shard(self):
        return self.rig.node.shard(0)

    @property
    def core(self):
        return self.rig.gateway.core

    @property
    def stats(self):
        return self.rig.stats.shards[0]

    def order(self, argument, payload=b""):
        """Give one command; return its answer."""
        self.counter += 1
        datagram = command(
            ControlVerb.SEND, key=CONTROL_KEY, payload=payload, counter=self.counter,
            boot=self.boot, argument=argument, size=72 + max(56, len(payload)),
        )  # fmt: skip
        rig = self.rig
        rig._replies.clear()
        address = ip(rig.node.address())
        rig.operator.send_udp(address, rig.facts.diagnostics_port, OPERATOR_PORT, datagram)
        rig.world.run_until(lambda: bool(rig._replies), within_ns=10**9)
        got = answer(rig._replies[0], CONTROL_KEY)
        if got["result"] == R.BOOT:
            self.boot = got["boot"]
            return self.order(argument, payload)
        return R(got["result"]), got["value"]

    def send(self, op, body=PRESENCE):
        """Send a body in as many parts as it takes; return the last answer."""
        self.number += 1
        got = DONE
        for at in range(0, max(1, len(body)), PART_BYTES):
            argument = part_argument(op, len(body), self.number, at)
            got = self.order(argument, body[at : at + PART_BYTES])
        return got

    def fill_the_minute(self):
        """Send until the pacer refuses; return how often it did not."""
        for count in range(1000):
            result, wait = self.send(3)
            if result == R.SEND_RATE_LIMITED:
                assert 0 < wait <= 61_000
                return count
            assert result == R.DONE
        raise AssertionError("nothing was ever refused")

    def commands(self):
        """Return what the gateway received: time, opcode and body."""
        told = [event for event in self.rig.gateway.events if event.name == "command"]
        return [(event.at_ms, event.fields["op"], json.loads(event.fields["d"])) for event in told]

    def again_ready(self):
        """Run until the shard has lost its connection and has another."""
        rig = self.rig
        rig.gateway.flush()
        rig.world.run_until(lambda: rig.states[0] != ShardState.READY, within_ns=10**10)
        rig.until_ready(60)


@pytest.fixture(params=PROFILES, ids=lambda p: p.id.name.lower())
def profile(request):
    return request.param


@pytest.fixture
def sender(rig_of, facts, profile):
    return Sender(rig_of, facts, profile)


def test_every_opcode_arrives_as_it_was_meant(sender, profile):
    for op in profile.send_ops:
        assert sender.send(op, b'{"guild_id":"7","\xc3\xa9":[1.50,null]}') == DONE
    sender.rig.run(0.5)
    assert [(op, body) for _, op, body in sender.commands()] == [
        (op, {"guild_id": "7", "é": [1.5, None]}) for op in profile.send_ops
    ]
    assert sender.stats.commands == len(profile.send_ops)
    assert sender.rig.all_ready()


def test_a_body_of_several_parts_arrives_whole(sender):
    body = json.dumps({"x": list(range(800))}, separators=(",", ":")).encode()
    assert 2 * PART_BYTES < len(body) < 4083
    body = body[:-2] + b"," + b"1" * (4083 - len(body) - 1) + b"]}"
    assert sender.send(8, body) == DONE
    sender.rig.run(0.5)
    assert [(op, got) for _, op, got in sender.commands()] == [(8, json.loads(body))]


def test_what_the_service_would_punish_does_not_leave(sender, profile):
    others = {2, 5, 15, 31} - set(profile.send_ops)
    assert len(others) == 3
    for op in others:
        assert sender.send(op) == (R.SEND_BAD_OP, 0)
    assert sender.send(3, b'{},"op":2') == (R.SEND_BAD_BODY, 0)
    assert sender.send(3, b'{"x":"' + b"y" * 4090 + b'"}') == (R.SEND_TOO_LARGE, 0)
    sender.rig.run(BEAT_MS / 1000)
    assert sender.commands() == []
    assert sender.rig.all_ready()


def test_a_flood_is_paced_and_the_beats_stay_on_their_schedule(sender, profile):
    """Twice as many tries as pass: the gateway never closes, and no beat is late."""
    rig = sender.rig
    started, beats = rig.world.now_ns, sender.stats.heartbeats
    next_beat = int(sender.shard.gateway.hb_next)
    assert sender.fill_the_minute() == profile.send_limit
    refused = 0
    while rig.world.now_ns - started < 75 * 10**9:
        refused += sender.send(3)[0] == R.SEND_RATE_LIMITED
        rig.run(0.5)
    assert refused > 50
    times = [at for at, _, _ in sender.commands()]
    assert len(times) > profile.send_limit
    for first in times:
        assert sum(first <= at < first + 60_000 for at in times) <= profile.send_limit
    assert sender.stats.closes == {}
    assert rig.all_ready()
    # One beat an interval from the first on: the schedule lies where it would without the flood.
    passed = rig.world.now_ns - started
    assert (int(sender.shard.gateway.hb_next) - next_beat) % (BEAT_MS * 10**6) == 0
    assert sender.stats.heartbeats - beats >= passed // (BEAT_MS * 10**6)
    assert sender.shard.hb_misses == 0


def test_beats_of_every_second_leave_less_to_the_application(rig_of, facts):
    """Sixty beats a minute and 110 sends would be more than Discord takes; the sends give way."""
    sender = Sender(rig_of, facts, PROFILES[0], heartbeat_interval_ms=1_000)
    rig = sender.rig
    assert sender.fill_the_minute() == 58
    for _ in range(260):
        sender.send(3)
        rig.run(0.25)
    assert len(sender.commands()) > 58
    assert sender.stats.heartbeats > 60
    assert sender.stats.closes == {}
    assert rig.all_ready()


def test_a_buffer_that_nobody_empties_refuses_sends_and_takes_the_beat(sender):
    """No acknowledgement arrives: sends end at the room that is kept, and the beat goes in."""
    rig = sender.rig
    rig.segment.set_faults("drop match=tcp to=node")
    body = b'{"x":"' + b"y" * 1000 + b'"}'
    while (got := sender.send(3, body)) == DONE:
        pass
    assert got == (R.SEND_RATE_LIMITED, ROOM_WAIT_MS)
    tcp, gateway = sender.shard.tcp, sender.shard.gateway
    queued = tcp.tx_end - tcp.tx_start
    assert queued > TX_BYTES - 1600
    due, beats = int(gateway.hb_next), int(gateway.beats)
    rig.world.run_until(lambda: int(gateway.beats) > beats, within_ns=BEAT_MS * 10**6)
    # In the very turn in which it was due: the next one is one interval after that.
    assert int(gateway.hb_next) == due + BEAT_MS * 10**6
    assert tcp.tx_end - tcp.tx_start > queued
    assert rig.all_ready()


def test_a_resume_keeps_the_history(sender, profile):
    assert sender.fill_the_minute() == profile.send_limit
    sender.core.kick(0, 4000)
    sender.again_ready()
    assert sender.stats.resumes == 1
    result, wait = sender.send(3)
    assert result == R.SEND_RATE_LIMITED
    sender.rig.run(wait / 1000)
    assert sender.send(3) == DONE


def test_an_identify_clears_the_history(sender, profile):
    assert sender.fill_the_minute() == profile.send_limit
    sender.core.invalidate(0, resumable=False)
    sender.again_ready()
    assert sender.stats.identifies == 2
    assert sender.shard.pacer.total == 0
    assert sender.send(3) == DONE


def test_a_rate_limit_of_the_server_is_obeyed_across_connections(sender):
    sender.core.dispatch(
        0, "RATE_LIMITED", {"opcode": 8, "retry_after": 29.5, "meta": {"guild_id": "7"}}
    )
    sender.rig.gateway.flush()
    sender.rig.run(0.1)
    result, wait = sender.send(8)
    assert result == R.SEND_RATE_LIMITED
    assert 29_000 < wait <= 29_501
    assert sender.send(3) == DONE
    sender.core.kick(0, 4000)
    sender.again_ready()
    result, wait = sender.send(8)
    assert result == R.SEND_RATE_LIMITED
    sender.rig.run((wait - 1) / 1000)
    assert sender.send(8)[0] in (R.SEND_RATE_LIMITED, R.DONE)
    sender.rig.run(0.002)
    assert sender.send(8) == DONE
    lines = [line for line in sender.rig.node.log if line["code"] == "gateway.rate_limited"]
    assert [(line["opcode"], line["retry_ms"]) for line in lines] == [("8", "29501")]


@pytest.mark.parametrize("loss", ["close", "abort", "reconnect"])
def test_a_shard_without_its_connection_takes_nothing(sender, loss):
    core = sender.core
    act = {"close": lambda: core.kick(0, 4000), "abort": lambda: core.abort(0)}
    act.get(loss, lambda: core.reconnect(0))()
    sender.rig.gateway.flush()
    rig = sender.rig
    rig.world.run_until(lambda: rig.states[0] != ShardState.READY, within_ns=10**10)
    rig.segment.set_faults("drop match=tcp")  # no new connection for a while
    for _ in range(5):
        assert sender.send(3) == (R.SEND_NOT_READY, 0)
        rig.run(1)
    rig.segment.set_faults("")
    rig.until_ready(60)
    assert sender.send(3) == DONE
    rig.run(0.5)
    assert sender.stats.commands == 1


def test_a_shard_that_the_node_does_not_hold_is_refused(sender):
    sender.order(part_argument(3, 2, 1, 0), b"{}")
    rig = sender.rig
    sender.counter += 1
    datagram = command(
        ControlVerb.SEND, key=CONTROL_KEY, payload=b"{}", counter=sender.counter,
        boot=sender.boot, argument=part_argument(3, 2, 2, 0), slot=9,
    )  # fmt: skip
    rig._replies.clear()
    rig.operator.send_udp(
        ip(rig.node.address()), rig.facts.diagnostics_port, OPERATOR_PORT, datagram
    )
    rig.run(0.5)
    assert answer(rig._replies[0], CONTROL_KEY)["result"] == R.ARGUMENT
    assert sender.stats.commands == 1


def test_identify_carries_the_configured_presence_and_not_one_that_was_sent(rig_of, facts, profile):
    """A workspace has no room for the application's payloads: NEW_SESSION says when to send again."""
    sender = Sender(rig_of, facts, profile, identify_fields=b',"presence":{"status":"idle"}')
    heard = []
    shared = sender.rig.gateway.shared
    shared.on_message = lambda _peer, data: heard.append(json.loads(data))
    assert sender.send(3, b'{"status":"dnd"}') == DONE
    sender.core.invalidate(0, resumable=False)
    sender.rig.gateway.flush()
    sender.rig.run(10)
    sent = [message["d"] for message in heard if message["op"] in (2, 3)]
    assert sent[0] == {"status": "dnd"}
    assert sent[1]["presence"] == {"status": "idle"}
