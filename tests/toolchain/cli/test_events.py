"""`shardfw events`: a place that is renewed and given up, a line per event, losses said aloud."""

import json
import struct

import pytest
from click.testing import CliRunner

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.events import EVENT_SHARDS_ALL, EVENT_UNKNOWN, Notice, Verdict
from tests.support.control import KEY
from tests.support.event_datagrams import dispatch, notice
from tests.support.fake_control import FakeControl
from toolchain.cli.control import Place
from toolchain.cli.events import Listener, Printer, command, follow

V = ControlVerb


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SHARDFW_CONTROL_KEY", KEY.hex())


class Node(FakeControl):
    """Sends some events with its answer to the first subscription, some behind it."""

    def __init__(self, *, before=(), after=(), result=ControlResult.DONE):
        super().__init__(self.take)
        self.first = (list(before), list(after))
        self.result, self.wanted = result, []

    def take(self, verb, _argument, payload):
        self.before_answer = []
        if verb == V.SUBSCRIBE:
            self.wanted.append(struct.unpack("<II", payload))
            if len(self.wanted) == 1:
                self.before_answer, self.after_answer = self.first
        return self.result, 0, b""


def events(node, *argv):
    with node:
        place = ["--host", "127.0.0.1", "--port", str(node.port)]
        return CliRunner().invoke(command, [*argv, *place])


def test_help_shows_examples_and_the_json_keys():
    said = CliRunner().invoke(command, ["--help"]).output
    assert "shardfw events --shard 3 --type MESSAGE_CREATE" in said
    assert '{"lost": N}' in said
    for kind in Notice:
        assert kind.name in said


def test_dispatches_and_notices_are_printed_for_people():
    node = Node(
        before=[*dispatch(0, "READY", 1, what=Verdict.WITHHELD, shard=3)],
        after=[
            notice(1, Notice.NEW_SESSION, EVENT_UNKNOWN, shard=3),
            notice(2, Notice.NEW_SESSION, 1, shard=3),
            notice(3, Notice.GAP, 42, EVENT_UNKNOWN, shard=3),
            notice(4, Notice.GAP, 42, 50, shard=3),
            notice(5, Notice.GAP, EVENT_UNKNOWN, EVENT_UNKNOWN, shard=3),
            notice(6, Notice.GAP, 0, 0, shard=3),
            *dispatch(7, "M\x1b[2J", 2, {"content": "né\ud800\u2028\x9b"}, shard=3),
        ],
    )
    result = events(node, "--count", "2")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "shard 3  1  READY  (withheld)",
        "shard 3  NEW_SESSION",
        "shard 3  NEW_SESSION  sequence 1",
        "shard 3  GAP  missing from sequence 42 on",
        "shard 3  GAP  missing from sequence 42 on, to 50",
        "shard 3  GAP  events may be missing",
        "shard 3  GAP  nothing is missing",
        'shard 3  2  M\\u001b[2J  {"content":"né\\ud800\\u2028\\u009b"}',
    ]
    assert [verb for verb, _ in node.done] == [V.SUBSCRIBE, V.UNSUBSCRIBE]
    assert node.done[0][1] == 30_000
    assert node.wanted == [(0, EVENT_SHARDS_ALL)]


def test_json_is_one_object_a_line():
    node = Node(
        after=[
            *dispatch(0, "X", 5, {"a": [1, "é"]}, shard=9),
            notice(1, Notice.RESUMED, 6, shard=9),
            *dispatch(4, "Y", 7, None, shard=9),
            *dispatch(0, "Z", 1, None, shard=9, stream=77),
        ]
    )
    result = events(node, "--json", "--count", "3")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"shard": 9, "type": "X", "sequence": 5, "d": {"a": [1, "é"]}},
        {"shard": 9, "notice": "RESUMED", "sequence": 6},
        {"shard": 9, "type": "Y", "sequence": 7, "d": None},
        {"shard": 9, "type": "Z", "sequence": 1, "d": None},
        {"restarted": True},
        {"lost": 2},
    ]
    assert result.stderr == ""


def test_losses_go_to_standard_error():
    node = Node(after=[*dispatch(0), *dispatch(3), *dispatch(0, stream=5)])
    result = events(node, "--count", "3")
    assert len(result.stdout.splitlines()) == 3
    assert "the node, or this subscription, began anew" in result.stderr
    assert "2 events were lost, 2 in all" in result.stderr


def test_shard_and_type_choose():
    node = Node(after=[*dispatch(0, "A"), *dispatch(1, "B"), *dispatch(2, "C"), *dispatch(3, "B")])
    result = events(
        node, "--shard", "70", "--type", "B", "--type", "C", "--count", "3", "--lease", "60"
    )
    assert [line.split()[3] for line in result.stdout.splitlines()] == ["B", "C", "B"]
    assert node.wanted == [(70, 1)]
    assert node.done[0][1] == 60_000


def test_a_full_node_says_what_to_do():
    result = events(Node(result=ControlResult.LISTENERS_FULL))
    assert result.exit_code == 1
    assert "four listen already. End one of them, or wait until its lease is over" in result.stderr


def test_the_place_is_renewed_from_the_same_port_and_events_go_on():
    node = Node(after=[*dispatch(0)])
    with node:
        events = Listener(Place("127.0.0.1", node.port, KEY), None, lease_s=0.03).events()
        got = []
        for event in events:
            if event is not None:
                got.append(event.number)
            if len(node.wanted) >= 3:
                # A renewal brings what came before its answer.
                break
        events.close()
    assert got == [0]
    assert len(node.wanted) >= 3


def test_ctrl_c_gives_the_place_up_and_tells_what_is_missing():
    class Interrupted(Printer):
        def show(self, event):
            raise KeyboardInterrupt

        def losses(self, stream):
            told.append(stream.lost)

    told: list[int] = []
    printer = Interrupted((), None, as_json=False)
    with Node(after=[*dispatch(1)]) as node:
        with pytest.raises(KeyboardInterrupt):
            follow(Listener(Place("127.0.0.1", node.port, KEY)), printer)
        assert [verb for verb, _ in node.done] == [V.SUBSCRIBE, V.UNSUBSCRIBE]
    assert told == [1]


def test_a_node_that_dies_is_no_endless_wait():
    node = Node()
    with node:
        listener = Listener(Place("127.0.0.1", node.port, KEY), None, lease_s=0.3)
        stream = listener.events()
        assert next(stream) is None
    result = CliRunner().invoke(
        command, ["--host", "127.0.0.1", "--port", str(node.port), "--lease", "1"]
    )
    assert result.exit_code == 1
    assert "did not answer within 1 s" in result.stderr
    stream.close()
