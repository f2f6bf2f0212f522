"""Transcript and key schedule: RFC 8448 byte for byte, and any secret with either hash."""

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.tls import Group, Suite
from firmware.layouts.tls_schedule import EARLY_SALTS, EMPTY_DIGESTS
from firmware.tls.schedule import (
    tls_data_secrets,
    tls_derive,
    tls_expand,
    tls_extract,
    tls_finished_mac,
    tls_handshake_secrets,
)
from firmware.tls.transcript import (
    tls_transcript_add,
    tls_transcript_digest,
    tls_transcript_retry,
    tls_transcript_start,
)
from tests.support import rfc8448 as trace
from tests.support.tls import TlsBench

BENCH = TlsBench(
    tls_data_secrets, tls_derive, tls_expand, tls_extract, tls_finished_mac, tls_handshake_secrets,
    tls_transcript_add, tls_transcript_digest, tls_transcript_retry, tls_transcript_start,
)  # fmt: skip
SALTS = {size: salt.init or b"" for size, salt in EARLY_SALTS.items()}
HASHES = {Suite.AES_128_GCM_SHA256: "sha256", Suite.AES_256_GCM_SHA384: "sha384"}


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.tls.suite = Suite.AES_128_GCM_SHA256


def add(message):
    BENCH.call(tls_transcript_add, message=BENCH.lab.put(message), length=len(message))


def digest(size=32):
    BENCH.call(tls_transcript_digest)
    return BENCH.arena.digest[:size]


def field(name, size=32):
    return getattr(BENCH.arena, name)[:size]


def test_the_trace_of_the_rfc_byte_for_byte():
    arena = BENCH.arena
    BENCH.call(tls_transcript_start)
    add(trace.CLIENT_HELLO)
    add(trace.SERVER_HELLO)
    assert digest() == trace.DIGEST_SERVER_HELLO
    arena.shared[:32] = trace.SHARED
    BENCH.call(tls_handshake_secrets)
    assert field("secret") == trace.HANDSHAKE_SECRET
    assert field("client_secret") == trace.CLIENT_HANDSHAKE
    assert field("server_secret") == trace.SERVER_HANDSHAKE
    assert bytes(arena.shared) == bytes(64)

    for message in (trace.EXTENSIONS, trace.CERTIFICATE, trace.CERTIFICATE_VERIFY):
        add(message)
    digest()
    BENCH.call(tls_finished_mac, secret=arena.offset_of("server_secret"))
    assert field("verify_data") == trace.SERVER_VERIFY
    add(trace.SERVER_FINISHED)
    assert digest() == trace.DIGEST_FINISHED
    BENCH.call(tls_finished_mac, secret=arena.offset_of("client_secret"))
    assert field("verify_data") == trace.CLIENT_VERIFY
    BENCH.call(tls_data_secrets)
    assert field("client_data") == trace.CLIENT_DATA
    assert field("server_secret") == trace.SERVER_DATA
    assert bytes(arena.secret) + bytes(arena.derived) == bytes(96)


def expand_label(name, secret, label, context, size=None):
    """HKDF-Expand-Label of at most one digest, from RFC 5869 and RFC 8446 7.1."""
    size = size or hashlib.new(name).digest_size
    full = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(full)]) + full + bytes([len(context)]) + context
    return hmac.digest(secret, info + b"\x01", name)[:size]


@pytest.mark.parametrize("name", ["sha256", "sha384"])
def test_what_is_known_before_is_what_the_drawing_gives(name):
    size = hashlib.new(name).digest_size
    empty = hashlib.new(name).digest()
    early = hmac.digest(bytes(size), bytes(size), name)
    assert EMPTY_DIGESTS[size].init == empty
    assert SALTS[size] == expand_label(name, early, b"derived", empty)
    if name == "sha256":
        assert SALTS[32].hex().startswith("6f2615a108c702c5678f54fc9dbab697")


@pytest.mark.parametrize("group", [Group.X25519, Group.SECP256R1, Group.X25519MLKEM768])
@pytest.mark.parametrize("suite", HASHES)
@settings(max_examples=4)
@given(both=st.binary(min_size=64, max_size=64), messages=st.lists(st.binary(max_size=300)))
def test_any_secret_with_either_hash(suite, group, both, messages):
    name = HASHES[suite]
    size = hashlib.new(name).digest_size
    BENCH.reset()
    BENCH.tls.suite, BENCH.tls.group, BENCH.arena.shared[:] = suite, group, both
    shared = both if group == Group.X25519MLKEM768 else both[:32]
    BENCH.call(tls_transcript_start)
    for message in messages:
        add(message)
    seen = hashlib.new(name, b"".join(messages)).digest()
    assert digest(size) == seen
    BENCH.call(tls_handshake_secrets)
    salt, empty = SALTS[size], hashlib.new(name).digest()
    secret = hmac.digest(salt, shared, name)
    assert field("client_secret", size) == expand_label(name, secret, b"c hs traffic", seen)
    server = expand_label(name, secret, b"s hs traffic", seen)
    assert field("server_secret", size) == server
    BENCH.call(tls_finished_mac, secret=BENCH.arena.offset_of("server_secret"))
    key = expand_label(name, server, b"finished", b"")
    assert field("verify_data", size) == hmac.digest(key, seen, name)
    BENCH.call(tls_data_secrets)
    derived = expand_label(name, secret, b"derived", empty)
    master = hmac.digest(derived, bytes(size), name)
    assert field("client_data", size) == expand_label(name, master, b"c ap traffic", seen)
    assert field("server_secret", size) == expand_label(name, master, b"s ap traffic", seen)


@pytest.mark.parametrize("suite", HASHES)
def test_a_retry_stands_for_the_first_hello_by_its_hash(suite):
    name = HASHES[suite]
    size = hashlib.new(name).digest_size
    BENCH.tls.suite = suite
    arena = BENCH.arena
    arena.hello[: len(trace.CLIENT_HELLO)] = trace.CLIENT_HELLO
    arena.hello_len = len(trace.CLIENT_HELLO)
    BENCH.call(tls_transcript_retry)
    add(b"retry")
    first = hashlib.new(name, trace.CLIENT_HELLO).digest()
    assert (
        digest(size) == hashlib.new(name, b"\xfe\0\0" + bytes([size]) + first + b"retry").digest()
    )
