"""The field of 2^255 - 19: every operation in lockstep, on limbs that carry everywhere."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.field25519 import FIELD25519, field25519_least
from firmware.layouts.field import Level
from tests.support.lab import Lab

P = 2**255 - 19
LAB = Lab(
    *(r for f in FIELD25519.values() for r in vars(f).values()), field25519_least, semantics=True
)
EDGES = [
    0, 1, 19, 38, P - 1, P, P + 1, 2 * P - 1, 2**255, 2**256 - 38, 2**256 - 37, 2**256 - 1,
    2**64 - 1, (2**64 - 1) << 192, 2**128 - 2**64,
]  # fmt: skip
LIMB = st.sampled_from([0, 1, 37, 38, 2**63, 2**64 - 38, 2**64 - 1]) | st.integers(0, 2**64 - 1)
ELEMENT = st.sampled_from(EDGES) | st.tuples(*[LIMB] * 4).map(
    lambda limbs: sum(limb << 64 * n for n, limb in enumerate(limbs))
)
LEVELS = pytest.mark.parametrize("level", Level, ids=[level.value for level in Level])


def run(routine, x, y=None, *, alias=False):
    """Return the element that the routine leaves, and the one behind it."""
    LAB.reset()
    at, out = LAB.machine.alloc(64), LAB.machine.alloc(64)
    LAB.machine.write(at, x.to_bytes(32, "little") + (y or 0).to_bytes(32, "little"))
    out = at if alias else out
    LAB.call(routine, out=out, x=at, **({} if y is None else {"y": at + 32}))
    got = LAB.machine.read(out, 64)
    return int.from_bytes(got[:32], "little"), int.from_bytes(got[32:], "little")


def check(field, x, y, *, alias=False):
    assert (run(field.mul, x, y, alias=alias)[0] - x * y) % P == 0
    assert (run(field.sqr, x, alias=alias)[0] - x * x) % P == 0
    both = run(field.butterfly, x, y, alias=alias)
    assert (both[0] - x - y) % P == (both[1] - x + y) % P == 0
    assert (run(field.sub, x, y, alias=alias)[0] - x + y) % P == 0
    assert (run(field.a24, x, y, alias=alias)[0] - 121665 * x - y) % P == 0


@LEVELS
def test_every_pair_of_edges(level):
    for x, y in itertools.product(EDGES[::3], EDGES):
        check(FIELD25519[level], x, y)


@LEVELS
@settings(max_examples=60)
@given(x=ELEMENT, y=ELEMENT, alias=st.booleans())
def test_any_elements_where_they_lie_or_in_place(level, x, y, alias):
    check(FIELD25519[level], x, y, alias=alias)


def least(x):
    LAB.reset()
    at = LAB.machine.alloc(32)
    LAB.machine.write(at, x.to_bytes(32, "little"))
    LAB.call(field25519_least, x=at)
    return int.from_bytes(LAB.machine.read(at, 32), "little")


@given(x=ELEMENT)
def test_the_least_residue_of_any_element(x):
    assert least(x) == x % P


def test_the_least_residue_of_every_edge():
    for x in (*EDGES, *(2**255 - n for n in range(20)), *(2**256 - n for n in range(1, 40))):
        assert least(x) == x % P


def test_the_steps_of_the_least_residue_are_the_same_for_all_elements():
    def prepare(x, _public):
        at = LAB.machine.alloc(32)
        LAB.machine.write(at, x.to_bytes(32, "little"))
        return {"x": at}

    same_traces(LAB.machine, field25519_least, prepare, secrets=EDGES, publics=[0], minimum=30)


@LEVELS
@pytest.mark.parametrize("what", ["mul", "sqr", "butterfly", "sub", "a24"])
def test_the_steps_are_the_same_for_all_elements(level, what):
    routine = getattr(FIELD25519[level], what)

    def prepare(x, y):
        at, out = LAB.machine.alloc(64), LAB.machine.alloc(64)
        LAB.machine.write(at, x.to_bytes(32, "little") + y.to_bytes(32, "little"))
        inputs = {"out": out, "x": at, "y": at + 32}
        return {name: inputs[name] for name in routine.parameters}

    same_traces(LAB.machine, routine, prepare, secrets=EDGES, publics=[0, P, 3], minimum=20)
