"""SHA-256 against FIPS 180-4 and NIST examples, and the standard library."""

import hashlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.sha256 import sha256_compress, sha256_finish, sha256_start
from firmware.layouts.crypto import SHA256, SHA256_INITIAL, SHA256_K
from tests.support.lab import Lab

LAB = Lab(sha256_start, sha256_finish, sha256_compress)
WORD = st.integers(0, 2**32 - 1)


def digest_of(message, *, first=False):
    LAB.reset()
    out = LAB.machine.alloc(32)
    LAB.call(sha256_start)
    LAB.call(sha256_finish, message=LAB.put(message, first=first), length=len(message), digest=out)
    return LAB.machine.read(out, 32)


def test_constants_are_those_of_the_standard():
    assert SHA256_INITIAL[0] == 0x6A09E667
    assert SHA256_INITIAL[7] == 0x5BE0CD19
    assert (SHA256_K[0], SHA256_K[63]) == (0x428A2F98, 0xC67178F2)


@pytest.mark.parametrize(
    ("message", "digest"),
    [
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (
            b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
            b"klmnopqrlmnopqrsmnopqrstnopqrstu",
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
        ),
        # NIST CAVP, SHA256ShortMsg, Len = 8.
        (b"\xd3", "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"),
    ],
)
def test_sha256_published_examples(message, digest):
    assert digest_of(message).hex() == digest


@pytest.mark.parametrize(
    "length", [0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 1399, 1400]
)
@pytest.mark.parametrize("first", [False, True])
def test_sha256_padding_at_each_boundary(length, first):
    message = bytes(n * 7 & 0xFF for n in range(length))
    assert digest_of(message, first=first) == hashlib.sha256(message).digest()


@settings(max_examples=60)
@given(message=st.binary(max_size=300))
def test_sha256_any_message_is_that_of_the_standard_library(message):
    assert digest_of(message) == hashlib.sha256(message).digest()


def test_sha256_the_rest_of_a_message_whose_start_is_mixed_in():
    message = bytes(range(200))
    LAB.reset()
    out = LAB.machine.alloc(32)
    where = LAB.put(message)
    LAB.call(sha256_start)
    LAB.call(sha256_compress, block=where)
    LAB.call(sha256_finish, message=where + 64, length=136, digest=out)
    assert LAB.machine.read(out, 32) == hashlib.sha256(message).digest()


@settings(max_examples=40)
@given(state=st.tuples(*[WORD] * 8), block=st.binary(min_size=64, max_size=64))
def test_sha256_compress_any_state_matches_model(state, block):
    LAB.reset()
    LAB.g(SHA256).state[:] = struct.pack("<8I", *state)
    LAB.call(sha256_compress, block=LAB.put(block))


def test_sha256_takes_the_same_steps_for_every_message_of_a_length():
    def prepare(seed, length):
        LAB.machine.call("sha256_start")
        message = hashlib.shake_128(seed).digest(length)
        out = LAB.machine.alloc(32)
        return {"message": LAB.put(message), "length": length, "digest": out}

    secrets = [bytes([n]) for n in range(5)]
    publics = [32, 100, 119, 200]
    same_traces(
        LAB.machine, sha256_finish, prepare, secrets=secrets, publics=publics, minimum=3_000
    )
