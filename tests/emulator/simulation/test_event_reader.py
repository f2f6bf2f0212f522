"""The reader of a fleet's events: what it drops, and what it finds missing or doubled."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from emulator.simulation.event_reader import EventReader
from emulator.simulation.invariants import InvariantError
from emulator.simulation.nats.stream import Proposal, Stream, StreamConfig


class Desk:
    """A gateway that says what a test wants, a stream that a test fills, and the reader."""

    def __init__(self) -> None:
        self.core = SimpleNamespace(on_send=None, on_message=None)
        self.stream = Stream(StreamConfig("SHARDFW_EV", ("shardfw.*.ev.>",)))
        self.reader = EventReader(self.core, self.stream)  # type: ignore[arg-type]
        self.peer = object()

    def ready(self, session: str) -> None:
        self.say("READY", 1, session_id=session)

    def say(self, name: str, sequence: int, **data: object) -> None:
        message = {"op": 0, "t": name, "s": sequence, "d": data}
        self.core.on_send(self.peer, json.dumps(message))

    def publish(self, session: str, sequence: int, fence: int = 1, name: str = "X") -> None:
        lines = f"Nats-Msg-Id: {session}-{sequence}\r\nShardfw: g={fence} n=a t=1 s={sequence}"
        header = f"NATS/1.0\r\n{lines}\r\n\r\n".encode()
        self.stream.commit(Proposal(f"shardfw.b1.ev.0.{name}", header, b"{}", ""), 0)

    def read(self) -> list[int]:
        self.reader.follow()
        return self.reader.read[0].sequences[self.reader.read[0].session]


def test_events_in_order():
    desk = Desk()
    desk.ready("a")
    for sequence in (2, 3):
        desk.say("X", sequence)
    for sequence in (1, 2, 3):
        desk.publish("a", sequence)
    desk.publish("boot", 1, name="SHARDFW_RESUMED")
    desk.reader.judge({"a", "b"}, {})
    assert desk.read() == [1, 2, 3]
    assert desk.reader.complete({0: ("a", 3)})
    assert not desk.reader.complete({0: ("a", 4)})


def test_a_hole_is_a_loss():
    desk = Desk()
    desk.ready("a")
    for sequence in (2, 3):
        desk.say("X", sequence)
    for sequence in (1, 3):
        desk.publish("a", sequence)
    with pytest.raises(InvariantError, match=r"rule 'no event is lost': shard 0, session a: \[2\]"):
        desk.reader.judge({"a", "b"}, {})


def test_a_hole_may_still_be_filled():
    desk = Desk()
    desk.ready("a")
    for sequence in (2, 3):
        desk.say("X", sequence)
    desk.publish("a", 3)
    assert not desk.reader.complete({0: ("a", 3)})
    desk.publish("a", 2)
    assert desk.reader.complete({0: ("a", 3)})


def test_what_no_service_repeats_is_no_loss():
    desk = Desk()
    desk.ready("a")
    desk.say("RESUMED", 2)
    desk.say("X", 3)
    desk.publish("a", 3)
    desk.reader.judge({"a", "b"}, {})


def test_the_end_of_a_session_that_was_given_up_is_no_loss():
    desk = Desk()
    desk.ready("a")
    desk.say("X", 2)
    desk.publish("a", 1)
    desk.publish("a", 3)
    desk.ready("b")
    desk.publish("b", 1, fence=2)
    desk.reader.judge({"b"}, {"a": 1})
    with pytest.raises(InvariantError, match=r"rule 'no event is lost': shard 0, session a: \[2\]"):
        desk.reader.judge({"b"}, {"a": 3})


def test_what_comes_again_is_read_once():
    desk = Desk()
    desk.publish("a", 1)
    desk.publish("a", 1)
    desk.publish("a", 2)
    assert (desk.read(), desk.reader.repeated) == ([1, 2], 1)


def test_a_former_owner_is_old_news_in_another_session_and_the_only_copy_in_the_same():
    desk = Desk()
    desk.publish("a", 5, fence=2)
    desk.publish("a", 7, fence=1)
    desk.publish("a", 6, fence=1)
    assert desk.read() == [5, 7, 6]
    desk.publish("b", 1, fence=3)
    desk.publish("a", 8, fence=2)
    assert (desk.read(), desk.reader.late) == ([1], 1)
    desk.reader.judge({"a", "b"}, {})
    assert desk.reader.disordered == 1


def test_a_resume_goes_on_in_its_session():
    desk = Desk()
    desk.ready("a")
    desk.peer = object()
    desk.core.on_message(desk.peer, json.dumps({"op": 6, "d": {"session_id": "a", "seq": 1}}))
    desk.say("X", 2)
    assert desk.reader.sent["a"] == {2}
