"""A link from the dial to UP, what keeps it there and what ends it, in lockstep."""

import json

import pytest

from emulator.simulation.packet import ACK, FIN, RST, SYN
from firmware.bus.tick import bus_link_tick
from firmware.bus.turn import bus_flush, bus_next, bus_tick
from firmware.layouts.bus import BUS, BusKind, LinkState
from firmware.layouts.bus_sites import (
    CLOSED,
    LAME_DUCK,
    NO_ADDRESS,
    NO_CONNECTION,
    SILENT,
    TIMEOUT,
    UNAUTHORIZED,
    UNEXPECTED,
)
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.fleet_config import FLEET_CONFIG, BusAuth
from firmware.layouts.node import CLOCK, LEASE, NETWORK
from firmware.layouts.tcp import TCP_RESET, TcpState
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.tls_sites import NO_ARENA
from firmware.layouts.variants import VARIANTS
from tests.support.bus import INFO, BusBench
from tests.support.segments import NOW, OUR_PORT, PEER_IP, loaded, ms

BENCH = BusBench(bus_link_tick, bus_tick, bus_flush, bus_next, semantics=False)
CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1,'
    b'"lang":"shardfw","name":"n7","user":"n7","pass":"pw"}\r\nSUB _I.n7.3fa2c1d0.c.* 1\r\nPING\r\n'
)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def tick():
    return BENCH.bus(bus_link_tick)["rax"]


def flush():
    """Let both links send; DATA is left out."""
    BENCH.lab.g(BUS).links[1].context = 0
    return BENCH.call(bus_flush)["rax"]


def left():
    """Return what control bits and payloads left."""
    return [(t.flags, t.payload) for t in BENCH.sent()]


def server(control=ACK, payload=b""):
    tcp = BENCH.tcp
    BENCH.feed(control, payload=payload, ports=(4222, tcp.local_port))


def connected():
    """Bring the link as far as INFO is waited for."""
    BENCH.login(BusAuth.USER)
    tick()
    assert BENCH.link.state == LinkState.CONNECT
    (syn,) = BENCH.sent()
    assert (syn.flags, syn.dst_port) == (SYN, 4222)
    BENCH.feed(SYN | ACK, seq=4999, ack=syn.seq + 1, ports=(4222, BENCH.tcp.local_port))


def logged_in():
    """Bring the link UP."""
    connected()
    server(payload=INFO)
    tick()
    assert BENCH.link.state == LinkState.HELLO
    flush()
    BENCH.sent()
    server(payload=b"PONG\r\n")
    tick()
    assert BENCH.link.state == LinkState.UP


def prepare_tls():
    """Let the node want TLS, and have all of it but arenas."""
    BENCH.lab.g(CONFIG).gateway_secure = 1
    BENCH.lab.g(VARIANTS).usable = 1
    BENCH.lab.g(CLOCK).unix_time = BENCH.lab.g(CONFIG).build_time = 1_800_000_000
    BENCH.lab.g(CLOCK).unix_tsc = NOW


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


class TestDown:
    def test_it_waits_for_its_time(self):
        BENCH.link.next_try = ms(5)
        assert tick() == ms(5)
        assert BENCH.link.state == LinkState.DOWN
        BENCH.at(5)
        tick()
        assert BENCH.link.state == LinkState.CONNECT

    def test_it_waits_for_an_address_of_its_own(self):
        BENCH.lab.g(NETWORK).configured = 0
        assert tick() == ms(100)
        assert BENCH.link.state == LinkState.DOWN

    def test_without_a_clock_nothing_is_dialled(self):
        BENCH.lab.g(CLOCK).tsc_cycles_per_ms = 0
        assert tick() == NEVER
        assert BENCH.link.state == LinkState.DOWN

    def test_a_name_without_an_address(self):
        BENCH.lab.g(FLEET_CONFIG).servers[0].host[0:3] = b"a.b"
        BENCH.lab.g(FLEET_CONFIG).servers[0].host_len = 3
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, NO_ADDRESS.code)

    def test_a_name_is_waited_for_until_the_attempt_is_over(self):
        config = BENCH.lab.g(FLEET_CONFIG)
        config.servers[0].host[0:3], config.servers[0].host_len = b"a.b", 3
        BENCH.lab.g(NETWORK).dns1 = loaded(PEER_IP)
        assert tick() == ms(15_000)
        assert BENCH.link.state == LinkState.RESOLVE
        BENCH.at(15_000)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, TIMEOUT.code)

    def test_a_handshake_waits_for_an_arena(self):
        prepare_tls()
        pool = BENCH.lab.g(TLS_POOL)
        pool.slots[0].address, pool.slots[0].owner = 0x6B00_0000, BENCH.shards[1]
        assert tick() == ms(15_000)
        # It stands in no queue: a node of a fleet looks ten times a second.
        assert (BENCH.link.state, pool.waiting) == (LinkState.RESOLVE, 0)

    def test_without_arenas_there_is_no_tls(self):
        prepare_tls()
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, NO_ARENA.code)
        assert BENCH.context.failure == 0

    def test_no_entropy_no_connection(self):
        BENCH.lab.g(DRBG).seeded = 0
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, NO_CONNECTION.code)

    def test_the_servers_are_tried_in_turn_and_the_waits_grow(self):
        BENCH.servers(3)
        waits, ports, now = [], [], 0
        for _ in range(8):
            tick()
            (syn,) = BENCH.sent()
            ports.append(syn.dst_port)
            BENCH.feed(RST | ACK, seq=0, ack=syn.seq + 1, ports=(syn.dst_port, syn.src_port))
            due = tick()
            waits.append((due - ms(now)) // 1000)
            now += waits[-1]
            BENCH.at(now)
        assert ports == [4222, 4223, 4224, 4222, 4223, 4224, 4222, 4223]
        for n, wait in enumerate(waits):
            assert min(50 << min(n, 4), 2000) <= wait <= min(250 << min(n, 4), 2000)
        assert len(set(waits[:4])) == 4
        assert [line.split()[0] for line in BENCH.lines()] == ["bus.down"] + ["bus.retry"] * 7

    @pytest.mark.parametrize("state", [LinkState.CONNECT, LinkState.INFO])
    def test_a_server_that_says_nothing_is_left_soon(self, state):
        """One that stands still: its kernel takes the connection."""
        if state == LinkState.CONNECT:
            tick()
        else:
            connected()
        BENCH.at(2_999)
        tick()
        assert BENCH.link.state == state
        BENCH.at(3_000)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, TIMEOUT.code)

    def test_the_attempt_has_an_end(self):
        connected()
        tick()
        server(payload=INFO[:40])
        BENCH.at(14_999)
        tick()
        assert BENCH.link.state == LinkState.INFO
        BENCH.at(15_000)
        tick()
        assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, TIMEOUT.code)

    def test_what_the_name_took_does_not_count(self):
        config = BENCH.lab.g(FLEET_CONFIG)
        whole = bytes(config.servers[0].host), config.servers[0].host_len
        config.servers[0].host[0:3], config.servers[0].host_len = b"a.b", 3
        BENCH.lab.g(NETWORK).dns1 = loaded(PEER_IP)
        tick()
        config.servers[0].host[:], config.servers[0].host_len = whole
        BENCH.at(13_000)
        assert tick() == ms(15_000)
        assert BENCH.link.state == LinkState.CONNECT


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


class TestTurn:
    def test_a_node_without_a_fleet_has_no_links(self):
        BENCH.lab.g(FLEET_CONFIG).magic = 0
        assert BENCH.call(bus_tick)["rax"] == NEVER
        assert BENCH.call(bus_flush)["rax"] == NEVER
        assert BENCH.link.state == LinkState.DOWN

    def test_both_links_are_dialled(self):
        assert BENCH.call(bus_tick)["rax"] == ms(3_000)
        links = BENCH.lab.g(BUS).links
        assert [links[n].state for n in range(2)] == [LinkState.CONNECT] * 2
        assert [t.flags for t in BENCH.sent()] == [SYN, SYN]

    def test_the_nearer_deadline_counts(self):
        links = BENCH.lab.g(BUS).links
        links[0].next_try, links[1].next_try = ms(90), ms(80)
        assert BENCH.call(bus_tick)["rax"] == ms(80)
        links[0].next_try = ms(70)
        assert BENCH.call(bus_tick)["rax"] == ms(70)

    def test_a_link_without_a_workspace_is_left_out(self):
        BENCH.lab.g(BUS).links[1].context = 0
        BENCH.call(bus_tick)
        assert len(BENCH.sent()) == 1

    def test_what_fails_while_it_sends_is_looked_at_at_once(self):
        BENCH.up()
        BENCH.tcp.give_up_at = NOW
        assert BENCH.call(bus_flush)["rax"] == NOW
        tick()
        assert BENCH.link.state == LinkState.DOWN

    def test_what_is_written_leaves(self):
        BENCH.up()
        BENCH.queue(b"PING\r\n")
        assert BENCH.call(bus_flush)["rax"] == ms(1000)
        assert [payload for _, payload in left()] == [b"PING\r\n"]
        assert BENCH.tcp.local_port == OUR_PORT
