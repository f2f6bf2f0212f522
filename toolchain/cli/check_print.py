"""What `shardfw check` prints for people: the layers, what was run, and what no test covered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.cli.check_report import Report, Row


def print_report(report: Report, coverage: bool) -> None:
    """Print a report; with `coverage` all that it lacks."""
    console = Console()
    table = Table(box=None, pad_edge=False)
    for title in ("layer", "routines", "models", "instructions", "covered", "directions"):
        table.add_column(title, justify="left" if title == "layer" else "right")
    table.add_column("covered", justify="right")
    for layer, rows in report.layers():
        _add(table, layer, rows)
    _add(table, "total", report.rows)
    if report.outside:
        _add(table, "in no image", report.outside)
    console.print(table)
    figures, speeds = report.statistics, report.speeds
    console.print(
        f"\n{report.tests['passed']} tests passed; {figures.calls:,} lockstep calls, "
        f"{figures.instructions:,} instructions, {figures.judged:,} of them also judged by the "
        "Python semantics.\n"
        f"Lockstep speed: {speeds['instructions_per_second']:,} instructions/s, "
        f"{speeds['instructions_per_second_with_semantics']:,} with semantics.",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"{len(report.native.judged)} routines also ran on the processor and left the same state; "
        f"{len(report.native.left)} ask for what a test must answer"
        + ("." if not coverage else ": " + ", ".join(report.native.left)),
        highlight=False,
        soft_wrap=True,
    )
    secret = [row for row in report.everything if row.routine.contract.secret]
    traces = sum(report.traced.get(row.routine.name, 0) for row in secret)
    console.print(
        f"{len(secret)} routines keep secrets; {traces:,} of their traces are the same for each.",
        highlight=False,
        soft_wrap=True,
    )
    if report.unlinked:
        names = ", ".join(report.unlinked)
        console.print(f"In no release image: {names}", highlight=False, soft_wrap=True)
    if coverage:
        for row in report.everything:
            _print_uncovered(console, row)


def _add(table: Table, name: str, rows: Sequence[Row]) -> None:
    from toolchain.cli.check_report import Counts  # noqa: PLC0415

    counts = Counts()
    for row in rows:
        counts += row.counts
    table.add_row(
        name,
        str(len(rows)),
        str(sum(row.has_model for row in rows)),
        f"{counts.instructions.total:,}",
        f"{counts.instructions.percent:.1f} %",
        f"{counts.directions.total:,}",
        f"{counts.directions.percent:.1f} %",
    )


def _print_uncovered(console: Console, row: Row) -> None:
    if row.counts.complete:
        return
    left = row.counts.instructions.total - row.counts.instructions.covered
    reason = row.reason or "no reason given: add a test, or an entry in emulator/uncovered.py"
    console.print(
        f"\n{row.routine.name}: {left} instructions not covered; {reason}",
        highlight=False,
        soft_wrap=True,
    )
    if not row.reason:
        for line in row.uncovered:
            console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
