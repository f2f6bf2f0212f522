"""The login by nkey: OpenSSL agrees with the signature, and the key does not outlive it."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from emulator.constant_time import same_traces
from firmware.bus.login import bus_hello, bus_sign
from firmware.layouts.bus import BUS_LOGIN, BusLogin, LinkState
from firmware.layouts.credentials import CREDENTIALS
from firmware.layouts.ed25519 import ED25519_WORK
from firmware.layouts.fleet_config import BusAuth
from firmware.layouts.variants import VARIANTS, Variant
from tests.support.bus import BusBench

BENCH = BusBench(bus_hello, bus_sign, semantics=False)
SEED, PUBLIC = bytes(range(32)), b"U" + b"A234567" * 7 + b"ABCDEF"
NONCE = b"KHTNdjaaHYZ1u01"
"""Its signature has both of the letters in which base64url differs."""


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def ready(nonce=NONCE):
    BENCH.login(BusAuth.NKEY)
    config = BENCH.lab.g(CREDENTIALS)
    config.nkey_seed[:], config.nkey_public[:] = SEED, PUBLIC
    link = BENCH.up(LinkState.TLS, nonce_len=len(nonce))
    link.nonce[0 : len(nonce)] = nonce
    return link


def told():
    """Return what CONNECT says, and the lines behind it."""
    first, *rest = BENCH.queued().split(b"\r\n")
    return json.loads(first.removeprefix(b"CONNECT ")), rest


def signed(nonce):
    raw = Ed25519PrivateKey.from_private_bytes(SEED).sign(nonce)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def wiped(thing, at=0, size=None):
    start = BENCH.lab.image.address(thing) + at
    size = thing.struct.SIZE if size is None else size
    return BENCH.lab.machine.read(start, size) == bytes(size)


@pytest.mark.parametrize("variant", [Variant.BASE, Variant.FAST])
def test_the_nonce_is_signed_in_lockstep(variant):
    BENCH.lab.g(VARIANTS).ed25519 = variant
    link = ready()
    assert BENCH.bus(bus_hello)["cf"] == 0
    said, rest = told()
    assert {"-", "_"} <= set(said["sig"])
    assert (said["nkey"], said["sig"]) == (PUBLIC.decode(), signed(NONCE))
    assert rest == [b"SUB _I.n7.3fa2c1d0.c.* 1", b"PING", b""]
    assert link.state == LinkState.HELLO
    assert wiped(BUS_LOGIN, BusLogin.key.offset, BusLogin.key.size)
    assert wiped(ED25519_WORK)


@pytest.mark.parametrize("length", [1, 2, 3, 63, 64])
def test_nonces_of_any_length(length):
    """Some of them give both of the letters in which base64url differs."""
    letters = set()
    for n in range(6):
        BENCH.reset()
        nonce = bytes((33 + n * 7 + k) % 94 + 33 for k in range(length))
        link = ready(nonce)
        BENCH.lab.free(bus_hello, link=link.address_, shard=BENCH.shard)
        assert told()[0]["sig"] == signed(nonce)
        letters |= set(signed(nonce))
    assert {"-", "_"} <= letters


def test_the_steps_are_the_same_for_all_keys():
    link = ready()
    at = BENCH.lab.g(CREDENTIALS).offset_of("nkey_seed")

    def put(seed, _public):
        BENCH.lab.machine.write(at, seed)
        return {"link": link.address_}

    seeds = [bytes(32), b"\xff" * 32, b"\x55" * 32, SEED, b"\x80" + bytes(31)]
    same_traces(BENCH.lab.machine, bus_sign, put, secrets=seeds, publics=[None], minimum=100_000)
