"""A link from the dial to UP, what keeps it there and what ends it, in lockstep."""

import json

import pytest

from emulator.simulation.packet import ACK, FIN, RST
from firmware.bus.turn import bus_next
from firmware.layouts.bus import BUS, BusKind, LinkState
from firmware.layouts.bus_sites import CLOSED, LAME_DUCK, SILENT, UNAUTHORIZED, UNEXPECTED
from firmware.layouts.fleet_config import BusAuth
from firmware.layouts.node import LEASE
from firmware.layouts.tcp import TCP_RESET, TcpState
from tests.support.bus import INFO
from tests.support.bus_link import BENCH, connected, flush, left, logged_in, server, tick
from tests.support.segments import NOW, ms

CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1,'
    b'"lang":"shardfw","name":"n7","user":"n7","pass":"pw"}\r\nSUB _I.n7.3fa2c1d0.c.* 1\r\nPING\r\n'
)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def test_from_the_dial_to_up():
    connected()
    assert tick() == ms(3_000)
    assert BENCH.link.state == LinkState.INFO
    for n in range(0, len(INFO), 40):
        server(payload=INFO[n : n + 40])
        tick()
    assert BENCH.link.state == LinkState.HELLO
    BENCH.sent()
    flush()
    assert [payload for _, payload in left()] == [CONNECT]
    server(payload=b"PONG\r\n" + INFO)
    assert tick() == ms(1_250)
    link = BENCH.link
    assert (link.state, link.ups, link.failures, link.error) == (LinkState.UP, 1, 0, 0)
    assert (link.version, link.max_payload, link.clustered) == (0x020F01, 8388608, 0)
    assert BENCH.lines() == ["bus.up link=control address=10.0.0.1 port=4222 version=0x20f01"]


def test_the_password_is_in_no_log_line():
    logged_in()
    assert not any("pw" in line for line in BENCH.lines())


@pytest.mark.parametrize("auth", list(BusAuth)[:2])
@pytest.mark.parametrize(("user", "password"), [(b"n7", b"pw"), (b'a"b\\', b'\x00\x1f"' * 20)])
def test_connect_is_json_whatever_the_login_holds(auth, user, password):
    connected()
    BENCH.login(auth, user, password)
    server(payload=INFO)
    tick()
    line = BENCH.queued().split(b"\r\n")[0]
    told = json.loads(line.removeprefix(b"CONNECT "))
    assert told["name"] == "n7"
    wanted = (user.decode(), password.decode()) if auth == BusAuth.USER else (None, None)
    assert (told.get("user"), told.get("pass")) == wanted


def test_a_login_that_finds_no_room_is_tried_again():
    connected()
    tick()
    server(payload=INFO)
    BENCH.tcp.tx_end = 8000
    tick()
    assert BENCH.link.state == LinkState.TLS
    BENCH.tcp.tx_end = 0
    tick()
    assert BENCH.link.state == LinkState.HELLO


def test_a_wrong_login_is_refused_and_tried_again_slowly():
    connected()
    server(payload=INFO + b"-ERR 'Authorization Violation'\r\n")
    assert tick() == ms(10_000)
    assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, UNAUTHORIZED.code)
    assert BENCH.lines()[-1] == (
        f"bus.refused link=control error={UNAUTHORIZED.code:#x} server=0 retry=10000"
    )


@pytest.mark.parametrize(("tried", "waits"), [(0, False), (1, False), (2, True)])
def test_a_refusal_is_waited_for_after_the_last_server_alone(tried, waits):
    connected()
    BENCH.servers(3)
    BENCH.link.server = tried
    server(payload=INFO + b"-ERR 'Authorization Violation'\r\n")
    due = tick()
    assert BENCH.link.server == (tried + 1) % 3
    assert (due == ms(10_000)) is waits
    assert waits or ms(50) <= due <= ms(250)


def test_a_message_before_the_login_ends_the_link():
    connected()
    server(payload=INFO + b"MSG a 1 1\r\nx\r\n")
    tick()
    assert BENCH.link.error == UNEXPECTED.code


class TestUp:
    def test_a_ping_is_answered(self):
        logged_in()
        server(payload=b"PING\r\n")
        tick()
        assert BENCH.queued() == b"PONG\r\n"

    @pytest.mark.parametrize(
        "text", [b"PING\r\n", b"-ERR 'Stale Connection'\r\n", b"any words\r\n"]
    )
    def test_what_is_left_of_a_message_is_no_line(self, text):
        logged_in()
        server(payload=text)
        BENCH.link.skip = len(text) + 2
        tick()
        assert (BENCH.link.state, BENCH.link.skip, BENCH.queued()) == (
            LinkState.UP,
            len(text) + 2,
            b"",
        )
        assert BENCH.tcp.ring_ready == len(text)

    def test_a_ping_that_finds_no_room_is_answered_later(self):
        logged_in()
        server(payload=b"PING\r\n")
        tcp = BENCH.tcp
        tcp.tx_start, tcp.tx_end = 0, 8190
        tick()
        assert (BENCH.link.pong_owed, tcp.tx_end) == (1, 8190)
        tcp.tx_end = 0
        tick()
        assert (BENCH.link.pong_owed, BENCH.queued()) == (0, b"PONG\r\n")

    def test_a_ping_is_not_answered_in_the_middle_of_a_message(self):
        logged_in()
        server(payload=b"PING\r\n")
        BENCH.link.midway = 1
        tick()
        assert (BENCH.link.pong_owed, BENCH.queued()) == (1, b"")
        BENCH.link.midway = 0
        tick()
        assert (BENCH.link.pong_owed, BENCH.queued()) == (0, b"PONG\r\n")

    def test_a_silent_server_is_asked_and_then_given_up(self):
        logged_in()
        BENCH.sent()
        BENCH.at(1_249)
        assert tick() == ms(1_250)
        BENCH.at(1_250)
        assert tick() == ms(2_500)
        assert (BENCH.link.asked, BENCH.queued()) == (1, b"PING\r\n")
        BENCH.at(2_499)
        assert tick() == ms(2_500)
        assert BENCH.queued() == b"PING\r\n"
        BENCH.at(2_500)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, SILENT.code)
        assert BENCH.tcp.state == TcpState.CLOSED

    def test_any_byte_shows_that_the_server_is_there(self):
        logged_in()
        BENCH.at(1_250)
        tick()
        server(payload=b"P")
        assert tick() == ms(2_500)
        assert BENCH.link.asked == 0
        BENCH.at(2_500)
        assert tick() == ms(3_750)

    def test_data_is_asked_after_five_seconds_and_given_up_after_ten(self):
        logged_in()
        BENCH.link.index = 1
        assert tick() == ms(5_000)
        BENCH.at(5_000)
        assert tick() == ms(10_000)
        BENCH.at(10_000)
        tick()
        assert BENCH.link.error == SILENT.code

    def test_a_server_about_to_stop_is_left_when_there_is_another(self):
        logged_in()
        server(payload=INFO.replace(b'"proto":1', b'"ldm":true'))
        tick()
        assert BENCH.link.state == LinkState.UP
        BENCH.servers(2)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, LAME_DUCK.code)
        assert BENCH.link.server == 1

    def test_a_reset_ends_it(self):
        logged_in()
        server(RST | ACK)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, TCP_RESET.code)
        assert BENCH.lines()[-1].split()[0] == "bus.down"

    def test_what_the_server_said_last_is_heard_before_its_end(self):
        logged_in()
        server(payload=b"-ERR 'Stale Connection'\r\n")
        server(RST | ACK)
        tick()
        assert BENCH.lines()[-1].startswith("bus.down link=control error=0xc100000")

    def test_an_end_counts_when_all_was_read(self):
        logged_in()
        server(FIN | ACK, payload=b"MSG a 2 1\r\nx\r\n")
        tick()
        assert BENCH.link.state == LinkState.UP
        assert BENCH.bus(bus_next)["eax"] == BusKind.MESSAGE
        assert BENCH.bus(bus_next)["eax"] == BusKind.NONE
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, CLOSED.code)

    def test_a_link_needs_no_lease(self):
        BENCH.lab.g(LEASE).expired = 1
        logged_in()

    def test_after_an_end_it_comes_up_again_and_says_so(self):
        logged_in()
        server(RST | ACK)
        due = tick()
        BENCH.lab.g(BUS).links[0].next_try = NOW
        assert ms(50) <= due <= ms(250)
        BENCH.sent()
        logged_in()
        assert BENCH.link.ups == 2
