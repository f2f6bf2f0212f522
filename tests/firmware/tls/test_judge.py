"""Chains in a handshake: every reason has its failure and its alert; a known chain costs nothing."""

import hashlib

import pytest

from firmware.errors import SITES
from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.tls import Suite, TlsState
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.x509 import EARLY, EXPIRED, NAME, PIN, SIGNATURE, UNKNOWN_ISSUER, VERDICTS
from firmware.layouts.x509_chain import KNOWN_CHAINS
from firmware.tls.begin import tls_begin
from firmware.tls.handshake import tls_take_handshake, tls_tick
from firmware.tls.judge import tls_verdict
from tests.support.chains import root as stranger
from tests.support.tls import ARENA, DATE, Peer, TlsBench
from tests.support.tls_peer import Server, identity
from toolchain.trust import read_anchor

BENCH = TlsBench(tls_begin, tls_take_handshake, tls_tick, tls_verdict, judged=False)
DAY = 86_400


@pytest.fixture(autouse=True)
def _fresh():
    again()


def again():
    BENCH.reset()
    BENCH.lab.g(CLOCK).tsc_cycles_per_ms = 1000
    BENCH.lab.g(CORE).now = 1 << 40
    BENCH.lab.g(DRBG).seeded = 1


def turns(server):
    """Shake hands as far as it goes; return the node's turns."""
    BENCH.call(tls_begin)
    BENCH.receive(server.feed(BENCH.sent()))
    for turn in range(1, 100):
        BENCH.call(tls_tick)
        if BENCH.tls.state != TlsState.WAIT_VERIFY:
            server.feed(BENCH.sent())
            return turn
    raise AssertionError("the chain is never settled")


@pytest.mark.parametrize("reason", VERDICTS, ids=lambda reason: reason.name)
def test_every_reason_is_told_with_what_it_is_about(reason):
    found = BENCH.lab.call(tls_verdict, reason=reason.code | 5).outputs["r9d"]
    assert found == VERDICTS[reason].code | reason.number << 8 | 5
    assert VERDICTS[reason] in SITES.values()


def refused(reason, alert, *, about=0, shown=None, root=None, now=DATE, pins=()):
    server = Server(shown=shown or identity())
    BENCH.trust(root or server.identity.root, pins=pins)
    BENCH.lab.g(CLOCK).unix_time = now
    turns(server)
    told = f"tls.{VERDICTS[reason].name}({reason.name}, {about})"
    assert BENCH.failure() == (told, TlsState.FAILED)
    assert server.reason == alert
    # Nothing is left of the handshake, and the next one can have its arena.
    assert BENCH.tls.arena_ptr == 0
    assert BENCH.lab.g(TLS_POOL).slots[0].owner == 0
    assert BENCH.lab.machine.read(ARENA, TlsArena.SIZE) == bytes(TlsArena.SIZE)


def test_a_root_that_nobody_trusts():
    refused(UNKNOWN_ISSUER, "TLSV1_ALERT_UNKNOWN_CA", root=stranger("nobody"))


def test_a_root_of_the_same_name_with_another_key():
    """Both chains have the names of `identity`, so only the signature tells them apart."""
    other = identity("p256", host="other.example")
    refused(SIGNATURE, "SSLV3_ALERT_BAD_CERTIFICATE", about=1, root=other.root)


def test_another_host():
    shown = identity("p256", host="other.example")
    refused(NAME, "SSLV3_ALERT_CERTIFICATE_UNKNOWN", shown=shown)


def test_a_leaf_that_is_over():
    refused(EXPIRED, "SSLV3_ALERT_CERTIFICATE_EXPIRED", shown=identity(days=30))


def test_a_leaf_that_is_not_yet_valid():
    refused(EARLY, "SSLV3_ALERT_CERTIFICATE_EXPIRED", now=DATE - 200 * DAY)


def test_a_chain_without_a_pinned_key():
    refused(PIN, "SSLV3_ALERT_BAD_CERTIFICATE", pins=(bytes(32),))


def test_a_chain_with_a_pinned_key():
    server = Server()
    pin = hashlib.sha256(read_anchor(server.identity.root).spki).digest()
    BENCH.trust(server.identity.root, pins=(bytes(32), pin))
    assert turns(server) == 3
    assert BENCH.tls.state == TlsState.CONNECTED


def test_a_chain_that_was_judged_before_needs_no_signature():
    server = Server()
    BENCH.trust(server.identity.root)
    assert turns(server) == 3
    assert BENCH.tls.state == TlsState.CONNECTED
    known = BENCH.lab.image.address(KNOWN_CHAINS)
    kept = BENCH.lab.machine.read(known, KNOWN_CHAINS.struct.SIZE)
    again()
    BENCH.lab.machine.write(known, kept)
    server = Server()
    BENCH.trust(server.identity.root)
    assert turns(server) == 1
    assert (BENCH.tls.state, server.done) == (TlsState.CONNECTED, True)


@pytest.mark.parametrize("size", [16384, 700, 61])
def test_what_follows_the_certificate_in_its_record_waits_for_the_chain(size):
    """Some servers put their whole flight into one record; here it comes in records of any size."""
    server = Server()
    BENCH.trust(server.identity.root)
    BENCH.call(tls_begin)
    flight = server.feed(BENCH.sent())
    first = flight.index(b"\x17\x03\x03")
    BENCH.receive(flight[:first])
    BENCH.call(tls_tick)
    secret = bytes(BENCH.arena.server_secret[:48]).rstrip(b"\0")
    suite = Suite(BENCH.tls.suite)
    messages = b"".join(content for _, content in Peer(suite, secret).open(flight[first:]))
    peer = Peer(suite, secret)
    for at in range(0, len(messages), size):
        BENCH.receive(peer.seal(messages[at : at + size], kind=22))
        BENCH.call(tls_tick)
        while BENCH.tls.arena_ptr and BENCH.arena.paused_record:
            assert BENCH.tls.state == TlsState.WAIT_VERIFY
            BENCH.call(tls_tick)
    assert BENCH.tls.state == TlsState.CONNECTED
    server.feed(BENCH.sent())
    assert server.done
    assert BENCH.context.tcp.ring_ready == 0
