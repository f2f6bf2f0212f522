"""Which instructions ran and which way each conditional branch went, over all runs of a process.

Keys are routine name and offset, so that runs over differently linked images add up.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import iced_x86 as ix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from toolchain.link import Image


@dataclass
class Coverage:
    """`executed` maps a routine to offsets; `directions` to (offset, taken) pairs."""

    executed: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    directions: dict[str, set[tuple[int, bool]]] = field(default_factory=lambda: defaultdict(set))

    def add_trace(self, image: Image, trace: list[int]) -> None:
        """Add one run: the addresses of its instructions in order."""
        table = branch_table(image)
        pairs = set(itertools.pairwise(trace))
        self.add_executed(image, {*trace[-1:], *(here for here, _ in pairs)})
        for here, following in pairs:
            fall = table.branches.get(here)
            if fall is not None:
                name, offset = table.places[here]
                self.directions[name].add((offset, following != fall))

    def add_executed(self, image: Image, addresses: Iterable[int]) -> None:
        """Add addresses that ran, without order (block hooks)."""
        table = branch_table(image)
        for address in addresses:
            place = table.places.get(address)
            if place is not None:
                self.executed[place[0]].add(place[1])

    def merge(self, other: Coverage) -> None:
        """Add another record to this one."""
        for name, offsets in other.executed.items():
            self.executed[name] |= offsets
        for name, pairs in other.directions.items():
            self.directions[name] |= pairs

    def save(self, path: Path) -> None:
        """Write the record as JSON."""
        path.write_text(
            json.dumps(
                {
                    "executed": {k: sorted(v) for k, v in sorted(self.executed.items())},
                    "directions": {k: sorted(v) for k, v in sorted(self.directions.items())},
                }
            ),
            encoding="utf-8",
        )

    @classmethod
    def load(cls, path: Path) -> Coverage:
        """Read a record."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        found = cls()
        for name, offsets in raw["executed"].items():
            found.executed[name] |= set(offsets)
        for name, pairs in raw["directions"].items():
            found.directions[name] |= {(o, bool(t)) for o, t in pairs}
        return found


@dataclass
class BranchTable:
    """`places` maps an address to routine and offset; `branches` to its fall-through address."""

    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    branches: dict[int, int] = field(default_factory=dict)
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)


_TABLES: dict[int, tuple[Image, BranchTable]] = {}
_FIXED, _DRAWN = Coverage(), Coverage()
_drawing: list[Callable[[], bool]] = []


def process_coverage(*, drawn: bool = False) -> Coverage:
    """Return the record of what ran in this process with drawn examples, or without."""
    return _DRAWN if drawn else _FIXED


def note_drawing(drawing: Callable[[], bool]) -> None:
    """Ask a function, from now on, whether the test that runs has drawn its example."""
    _drawing[:] = [drawing]


def add_run(image: Image, trace: list[int]) -> None:
    """Add a lockstep run to this process's record."""
    drawn = any(drawing() for drawing in _drawing)
    process_coverage(drawn=drawn).add_trace(image, trace)


def branch_table(image: Image) -> BranchTable:
    """Return the instructions and conditional branches of an image, computed once.

    What runs of a routine that stands in another's place says nothing about that one: it has no places.
    """
    known = _TABLES.get(id(image))
    if known is not None:
        return known[1]
    table = BranchTable()
    for placed in image.routines():
        section = image.section(placed.section)
        start = placed.address - section.address
        code = section.contents[start : start + placed.size]
        count = branches = 0
        for ins in ix.Decoder(
            section.bits if placed.thing.bits == 64 else placed.thing.bits, code, ip=placed.address
        ):
            conditional = ins.flow_control == ix.FlowControl.CONDITIONAL_BRANCH
            count, branches = count + 1, branches + conditional
            if placed.name in image.replaced:
                continue
            table.places[ins.ip] = (placed.name, ins.ip - placed.address)
            if conditional:
                table.branches[ins.ip] = ins.next_ip
        table.totals[placed.name] = (count, branches)
    _TABLES[id(image)] = (image, table)
    return table
