"""What a conversation leaves in the outbox, and that a sequence counts when the stream has it."""

import json
import re

import pytest

from firmware.events.acks import outbox_answer
from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.bus import BUS_IN
from firmware.layouts.events import Stuck
from firmware.layouts.gateway import GatewayState
from firmware.layouts.json import T_MAX
from firmware.layouts.node import CORE
from firmware.layouts.outbox import ASSEMBLIES, ENTRIES, OUTBOX, STALL_RETRY_MS
from firmware.layouts.shard import End
from tests.support.gateway_client import GatewayClient, ready_data
from tests.support.lab import Lab
from tests.support.listeners import ROUTINES, Listeners
from tests.support.publisher import REGIONS, furnish, queued
from tests.support.stream import server_frame

LAB = Lab(*ROUTINES, gateway_poll, gateway_tick, outbox_answer, extra=REGIONS)
PUBLICATION = re.compile(rb"HPUB shardfw\.b1\.ev\.\d+\.(\S+) \S+\.d\.(\d+) (\d+) (\d+)\r\n")


class Published(GatewayClient):
    """A shard of a node that publishes, with a listener or without."""

    def __init__(self, *, listener=False):
        self.bench = Listeners(LAB)
        self.bench.with_shards(1)
        super().__init__(LAB, reset=False)
        furnish(LAB)
        if listener:
            self.bench.subscribe(0)
        self.seen = 0

    def poll(self):
        self.bench.call(gateway_poll, shard=self.at)

    @property
    def box(self):
        return LAB.g(OUTBOX)

    def ready(self):
        self.hello()
        self.dispatch("READY", 1, ready_data())
        assert self.gateway.state == GatewayState.READY
        self.published()

    def published(self):
        """Return (name, body) of what was published since the last time."""
        found, text = [], queued(LAB)[self.seen :]
        self.seen += len(text)
        while text:
            head = PUBLICATION.match(text)
            assert head is not None, text
            end = head.end() + int(head[4])
            found.append((head[1].decode(), text[head.end() + int(head[3]) : end]))
            assert text[end : end + 2] == b"\r\n"
            text = text[end + 2 :]
        return found

    def taken(self, number):
        body = b'{"stream":"SHARDFW_EV","seq":9}'
        message = LAB.g(BUS_IN)
        message.inbox, message.body, message.body_len = number, LAB.put(body), len(body)
        self.bench.call(outbox_answer)


def message(event="X", sequence=2, data=None, order="t s op d"):
    values = {"t": event, "s": sequence, "op": 0, "d": {} if data is None else data}
    return json.dumps({key: values[key] for key in order.split()}).encode()


@pytest.fixture
def c():
    return Published()


@pytest.mark.parametrize("listener", [False, True])
@pytest.mark.parametrize("order", ["t s op d", "d t s op"])
def test_dispatch_is_published_as_it_came_at_many_cuts(order, listener):
    c = Published(listener=listener)
    c.ready()
    text = message("MESSAGE_CREATE", 2, {"content": "x" * 300}, order)
    frame = server_frame(1, text)
    for sequence, cut in enumerate((0, 1, 5, 40, len(frame) // 2, len(frame) - 1), 2):
        again = text.replace(b'"s": 2', b'"s": %d' % sequence)
        frame = server_frame(1, again)
        c.raw(frame[:cut])
        c.raw(frame[cut:])
        assert c.published() == [("MESSAGE_CREATE", again)]
        if listener:
            assert [e.payload for e in c.bench.heard()][-1] == again


@pytest.mark.parametrize("cut", [0, 1, 60, 200])
def test_ready_is_published_whole(c, cut):
    c.hello()
    text = message("READY", 1, ready_data())
    frame = server_frame(1, text)
    c.raw(frame[:cut])
    c.raw(frame[cut:])
    assert c.published() == [("READY", text)]
    assert b"Nats-Msg-Id: " + ready_data()["session_id"].encode() + b"-1\r\n" in queued(LAB)
    assert c.gateway.seq_acked == 1


def test_ready_of_a_new_session_is_published_whatever_the_last_one_came_to(c):
    c.hello()
    c.shard.sequence = 41
    c.dispatch("READY", 1, ready_data())
    assert [name for name, _ in c.published()] == ["READY"]


def test_a_part_between_two_sessions_takes_no_buffer(c):
    c.hello()
    c.gateway.state = GatewayState.ANSWER
    c.raw(server_frame(1, message("A", 2, {"content": "x" * 300}))[:200])
    assert [c.box.assemblies[n].owner for n in range(ASSEMBLIES)] == [0] * ASSEMBLIES


def test_a_sequence_may_be_large(c):
    c.ready()
    c.dispatch("A", 2**31 + 5)
    assert [name for name, _ in c.published()] == ["A"]


@pytest.mark.parametrize(("length", "name"), [(T_MAX, "A" * T_MAX), (T_MAX + 1, "UNKNOWN")])
def test_a_name_that_does_not_fit_is_unknown(c, length, name):
    c.ready()
    c.dispatch("A" * length, 2)
    assert [told for told, _ in c.published()] == [name]


def test_sequence_counts_when_the_stream_has_it(c):
    c.ready()
    c.dispatch("A", 2)
    c.dispatch("B", 3)
    assert (c.shard.sequence, c.gateway.seq_acked) == (3, 1)
    c.taken(0)
    c.taken(1)
    assert c.gateway.seq_acked == 2
    c.receive({"op": 1, "d": None})
    assert c.sent()[-1] == {"op": 1, "d": 2}
    c.taken(2)
    assert c.gateway.seq_acked == 3


def test_resumed_is_published_too(c):
    c.resumable(41)
    c.hello()
    c.dispatch("A", 42)
    c.dispatch("RESUMED", 43)
    assert [name for name, _ in c.published()] == ["A", "RESUMED", "SHARDFW_RESUMED"]
    assert (c.shard.sequence, c.gateway.seq_acked) == (43, 41)


@pytest.mark.parametrize("sequence", [41, 42])
@pytest.mark.parametrize("cut", [0, 30])
def test_resumed_without_a_number_of_its_own_is_not_published(c, sequence, cut):
    """Its Nats-Msg-Id would be that of the dispatch, which the stream may not have taken yet."""
    c.resumable(41)
    c.hello()
    c.dispatch("A", 42)
    frame = server_frame(1, message("RESUMED", sequence))
    c.raw(frame[:cut])
    c.raw(frame[cut:])
    assert c.gateway.state == GatewayState.READY
    assert [name for name, _ in c.published()] == ["A", "SHARDFW_RESUMED"]
    assert [c.box.assemblies[n].owner for n in range(ASSEMBLIES)] == [0] * ASSEMBLIES
    c.dispatch("B", 43)
    assert [name for name, _ in c.published()] == ["B"]


def test_only_dispatches_are_published(c):
    c.ready()
    c.receive({"op": 11}, {"op": 1, "d": None}, {"op": 99, "d": {"a": 1}})
    assert c.published() == []
    frame = server_frame(1, json.dumps({"d": {"x": "y" * 300}, "op": 99}).encode())
    c.raw(frame[:200])
    assert c.box.assemblies[0].owner == c.shard.slot + 1
    c.raw(frame[200:])
    assert (c.published(), c.box.assemblies[0].owner) == ([], 0)


def test_what_is_repeated_below_the_sequence_is_not_published(c):
    c.resumable(41)
    c.hello()
    c.dispatch("A", 40)
    c.dispatch("B", 42)
    assert [name for name, _ in c.published()] == ["B"]


def test_half_a_message_leaves_nothing_behind(c):
    c.ready()
    frame = server_frame(1, b'{"t":"A","s":2,"op":0,"d":{"a":1]}}')
    c.raw(frame[:20])
    assert c.box.assemblies[0].owner == c.shard.slot + 1
    c.raw(frame[20:])
    assert c.shard.failure == End.PROTOCOL
    assert c.published() == []


def test_message_that_violates_at_its_end_gives_its_buffer_back(c):
    c.ready()
    frame = server_frame(1, message("READY", 2, ready_data()))
    c.raw(frame[:40])
    assert c.box.assemblies[0].owner == c.shard.slot + 1
    c.raw(frame[40:])
    assert c.shard.failure == End.PROTOCOL
    assert (c.published(), c.box.assemblies[0].owner) == ([], 0)


def test_nothing_is_kept_before_a_session(c):
    frame = server_frame(1, json.dumps({"op": 10, "d": {"heartbeat_interval": 41250}}).encode())
    c.raw(frame[:20])
    assert [c.box.assemblies[n].owner for n in range(ASSEMBLIES)] == [0] * ASSEMBLIES
    c.raw(frame[20:])
    assert c.gateway.state == GatewayState.WAIT_READY


def test_shard_without_room_does_not_read(c):
    c.ready()
    c.box.next = c.box.first + ENTRIES
    c.dispatch("A", 2)
    assert (c.shard.sequence, c.shard.events.stalled_at) == (1, LAB.g(CORE).now)
    assert c.tick() == STALL_RETRY_MS
    # The time of the next walk has come.
    c.box.first, c.box.look_at = c.box.next, 0
    c.poll()
    assert (c.shard.sequence, c.shard.events.stalled_at) == (2, 0)
    assert [name for name, _ in c.published()] == ["A"]


@pytest.mark.parametrize("state", [GatewayState.IDLE, GatewayState.WAIT_HELLO])
def test_shard_that_connects_reads_whether_there_is_room_or_not(c, state):
    """The answer to its upgrade and Hello go nowhere, and no timer of theirs looks for room."""
    c.gateway.state = state
    c.box.next = c.box.first + ENTRIES
    c.hello()
    assert c.gateway.state == GatewayState.WAIT_READY
    assert [payload["op"] for payload in c.sent()] == [2]


def test_shard_that_owes_its_answer_to_hello_reads_without_room(c):
    c.gateway.state = GatewayState.ANSWER
    c.box.next = c.box.first + ENTRIES
    c.receive({"op": 11})
    assert c.shard.events.stalled_at == 0


def test_shard_that_waits_for_its_session_reads_when_there_is_room(c):
    c.hello()
    assert c.gateway.state == GatewayState.WAIT_READY
    c.box.next = c.box.first + ENTRIES
    c.dispatch("READY", 1, ready_data())
    assert (c.gateway.state, c.tick()) == (GatewayState.WAIT_READY, STALL_RETRY_MS)
    # The time of the next walk has come.
    c.box.first, c.box.look_at = c.box.next, 0
    c.poll()
    assert [name for name, _ in c.published()] == ["READY"]


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_first_part_lies_in_the_ring_until_there_is_a_buffer(c, cut):
    c.ready()
    for n in range(ASSEMBLIES):
        row = c.box.assemblies[n]
        row.owner, row.since, row.begun = 7 + n, LAB.g(CORE).now, LAB.g(CORE).now
    text = message("MESSAGE_CREATE", 2, {"content": "x" * 300})
    head = len(server_frame(1, text)) - len(text)
    frame = server_frame(1, text)
    c.raw(frame[: head + cut])
    assert c.shard.events.part_len == cut
    c.raw(frame[head + cut :] + server_frame(1, message("A", 3)))
    assert (c.published(), c.shard.sequence) == ([], 1)
    c.box.assemblies[1].owner = 0
    c.poll()
    assert c.published() == [("MESSAGE_CREATE", text), ("A", message("A", 3))]
    assert (c.shard.events.part_len, c.shard.events.stuck) == (0, Stuck.NO)


def test_stuck_shard_hears_but_publishes_nothing(c):
    c.ready()
    c.shard.events.stuck, c.shard.events.stuck_at = Stuck.DROPPED, LAB.g(CORE).now
    c.dispatch("A", 2)
    assert (c.shard.sequence, c.gateway.seq_acked, c.published()) == (2, 1, [])
    c.shard.events.stuck = Stuck.FAILED
    c.tick()
    assert c.shard.failure == End.SEND_FAILED
