"""Keys, nonces and records: RFC 8448's flight opens, `cryptography` opens what we seal."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from firmware.layouts.tls import Suite, TlsDirection, TlsFlag, TlsKeys
from firmware.tls.protect import (
    tls_erase,
    tls_make_key,
    tls_next_secret,
    tls_nonce,
    tls_open,
    tls_seal,
    tls_take_secret,
)
from tests.firmware.tls.test_schedule import expand_label
from tests.support import rfc8448 as trace
from tests.support.tls import TlsBench

BENCH = TlsBench(
    tls_erase, tls_make_key, tls_next_secret, tls_nonce, tls_open, tls_seal, tls_take_secret
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.tls.suite = Suite.AES_128_GCM_SHA256


def keys():
    return BENCH.context.tls_keys


def take(direction, secret):
    BENCH.call(
        tls_take_secret,
        direction=direction.address_,
        secret=BENCH.lab.put(secret.ljust(48, b"\0"), first=True),
    )


def put(record):
    """Lay a record down at the edge of memory; return where its text begins."""
    return BENCH.lab.put(record) + 5


def test_keys_and_nonce_are_those_of_the_rfc():
    for secret, key, iv in (
        (trace.SERVER_HANDSHAKE, trace.SERVER_KEY, trace.SERVER_IV),
        (trace.CLIENT_HANDSHAKE, trace.CLIENT_KEY, trace.CLIENT_IV),
        (trace.SERVER_DATA, trace.SERVER_DATA_KEY, trace.SERVER_DATA_IV),
    ):
        receive = keys().receive
        receive.sequence = 99
        take(receive, secret)
        assert bytes(receive.iv) == iv
        assert BENCH.lab.machine.read(receive.offset_of("key"), 16) == key
        assert (receive.sequence, bytes(receive.raw)) == (0, bytes(32))


def test_the_flight_of_the_rfc_opens():
    take(keys().receive, trace.SERVER_HANDSHAKE)
    at = put(trace.SERVER_RECORD)
    size = len(trace.SERVER_FLIGHT) + 1
    assert BENCH.call(tls_open, text=at, length=size)["cf"] == 0
    assert BENCH.lab.machine.read(at, size) == trace.SERVER_FLIGHT + b"\x16"
    assert keys().receive.sequence == 1


@pytest.mark.parametrize("at", [0, 1, 3, 4, 5, 300, 662, 663, 678])
def test_a_record_with_one_wrong_bit_gives_nothing(at):
    """The header counts as well as text and tag."""
    take(keys().receive, trace.SERVER_HANDSHAKE)
    record = bytearray(trace.SERVER_RECORD)
    record[at] ^= 0x10
    text = put(bytes(record))
    size = len(trace.SERVER_FLIGHT) + 1
    assert BENCH.call(tls_open, text=text, length=size)["cf"] == 1
    assert BENCH.lab.machine.read(text, size) == bytes(size)


@pytest.mark.parametrize("suite", [Suite.AES_128_GCM_SHA256, Suite.AES_256_GCM_SHA384])
def test_others_open_what_we_seal_under_each_sequence(suite):
    BENCH.tls.suite = suite
    name, size = ("sha256", 16) if suite == Suite.AES_128_GCM_SHA256 else ("sha384", 32)
    secret = bytes(range(48 if name == "sha384" else 32))
    take(keys().send, secret)
    key = expand_label(name, secret, b"key", b"", size)
    iv = int.from_bytes(expand_label(name, secret, b"iv", b"", 12), "big")
    for sequence in (0, 1, 255, 256, (1 << 48) - 1):
        keys().send.sequence = sequence
        header = b"\x17\x03\x03\x00\x1b"
        text = put(header + b"plain text\x17" + bytes(16))
        BENCH.call(tls_seal, text=text, length=11)
        nonce = (iv ^ sequence).to_bytes(12, "big")
        opened = AESGCM(key).decrypt(nonce, BENCH.lab.machine.read(text, 27), header)
        assert opened == b"plain text\x17"
        assert keys().send.sequence == sequence + 1


@pytest.mark.parametrize("suite", [Suite.AES_128_GCM_SHA256, Suite.AES_256_GCM_SHA384])
def test_the_next_secret_follows_from_the_last(suite):
    BENCH.tls.suite = suite
    name = "sha256" if suite == Suite.AES_128_GCM_SHA256 else "sha384"
    secret = bytes(range(48 if name == "sha384" else 32))
    receive = keys().receive
    take(receive, secret)
    receive.sequence = 7
    BENCH.call(tls_next_secret, direction=receive.address_)
    following = expand_label(name, secret, b"traffic upd", b"")
    assert receive.secret[: len(following)] == following
    assert bytes(receive.iv) == expand_label(name, following, b"iv", b"", 12)
    assert receive.sequence == 0


def test_nothing_of_the_keys_is_left():
    take(keys().send, trace.CLIENT_HANDSHAKE)
    take(keys().receive, trace.SERVER_HANDSHAKE)
    BENCH.tls.flags = TlsFlag.OPENING | TlsFlag.SEALING | TlsFlag.CCS_SENT
    BENCH.call(tls_erase)
    assert BENCH.tls.flags == TlsFlag.CCS_SENT
    assert BENCH.lab.machine.read(keys().address_, TlsKeys.SIZE) == bytes(TlsKeys.SIZE)
    assert TlsDirection.SIZE * 2 == TlsKeys.SIZE
