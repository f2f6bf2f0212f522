"""Montgomery arithmetic: every operation in lockstep, on residues that carry everywhere."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.montgomery import PRODUCTS, SUMS
from firmware.layouts.curves import MODULI
from tests.support.lab import Lab

BY_NAME = {m.name: m for m in MODULI}
ROUTINES = [
    *((BY_NAME[name], r) for (name, _), p in PRODUCTS.items() for r in (p.mul, p.sqr)),
    *((BY_NAME[name], r) for name, s in SUMS.items() for r in (s.add, s.sub, s.half)),
]
LAB = Lab(*(r for _, r in ROUTINES))
CASES = pytest.mark.parametrize(("m", "routine"), ROUTINES, ids=[r.name for _, r in ROUTINES])
LIMB = st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


def edges(m):
    """Return residues at whose limbs carries begin and end."""
    p, bits = m.value, 64 * m.count
    close = [0, 1, 2, p - 1, p - 2, p >> 1, (p >> 1) + 1, 2**bits - p, m.radix**2 % p]
    runs = [2**k - 1 for k in range(32, bits, 32)] + [(2**32 - 1) << k for k in range(0, bits, 32)]
    return sorted({x % p for x in close + runs})


def run(m, routine, x, y, *, alias=False):
    LAB.reset()
    at, out = LAB.machine.alloc(2 * m.size), LAB.machine.alloc(m.size)
    LAB.machine.write(at, m.words(x) + m.words(y))
    out = at if alias else out
    inputs = {"out": out, "x": at, "y": at + m.size}
    LAB.call(routine, **{name: inputs[name] for name in routine.parameters})
    return int.from_bytes(LAB.machine.read(out, m.size), "little")


@CASES
def test_edges_against_edges(m, routine):
    found = edges(m)
    binary = "y" in routine.parameters
    pairs = itertools.product(found[::9] if binary else [0], found)
    for x, y in pairs:
        run(m, routine, *((x, y) if binary else (y, 0)))


@CASES
@settings(max_examples=30)
@given(data=st.data())
def test_any_residues_where_they_lie_or_in_place(m, routine, data):
    x, y = (sum(data.draw(LIMB) << 64 * n for n in range(m.count)) % m.value for _ in range(2))
    run(m, routine, x, y, alias=data.draw(st.booleans()))


@CASES
def test_the_steps_are_the_same_for_all_residues(m, routine):
    def prepare(x, y):
        at, out = LAB.machine.alloc(2 * m.size), LAB.machine.alloc(m.size)
        LAB.machine.write(at, m.words(x) + m.words(y))
        inputs = {"out": out, "x": at, "y": at + m.size}
        return {name: inputs[name] for name in routine.parameters}

    p = m.value
    secrets = [0, 1, p - 1, p >> 1, m.radix % p, 2**64 - 1]
    same_traces(LAB.machine, routine, prepare, secrets=secrets, publics=[0, p - 1], minimum=20)
