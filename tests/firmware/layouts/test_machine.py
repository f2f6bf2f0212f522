"""The lifecycle's table: complete, told alike by the documentation, done by routines of the image."""

from pathlib import Path

from emulator.simulation.node import node_image
from firmware.layouts import machine
from firmware.layouts.shard import ShardState

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "firmware/docs/lifecycle.md").read_text()


def test_the_documentation_shows_the_table_as_it_is():
    for part in (machine.diagram(), machine.table(), machine.invariants()):
        assert part in DOC, "print it with `shardfw layout --machine`"
    assert machine.diagram() in (ROOT / "README.md").read_text()


def test_transitions_and_invariants_are_numbered_without_a_gap():
    assert [row.name for row in machine.TRANSITIONS] == [f"T{n}" for n in range(1, 26)]
    assert list(machine.INVARIANTS) == [f"I{n}" for n in range(1, 11)]


def test_every_transition_is_done_by_a_routine_of_the_image():
    names = {placed.thing.name for placed in node_image().routines()}
    assert {row.routine for row in machine.TRANSITIONS} <= names


def test_every_state_can_be_reached_and_only_fatal_waits_for_a_plan():
    reached = {after for row in machine.TRANSITIONS for after in row.after}
    assert reached == set(ShardState)
    left = machine.changes(without=("T24",))
    assert [state for state, after in left.items() if not after] == [ShardState.FATAL]
    assert machine.changes()[ShardState.FATAL] == {ShardState.ASSIGNED}
