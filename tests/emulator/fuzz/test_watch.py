"""What is watched: blocks and instructions of the chosen routines, and runs that hang elsewhere."""

import pytest

from emulator.fuzz import watch as watching
from emulator.fuzz.watch import BudgetError, Watch
from tests.support import fuzzed


def test_edges_and_instructions_of_a_run():
    target = fuzzed.target(fuzzed.leaves_nonsense)
    target.watch.begin()
    target.run(b"abc")
    edges, count = target.watch.end()
    entry = target.machine.image.address(fuzzed.leaves_nonsense)
    assert (0, entry) in edges
    # Two compares with their branches, then the store and the return.
    assert (len(edges), count) == (3, 6)
    places = {target.watch.place(end) for _, end in edges}
    assert places <= target.watch.places
    assert ("leaves_nonsense", 0) in places


def test_blocks_of_other_routines_are_not_seen():
    target = fuzzed.target(fuzzed.leaves_nonsense)
    nothing = Watch(target.machine, lambda _placed: False, 10)
    nothing.begin()
    target.run(b"abc")
    assert nothing.end() == (frozenset(), 0)
    assert nothing.places == set()


def test_a_run_that_hangs_where_nobody_watches_is_ended(monkeypatch):
    monkeypatch.setattr(watching, "PATIENCE_S", 0.1)
    target = fuzzed.target(fuzzed.never_ends)
    blind = Watch(target.machine, lambda _placed: False, 10)
    # Its own watch would end it first.
    for handle in list(target.watch.hooks):
        target.machine.unhook(handle)
    with blind.guarded():
        blind.begin()
        target.machine.call("never_ends", {"rsi": fuzzed.INPUT, "rcx": 0, "rdi": fuzzed.OUTPUT})
        target.machine.write(fuzzed.INPUT, fuzzed.MAGIC)
        blind.begin()
        with pytest.raises(Exception, match="RSP"):
            target.machine.call("never_ends", {"rsi": fuzzed.INPUT, "rcx": 3, "rdi": fuzzed.OUTPUT})
        with pytest.raises(BudgetError, match="still running after"):
            blind.end()
