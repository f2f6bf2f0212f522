"""What `shardfw check` found, as data: counts per routine and layer, problems, JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import iced_x86 as ix

from emulator.coverage import branch_table
from emulator.effects import ModelError, model_of
from emulator.uncovered import UNCOVERED, reason_of
from firmware import LAYERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from emulator.coverage import Coverage
    from emulator.lockstep import Statistics
    from emulator.native_judge import Figures
    from toolchain.asm.routine import Routine
    from toolchain.link import Image

COMPLETE = ("firmware.shard.", "firmware.node.lease")
"""Modules that must be covered without a rest: lifecycle, lease, backoff, resume, reset.

By tests that draw nothing: another strategy draws other examples, and what they reached may be lost.
"""
WHOLE_IMAGE_PERCENT = 95


@dataclass
class Count:
    """How many there are and how many ran."""

    total: int = 0
    covered: int = 0

    def __iadd__(self, other: Count) -> Count:
        self.total += other.total
        self.covered += other.covered
        return self

    @property
    def percent(self) -> float:
        """Covered of total; nothing at all is complete."""
        return 100 * self.covered / self.total if self.total else 100.0


@dataclass
class Counts:
    """Instructions and branch directions."""

    instructions: Count = field(default_factory=Count)
    directions: Count = field(default_factory=Count)

    def __iadd__(self, other: Counts) -> Counts:
        self.instructions += other.instructions
        self.directions += other.directions
        return self

    @property
    def complete(self) -> bool:
        """Tell whether nothing is left."""
        return all(c.covered == c.total for c in (self.instructions, self.directions))

    def as_json(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            name: {"total": c.total, "covered": c.covered}
            for name, c in (
                ("instructions", self.instructions),
                ("branch_directions", self.directions),
            )
        }


@dataclass
class Row:
    """One routine of the release image."""

    routine: Routine
    counts: Counts
    has_model: bool
    reason: str
    uncovered: list[str]
    by_chance: list[str] = field(default_factory=list)
    """What drawn examples alone reach; looked at where nothing may be left."""

    @property
    def layer(self) -> str:
        """The firmware layer that the routine's module belongs to."""
        return self.routine.module.split(".")[1]


@dataclass
class Report:
    """Everything that the command prints.

    `rows` are the routines of the images. `outside` are those that no image holds, because nothing
    calls them yet or test images alone do; they are judged alike and counted apart.
    """

    rows: list[Row]
    statistics: Statistics
    native: Figures
    speeds: dict[str, float]
    tests: dict[str, int]
    restricted: bool
    problems: list[str] = field(default_factory=list)
    unlinked: list[str] = field(default_factory=list)
    traced: dict[str, int] = field(default_factory=dict)
    outside: list[Row] = field(default_factory=list)

    @property
    def everything(self) -> list[Row]:
        """The routines of the images, then the others."""
        return [*self.rows, *self.outside]

    @property
    def total(self) -> Counts:
        """The sum over all routines."""
        return _sum(self.rows)

    @property
    def other(self) -> Counts:
        """The sum over the routines that no image holds."""
        return _sum(self.outside)

    def layers(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield the layers that have routines, lowest first."""
        for layer in LAYERS:
            rows = [row for row in self.rows if row.layer == layer]
            if rows:
                yield layer, rows

    def judge(self, *, coverage: bool) -> None:
        """Note every rule that is broken; `coverage` also asks for the promised shares."""
        self.problems += [
            f"{row.routine.name} has no model; write `@model def {row.routine.name}` in "
            f"{row.routine.module.replace('firmware.', 'emulator.models.', 1)}"
            for row in self.everything
            if not row.has_model and not row.reason
        ]
        self.problems += [
            f"{row.routine.name} keeps a secret and no test compares its traces; call "
            "`same_traces` of emulator/constant_time.py"
            for row in self.everything
            if row.routine.contract.secret and row.routine.name not in self.traced
        ]
        if not coverage:
            return
        for row in self.rows:
            if not row.routine.module.startswith(COMPLETE):
                continue
            if not row.counts.complete:
                self.problems.append(
                    f"{row.routine.name} must be covered completely; add tests for: "
                    + "; ".join(row.uncovered)
                )
            elif row.by_chance:
                self.problems.append(
                    f"{row.routine.name} is covered completely, but by drawn examples alone; add "
                    "tests that draw nothing for: " + "; ".join(row.by_chance)
                )
        if self.restricted:
            return
        for whose, counts in (("the image's", self.total), ("the other routines'", self.other)):
            for name, count in (
                ("instructions", counts.instructions),
                ("branch directions", counts.directions),
            ):
                if count.percent < WHOLE_IMAGE_PERCENT:
                    self.problems.append(
                        f"{count.percent:.1f} % of {whose} {name} are covered; "
                        f"{WHOLE_IMAGE_PERCENT} % are promised"
                    )
        known = {row.routine.name: row for row in self.rows}
        for name in UNCOVERED:
            if name not in known or known[name].counts.complete:
                what = "is covered completely" if name in known else "is not in the image"
                self.problems.append(f"{name} {what}; remove it from emulator/uncovered.py")

    def as_json(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        figures = self.statistics
        return {
            "ok": not self.problems,
            "problems": self.problems,
            "tests": self.tests,
            "unlinked": self.unlinked,
            "total": {
                "routines": len(self.rows),
                "models": sum(row.has_model for row in self.rows),
                **self.total.as_json(),
            },
            "layers": {
                layer: {
                    "routines": len(rows),
                    "models": sum(row.has_model for row in rows),
                    **_sum(rows).as_json(),
                }
                for layer, rows in self.layers()
            },
            "outside": {
                "routines": len(self.outside),
                "models": sum(row.has_model for row in self.outside),
                **self.other.as_json(),
            },
            "routines": {
                row.routine.name: {
                    "layer": row.layer,
                    "model": row.has_model,
                    **row.counts.as_json(),
                    "uncovered": row.uncovered,
                    "reason": row.reason,
                }
                for row in self.everything
            },
            "lockstep": {
                "calls": figures.calls,
                "instructions": figures.instructions,
                "judged_by_semantics": figures.judged,
                "left_to_other_judges": figures.skipped,
                **self.speeds,
            },
            "native": {"judged": self.native.judged, "left": self.native.left},
            "traces": self.traced,
        }


def _sum(rows: Iterable[Row]) -> Counts:
    total = Counts()
    for row in rows:
        total += row.counts
    return total


def _has_model(routine: Routine) -> bool:
    try:
        model_of(routine.module, routine.name)
    except ModelError:
        return False
    return True


def rows_of(
    images: Iterable[Image], coverage: Coverage, fixed: Coverage | None = None
) -> list[Row]:
    """Return a row for each routine of the images, in layer and address order.

    Args:
        images: Linked images; of routines that several hold, the first counts.
        coverage: What ran.
        fixed: What of it ran without drawn examples; None is all.
    """
    found: dict[str, Row] = {}
    for image in images:
        table = branch_table(image)
        placed = {p.name: p for p in image.routines()}
        for name, (instructions, branches) in table.totals.items():
            if name in found:
                continue
            executed, directions = coverage.executed[name], coverage.directions[name]
            counts = Counts(
                Count(instructions, len(executed)), Count(2 * branches, len(directions))
            )
            routine = placed[name].thing
            found[name] = Row(
                routine,
                counts,
                _has_model(routine),
                reason_of(routine),
                [] if counts.complete else _uncovered(image, name, coverage),
            )
            if fixed is not None and routine.module.startswith(COMPLETE):
                found[name].by_chance = _uncovered(image, name, fixed)
    return sorted(found.values(), key=lambda row: LAYERS.index(row.layer))


def _uncovered(image: Image, name: str, coverage: Coverage) -> list[str]:
    executed, directions = coverage.executed[name], coverage.directions[name]
    placed = image.symbols[name]
    section = image.section(placed.section)
    start = placed.address - section.address
    code = section.contents[start : start + placed.size]
    lines = {address: (file, line) for address, file, line, _ in image.lines}
    found = []
    for ins in ix.Decoder(placed.thing.bits, code, ip=placed.address):
        offset = ins.ip - placed.address
        file, line = lines.get(ins.ip, ("", 0))
        where = f"+{offset:#x} `{ins}` ({file.rpartition('/')[2]}:{line})"
        if offset not in executed:
            found.append(f"{where} never runs")
        elif ins.flow_control == ix.FlowControl.CONDITIONAL_BRANCH:
            found += [
                f"{where} is never {'taken' if taken else 'passed'}"
                for taken in (True, False)
                if (offset, taken) not in directions
            ]
    return found
