"""Which blocks of the image ran: instructions in a turn, and coverage, from one hook per block."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING

import unicorn as uc

from emulator.coverage import branch_table, process_coverage

if TYPE_CHECKING:
    from emulator.coverage import Coverage
    from emulator.machine import Machine


class BlockTrace:
    """Counts instructions and remembers what ran, for the coverage of this process.

    Args:
        machine: its image is watched from here on.
    """

    def __init__(self, machine: Machine) -> None:
        self.instructions = 0
        self._machine = machine
        self._ran: list[tuple[int, int]] = []
        self._table = branch_table(machine.image)
        self._addresses = sorted(self._table.places)
        self._known: dict[tuple[int, int], tuple[int, ...]] = {}
        self._edges: set[tuple[int, int]] = set()
        append = self._ran.append

        def visit(_engine: uc.Uc, address: int, size: int, _data: object) -> None:
            append((address, size))

        machine.hook(uc.UC_HOOK_BLOCK, visit)

    def end_turn(self) -> int:
        """Take what ran since the last call; return how many instructions that were."""
        ran = self._ran
        count = 0
        for (address, size), (following, _) in zip(
            ran, itertools.chain(ran[1:], ((0, 0),)), strict=True
        ):
            # An instruction that the test answers ends its block early.
            end = following if address < following < address + size else address + size
            inside = self._inside(address, end)
            count += len(inside)
            if inside and following:
                self._edges.add((inside[-1], following))
        ran.clear()
        self.instructions += count
        return count

    def save(self, into: Coverage | None = None) -> None:
        """Add what ran to a record, by default the one of this process."""
        coverage, table = into or process_coverage(), self._table
        image = self._machine.image
        coverage.add_executed(image, itertools.chain.from_iterable(self._known.values()))
        for here, following in self._edges:
            fall = table.branches.get(here)
            if fall is not None:
                name, offset = table.places[here]
                coverage.directions[name].add((offset, following != fall))

    def _inside(self, start: int, end: int) -> tuple[int, ...]:
        known = self._known.get((start, end))
        if known is None:
            first = bisect.bisect_left(self._addresses, start)
            last = bisect.bisect_left(self._addresses, end)
            known = self._known[start, end] = tuple(self._addresses[first:last])
        return known
