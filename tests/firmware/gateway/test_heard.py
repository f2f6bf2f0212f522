"""What a listener gets of a conversation: dispatches in order, no secret, and what did not count."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.events import Notice
from firmware.layouts.gateway import GatewayState
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, ShardFlag
from tests.support.gateway_client import GatewayClient, ready_data
from tests.support.lab import Lab
from tests.support.listeners import ROUTINES, Listeners
from tests.support.stream import server_frame
from toolchain.cli.event_stream import Dispatch

LAB = Lab(*ROUTINES, gateway_poll, gateway_tick)
SECRET = ready_data()["session_id"]


class Heard(GatewayClient):
    """A shard whose conversation two listeners follow, one of which may come later."""

    def __init__(self, listeners=1):
        self.bench = Listeners(LAB)
        self.bench.with_shards(1)
        super().__init__(LAB, reset=False)
        for n in range(listeners):
            self.bench.subscribe(n)

    def poll(self):
        self.bench.call(gateway_poll, shard=self.at)

    def ready(self):
        self.hello()
        self.dispatch("READY", 1, ready_data())
        self.bench.heard()
        assert self.gateway.state == GatewayState.READY

    def resuming(self, sequence=41):
        self.resumable(sequence)
        self.shard.flags |= ShardFlag.ESTABLISHED
        self.hello()
        assert self.gateway.state == GatewayState.WAIT_RESUMED

    def heard(self, number=0):
        """Return (type or notice, sequence or values, payload) of what was sent."""
        return [
            (e.type, e.sequence, e.payload)
            if isinstance(e, Dispatch)
            else (e.notice, e.values, None)
            for e in self.bench.heard(number)
        ]

    def text(self, number=0):
        """Return every byte that was sent to a listener."""
        self.bench.collect()
        return b"".join(self.bench.datagrams.get(number, []))


def message(event="X", sequence=2, data=None, order="t s op d"):
    values = {"t": event, "s": sequence, "op": 0, "d": {} if data is None else data}
    return json.dumps({key: values[key] for key in order.split()}).encode()


@pytest.fixture
def c():
    return Heard()


@pytest.mark.parametrize("order", ["t s op d", "d t s op", "op d s t"])
@pytest.mark.parametrize("size", [1, 2000])
def test_a_dispatch_is_handed_on_as_it_came_at_many_cuts(c, order, size):
    c.ready()
    text = message("MESSAGE_CREATE", 2, {"content": "x" * size}, order)
    frame = server_frame(1, text)
    for sequence, cut in enumerate((0, 1, 5, 40, len(frame) // 2, len(frame) - 1), 2):
        again = text.replace(b'"s": 2', b'"s": %d' % sequence)
        frame = server_frame(1, again)
        c.raw(frame[:cut])
        c.raw(frame[cut:])
        assert c.heard() == [("MESSAGE_CREATE", sequence, again)]
    assert c.bench.place(0).lost == 0


def test_only_dispatches_are_handed_on(c):
    c.ready()
    c.receive({"op": 11}, {"op": 1, "d": None}, {"op": 99, "d": {"a": 1}})
    c.dispatch("TYPING_START", 5)
    assert [kind for kind, *_ in c.heard()] == ["TYPING_START"]


def test_a_long_message_that_is_no_dispatch_is_ignored_in_the_end(c):
    c.ready()
    text = json.dumps({"d": {"x": "y" * 300}, "op": 99}).encode()
    frame = server_frame(1, text)
    c.raw(frame[:200])
    c.bench.collect()
    assert len(c.bench.datagrams[0]) == 1
    c.raw(frame[200:])
    assert c.heard() == []
    c.dispatch("X", 5)
    assert [kind for kind, *_ in c.heard()] == ["X"]
    assert (c.bench.streams[0].aborted, c.bench.streams[0].open) == (0, 0)


@pytest.mark.parametrize("cut", [1, 3, 60, 200])
def test_ready_is_told_without_its_body(c, cut):
    c.hello()
    frame = server_frame(1, message("READY", 1, ready_data()))
    c.raw(frame[:cut])
    c.raw(frame[cut:])
    assert SECRET.encode() not in c.text()
    assert c.heard() == [("READY", 1, None)]


def test_before_identify_left_nothing_is_begun_for_a_listener(c):
    c.stream.fill(left=1)
    c.hello()
    assert c.gateway.state == GatewayState.ANSWER
    c.raw(server_frame(1, message("X", 2, {"x": "y" * 100}))[:80])
    assert c.shard.events.open == 0


@pytest.mark.parametrize("before", [0, 3])
def test_what_could_not_be_read_is_not_handed_on(c, before):
    """Whatever was malformed, or lower, before."""
    c.ready()
    c.shard.malformed, c.gateway.seq_lower = before, 2 * before
    c.dispatch("X", 2)
    c.receive(b'{"t":"RATE_LIMITED","s":3,"op":0,"d":null}')
    c.dispatch("X", 4)
    assert [(kind, sequence) for kind, sequence, _ in c.heard()] == [("X", 2), ("X", 4)]
    assert c.shard.malformed == before + 1


@pytest.mark.parametrize("known", [0, 1])
def test_a_first_session_needs_no_notice_and_another_one_does(c, known):
    c.hello()
    c.dispatch("READY", 1, ready_data())
    assert len(c.heard()) == 1
    c = Heard()
    c.shard.flags = ShardFlag.ESTABLISHED
    c.shard.events.gap_open, c.shard.events.gap_first = known, 42
    c.hello()
    c.receive(message("READY", 1, ready_data()), message("X", 2))
    assert c.heard() == [
        ("READY", 1, None),
        (Notice.NEW_SESSION, (1, 0), None),
        (Notice.GAP, (42 if known else None, None), None),
        ("X", 2, message("X", 2)),
    ]


def test_a_resume_is_told_in_its_place_and_nothing_is_missing(c):
    c.resuming(41)
    stale, first, live = message("OLD", 40), message("NEW", 42), message("LIVE", 44)
    c.receive(stale, first, message("RESUMED", 43, None), live)
    assert c.heard() == [
        ("NEW", 42, first),
        ("RESUMED", 43, message("RESUMED", 43, None)),
        (Notice.RESUMED, (43, 0), None),
        (Notice.GAP, (0, 0), None),
        ("LIVE", 44, live),
    ]
    assert c.gateway.seq_lower == 1


@pytest.mark.parametrize(
    ("profile", "replayed", "resumed", "gap"),
    [
        (ProfileId.FLUXER, (42, 53), 53, (43, 52)),
        (ProfileId.FLUXER, (44, 50), 55, (42, 55)),
        (ProfileId.FLUXER, (), 42, (42, 42)),
        (ProfileId.FLUXER, (42,), 41, (0, 0)),
        (ProfileId.DISCORD, (42, 53), 54, (43, 52)),
        (ProfileId.DISCORD, (42,), 43, (0, 0)),
        (ProfileId.DISCORD, (42,), 44, (43, 43)),
        (ProfileId.DISCORD, (), 41, (0, 0)),
        (ProfileId.DISCORD, (2**32 - 1,), 2**32 - 1, (42, 2**32 - 2)),
    ],
)
def test_what_the_replay_left_out_is_told(c, profile, replayed, resumed, gap):
    c.shard.profile = profile
    c.resuming(41)
    c.receive(*(message("X", n) for n in replayed), message("RESUMED", resumed))
    assert (Notice.GAP, gap) in [(kind, values) for kind, values, _ in c.heard()]


def test_a_jump_once_ready_is_none_of_the_replay(c):
    c.resuming(41)
    c.receive(message("RESUMED", 42), message("X", 99))
    assert (c.shard.hole_first, c.shard.hole_last) == (0, 0)


def test_a_resume_of_a_saved_session_says_so_first(c):
    c.resuming(41)
    c.shard.flags = c.shard.flags & ~ShardFlag.ESTABLISHED | ShardFlag.RESTORED
    c.dispatch("RESUMED", 42)
    assert [(kind, values) for kind, values, _ in c.heard()[1:]] == [
        (Notice.RESTORED, (42, 0)),
        (Notice.RESUMED, (42, 0)),
        (Notice.GAP, (0, 0)),
    ]


def test_on_fluxer_a_resume_leaves_threads_stale(c):
    c.shard.profile = ProfileId.FLUXER
    c.resuming(41)
    c.dispatch("RESUMED", 41)
    assert [(kind, values) for kind, values, _ in c.heard()[1:]] == [
        (Notice.RESUMED, (41, 0)),
        (Notice.THREADS_STALE, (41, 0)),
        (Notice.GAP, (0, 0)),
    ]


def test_a_repeated_dispatch_that_came_in_parts_is_ignored(c):
    c.resuming(41)
    frame = server_frame(1, message("OLD", 40, {"x": "y" * 100}))
    c.raw(frame[:90])
    c.raw(frame[90:])
    assert c.heard() == []
    assert c.bench.streams[0].open == 0


@pytest.mark.parametrize("order", ["t s op d", "d t s op"])
@pytest.mark.parametrize("cut", [1, 7, 40, 100, 180])
def test_no_cut_of_an_unexpected_ready_shows_its_session_id(order, cut):
    c = Heard()
    c.ready()
    frame = server_frame(1, message("READY", 2, ready_data(), order))
    for at in range(0, len(frame), cut):
        c.raw(frame[at : at + cut])
    assert c.shard.failure == End.PROTOCOL
    text = c.text()
    assert not any(SECRET[n : n + 5].encode() in text for n in range(len(SECRET) - 4))
    assert c.heard() == []


def test_a_session_id_of_another_event_is_withheld_only_while_nobody_knows_the_event(c):
    c.ready()
    voice = {"session_id": "voice", "x": "y" * 200}
    first, last = message("V", 2, voice), message("V", 3, voice, "d t s op")
    for frame in (server_frame(1, first), server_frame(1, last)):
        c.raw(frame[:100])
        c.raw(frame[100:])
    assert c.heard() == [("V", 2, first), ("V", 3, None)]
    c.receive(last.replace(b"3", b"4"))
    assert [e[1] for e in c.heard()] == [4]


@pytest.mark.parametrize(
    "tail", [b'"t": 5}', b'"t": "X", "s": 1.5, "op": 0}', b"}}", b'"t": "X"', b'"op": 7}']
)
def test_a_message_that_ends_badly_is_aborted(c, tail):
    c.ready()
    text = b'{"d": {"x": "' + b"y" * 100 + b'"}, ' + tail
    frame = server_frame(1, text)
    c.raw(frame[:80])
    c.raw(frame[80:])
    assert c.shard.failure
    # A syntax error is seen by the parser; the lifecycle then aborts what runs.
    open_ = bool(c.shard.events.open)
    assert c.heard() == []
    assert c.bench.streams[0].aborted == (not open_)


def test_whoever_comes_in_the_middle_of_a_message_begins_with_the_next(c):
    c.ready()
    frame = server_frame(1, message("LONG", 2, {"x": "y" * 400}))
    c.raw(frame[:100])
    c.bench.subscribe(1)
    c.raw(frame[100:300])
    c.raw(frame[300:])
    c.dispatch("X", 3)
    assert [e[0] for e in c.heard(0)] == ["LONG", "X"]
    assert [e[0] for e in c.heard(1)] == ["X"]


def test_the_only_listener_comes_in_the_middle_of_a_message():
    c = Heard(listeners=0)
    c.ready()
    frame = server_frame(1, message("LONG", 2, {"x": "y" * 400}))
    c.raw(frame[:100])
    c.bench.subscribe(0)
    c.raw(frame[100:300])
    c.raw(frame[300:])
    c.dispatch("X", 3)
    assert [e[0] for e in c.heard(0)] == ["X"]


@pytest.mark.parametrize("letters", [63, 64, 65])
def test_a_name_that_is_too_long_to_keep_is_found_in_the_payload(c, letters):
    c.ready()
    name = "N" * letters
    c.dispatch(name, 2)
    assert [e[0] for e in c.heard()] == [name]


def test_nobody_listens_and_the_path_is_the_same_to_the_instruction():
    """One comparison and a branch that is not taken: equal before, and after a listener is gone."""
    lengths = []
    for listened in (False, True):
        c = Heard(listeners=0)
        c.ready()
        if listened:
            c.bench.subscribe(0)
            c.dispatch("X", 2)
            c.bench.unsubscribe(0)
        c.stream.feed(server_frame(1, message("X", 3, {"content": "y" * 100})))
        lengths.append(len(c.bench.call(gateway_poll, shard=c.at).trace))
    assert lengths[0] == lengths[1]


MESSAGES = st.one_of(
    st.sampled_from([b'{"op":11}', b'{"op":1,"d":null}', b'{"op":7}', b"{}", b'{"op":9,"d":true}']),
    st.builds(
        message,
        st.sampled_from(["RESUMED", "X"]),
        st.integers(0, 5),
        st.sampled_from([{}, {"x": "y" * 50}]),
        st.sampled_from(["t s op d", "d op s t"]),
    ),
    st.builds(
        message,
        st.just("READY"),
        st.integers(0, 5),
        st.just(ready_data()),
        st.sampled_from(["t s op d", "d op s t"]),
    ),
)


@settings(max_examples=30, deadline=None)
@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 300), max_size=5),
    state=st.sampled_from(["identify", "resume", "ready"]),
)
def test_any_conversation_that_is_heard_matches_the_model(messages, cuts, state):
    c = Heard(listeners=2)
    if state == "resume":
        c.resuming(2)
    else:
        c.hello()
        if state == "ready":
            c.dispatch("READY", 1, ready_data())
    data = b"".join(server_frame(1, m) for m in messages)
    for cut in cuts:
        c.raw(data[:cut])
        data = data[cut:]
    c.raw(data)
    assert SECRET.encode() not in c.text() + c.text(1)
