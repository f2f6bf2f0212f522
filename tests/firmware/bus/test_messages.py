"""Messages as servers send them, in any cut; what must not be, by site; and another parser's view."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.bus.link import bus_fail
from firmware.bus.messages import bus_done, bus_take
from firmware.layouts.bus import BUS_IN, MESSAGE_MAX, BusKind, LinkState
from firmware.layouts.bus_sites import ARGUMENTS, BAD_HEADER, MESSAGE_END, MESSAGE_TOO_LONG
from firmware.limits import RING_BYTES
from tests.support.bus import INFO, BusBench

BENCH = BusBench(bus_done, semantics=False)
WATCH = b"$JS.ACK.KV_shardfw.8YGLel76.1.1.1.1795955264682523729.5"
EXPECTED = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n"
HEARTBEAT = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 6\r\nNats-Last-Stream: 6\r\n\r\n"
NOT_FOUND = b"NATS/1.0 404 Message Not Found\r\n\r\n"
PLAN = b"1 active 3 16 1 20000 4 0+4 4+4 8+4 12+4"
ACK = b'{"stream":"KV_shardfw","seq":7}'
WRONG = (
    b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 8"},'
    b'"stream":"KV_shardfw","seq":0}'
)


def hmsg(subject, sid, header, body, reply=b""):
    words = [b"HMSG", subject, b"%d" % sid, reply, b"%d" % len(header)]
    line = b" ".join([w for w in words if w] + [b"%d" % len(header + body)])
    return line + b"\r\n" + header + body + b"\r\n"


def msg(subject, sid, body, reply=b"", gap=b" "):
    words = [b"MSG", subject, b"%d" % sid, reply]
    return b" ".join(w for w in words if w) + gap + b"%d\r\n" % len(body) + body + b"\r\n"


# What nats-server 2.15.1 and 2.9.10 were seen to send, and what it means.
TRANSCRIPT = [
    (b"PONG\r\n", None),
    (INFO, None),
    (
        hmsg(b"$KV.shardfw.b1.ctl.plan", 2, EXPECTED, PLAN, WATCH),
        (b"$KV.shardfw.b1.ctl.plan", 2, WATCH, 0, EXPECTED, PLAN, 0),
    ),
    (msg(b"_I.n7.3fa2c1d0.c.2", 1, ACK), (b"_I.n7.3fa2c1d0.c.2", 1, b"", 0, b"", ACK, 2)),
    (b"PING\r\n", None),
    (hmsg(b"_W.n7.3fa2c1d0.1", 2, HEARTBEAT, b""), (b"_W.n7.3fa2c1d0.1", 2, b"", 100, HEARTBEAT, b"", 0)),
    (
        msg(b"_I.n7.3fa2c1d0.c.4", 1, WRONG, gap=b"  "),
        (b"_I.n7.3fa2c1d0.c.4", 1, b"", 0, b"", WRONG, 4),
    ),
    (
        hmsg(b"_I.n7.3fa2c1d0.c.50", 1, NOT_FOUND, b""),
        (b"_I.n7.3fa2c1d0.c.50", 1, b"", 404, NOT_FOUND, b"", 50),
    ),
    (b"+OK\r\n", None),
    (
        msg(b"shardfw.b1.cmd.0", 10, b'{"op":3}', b"_INBOX.fw75d76mcc.c1"),
        (b"shardfw.b1.cmd.0", 10, b"_INBOX.fw75d76mcc.c1", 0, b"", b'{"op":3}', 0),
    ),
    (msg(b"a", 4294967295, b""), (b"a", 4294967295, b"", 0, b"", b"", 0)),
]  # fmt: skip
STREAM = b"".join(raw for raw, _ in TRANSCRIPT)
WANTED = [meaning for _, meaning in TRANSCRIPT if meaning is not None]


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def drained(*, free=False):
    got = []
    while (message := BENCH.message(free=free)) is not None:
        got.append(message)
    return got


def test_the_transcript_at_once():
    BENCH.up()
    BENCH.arrive(STREAM)
    assert drained() == WANTED
    assert (BENCH.tcp.ring_ready, BENCH.link.received) == (0, len(WANTED))
    assert BENCH.queued() == b"PONG\r\n"
    assert BENCH.link.state == LinkState.UP


def test_the_transcript_byte_by_byte():
    BENCH.up()
    got = []
    for n in range(len(STREAM)):
        BENCH.arrive(STREAM[n : n + 1])
        got += drained()
    assert got == WANTED


def test_the_transcript_cut_in_two_anywhere():
    for cut in range(len(STREAM)):
        BENCH.reset()
        BENCH.up()
        BENCH.arrive(STREAM[:cut])
        got = drained(free=True)
        BENCH.arrive(STREAM[cut:])
        assert got + drained(free=True) == WANTED, cut


@pytest.mark.parametrize("before", [1, 2, 3, 30, 60, 100, 150])
def test_a_message_that_lies_across_the_end_of_the_ring(before):
    BENCH.up()
    BENCH.tcp.ring_head = RING_BYTES - before
    BENCH.arrive(STREAM)
    assert drained() == WANTED
    assert BENCH.tcp.ring_head == len(STREAM) - before


def test_a_message_keeps_its_bytes_until_it_is_done_with():
    BENCH.up()
    raw = msg(b"a", 2, b"first") + msg(b"b", 2, b"second")
    BENCH.arrive(raw)
    assert BENCH.message()[5] == b"first"
    assert (BENCH.tcp.ring_ready, BENCH.link.message_bytes) == (len(raw), len(raw) // 2)
    BENCH.bus(bus_done)
    assert BENCH.lab.g(BUS_IN).kind == BusKind.NONE
    assert (BENCH.tcp.ring_ready, BENCH.link.message_bytes) == (len(raw) - len(raw) // 2, 0)
    BENCH.bus(bus_done)
    assert BENCH.message()[5] == b"second"


def test_the_largest_message_fits_and_one_byte_more_does_not():
    overhead = len(b"MSG a 2 19000\r\n\r\n")
    for extra in (0, 1):
        BENCH.reset()
        BENCH.up()
        body = b"x" * (MESSAGE_MAX - overhead + extra)
        BENCH.arrive(msg(b"a", 2, body)[: RING_BYTES - 100])
        assert BENCH.message()[5] == (b"" if extra else body)
    assert BENCH.lab.g(BUS_IN).unreadable == MESSAGE_TOO_LONG.code


BAD = [
    (ARGUMENTS, b"MSG\r\n"),
    (ARGUMENTS, b"MSG a\r\n"),
    (ARGUMENTS, b"MSG a 2\r\n"),
    (ARGUMENTS, b"MSG a 2 r x 3\r\n"),
    (ARGUMENTS, b"MSG a 2 r 3 4 5 6\r\n"),
    (ARGUMENTS, b"MSG a 2 x\r\n"),
    (ARGUMENTS, b"MSG a 2 -1\r\n"),
    (ARGUMENTS, b"MSG a x 1\r\nx\r\n"),
    (ARGUMENTS, b"MSG a 4294967296 1\r\nx\r\n"),
    (ARGUMENTS, b"MSG a 2 18446744073709551617\r\n"),
    (ARGUMENTS, b"HMSG a 2 3\r\n"),
    (ARGUMENTS, b"HMSG a 2 r 12 12 12\r\n"),
    (ARGUMENTS, b"HMSG a 2 13 12\r\n"),
    (ARGUMENTS, b"HMSG a 2 x 12\r\n"),
    (MESSAGE_TOO_LONG, b"HMSG a 2 12 67108865\r\n"),
    (MESSAGE_TOO_LONG, b"MSG a 1 19021\r\n"),
    (MESSAGE_TOO_LONG, b"MSG " + b"a" * 100 + b" 1 19000\r\n"),
    (MESSAGE_END, b"MSG a 2 1\r\nxy\r\n"),
    (MESSAGE_END, b"MSG a 2 1\r\nx\n\r\n"),
    (MESSAGE_END, b"MSG a 2 2\r\nx\r\n\r\n"),
    (BAD_HEADER, b"HMSG a 1 0 0\r\n\r\n"),
]


@pytest.mark.parametrize(("site", "raw"), BAD, ids=lambda v: getattr(v, "name", None))
def test_what_no_server_may_send_ends_the_link(site, raw):
    BENCH.up(failures=0)
    BENCH.arrive(raw)
    assert BENCH.message() is None
    link = BENCH.link
    assert (link.error, link.state, link.failures) == (site.code, LinkState.DOWN, 1)
    assert BENCH.lines()[-1].startswith(f"bus.down link=control error={site.code:#x} server=0")


UNFRAMED = [
    b"",
    b"NATS/1.0\r\n\r",
    b"NATS/1.1\r\n\r\n",
    b"NATS/1.0\r\n\r\r",
    b"NATS/1.0 \r\n\r\n",
    b"NATS/1.0 50\r\n\r\n",
    b"NATS/1.0 5x3\r\n\r\n",
    b"NATS/1.0 /03\r\n\r\n",
    b"NATS/1.0 5\r\n\r\n",
    b"NATS/1.0 50:\r\n\r\n",
    b"NATS/1.0x503\r\n\r\n",
    b"GARBAGE!",
]


@pytest.mark.parametrize("header", UNFRAMED)
def test_a_header_block_of_another_kind_costs_its_message_alone(header):
    BENCH.up()
    BENCH.arrive(hmsg(b"shardfw.b1.cmd.0", 2, header, b"body", b"r") + msg(b"b", 2, b"next"))
    assert BENCH.message() == (b"shardfw.b1.cmd.0", 2, b"r", 0, b"", b"", 0)
    assert BENCH.lab.g(BUS_IN).unreadable == BAD_HEADER.code
    assert BENCH.message()[5] == b"next"
    assert BENCH.lab.g(BUS_IN).unreadable == 0
    assert (BENCH.link.state, BENCH.link.received) == (LinkState.UP, 2)


@pytest.mark.parametrize("size", [MESSAGE_MAX, 3 * RING_BYTES, 100_000])
@pytest.mark.parametrize("step", [1_000, RING_BYTES - 100])
def test_a_message_that_does_not_fit_is_stepped_over(size, step):
    BENCH.up()
    stream = hmsg(b"$KV.shardfw.b1.ctl.x", 2, EXPECTED, b"x" * size, WATCH) + msg(b"b", 2, b"next")
    got = []
    while stream:
        room = min(step, RING_BYTES - BENCH.tcp.ring_ready)
        BENCH.arrive(stream[:room])
        stream = stream[room:]
        while (message := BENCH.message()) is not None:
            got.append((*message, int(BENCH.lab.g(BUS_IN).unreadable)))
    long_ = (b"$KV.shardfw.b1.ctl.x", 2, WATCH, 0, b"", b"", 0, MESSAGE_TOO_LONG.code)
    assert got == [long_, (b"b", 2, b"", 0, b"", b"next", 0, 0)]
    assert (BENCH.tcp.ring_ready, BENCH.link.skip, BENCH.link.state) == (0, 0, LinkState.UP)


def test_the_end_of_the_link_ends_what_is_left_out():
    BENCH.up()
    BENCH.arrive(b"MSG a 2 30000\r\nxxx")
    assert BENCH.message() == (b"a", 2, b"", 0, b"", b"", 0)
    BENCH.bus(bus_fail, error=MESSAGE_END.code)
    assert BENCH.link.skip == 0


@pytest.mark.parametrize(
    ("subject", "inbox"),
    [
        (b"_I.n7.3fa2c1d0.c.0", 0), (b"_I.x.4294967295", 2**32 - 1), (b"_I.x.4294967296", 0),
        (b"_I.x.", 0), (b"_I.x.5a", 0), (b"12", 12), (b"a", 0), (b".7", 7), (b".", 0),
    ],
)  # fmt: skip
def test_the_last_token_of_an_inbox_is_its_number(subject, inbox):
    BENCH.up()
    BENCH.arrive(msg(subject, 1, b""))
    assert BENCH.message()[6] == inbox


def test_another_subscription_has_no_number():
    BENCH.up()
    BENCH.arrive(msg(b"_I.x.5", 2, b""))
    assert BENCH.message()[6] == 0


# -- an independent reader: one expression for each kind of line ------------------------------------
_MSG = re.compile(rb"\AMSG[ \t]+(\S+)[ \t]+(\d+)(?:[ \t]+(\S+))??[ \t]+(\d+)[ \t]*\r\n")
_HMSG = re.compile(
    rb"\AHMSG[ \t]+(\S+)[ \t]+(\d+)(?:[ \t]+(\S+))??[ \t]+(\d+)[ \t]+(\d+)[ \t]*\r\n"
)
_OTHER = re.compile(rb"\A(?:PING|PONG|\+OK)[ \t]*(?: [^\r\n]*)?\r\n")


def read(stream):
    """Return the messages of a stream as the expressions see them."""
    got = []
    while stream:
        if other := _OTHER.match(stream):
            stream = stream[other.end() :]
            continue
        if found := _MSG.match(stream):
            subject, sid, reply, size = found.groups()
            headers = b"0"
        elif found := _HMSG.match(stream):
            subject, sid, reply, headers, size = found.groups()
        else:
            raise AssertionError(stream)
        whole = stream[found.end() :][: int(size)]
        stream = stream[found.end() + int(size) + 2 :]
        header, body = whole[: int(headers)], whole[int(headers) :]
        status = int(header[9:12]) if header[8:9] == b" " else 0
        tail = subject.rpartition(b".")[2]
        number = int(tail) if int(sid) == 1 and tail.isdigit() and int(tail) < 2**32 else 0
        got.append((subject, int(sid), reply or b"", status, header, body, number))
    return got


TOKEN = st.text("abc.$_-*>019", min_size=1, max_size=12).map(str.encode)
BLANKS = st.sampled_from([b" ", b"  ", b"\t", b" \t "])
HEADER = st.builds(
    lambda status, lines: b"NATS/1.0" + status + b"\r\n" + lines + b"\r\n",
    st.sampled_from([b"", b" 503", b" 100 Idle Heartbeat", b" 000", b" 404 x"]),
    st.sampled_from([b"", b"A: b\r\n", b"Nats-Last-Stream: 6\r\nX:\r\n"]),
)


@st.composite
def messages(draw):
    gap = draw(BLANKS)
    words = [draw(TOKEN), b"%d" % draw(st.sampled_from([1, 1, 2, 10, 2**32 - 1]))]
    words += draw(st.lists(TOKEN, max_size=1))
    header = draw(st.one_of(st.just(b""), HEADER))
    body = draw(st.one_of(st.binary(max_size=40), st.just(b"MSG a 1 1\r\nx\r\n")))
    words += [b"%d" % len(header)] if header else []
    words.append(b"%d" % len(header + body))
    verb = b"HMSG" if header else b"MSG"
    end = draw(st.sampled_from([b"", b" "]))
    return gap.join([verb, *words]) + end + b"\r\n" + header + body + b"\r\n"


PARTS = st.one_of(
    messages(), st.sampled_from([b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"PING  \r\n"])
)


@given(
    parts=st.lists(PARTS, min_size=1, max_size=6), cuts=st.lists(st.integers(0, 400), max_size=3)
)
@settings(max_examples=60, deadline=None)
def test_it_reads_what_another_parser_reads(parts, cuts):
    BENCH.reset()
    BENCH.up()
    stream, got, last = b"".join(parts), [], 0
    for cut in [*sorted(min(c, len(stream)) for c in cuts), len(stream)]:
        BENCH.arrive(stream[last:cut])
        got += drained()
        last = cut
    assert got == read(stream)
    assert BENCH.tcp.ring_ready == 0


@given(
    at=st.integers(0, len(STREAM) - 1),
    what=st.sampled_from([b"", b"\r", b"\n", b" ", b"\0", b"9", b"-", b"MSG "]),
    drop=st.integers(0, 3),
)
@settings(max_examples=80, deadline=None)
def test_damaged_streams_match_the_model_and_end_the_link_or_go_on(at, what, drop):
    BENCH.reset()
    BENCH.up()
    BENCH.arrive(STREAM[:at] + what + STREAM[at + drop :])
    while BENCH.bus(bus_take)["eax"] == BusKind.MESSAGE:
        pass
    assert BENCH.link.state in (LinkState.UP, LinkState.DOWN)
    assert (BENCH.link.error != 0) == (BENCH.link.state == LinkState.DOWN)
