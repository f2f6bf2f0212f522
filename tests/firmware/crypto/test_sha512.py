"""SHA-384 and SHA-512 against FIPS 180-4 examples and the standard library."""

import hashlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.sha2_blocks import sha512_blocks_base
from firmware.crypto.sha2_bmi2 import sha512_blocks_bmi2
from firmware.crypto.sha512 import (
    sha384_finish,
    sha384_start,
    sha512_finish,
    sha512_start,
    sha512_update,
)
from firmware.layouts.crypto import SHA384_INITIAL, SHA512_INITIAL, SHA512_K, Hash
from firmware.layouts.variants import Variant
from tests.support.hashes import MESSAGE, Hasher
from tests.support.lab import Lab

BLOCKS = {Variant.FAST: sha512_blocks_bmi2, Variant.BASE: sha512_blocks_base}
LAB = Lab(sha384_start, sha384_finish, sha512_start, sha512_update, sha512_finish)
HASHES = {
    "sha384": Hasher(LAB, sha384_start, sha512_update, sha384_finish, 48, "sha512"),
    "sha512": Hasher(LAB, sha512_start, sha512_update, sha512_finish, 64, "sha512"),
}
EACH = pytest.mark.parametrize("variant", BLOCKS, ids=lambda v: v.name.lower())
WORD = st.integers(0, 2**64 - 1)
TWO_BLOCKS = (
    b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
    b"klmnopqrlmnopqrsmnopqrstnopqrstu"
)


def test_constants_are_those_of_the_standard():
    assert (SHA384_INITIAL[0], SHA384_INITIAL[7]) == (0xCBBB9D5DC1059ED8, 0x47B5481DBEFA4FA4)
    assert (SHA512_INITIAL[0], SHA512_INITIAL[7]) == (0x6A09E667F3BCC908, 0x5BE0CD19137E2179)
    assert (SHA512_K[0], SHA512_K[79]) == (0x428A2F98D728AE22, 0x6C44198C4A475817)


@EACH
@pytest.mark.parametrize(
    ("name", "message", "digest"),
    [
        (
            "sha384",
            b"abc",
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed"
            "8086072ba1e7cc2358baeca134c825a7",
        ),
        (
            "sha384",
            TWO_BLOCKS,
            "09330c33f71147e83d192fc782cd1b4753111b173b3b05d22fa08086e3b0f712"
            "fcc7c71a557e2db966c3e9fa91746039",
        ),
        (
            "sha512",
            b"abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        (
            "sha512",
            TWO_BLOCKS,
            "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
            "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909",
        ),
    ],
)
def test_sha512_published_examples(variant, name, message, digest):
    assert HASHES[name].digest(variant, message).hex() == digest


@EACH
@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("length", [0, 1, 110, 111, 112, 113, 127, 128, 129, 239, 240, 1400])
def test_sha512_padding_at_each_boundary(variant, name, length):
    message = bytes(n * 7 & 0xFF for n in range(length))
    wanted = hashlib.new(name, message).digest()
    assert HASHES[name].digest(variant, message) == wanted
    assert HASHES[name].digest(variant, message, first=True) == wanted


@settings(max_examples=60)
@given(
    variant=st.sampled_from(list(BLOCKS)),
    name=st.sampled_from(sorted(HASHES)),
    parts=st.lists(st.binary(max_size=300), max_size=4),
)
def test_sha512_of_parts_is_that_of_the_whole(variant, name, parts):
    assert HASHES[name].digest(variant, *parts) == hashlib.new(name, b"".join(parts)).digest()


@pytest.mark.parametrize("name", HASHES)
def test_sha512_a_part_that_fills_a_block_and_goes_on(name):
    parts = b"a" * 100, b"b" * 28, b"c" * 3, b"d" * 400
    assert HASHES[name].digest(Variant.BASE, *parts) == hashlib.new(name, b"".join(parts)).digest()


def test_sha512_counts_bits_beyond_64():
    LAB.reset()
    work, out = LAB.machine.alloc(Hash.SIZE), LAB.machine.alloc(48)
    LAB.call(sha384_start, work=work)
    LAB.view(Hash, work).length = (1 << 64) - 1
    LAB.call(sha384_finish, work=work, digest=out)


@EACH
@settings(max_examples=20)
@given(
    state=st.tuples(*[WORD] * 8), blocks=st.sampled_from([128, 256]).flatmap(
        lambda size: st.binary(min_size=size, max_size=size)
    )
)  # fmt: skip
def test_sha512_blocks_any_state_matches_model(variant, state, blocks):
    LAB.reset()
    work = LAB.machine.alloc(Hash.SIZE)
    LAB.view(Hash, work).state[:64] = struct.pack("<8Q", *state)
    LAB.call(BLOCKS[variant], work=work, blocks=LAB.put(blocks), count=len(blocks) // 128)


@EACH
def test_sha512_takes_the_same_steps_for_every_message_of_a_length(variant):
    def prepare(seed, public):
        begun, length = public
        HASHES["sha512"].choose(variant)
        work, out = LAB.machine.alloc(Hash.SIZE), LAB.machine.alloc(64)
        secret = hashlib.shake_128(seed).digest(Hash.SIZE + max(length, 0))
        LAB.machine.write(work, secret[: Hash.SIZE])
        LAB.view(Hash, work).length = begun
        if length < 0:
            return {"work": work, "digest": out}
        return {"work": work, "message": LAB.put(secret[Hash.SIZE :]), "length": length}

    secrets = [bytes([n]) for n in range(5)]
    parts = [(0, 300), (100, 3), (100, 300), (128, 128)]
    same_traces(LAB.machine, sha512_update, prepare, secrets=secrets, publics=parts, minimum=25)
    ends = [(0, -1), (119, -1), (127, -1)]
    for finish in (sha384_finish, sha512_finish):
        same_traces(LAB.machine, finish, prepare, secrets=secrets, publics=ends, minimum=2_500)


@EACH
@pytest.mark.parametrize("name", HASHES)
def test_sha512_on_the_processor_at_every_length_and_alignment(variant, name):
    messages = [(n % 64, n) for n in range(300)] + [(n, 1400) for n in range(64)]
    found = HASHES[name].on_the_processor(variant, messages)
    for digest, (at, length) in zip(found, messages, strict=True):
        assert digest == hashlib.new(name, MESSAGE[at : at + length]).digest(), (at, length)
