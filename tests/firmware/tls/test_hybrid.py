"""X25519MLKEM768 in lockstep: what hellos offer, what servers answer, and what both sides then know.

The server's half is another library's. Lengths and order are those of draft-ietf-tls-ecdhe-mlkem: ML-KEM
comes first in shares and secret.
"""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from firmware.layouts.config import HOST_MAX
from firmware.layouts.crypto import DRBG
from firmware.layouts.mlkem import MlKemKey
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.tls import COOKIE_MAX, Group, Hybrid, TlsState
from firmware.layouts.tls_arena import RETRY_RANDOM, TlsArena
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.tls_schedule import EARLY_SALTS
from firmware.layouts.tls_sites import Alert
from firmware.limits import RECEIVE_MSS
from firmware.tls.begin import tls_begin
from firmware.tls.handshake import tls_tick
from firmware.tls.hello import tls_write_hello
from tests.firmware.tls.test_hello import extensions
from tests.support.tls import ARENA, NAME, TlsBench
from tests.support.tls_messages import VERSIONS, hello, message, plain, share
from tests.support.tls_peer import Server

BENCH = TlsBench(tls_begin, tls_tick, tls_write_hello, semantics=False)
FREE = TlsBench(tls_begin, tls_tick, judged=False)
GROUPS, SHARES = 10, 51
PEER = X25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
THEIRS = PEER.public_key().public_bytes_raw()
ILLEGAL = b"\x15\x03\x03\0\2" + bytes([2, Alert.ILLEGAL_PARAMETER])


def fresh(bench):
    """Put a bench back, with time and random numbers."""
    bench.reset()
    bench.lab.g(CLOCK).tsc_cycles_per_ms = 1000
    bench.lab.g(CORE).now = 1 << 40
    drbg = bench.lab.g(DRBG)
    drbg.seeded = 1
    drbg.key[:] = bytes(range(32))


@pytest.fixture(autouse=True)
def _fresh():
    fresh(BENCH)


_BEGUN: dict[Hybrid, tuple[bytes, bytes]] = {}


def begun(mode):
    """Send ClientHello and return it; the arena of the first time serves all tests."""
    BENCH.lab.g(TLS_POOL).hybrid = mode
    if mode not in _BEGUN:
        BENCH.call(tls_begin)
        sent = BENCH.sent()
        _BEGUN[mode] = BENCH.lab.machine.read(ARENA, TlsArena.message.offset), sent
    arena, sent = _BEGUN[mode]
    BENCH.lab.machine.write(ARENA, arena)
    BENCH.tls.state, BENCH.tls.deadline = TlsState.WAIT_SERVER_HELLO, 1 << 60
    return sent


def shares(record):
    """Return the groups of a hello in its record, and its shares by group."""
    assert record[:1] == b"\x16"
    assert int.from_bytes(record[3:5], "big") == len(record) - 5
    found = dict(extensions(record[5:]))
    listed, entries = found[GROUPS], found[SHARES]
    assert int.from_bytes(entries[:2], "big") == len(entries) - 2
    keys, at = {}, 2
    while at < len(entries):
        group, size = (int.from_bytes(entries[at + n : at + n + 2], "big") for n in (0, 2))
        keys[group] = entries[at + 4 : at + 4 + size]
        at += 4 + size
    assert at == len(entries)
    numbers = [int.from_bytes(listed[n : n + 2], "big") for n in range(2, len(listed), 2)]
    return numbers, keys


def answer(*more, random=b"r" * 32):
    """Let the server's hello arrive."""
    body = hello(VERSIONS, *more, random=random, session_id=BENCH.arena.session_id[:])
    BENCH.receive(plain(message(body)))
    BENCH.call(tls_tick)


def retry(*more):
    """Let a HelloRetryRequest arrive; return the second hello in its record."""
    answer(*more, random=RETRY_RANDOM)
    assert BENCH.tls.state == TlsState.WAIT_SECOND_HELLO, BENCH.failure()
    sent = BENCH.sent()
    assert sent[:6] == b"\x14\x03\x03\0\1\1"
    return sent[6:]


def encapsulated(ours):
    """Return the server's share for one of ours, and the secret of both."""
    secret, ciphertext = MLKEM768PublicKey.from_public_bytes(ours[:1184]).encapsulate()
    return ciphertext + THEIRS, secret + PEER.exchange(
        X25519PublicKey.from_public_bytes(ours[1184:])
    )


def agreed(secret, group):
    """The handshake secret is of exactly that, and no key of ours is left."""
    assert (BENCH.tls.state, BENCH.tls.group) == (TlsState.WAIT_EXTENSIONS, group)
    salt = EARLY_SALTS[32].init
    assert salt is not None
    assert BENCH.arena.secret[:32] == hmac.digest(salt, secret, "sha256")
    left = bytes(BENCH.arena.private) + bytes(BENCH.arena.shared)
    assert left == bytes(len(left))
    kem = BENCH.arena.kem.address_
    assert BENCH.lab.machine.read(kem, MlKemKey.SIZE) == bytes(MlKemKey.SIZE)


def hybrid_group(key):
    return share(Group.X25519MLKEM768, key)


def test_a_hello_without_it_says_nothing_of_it():
    groups, keys = shares(begun(Hybrid.OFF))
    assert groups == [*list(keys), Group.SECP256R1] == [Group.X25519, Group.SECP256R1]
    assert len(keys[Group.X25519]) == 32


def test_both_shares_have_one_key_of_x25519():
    sent = begun(Hybrid.SHARE)
    groups, keys = shares(sent)
    assert groups == [Group.X25519MLKEM768, Group.X25519, Group.SECP256R1]
    assert list(keys) == groups[:2]
    assert len(keys[Group.X25519MLKEM768]) == 1216
    assert keys[Group.X25519MLKEM768][1184:] == keys[Group.X25519]
    assert keys[Group.X25519MLKEM768][:1184] == bytes(BENCH.arena.kem.ek)
    # The longest name takes a second segment.
    assert (len(sent), RECEIVE_MSS - len(sent) < HOST_MAX - len(NAME)) == (1430, True)
    assert bytes(BENCH.arena.shared) == bytes(64), "the seed is forgotten"


def test_what_it_is_made_from_is_drawn_for_each_connection():
    _, first = shares(begun(Hybrid.SHARE))
    BENCH.reset()
    BENCH.lab.g(DRBG).seeded, BENCH.lab.g(TLS_POOL).hybrid = 1, Hybrid.SHARE
    BENCH.lab.g(DRBG).key[:] = bytes(range(1, 33))
    BENCH.call(tls_begin)
    _, second = shares(BENCH.sent())
    for group, key in first.items():
        assert key != second[group]


def test_the_secret_is_that_of_both():
    _, keys = shares(begun(Hybrid.SHARE))
    theirs, secret = encapsulated(keys[Group.X25519MLKEM768])
    answer(hybrid_group(theirs))
    agreed(secret, Group.X25519MLKEM768)


def test_a_server_that_does_not_know_it_takes_the_other_share():
    _, keys = shares(begun(Hybrid.SHARE))
    answer(share(Group.X25519, THEIRS))
    ours = X25519PublicKey.from_public_bytes(keys[Group.X25519])
    agreed(PEER.exchange(ours), Group.X25519)


@pytest.mark.parametrize("mode", Hybrid)
def test_openssl_without_it_connects_without_a_retry(mode):
    fresh(FREE)
    FREE.lab.g(TLS_POOL).hybrid = mode
    FREE.call(tls_begin)
    server = Server()
    FREE.trust(server.identity.root)
    FREE.receive(server.feed(FREE.sent()))
    while FREE.tls.state != TlsState.CONNECTED:
        FREE.call(tls_tick)
        assert FREE.tls.state in (TlsState.WAIT_VERIFY, TlsState.CONNECTED), FREE.failure()
    server.feed(FREE.sent())
    assert server.done
    assert FREE.tls.group == Group.X25519


def test_a_retry_asks_for_it_when_it_is_only_offered():
    first = begun(Hybrid.OFFER)
    groups, keys = shares(first)
    assert groups == [Group.X25519MLKEM768, Group.X25519, Group.SECP256R1]
    assert list(keys) == [Group.X25519]
    again, second = shares(retry((SHARES, b"\x11\xec")))
    assert again == groups
    assert list(second) == [Group.X25519MLKEM768]
    theirs, secret = encapsulated(second[Group.X25519MLKEM768])
    answer(hybrid_group(theirs))
    agreed(secret, Group.X25519MLKEM768)


def test_a_retry_from_it_to_p256():
    first, _ = shares(begun(Hybrid.SHARE))
    again, keys = shares(retry((SHARES, b"\x00\x17")))
    assert again == first
    assert list(keys) == [Group.SECP256R1]
    peer = ec.derive_private_key(0xDECADE, ec.SECP256R1())
    point = peer.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    answer(share(Group.SECP256R1, point))
    ours = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), keys[Group.SECP256R1])
    agreed(peer.exchange(ec.ECDH(), ours), Group.SECP256R1)


def test_a_retry_with_a_cookie_changes_neither_share():
    sent = begun(Hybrid.SHARE)
    again = retry((44, b"\0\6cookie"))
    assert shares(again) == shares(sent)
    assert again.endswith(b"\0\x2c\0\x08\0\6cookie")
    theirs, secret = encapsulated(shares(again)[1][Group.X25519MLKEM768])
    answer(hybrid_group(theirs))
    agreed(secret, Group.X25519MLKEM768)


def refused():
    assert BENCH.tls.state == TlsState.FAILED
    assert BENCH.sent() == ILLEGAL
    return BENCH.failure()[0]


@pytest.mark.parametrize("size", [0, 32, 65, 1088, 1119, 1121, 1216])
def test_a_share_of_a_wrong_length_is_refused(size):
    begun(Hybrid.SHARE)
    answer(hybrid_group(bytes(size)))
    assert refused() == "tls.key_share"


@pytest.mark.parametrize("mode", [Hybrid.OFF, Hybrid.OFFER])
def test_a_share_of_it_that_we_sent_none_for_is_refused(mode):
    begun(mode)
    answer(hybrid_group(bytes(1088) + THEIRS))
    assert refused() == "tls.group(4588)"


@pytest.mark.parametrize(
    ("group", "key"), [(Group.X25519MLKEM768, bytes(1120)), (Group.X25519, THEIRS)]
)
def test_the_first_shares_count_no_more_behind_a_retry_to_p256(group, key):
    begun(Hybrid.SHARE)
    BENCH.arena.share_group, BENCH.arena.second_group = Group.SECP256R1, 0
    BENCH.arena.retry_suite, BENCH.tls.state = 0x1301, TlsState.WAIT_SECOND_HELLO
    answer(share(group, key))
    assert refused() == f"tls.group({int(group)})"


@pytest.mark.parametrize(
    ("mode", "group"),
    [
        (Hybrid.SHARE, Group.X25519MLKEM768),
        (Hybrid.SHARE, Group.X25519),
        (Hybrid.OFFER, Group.X25519),
        (Hybrid.OFF, Group.X25519MLKEM768),
        (Hybrid.SHARE, 0),
        (Hybrid.SHARE, 0x11EB),
        (Hybrid.SHARE, 0x11ED),
    ],
)
def test_a_retry_for_what_has_a_share_or_is_not_offered_is_refused(mode, group):
    begun(mode)
    answer((SHARES, int(group).to_bytes(2, "big")), random=RETRY_RANDOM)
    assert refused() == (f"tls.group({int(group)})" if group else "tls.group")


@pytest.mark.parametrize("group", [0, 0x11EB, 0x11ED, Group.SECP256R1])
def test_a_share_of_no_group_of_ours_is_refused(group):
    begun(Hybrid.SHARE)
    answer(share(group, bytes(65)))
    assert refused() == (f"tls.group({int(group)})" if group else "tls.group")


def test_half_a_share_of_small_order_is_refused():
    _, keys = shares(begun(Hybrid.SHARE))
    theirs, _ = encapsulated(keys[Group.X25519MLKEM768])
    answer(hybrid_group(theirs[:1088] + bytes(32)))
    assert refused() == "tls.key_share"
    left = BENCH.lab.machine.read(BENCH.arena.kem.address_, MlKemKey.SIZE)
    assert left == bytes(MlKemKey.SIZE)


def test_a_wrong_ciphertext_gives_a_secret_that_the_server_cannot_know():
    """It is not told: keys differ, and the first record that comes under them is refused."""
    _, keys = shares(begun(Hybrid.SHARE))
    z = bytes(BENCH.arena.kem.z)
    theirs, _ = encapsulated(keys[Group.X25519MLKEM768])
    bent = bytes([theirs[0] ^ 1]) + theirs[1:1088]
    ours = PEER.exchange(X25519PublicKey.from_public_bytes(keys[Group.X25519]))
    answer(hybrid_group(bent + THEIRS))
    agreed(hashlib.shake_256(z + bent).digest(32) + ours, Group.X25519MLKEM768)
    BENCH.receive(b"\x17\x03\x03\x00\x20" + bytes(32))
    BENCH.call(tls_tick)
    assert BENCH.failure()[0] == "tls.bad_record_mac"


def test_the_longest_hello_has_room():
    begun(Hybrid.SHARE)
    arena = BENCH.arena
    arena.host_len, arena.host[:] = HOST_MAX, b"a" * HOST_MAX
    arena.cookie_len, arena.cookie[:] = COOKIE_MAX, b"c" * COOKIE_MAX
    BENCH.call(tls_write_hello)
    assert arena.hello_len <= TlsArena.hello.size
    assert dict(extensions(arena.hello[: arena.hello_len]))[44] == b"\x04\x00" + b"c" * COOKIE_MAX
