"""SHA-256 against FIPS 180-4 and NIST examples, and the standard library."""

import hashlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from emulator.sha_extensions import MISSING, processor_has_them
from firmware.crypto.sha2_blocks import sha256_blocks_base
from firmware.crypto.sha2_bmi2 import sha256_blocks_bmi2
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.crypto.sha256_shani import sha256_blocks_shani
from firmware.layouts.crypto import SHA256_INITIAL, SHA256_K, Hash
from firmware.layouts.variants import Variant
from tests.support.hashes import MESSAGE, Hasher
from tests.support.lab import Lab

BLOCKS = {
    Variant.FAST: sha256_blocks_shani,
    Variant.MEDIUM: sha256_blocks_bmi2,
    Variant.BASE: sha256_blocks_base,
}
LAB = Lab(sha256_start, sha256_update, sha256_finish)
SHA256 = Hasher(LAB, sha256_start, sha256_update, sha256_finish, 32, "sha256")
EACH = pytest.mark.parametrize("variant", BLOCKS, ids=lambda v: v.name.lower())
WORD = st.integers(0, 2**32 - 1)


def test_constants_are_those_of_the_standard():
    assert SHA256_INITIAL[0] == 0x6A09E667
    assert SHA256_INITIAL[7] == 0x5BE0CD19
    assert (SHA256_K[0], SHA256_K[63]) == (0x428A2F98, 0xC67178F2)


@EACH
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
def test_sha256_published_examples(variant, message, digest):
    assert SHA256.digest(variant, message).hex() == digest


@EACH
@pytest.mark.parametrize(
    "length", [0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 1400]
)
@pytest.mark.parametrize("first", [False, True])
def test_sha256_padding_at_each_boundary(variant, length, first):
    message = bytes(n * 7 & 0xFF for n in range(length))
    assert SHA256.digest(variant, message, first=first) == hashlib.sha256(message).digest()


@settings(max_examples=90)
@given(variant=st.sampled_from(list(BLOCKS)), parts=st.lists(st.binary(max_size=150), max_size=4))
def test_sha256_of_parts_is_that_of_the_whole(variant, parts):
    assert SHA256.digest(variant, *parts) == hashlib.sha256(b"".join(parts)).digest()


def test_sha256_of_a_copy_tells_the_digest_so_far():
    LAB.reset()
    work, copy, out = (LAB.machine.alloc(size) for size in (Hash.SIZE, Hash.SIZE, 32))
    LAB.call(sha256_start, work=work)
    LAB.call(sha256_update, work=work, message=LAB.put(b"ClientHello"), length=11)
    LAB.machine.write(copy, LAB.machine.read(work, Hash.SIZE))
    LAB.call(sha256_finish, work=copy, digest=out)
    assert LAB.machine.read(out, 32) == hashlib.sha256(b"ClientHello").digest()
    LAB.call(sha256_update, work=work, message=LAB.put(b"ServerHello"), length=11)
    LAB.call(sha256_finish, work=work, digest=out)
    assert LAB.machine.read(out, 32) == hashlib.sha256(b"ClientHelloServerHello").digest()


def test_sha256_counts_bits_beyond_32():
    LAB.reset()
    work, out = LAB.machine.alloc(Hash.SIZE), LAB.machine.alloc(32)
    LAB.call(sha256_start, work=work)
    LAB.view(Hash, work).length = (1 << 61) - 1 - 6
    LAB.call(sha256_update, work=work, message=LAB.put(b"123456"), length=6)
    LAB.call(sha256_finish, work=work, digest=out)


@EACH
@settings(max_examples=40)
@given(
    state=st.tuples(*[WORD] * 8), blocks=st.sampled_from([64, 128, 192]).flatmap(
        lambda size: st.binary(min_size=size, max_size=size)
    )
)  # fmt: skip
def test_sha256_blocks_any_state_matches_model(variant, state, blocks):
    LAB.reset()
    work = LAB.machine.alloc(Hash.SIZE)
    LAB.view(Hash, work).state[:32] = struct.pack("<8I", *state)
    LAB.call(BLOCKS[variant], work=work, blocks=LAB.put(blocks), count=len(blocks) // 64)


@EACH
def test_sha256_takes_the_same_steps_for_every_message_of_a_length(variant):
    def prepare(seed, public):
        begun, length = public
        SHA256.choose(variant)
        work, out = LAB.machine.alloc(Hash.SIZE), LAB.machine.alloc(64)
        secret = hashlib.shake_128(seed).digest(Hash.SIZE + max(length, 0))
        LAB.machine.write(work, secret[: Hash.SIZE])
        LAB.view(Hash, work).length = begun
        if length < 0:
            return {"work": work, "digest": out}
        return {"work": work, "message": LAB.put(secret[Hash.SIZE :]), "length": length}

    secrets = [bytes([n]) for n in range(5)]
    parts = [(0, 300), (100, 3), (100, 300), (128, 128)]
    same_traces(LAB.machine, sha256_update, prepare, secrets=secrets, publics=parts, minimum=25)
    ends = [(0, -1), (119, -1), (127, -1)]
    minimum = 200 if variant is Variant.FAST else 2_000
    same_traces(LAB.machine, sha256_finish, prepare, secrets=secrets, publics=ends, minimum=minimum)


@EACH
def test_sha256_on_the_processor_at_every_length_and_alignment(variant):
    if variant is Variant.FAST and not processor_has_them():
        pytest.skip(MISSING)
    messages = [(n % 64, n) for n in range(300)] + [(n, 1400) for n in range(64)]
    found = SHA256.on_the_processor(variant, messages)
    for digest, (at, length) in zip(found, messages, strict=True):
        assert digest == hashlib.sha256(MESSAGE[at : at + length]).digest(), (at, length)
