"""Handshakes in lockstep: a whole one, retries, and every message that may not come."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from firmware.layouts.crypto import DRBG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import Group, TlsState
from firmware.layouts.tls_arena import RETRY_RANDOM, TlsArena
from firmware.layouts.tls_schedule import EARLY_SALTS
from firmware.layouts.tls_sites import Alert
from firmware.tls.begin import tls_begin
from firmware.tls.handshake import tls_take_handshake, tls_take_message, tls_tick
from firmware.tls.judge import tls_wakes
from firmware.tls.transcript import tls_transcript_digest
from tests.support.tls import ARENA, TlsBench
from tests.support.tls_messages import VERSIONS, hello, message, plain, share
from tests.support.tls_peer import Server

BENCH = TlsBench(
    tls_begin, tls_take_handshake, tls_take_message, tls_tick, tls_transcript_digest,
    tls_wakes,     semantics=False,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.lab.g(CLOCK).tsc_cycles_per_ms = 1000
    BENCH.lab.g(CORE).now = 1 << 40
    drbg = BENCH.lab.g(DRBG)
    drbg.seeded = 1
    drbg.key[:] = bytes(range(32))


_BEGUN: dict[str, bytes] = {}


def begun():
    """Send ClientHello; the arena of the first time serves all tests, a key takes long in lockstep."""
    if not _BEGUN:
        BENCH.call(tls_begin)
        _BEGUN["arena"] = BENCH.lab.machine.read(ARENA, TlsArena.message.offset)
        _BEGUN["hello"] = BENCH.sent()
    BENCH.lab.machine.write(ARENA, _BEGUN["arena"])
    BENCH.tls.state, BENCH.tls.deadline = TlsState.WAIT_SERVER_HELLO, 1 << 60
    return _BEGUN["hello"]


def test_a_handshake_with_openssl():
    server = Server(request=True)
    BENCH.trust(server.identity.root)
    answer = server.feed(begun())
    BENCH.receive(answer)
    turns = 1
    BENCH.call(tls_tick)
    while BENCH.tls.state == TlsState.WAIT_VERIFY:
        assert BENCH.call(tls_wakes) == {"rax": BENCH.lab.g(CORE).now}
        BENCH.call(tls_tick)
        turns += 1
    assert turns == 3, "two signatures, then the rest"
    assert BENCH.tls.state == TlsState.CONNECTED, BENCH.failure()
    server.feed(BENCH.sent())
    assert server.done
    assert server.tls.selected_alpn_protocol() == "http/1.1"
    assert BENCH.tls.group == Group.X25519
    assert BENCH.tls.meaningless == 0, "records with content follow change_cipher_spec"


# -- what may not come ----------------------------------------------------------------------------
def refused(*records):
    begun()
    BENCH.receive(b"".join(records))
    BENCH.call(tls_tick)
    assert BENCH.tls.state == TlsState.FAILED
    return BENCH.failure()[0].removeprefix("tls.")


def test_change_cipher_spec_is_bounded_and_never_within_a_message():
    ccs = plain(b"\1", 20)
    assert refused(ccs * 33) == "record_flood(20)"


def test_change_cipher_spec_within_a_message():
    assert refused(plain(b"\2\0"), plain(b"\1", 20)) == "interleaved(20)"


def test_a_hello_that_is_followed_in_its_record():
    body = hello(VERSIONS, share(), session_id=b"")
    assert refused(plain(message(body) + b"\x08")) == "key_change(2)"


def test_a_message_that_is_too_long():
    assert refused(plain(b"\2\0\x60\1")) == "message_too_long(2)"


def test_a_share_of_small_order():
    begun()
    session = BENCH.arena.session_id[:]
    body = hello(VERSIONS, share(key=bytes(32)), session_id=session)
    BENCH.receive(plain(message(body)))
    BENCH.call(tls_tick)
    assert BENCH.failure()[0] == "tls.key_share"
    assert bytes(BENCH.arena.private) == bytes(32)


def test_a_fin_within_the_handshake_is_a_truncation():
    begun()
    BENCH.context.tcp.state = TcpState.CLOSE_WAIT
    BENCH.call(tls_tick)
    assert BENCH.failure()[0] == "tls.truncated"


def retried():
    """Answer our first hello with a request for another one; return both hellos and the request."""
    first = begun()
    body = hello(
        VERSIONS, (44, b"\0\6cookie"), random=RETRY_RANDOM, session_id=BENCH.arena.session_id[:]
    )
    BENCH.receive(plain(message(body)))
    BENCH.call(tls_tick)
    return first, message(body), BENCH.sent()


def test_a_retry_is_answered_with_the_cookie():
    first, request, second = retried()
    assert BENCH.tls.state == TlsState.WAIT_SECOND_HELLO
    assert second[:11] == b"\x14\x03\x03\0\1\1\x16\x03\x03" + second[9:11]
    again = second[11:]
    # All that changes is the cookie at the end, and the lengths.
    assert again[4:79] == first[9:84]
    assert again.endswith(b"\0\x2c\0\x08\0\6cookie")
    BENCH.call(tls_transcript_digest)
    stands = b"\xfe\0\0\x20" + hashlib.sha256(first[5:]).digest()
    assert BENCH.arena.digest[:32] == hashlib.sha256(stands + request + again).digest()


def test_a_second_retry_is_refused():
    _, request, _ = retried()
    BENCH.receive(plain(request))
    BENCH.call(tls_tick)
    assert BENCH.failure()[0] == f"tls.message({TlsState.WAIT_SECOND_HELLO << 8 | 6})"


def test_a_retry_for_a_group_that_is_not_offered():
    begun()
    body = hello(
        VERSIONS, (51, b"\0\x18"), random=RETRY_RANDOM, session_id=BENCH.arena.session_id[:]
    )
    BENCH.receive(plain(message(body)))
    BENCH.call(tls_tick)
    assert BENCH.failure()[0] == "tls.group(24)"


# -- P-256 ----------------------------------------------------------------------------------------
_ASKED: dict[str, bytes] = {}
PEER = ec.derive_private_key(0xDECADE, ec.SECP256R1())


def encoded(public):
    return public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def asked():
    """Ask for a share of P-256; return it. As with `begun`, once is enough."""
    if not _ASKED:
        begun()
        body = hello(
            VERSIONS, (51, b"\0\x17"), random=RETRY_RANDOM, session_id=BENCH.arena.session_id[:]
        )
        BENCH.receive(plain(message(body)))
        BENCH.call(tls_tick)
        _ASKED["arena"] = BENCH.lab.machine.read(ARENA, TlsArena.message.offset)
        _ASKED["hello"] = BENCH.sent()
    BENCH.lab.machine.write(ARENA, _ASKED["arena"])
    BENCH.tls.state, BENCH.tls.deadline = TlsState.WAIT_SECOND_HELLO, 1 << 60
    return _ASKED["hello"]


def answered(key):
    """Answer the second hello with a share of P-256."""
    again = asked()
    body = hello(VERSIONS, share(Group.SECP256R1, key), session_id=BENCH.arena.session_id[:])
    BENCH.receive(plain(message(body)))
    BENCH.call(tls_tick)
    return again


def test_a_retry_for_p256_is_answered_with_a_share_of_it():
    again = asked()
    extension = b"\0\x33\0\x47\0\x45\0\x17\0\x41"
    assert again.count(extension) == 1
    private = int.from_bytes(bytes(BENCH.arena.private), "little")
    public = ec.derive_private_key(private, ec.SECP256R1()).public_key()
    assert again.endswith(extension + encoded(public))


def test_a_share_of_p256_gives_what_the_peer_finds():
    again = answered(encoded(PEER.public_key()))
    assert (BENCH.tls.state, BENCH.tls.group) == (TlsState.WAIT_EXTENSIONS, Group.SECP256R1)
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), again[-65:])
    salt = EARLY_SALTS[32].init
    assert salt is not None
    secret = hmac.digest(salt, PEER.exchange(ec.ECDH(), public), "sha256")
    assert BENCH.arena.secret[:32] == secret
    assert bytes(BENCH.arena.private) + bytes(BENCH.arena.shared) == bytes(96)


GOOD = encoded(PEER.public_key())


@pytest.mark.parametrize(
    "key",
    [
        GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
        b"\x06" + GOOD[1:],
        b"\x04" + bytes(64),
        b"\x04" + b"\xff" * 64,
        bytes(65),
    ],
)
def test_a_share_that_is_no_point_is_refused(key):
    answered(key)
    assert BENCH.failure() == ("tls.key_share", TlsState.FAILED)
    assert BENCH.sent() == b"\x15\x03\x03\0\2" + bytes([2, Alert.ILLEGAL_PARAMETER])
    assert bytes(BENCH.arena.private) + bytes(BENCH.arena.shared) == bytes(96)


@pytest.mark.parametrize("key", [b"", b"\0", GOOD[:33], GOOD[:-1], GOOD + b"\0"])
def test_a_share_of_a_wrong_length_is_refused(key):
    answered(key)
    assert BENCH.failure() == ("tls.key_share", TlsState.FAILED)
