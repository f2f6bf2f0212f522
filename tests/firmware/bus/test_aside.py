"""No order and no size of records stops a link: what leaves one no room is laid aside and put together."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.bus.aside import bus_consume, bus_join, bus_lay_aside
from firmware.bus.link import bus_fail
from firmware.bus.messages import bus_take
from firmware.bus.tick import bus_over
from firmware.layouts.bus import (
    ASIDE_CHUNK,
    BUS,
    BUS_ASIDE,
    BUS_IN,
    MESSAGE_MAX,
    BusKind,
    LinkState,
)
from firmware.layouts.bus_sites import CLOSED, SILENT
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import CONTENT_MAX, RECORD_MAX, TlsState
from firmware.limits import RECEIVE_MSS, RING_BYTES
from tests.support.tls import TlsBench

BENCH = TlsBench(
    bus_consume, bus_fail, bus_join, bus_lay_aside, bus_over, bus_take, semantics=False
)
LAB = BENCH.lab


def fresh(index=0):
    """A link that is UP, with keys; what seals for us."""
    BENCH.reset()
    LAB.g(CONFIG).gateway_secure = 1
    config = LAB.g(FLEET_CONFIG)
    config.magic, config.servers_used = FLEET_MAGIC, 1
    for variable in (BUS, BUS_IN, BUS_ASIDE):
        LAB.g(variable).wipe()
    BENCH.context.tcp.state = TcpState.ESTABLISHED
    link().index, link().state = index, LinkState.UP
    server, _ = BENCH.keyed()
    BENCH.tls.state = TlsState.CONNECTED
    return server


def link():
    return LAB.g(BUS).links[0]


def call(routine, **inputs):
    return BENCH.call(routine, link=link().address_, **inputs)


def taken():
    found = []
    while call(bus_take)["eax"] == BusKind.MESSAGE:
        got = LAB.g(BUS_IN)
        found.append(LAB.machine.read(got.body, got.body_len) if got.body_len else b"")
    return found


def flow(data):
    """Let bytes come as the window lets them; return the bodies of all messages."""
    found, tcp = [], BENCH.context.tcp
    while data:
        room = RING_BYTES - tcp.ring_ready
        assert room >= RECEIVE_MSS, "the window never opens again"
        BENCH.receive(data[:room])
        data = data[room:]
        found += taken()
        assert link().state == LinkState.UP
    return found


def body(n, size):
    return bytes((n + k) % 251 for k in range(size)).replace(b"\n", b"_")


def message(text):
    return b"MSG shardfw.b1.cmd.7 2 %d\r\n%b\r\n" % (len(text), text)


def records(server, stream, *sizes, padding=0):
    """Cut a stream into records of these sizes, then of the largest."""
    out, cuts = b"", list(sizes)
    while stream:
        size = cuts.pop(0) if cuts else CONTENT_MAX - padding
        out += server.seal(stream[:size], padding=padding)
        stream = stream[size:]
    return out


def test_the_ring_holds_any_record_and_the_buffer_any_message():
    assert RECORD_MAX + RECEIVE_MSS <= RING_BYTES
    assert MESSAGE_MAX + ASIDE_CHUNK <= RING_BYTES


@pytest.mark.parametrize("before", [1, 3_700, 3_900, 4_500, 8_999])
def test_half_a_message_before_the_largest_record(before):
    server = fresh()
    bodies = [body(1, 9_000), *(body(n, 700) for n in range(2, 20))]
    stream = b"".join(map(message, bodies))
    assert flow(records(server, stream, before, CONTENT_MAX)) == bodies
    assert (link().aside, BENCH.context.tcp.ring_ready) == (0, 0)


@pytest.mark.parametrize("index", [0, 1])
def test_records_of_sixteen_kilobytes_full_of_messages(index):
    """As a server writes when many wait: each record but the last ends within a message."""
    server = fresh(index)
    bodies = [body(n, 4_300) for n in range(12)]
    assert flow(records(server, b"".join(map(message, bodies)))) == bodies


@pytest.mark.parametrize(
    "sizes", [(), (1,), (CONTENT_MAX, 1), (3_000, CONTENT_MAX), (3_000, 17, 9_000)]
)
def test_the_largest_message_that_the_node_takes(sizes):
    server = fresh()
    head = len(message(b"")) + 4
    bodies = [body(3, 500), body(1, MESSAGE_MAX - head), body(2, 5)]
    assert len(message(bodies[1])) == MESSAGE_MAX
    assert flow(records(server, b"".join(map(message, bodies)), *sizes)) == bodies


def test_padding_behind_half_a_message_takes_room_too():
    server = fresh()
    bodies = [body(1, 6_000), body(2, 6_000)]
    stream = b"".join(map(message, bodies))
    assert flow(records(server, stream, *[1_500] * 8, padding=12_000)) == bodies


def test_records_without_data_behind_half_a_message_take_no_room():
    """Session tickets, however long, are no part of it."""
    server = fresh()
    ticket = (
        b"\x04" + (6_000).to_bytes(3, "big") + bytes(8) + b"\x01\x00" + (5_984).to_bytes(2, "big")
    )
    ticket += bytes(5_984) + b"\x00\x02" + b"\x00\x00"
    stream = message(body(1, 9_000))
    data = server.seal(stream[:2_000])
    data += b"".join(server.seal(ticket[:6_004], 22) for _ in range(3)) + server.seal(
        stream[2_000:]
    )
    assert flow(data) == [body(1, 9_000)]


def test_a_message_that_is_stepped_over_may_end_aside():
    server = fresh()
    stream = b"MSG a 2 5000\r\n" + bytes(5_000) + b"\r\n" + b"MSG a 2 40000\r\n" + bytes(40_000)
    stream += b"\r\n" + message(b"next")
    assert flow(records(server, stream, 4_000)) == [bytes(5_000), b"", b"next"]


def test_a_line_may_lie_aside():
    server = fresh()
    stream = b"-ERR '" + b"x" * 5_000 + b"'\r\nPING\r\n" + message(b"next")
    assert flow(records(server, stream, 4_000)) == [b"next"]


def test_a_link_is_not_over_while_something_lies_aside():
    server = fresh()
    assert flow(records(server, message(bytes(9_000))[:5_000])) == []
    assert link().aside == 5_000
    BENCH.tls.state = TlsState.ENDED
    assert call(bus_over)["eax"] == 0
    link().aside = 0
    assert call(bus_over)["eax"] == CLOSED.code


def test_what_lies_aside_is_gone_with_the_connection():
    server = fresh()
    flow(records(server, message(bytes(9_000))[:5_000]))
    call(bus_fail, error=SILENT.code)
    assert link().aside == 0


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.sampled_from([0, 5, 900, 2_300, 4_096, 9_000, 18_900]), min_size=1, max_size=6),
    st.lists(st.sampled_from([1, 50, 1_400, 2_400, 6_000, CONTENT_MAX]), max_size=8),
    st.sampled_from([0, 0, 7, 3_000]),
)
def test_any_messages_in_any_records_come_whole(sizes, cuts, padding):
    server = fresh()
    bodies = [body(n, size) for n, size in enumerate(sizes)]
    cuts = [min(cut, CONTENT_MAX - padding) for cut in cuts]
    stream = b"".join(map(message, bodies))
    assert flow(records(server, stream, *cuts, padding=padding)) == bodies
