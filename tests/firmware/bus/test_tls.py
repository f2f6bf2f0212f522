"""A link over TLS: lines and messages cut by records, answers sealed, INFO in clear before it."""

import pytest

from firmware.bus.dial import bus_connected, bus_secure
from firmware.bus.messages import bus_take
from firmware.bus.tick import bus_over
from firmware.layouts.bus import BUS, BUS_IN, BusKind, LinkState
from firmware.layouts.bus_sites import CLOSED, MESSAGE_TOO_LONG
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_sites import TRUNCATED
from firmware.limits import RING_BYTES
from tests.support.bus import INFO
from tests.support.tls import TlsBench

BENCH = TlsBench(bus_connected, bus_over, bus_secure, bus_take, semantics=False)
MESSAGES = [b"MSG a.b 2 5\r\nhello\r\n", b"MSG a.c 2 0\r\n\r\n", b"MSG _I.x.7 1 3\r\nyes\r\n"]
BODIES = [b"hello", b"", b"yes"]


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.lab.g(CONFIG).gateway_secure = 1
    config = BENCH.lab.g(FLEET_CONFIG)
    config.magic, config.servers_used = FLEET_MAGIC, 1
    BENCH.lab.g(BUS).wipe()
    BENCH.lab.g(BUS_IN).wipe()
    BENCH.context.tcp.state = TcpState.ESTABLISHED
    window(RING_BYTES)


def window(left):
    """Let the server's window have so many bytes left."""
    tcp = BENCH.context.tcp
    tcp.rcv_adv = (tcp.rcv_nxt + left) % 2**32


def link():
    return BENCH.lab.g(BUS).links[0]


def call(routine):
    return BENCH.call(routine, link=link().address_)


def connected(state=LinkState.UP):
    """Return what seals for us, and what opens what we say."""
    link().state = state
    peers = BENCH.keyed()
    BENCH.tls.state = TlsState.CONNECTED
    return peers


def taken():
    found = []
    while call(bus_take)["eax"] == BusKind.MESSAGE:
        got = BENCH.lab.g(BUS_IN)
        found.append(BENCH.lab.machine.read(got.body, got.body_len) if got.body_len else b"")
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 13, 17, 200])
def test_records_may_cut_a_message_anywhere(size):
    server, _ = connected()
    stream = b"".join(MESSAGES)
    for n in range(0, len(stream), size):
        BENCH.receive(server.seal(stream[n : n + size]))
    assert taken() == BODIES
    assert link().state == LinkState.UP


def test_what_is_incomplete_waits_for_another_record():
    server, _ = connected()
    BENCH.receive(server.seal(MESSAGES[0][:5]))
    assert taken() == []
    BENCH.receive(server.seal(MESSAGES[0][5:15]))
    assert taken() == []
    BENCH.receive(server.seal(MESSAGES[0][15:] + MESSAGES[1]))
    assert taken() == BODIES[:2]


def test_answers_are_sealed():
    server, client = connected()
    BENCH.receive(server.seal(b"PING\r\n"))
    assert taken() == []
    assert client.open(BENCH.sent()) == [(23, b"PONG\r\n")]


def test_a_message_that_can_never_fit_is_stepped_over():
    server, _ = connected()
    BENCH.receive(server.seal(b"MSG a 2 20000\r\n"))
    assert taken() == [b""]
    assert BENCH.lab.g(BUS_IN).unreadable == MESSAGE_TOO_LONG.code
    for _ in range(5):
        BENCH.receive(server.seal(b"x" * 4_000))
        assert taken() == []
    BENCH.receive(server.seal(b"\r\nMSG a 2 4\r\nnext\r\n"))
    assert taken() == [b"next"]


def test_info_is_read_in_clear_and_nothing_behind_it():
    """Whoever adds lines to a clear INFO adds bytes that are no record."""
    link().state = LinkState.INFO
    BENCH.receive(INFO.replace(b'"proto":1', b'"tls_required":true') + b"PING\r\nMSG a 2 0\r\n\r\n")
    assert taken() == []
    assert (link().state, link().informed) == (LinkState.TLS, 1)
    assert BENCH.context.tcp.ring_ready == len(b"PING\r\nMSG a 2 0\r\n\r\n")
    assert BENCH.sent() == b""
    assert taken() == []
    assert BENCH.context.tcp.ring_ready == len(b"PING\r\nMSG a 2 0\r\n\r\n")


class TestSecure:
    @pytest.mark.parametrize(
        ("first", "secure", "state"),
        [(0, 0, LinkState.INFO), (0, 1, LinkState.INFO), (1, 0, LinkState.INFO), (1, 1, LinkState.TLS)],
    )  # fmt: skip
    def test_tls_goes_first_where_both_sides_want_it(self, first, secure, state):
        BENCH.lab.g(FLEET_CONFIG).handshake_first = first
        BENCH.lab.g(CONFIG).gateway_secure = secure
        link().state = LinkState.CONNECT
        BENCH.context.tcp.rcv_nxt = 77
        call(bus_connected)
        assert (link().state, link().rx_seen) == (state, 77)

    @pytest.mark.parametrize(("informed", "state"), [(0, LinkState.INFO), (1, LinkState.HELLO)])
    def test_behind_the_handshake_comes_info_or_the_login(self, informed, state):
        connected(LinkState.TLS)
        link().informed = informed
        call(bus_secure)
        assert link().state == state

    def test_a_handshake_that_failed_leads_nowhere(self):
        link().state, link().informed = LinkState.TLS, 1
        BENCH.tls.state = TlsState.FAILED
        call(bus_secure)
        assert link().state == LinkState.TLS


class TestOver:
    def test_a_failure_of_tls_is_the_links(self):
        connected()
        BENCH.tls.state, BENCH.tls.error = TlsState.FAILED, 0x0512_3456
        assert call(bus_over)["eax"] == 0x0512_3456

    def test_a_connection_that_tcp_has_forgotten(self):
        connected()
        BENCH.context.tcp.state = TcpState.CLOSED
        assert call(bus_over)["eax"] == CLOSED.code

    def test_a_stream_that_is_cut_off_is_no_end(self):
        connected()
        BENCH.context.tcp.state = TcpState.CLOSE_WAIT
        assert call(bus_over)["eax"] & 0xFFFF_0000 == TRUNCATED.code

    def test_an_end_in_order(self):
        server, _ = connected()
        BENCH.receive(server.seal(b"\x01\x00", kind=21))
        assert taken() == []
        assert call(bus_over)["eax"] == CLOSED.code

    def test_as_long_as_it_goes_on(self):
        connected()
        assert call(bus_over)["eax"] == 0
