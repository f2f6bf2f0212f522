"""SHA-3 and SHAKE against the standard library, and the permutation for any state."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.keccak import keccak_absorb, keccak_f1600, keccak_finish, keccak_start
from firmware.layouts import keccak
from firmware.layouts.keccak import KECCAK, ROTATIONS, ROUND_CONSTANTS
from tests.support.lab import Lab
from tests.support.processor import Processor

LAB = Lab(keccak_start, keccak_absorb, keccak_finish, keccak_f1600)
SPONGES = {
    "sha3_256": keccak.SHA3_256,
    "sha3_512": keccak.SHA3_512,
    "shake_128": keccak.SHAKE128,
    "shake_256": keccak.SHAKE256,
}
EACH = pytest.mark.parametrize("name", SPONGES)


def other(name, message, size):
    made = getattr(hashlib, name)(message)
    return made.digest(size) if name.startswith("shake") else made.digest()


def absorbed(name, *parts, first=False):
    """Return the first block of what a sponge gives, in lockstep."""
    sponge = SPONGES[name]
    LAB.reset()
    LAB.call(keccak_start, rate=sponge.rate)
    for part in parts:
        LAB.call(keccak_absorb, message=LAB.put(part, first=first), length=len(part))
    LAB.call(keccak_finish, suffix=sponge.suffix)
    return bytes(LAB.g(KECCAK).state)[: sponge.rate]


def test_constants_are_those_of_the_standard():
    assert (ROUND_CONSTANTS[0], ROUND_CONSTANTS[23]) == (1, 0x8000000080008008)
    assert ROUND_CONSTANTS[1:3] == (0x8082, 0x800000000000808A)
    # FIPS 202 table 2, modulo 64.
    assert [ROTATIONS[x, 0] for x in range(5)] == [0, 1, 190 % 64, 28, 91 % 64]
    assert [ROTATIONS[x, 3] for x in range(5)] == [105 % 64, 45, 15, 21, 136 % 64]


@EACH
@pytest.mark.parametrize("length", [0, 1, 7, 8, 33, 71, 72, 135, 136, 137, 167, 168, 169, 400])
def test_padding_at_each_boundary(name, length):
    message = bytes(n * 7 & 0xFF for n in range(length))
    for first in (False, True):
        block = absorbed(name, message, first=first)
        wanted = other(name, message, len(block))
        assert block[: len(wanted)] == wanted


@settings(max_examples=30)
@given(name=st.sampled_from(sorted(SPONGES)), parts=st.lists(st.binary(max_size=200), max_size=5))
def test_parts_are_as_the_whole(name, parts):
    block = absorbed(name, *parts)
    wanted = other(name, b"".join(parts), len(block))
    assert block[: len(wanted)] == wanted


@pytest.mark.parametrize("name", ["shake_128", "shake_256"])
def test_a_further_block_is_another_permutation(name):
    first = absorbed(name, b"seed")
    LAB.call(keccak_f1600)
    second = bytes(LAB.g(KECCAK).state)[: len(first)]
    assert first + second == other(name, b"seed", 2 * len(first))


@settings(max_examples=20)
@given(state=st.binary(min_size=200, max_size=200))
def test_any_state_is_permuted_as_the_model_says(state):
    LAB.reset()
    LAB.g(KECCAK).state[:200] = state
    LAB.call(keccak_f1600)


def test_a_thousand_permutations_on_the_processor():
    """What the processor makes of a state, the standard library makes of it as an endless SHAKE."""
    LAB.reset()
    at = LAB.image.address(KECCAK)
    absorbed("shake_128", b"")
    first = bytes(LAB.g(KECCAK).state)[:168]
    processor = Processor(LAB)
    results = processor.run([processor.call(keccak_f1600, (), ((at, 168),))] * 1000)
    found = first + b"".join(result.memory[at] for result in results)
    assert found == hashlib.shake_128(b"").digest(168 * 1001)


def test_the_same_steps_for_every_message_of_a_length():
    def prepare(seed, public):
        at, length = public
        stuff = hashlib.shake_128(seed).digest(200 + max(length, 0))
        LAB.g(KECCAK).state[:200] = stuff[:200]
        LAB.g(KECCAK).rate, LAB.g(KECCAK).filled = 136, at
        if length < 0:
            return {"suffix": 6}
        return {"message": LAB.put(stuff[200:]), "length": length}

    secrets = [bytes([n]) for n in range(5)]
    for routine, publics in (
        (keccak_absorb, [(0, 300), (3, 140), (130, 6)]),
        (keccak_finish, [(0, -1), (135, -1)]),
    ):
        same_traces(LAB.machine, routine, prepare, secrets=secrets, publics=publics, minimum=5_000)
