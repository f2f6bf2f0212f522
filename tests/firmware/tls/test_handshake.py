"""Whole handshakes against OpenSSL, in lockstep: suites, keys, requests, segments; and every fault."""

import ssl

import pytest

from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.tls import MOVES, Group, HandshakeType, Suite, TlsFlag, TlsState
from firmware.layouts.tls_arena import TLS_HELLO_SUITES
from firmware.layouts.tls_sites import Alert
from firmware.tls.begin import tls_begin
from firmware.tls.handshake import tls_take_handshake, tls_take_message, tls_tick
from firmware.tls.transcript import tls_transcript_digest
from firmware.tls.transport import (
    tls_close,
    tls_commit,
    tls_consume,
    tls_more,
    tls_readable,
    tls_reserve,
)
from tests.support.tls import TlsBench
from tests.support.tls_peer import Server

BENCH = TlsBench(
    tls_begin, tls_close, tls_commit, tls_consume, tls_more, tls_readable, tls_reserve,
    tls_take_handshake, tls_take_message, tls_tick, tls_transcript_digest, judged=False,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.lab.g(CLOCK).tsc_cycles_per_ms = 1000
    BENCH.lab.g(CORE).now = 1 << 40
    BENCH.tls.deadline = (1 << 40) + 10_000 * 1000  # as `tls_prepare` left it
    drbg = BENCH.lab.g(DRBG)
    drbg.seeded = 1
    drbg.key[:] = bytes(range(32))


def begun():
    BENCH.call(tls_begin)
    return BENCH.sent()


def tick():
    """Go on until nothing more can be done: a chain is judged by one signature in a turn."""
    while True:
        BENCH.call(tls_tick)
        if BENCH.tls.state == TlsState.FAILED or not BENCH.arena.paused_record:
            return


def connect(server, *, step=None):
    """Let both shake hands; what the server says comes in pieces of `step` bytes."""
    BENCH.trust(server.identity.root)
    answer = server.feed(begun())
    while answer:
        step = step or len(answer)
        for at in range(0, len(answer), step):
            BENCH.receive(answer[at : at + step])
            if BENCH.tls.state < TlsState.CONNECTED:
                tick()
        answer = server.feed(BENCH.sent())
    assert BENCH.tls.state == TlsState.CONNECTED, BENCH.failure()
    assert server.done


def received():
    got = BENCH.call(tls_readable)
    text = BENCH.lab.machine.read(got["rsi"], got["ecx"]) if got["ecx"] else b""
    BENCH.call(tls_consume, length=len(text))
    return text


def send(content):
    got = BENCH.call(tls_reserve, length=len(content))
    assert got["cf"] == 0
    BENCH.lab.machine.write(got["rdi"], content)
    BENCH.call(tls_commit, length=len(content))
    return BENCH.sent()


def talk(server):
    """Say something both ways, and close."""
    server.feed(send(b"from the node"))
    assert server.received == b"from the node"
    BENCH.receive(server.say(b"from the server"))
    assert received() == b"from the server"
    BENCH.receive(server.close())
    assert received() == b""
    assert BENCH.tls.state == TlsState.ENDED


@pytest.mark.parametrize("suite", Suite)
@pytest.mark.parametrize("kind", ["p256", "p384", "rsa2048"])
def test_every_suite_and_key(suite, kind):
    """The server takes the first suite of ours, so ours is put first in the image."""
    server = Server(kind)
    only_suite(suite)
    connect(server)
    chosen = server.tls.cipher()
    assert chosen is not None
    assert chosen[0] == f"TLS_{suite.name}"
    assert BENCH.tls.suite == suite
    talk(server)


def only_suite(suite):
    """Let our hello offer one suite three times."""
    at = BENCH.lab.image.address(TLS_HELLO_SUITES)
    BENCH.lab.machine.write(at + 2, suite.to_bytes(2, "big") * 3)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 100, 1460])
def test_segments_of_any_size(step):
    server = Server(request=True)
    connect(server, step=step)
    talk(server)


@pytest.mark.parametrize("suite", Suite)
def test_a_server_that_insists_on_p256_asks_for_it(suite):
    server = Server(curve="prime256v1")
    only_suite(suite)
    connect(server)
    assert (BENCH.tls.group, BENCH.tls.suite) == (Group.SECP256R1, suite)
    talk(server)


def test_a_server_that_insists_on_another_curve_has_an_alert():
    server = Server(curve="secp384r1")
    BENCH.receive(server.feed(begun()))
    tick()
    assert BENCH.failure()[0] == f"tls.alert_received({Alert.HANDSHAKE_FAILURE})"


def test_a_request_is_answered_with_an_empty_certificate():
    server = Server(request=True)
    connect(server)
    assert BENCH.tls.flags & TlsFlag.REQUESTED
    assert server.tls.getpeercert(binary_form=True) is None
    talk(server)


@pytest.mark.parametrize("tickets", [0, 1, 8])
def test_any_number_of_tickets(tickets):
    server = Server(tickets=tickets)
    connect(server)
    talk(server)


def test_a_server_without_our_protocol_chooses_none():
    server = Server(alpn=())
    connect(server)
    assert server.tls.selected_alpn_protocol() is None


def test_a_server_that_speaks_tls_1_2_alone():
    server = Server(version=ssl.TLSVersion.TLSv1_2)
    BENCH.receive(server.feed(begun()))
    BENCH.call(tls_tick)
    assert BENCH.failure()[0] == f"tls.alert_received({Alert.PROTOCOL_VERSION})"
    assert BENCH.sent() == b""


def test_large_data_both_ways():
    server = Server()
    connect(server)
    text = bytes(n * 7 & 0xFF for n in range(60_000))
    wire, got = server.say(text), b""
    for at in range(0, len(wire), 1460):
        BENCH.receive(wire[at : at + 1460])
        while part := received():
            got += part
    assert got == text
    for at in range(0, 20_000, 4000):
        server.feed(send(text[at : at + 4000]))
    assert server.received == text[:20_000]


@pytest.mark.parametrize("at", range(0, 1400, 61))
def test_one_changed_byte_of_the_flight_ends_the_handshake(at):
    server = Server()
    answer = bytearray(server.feed(begun()))
    answer[at % len(answer)] ^= 0x40
    BENCH.receive(bytes(answer))
    BENCH.call(tls_tick)
    # A changed version of a record means nothing before there are keys; a longer one is waited for.
    if BENCH.tls.state != TlsState.FAILED:
        assert BENCH.tls.state < TlsState.CONNECTED or at % len(answer) in (1, 2, 128, 129)


def test_ten_seconds_are_over():
    begun()
    BENCH.lab.g(CORE).now += 10_000_000 - 1
    BENCH.call(tls_tick)
    assert BENCH.tls.state == TlsState.WAIT_SERVER_HELLO
    BENCH.lab.g(CORE).now += 1
    BENCH.call(tls_tick)
    assert BENCH.failure() == ("tls.handshake_timeout", TlsState.FAILED)


WAITING = [state for state in TlsState if state.name.startswith("WAIT_")]


@pytest.mark.parametrize("state", WAITING)
def test_every_message_in_every_state_gets_its_alert(state):
    """By its type alone, before its body; the alert is sealed once there are keys."""
    for kind in range(256):
        if (state, kind) in MOVES and kind != HandshakeType.HELLO_RETRY_REQUEST:
            continue
        BENCH.reset()
        peer = BENCH.keyed()[1] if state >= TlsState.WAIT_EXTENSIONS else None
        BENCH.tls.state = state
        at = BENCH.lab.put(bytes([kind, 0, 0, 1]))
        BENCH.call(tls_take_handshake, content=at, length=4)
        assert BENCH.failure() == (f"tls.message({state << 8 | kind})", TlsState.FAILED)
        sent = BENCH.sent()
        alert = bytes([2, Alert.UNEXPECTED_MESSAGE])
        assert (
            sent == b"\x15\x03\x03\0\2" + alert
            if peer is None
            else peer.open(sent) == [(21, alert)]
        )
