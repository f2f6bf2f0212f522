"""Changes of inputs: bounded, repeatable, and every kind of them does something."""

import random

import pytest

from emulator.fuzz.mutate import CHANGES, mutate

SEED = b"\x30\x05hello\x02\x01\x07" + bytes(range(32))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_kind_of_change_changes_something(change):
    source = random.Random(1)
    results = set()
    for _ in range(50):
        data = bytearray(SEED)
        change(source, data)
        results.add(bytes(data))
    assert len(results - {SEED}) > 5


@pytest.mark.parametrize("seed", [b"", b"\0", SEED])
def test_inputs_stay_within_their_bound(seed):
    source = random.Random(2)
    sizes = {len(mutate(source, seed, [SEED, b""], 40)) for _ in range(2000)}
    assert max(sizes) == 40
    assert min(sizes) == 0 or seed == SEED


def test_the_same_randomness_makes_the_same_inputs():
    made = [[mutate(random.Random(n), SEED, [SEED], 99) for n in range(50)] for _ in range(2)]
    assert made[0] == made[1]


def test_two_inputs_are_put_together():
    source = random.Random(3)
    left, right = b"L" * 20, b"R" * 20
    made = [mutate(source, left, [right], 99) for _ in range(300)]
    assert any(one.count(b"L") > 5 and one.count(b"R") > 5 for one in made)


def test_an_element_grows_and_shrinks_with_its_length():
    """The byte before it says how long it is, so that a parser still reaches what follows."""
    change = next(one for one in CHANGES if one.__name__ == "_element")
    source = random.Random(4)
    grown = set()
    for _ in range(400):
        data = bytearray(b"\x05hello!")
        change(source, data)
        if data[-1:] == b"!" and data[0] == len(data) - 2:
            grown.add(len(data))
    assert grown == {6, 7, 8}
