"""Events in datagrams: chunks, numbers, who is told, and what a full card costs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.events.datagram import events_room
from firmware.events.send import events_abort, events_begin, events_end, events_notice, events_part
from firmware.layouts.events import EVENT_BODY_MAX, EventStream, Notice, Verdict
from firmware.layouts.json import JsonField
from firmware.layouts.log import LOG
from firmware.layouts.log_line import Level
from firmware.layouts.nic import NIC, NicState
from firmware.layouts.shard import ShardContext
from firmware.limits import SEND_PAYLOAD_MAX
from tests.support.lab import Lab
from tests.support.listeners import ROUTINES, Listeners
from tests.support.net import SECOND
from toolchain.cli.event_stream import NoticeEvent

LAB = Lab(*ROUTINES, events_part, events_end, slots=2)
NAME = b"MESSAGE_CREATE"


class Teller(Listeners):
    """Listeners, and shards that tell them something."""

    def __init__(self, lab=LAB):
        super().__init__(lab)
        self.with_shards(2)
        lab.g(LOG).level = Level.ERROR
        for n in range(2):
            self.shard(n).shard_id = 5 + n
            self.shard(n).gateway.parser.t[: len(NAME)] = NAME

    def shard(self, n=0):
        return LAB.view(ShardContext, LAB.shard(n, wipe=False))

    def begin(self, n=0):
        self.call(events_begin, shard=self.shard(n).address_)

    def part(self, data, n=0):
        at = LAB.put(data)
        self.call(events_part, shard=self.shard(n).address_, part=at, length=len(data))

    def end(self, data=b"", verdict=Verdict.OK, sequence=9, n=0, name_len=14):
        self.call(
            events_end,
            shard=self.shard(n).address_,
            part=LAB.put(data),
            length=len(data),
            verdict=verdict,
            sequence=sequence,
            name_len=name_len,
        )

    def abort(self, n=0):
        self.call(events_abort, shard=self.shard(n).address_)

    def notice(self, kind, first=0, second=0, n=0):
        address = self.shard(n).address_
        self.call(events_notice, shard=address, kind=kind, first=first, second=second)

    def keep(self, free):
        """Leave that many transmit buffers free; the card has the others and keeps them."""
        LAB.g(NIC).tx_free_count = free


@pytest.fixture
def teller():
    return Teller()


def payload(size):
    return bytes(n * 7 % 251 for n in range(size))


@pytest.mark.parametrize(
    ("parts", "datagrams"),
    [
        ([b"x" * 9], 1),
        ([payload(EVENT_BODY_MAX)], 1),
        ([payload(EVENT_BODY_MAX + 1)], 2),
        ([payload(3 * EVENT_BODY_MAX)], 3),
        ([payload(EVENT_BODY_MAX), b""], 2),
        ([payload(700), payload(2500), payload(1)], 5),
        ([b"", payload(3), b""], 2),
    ],
)
def test_event_in_parts_arrives_whole(teller, parts, datagrams):
    teller.subscribe(0)
    teller.begin()
    for part in parts[:-1]:
        teller.part(part)
    teller.end(parts[-1])
    teller.collect()
    assert len(teller.datagrams[0]) == datagrams
    assert max(map(len, teller.datagrams[0])) <= SEND_PAYLOAD_MAX
    (event,) = teller.heard()
    assert (event.shard, event.type, event.sequence) == (5, NAME.decode(), 9)
    assert event.payload == b"".join(parts)
    assert (event.number, teller.place(0).number, teller.place(0).sent) == (0, 1, datagrams)
    assert teller.shard().events.open == 0


def test_longest_datagram_is_no_longer_than_a_segment(teller):
    teller.subscribe(0)
    teller.begin()
    teller.end(payload(EVENT_BODY_MAX), name_len=64)
    teller.collect()
    # UDP has 8 bytes where TCP has 20.
    assert len(teller.datagrams[0][0]) + 8 <= SEND_PAYLOAD_MAX + 20


def test_each_listener_counts_its_own_events(teller):
    teller.subscribe(0)
    teller.notice(Notice.RESUMED)
    teller.subscribe(1)
    teller.notice(Notice.RESUMED)
    assert [e.number for e in teller.heard(0)] == [0, 1]
    assert [e.number for e in teller.heard(1)] == [0]
    assert teller.streams[0].stream != teller.streams[1].stream


@pytest.mark.parametrize(
    ("first", "count", "wanted"),
    [
        (5, 1, [5]),
        (6, 1, [6]),
        (0, 2**32 - 1, [5, 6]),
        (6, 2**32 - 1, [6]),
        (0, 5, []),
        (0, 6, [5]),
    ],
)
def test_a_listener_gets_the_shards_that_it_asked_for(teller, first, count, wanted):
    teller.subscribe(0, first=first, count=count)
    for n in range(2):
        teller.notice(Notice.RESUMED, n=n)
    assert [e.shard for e in teller.heard()] == wanted


def test_events_of_two_shards_may_overlap(teller):
    teller.subscribe(0)
    teller.begin(0)
    teller.part(b"a" * 10, 0)
    teller.begin(1)
    teller.part(b"b" * 10, 1)
    teller.end(b"A", n=0)
    teller.end(b"B", n=1)
    got = teller.heard()
    assert [(e.number, e.shard, e.payload) for e in got] == [
        (0, 5, b"a" * 10 + b"A"),
        (1, 6, b"b" * 10 + b"B"),
    ]


def test_notices_carry_two_values(teller):
    teller.subscribe(0)
    teller.notice(Notice.GAP, 42, 2**32 - 1)
    (event,) = teller.heard()
    assert event == NoticeEvent(0, 5, Notice.GAP, (42, None))


def test_nobody_listens_and_a_notice_touches_nothing(teller):
    before = LAB.machine.read(teller.shard().events.address_, EventStream.SIZE)
    teller.notice(Notice.GAP, 42, 43)
    assert LAB.machine.read(teller.shard().events.address_, EventStream.SIZE) == before
    assert teller.sent() == []


def test_a_half_event_is_aborted_and_says_so(teller):
    teller.subscribe(0)
    teller.begin()
    teller.part(payload(100))
    teller.abort()
    assert teller.heard() == []
    assert (teller.streams[0].aborted, teller.streams[0].open) == (1, 0)
    teller.abort()
    assert teller.sent() == []


def test_a_new_event_aborts_the_half_one_before_it(teller):
    teller.subscribe(0)
    teller.begin()
    teller.part(payload(100))
    teller.notice(Notice.NEW_SESSION)
    assert [e.number for e in teller.heard()] == [1]
    assert teller.streams[0].aborted == 1


def test_a_lease_that_ends_in_the_middle_of_an_event(teller):
    teller.subscribe(0, lease_ms=1000)
    teller.begin()
    teller.part(payload(10))
    teller.advance(SECOND)
    teller.notice(Notice.RESUMED, n=1)
    assert teller.events.listeners == 0
    assert teller.shard().events.open == 0
    assert teller.heard() == []


def test_a_newcomer_does_not_get_the_rest_of_what_its_place_was_told(teller):
    teller.subscribe(0)
    teller.begin()
    teller.part(payload(2000))
    teller.unsubscribe(0)
    for n in range(1, 5):
        teller.subscribe(n)
    teller.part(payload(2000))
    teller.end(payload(10))
    for n in range(1, 5):
        assert teller.heads(n) == []


@pytest.mark.parametrize("free", [0, 1, 63, 64, 65])
def test_room_leaves_half_of_the_buffers(teller, free):
    assert LAB.g(NIC).tx.buffers == 128
    teller.keep(free)
    assert teller.call(events_room).outputs["cf"] == (free <= 64)


def test_room_takes_back_what_the_card_is_done_with(teller):
    teller.subscribe(0)
    for _ in range(63):
        teller.notice(Notice.RESUMED)
    assert len(teller.heard()) == 63
    assert LAB.g(NIC).tx_free_count == 65
    teller.notice(Notice.RESUMED)
    teller.notice(Notice.RESUMED)
    assert len(teller.heard()) == 2
    assert teller.place(0).lost == 0


def test_a_full_card_loses_the_event_and_counts_it_once(teller):
    teller.subscribe(0)
    teller.keep(66)
    teller.begin()
    teller.part(payload(5 * EVENT_BODY_MAX))
    teller.end(payload(10))
    assert teller.place(0).lost == 1
    assert [h["chunk"] for h in teller.heads()] == [0, 1]
    teller.keep(128)
    teller.notice(Notice.RESUMED)
    assert [h["number"] for h in teller.heads()] == [1]


def test_a_card_that_failed_loses_every_event(teller):
    teller.subscribe(0)
    LAB.g(NIC).state = NicState.FAILED
    teller.notice(Notice.RESUMED)
    assert (teller.place(0).lost, teller.place(0).number) == (1, 1)


def test_a_listener_that_lost_a_chunk_gets_no_more_of_it_and_the_others_do(teller):
    teller.subscribe(0)
    teller.subscribe(1)
    teller.begin()
    teller.keep(65)
    teller.part(payload(100))
    teller.keep(128)
    teller.end(payload(100))
    whole = [n for n in range(2) if teller.heard(n)]
    assert len(whole) == 1
    assert teller.place(whole[0]).lost == 0
    assert teller.place(1 - whole[0]).lost == 1


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("level", [Level.TRACE, Level.DEBUG])
def test_each_event_that_is_handed_on_has_a_line_at_trace(teller, verdict, level):
    LAB.g(LOG).level = level
    teller.subscribe(0)
    gateway = teller.shard(0).gateway
    gateway.message_bytes = 1000
    gateway.parser.t[:4] = b"X\nYZ"
    for field, value in ((JsonField.T, 3), (JsonField.S, 77)):
        gateway.parser.values[4 * field : 4 * field + 4] = value.to_bytes(4, "little")
    teller.begin()
    teller.end(payload(10), verdict=verdict, sequence=77)
    ring = LAB.machine.read(LAB.image.address("log_ring"), LAB.g(LOG).head).decode()
    told = verdict in (Verdict.OK, Verdict.WITHHELD) and level == Level.TRACE
    line = "level=trace shard=5 code=events.raw dispatch=X?Y sequence=77 bytes=1000\n"
    assert (line in ring) is told
    assert ring.count("code=events.raw") == told


STEPS = st.one_of(
    st.tuples(st.just("begin"), st.integers(0, 1)),
    st.tuples(st.just("part"), st.integers(0, 1), st.integers(0, 2400)),
    st.tuples(st.just("end"), st.integers(0, 1), st.integers(0, 2400), st.sampled_from(Verdict)),
    st.tuples(st.just("notice"), st.integers(0, 1), st.sampled_from(Notice)),
    st.tuples(st.just("subscribe"), st.integers(0, 5), st.sampled_from([1_000, 60_000])),
    st.tuples(st.just("unsubscribe"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([1, 1000])),
    st.tuples(st.just("keep"), st.sampled_from([64, 66, 128])),
    st.tuples(
        st.just("sent"),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=14))
def test_any_order_of_calls_matches_the_model(steps):
    teller = Teller()
    for name, *rest in steps:
        if name == "begin":
            teller.begin(rest[0])
        elif name == "part":
            teller.part(payload(rest[1]), rest[0])
        elif name == "end":
            teller.end(payload(rest[1]), rest[2], n=rest[0])
        elif name == "notice":
            teller.notice(rest[1], 1, 2, rest[0])
        elif name == "subscribe":
            teller.subscribe(rest[0], lease_ms=rest[1])
        elif name == "unsubscribe":
            teller.unsubscribe(rest[0])
        elif name == "wait":
            teller.advance(rest[0] * SECOND // 1000)
        elif name == "keep":
            teller.keep(rest[0])
        else:
            teller.collect()
