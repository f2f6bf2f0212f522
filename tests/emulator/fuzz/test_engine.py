"""The engine finds a fault behind three bytes of a tiny parser, whatever the fault is."""

import pytest

from emulator.fuzz.engine import Fuzzer
from tests.support import fuzzed

STEPS_MAX = 40_000
FAULTS = [
    (fuzzed.reads_beyond, "read of unmapped 0x6a001000"),
    (fuzzed.stores_beside, "output: 0x6b000001 was 0xa5 and is"),
    (fuzzed.never_ends, "still running after 300 instructions"),
    (fuzzed.leaves_nonsense, "nonsense is left"),
]


def hunted(parser):
    fuzzer = Fuzzer(fuzzed.target(parser))
    while not fuzzer.findings and fuzzer.executions < STEPS_MAX:
        fuzzer.step()
    return fuzzer


@pytest.mark.parametrize(("parser", "reason"), FAULTS, ids=lambda one: getattr(one, "name", ""))
def test_a_planted_fault_is_found_and_its_input_repeats_it(parser, reason):
    fuzzer = hunted(parser)
    (found,) = fuzzer.findings.values()
    assert reason in found.reason
    assert found.data.startswith(fuzzed.MAGIC)
    again = Fuzzer(fuzzed.target(parser))
    again.run(found.data)
    assert list(again.findings) == [found.reason]
    # The machine is as before: a good input is good, and the fault is found again.
    again.run(b"abc")
    assert len(again.findings) == 1


def test_inputs_that_come_closer_are_kept():
    """Each byte that fits is a branch more; that is how the fault is found at all."""
    fuzzer = hunted(fuzzed.leaves_nonsense)
    fitting = {
        next((n for n in range(3) if kept[n : n + 1] != fuzzed.MAGIC[n : n + 1]), 3)
        for kept in fuzzer.kept
    }
    assert fitting == {0, 1, 2}


def test_the_same_seed_takes_the_same_way():
    ways = []
    for seed in (1, 1, 2):
        fuzzer = Fuzzer(fuzzed.target(fuzzed.leaves_nonsense), seed)
        for _ in range(500):
            fuzzer.step()
        ways.append(fuzzer.kept)
    assert ways[0] == ways[1] != ways[2]


def test_what_is_known_already_is_not_kept():
    fuzzer = Fuzzer(fuzzed.target(fuzzed.leaves_nonsense))
    assert fuzzer.run(b"abc")
    assert not fuzzer.run(b"abd")
    assert fuzzer.run(b"\x7fbc")
    assert (fuzzer.executions, fuzzer.longest_run) == (3, 8)
