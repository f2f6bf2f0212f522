"""The memory around a run: put back where it may change, compared everywhere else."""

import pytest

from emulator.fuzz.footprint import Footprint, OutOfFootprintError
from tests.support import fuzzed
from tests.support.fuzzed import INPUT, OUTPUT, PAGE


@pytest.fixture
def machine():
    return fuzzed.target(fuzzed.leaves_nonsense).machine


def test_what_may_change_is_put_back(machine):
    footprint = Footprint(machine, [(OUTPUT + 8, 4)])
    machine.write(OUTPUT + 8, b"abcd")
    footprint.judge()
    footprint.restore()
    assert machine.read(OUTPUT, PAGE) == b"\xa5" * PAGE


@pytest.mark.parametrize("at", [OUTPUT + 7, OUTPUT + 12, OUTPUT, OUTPUT + PAGE - 1, INPUT])
def test_a_change_elsewhere_is_told_and_can_be_put_back(machine, at):
    footprint = Footprint(machine, [(OUTPUT + 8, 4)])
    machine.write(at, b"\0")
    with pytest.raises(OutOfFootprintError, match=f"{at:#x} was 0xa5 and is 0x00"):
        footprint.judge()
    footprint.restore()
    with pytest.raises(OutOfFootprintError):
        footprint.judge()
    footprint.restore_all()
    footprint.judge()


def test_the_stack_may_change(machine):
    footprint = Footprint(machine, [])
    stack = next(region for region in machine.regions if region.name == "stack")
    machine.write(stack.address, b"x")
    footprint.judge()
