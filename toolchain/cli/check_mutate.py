"""`shardfw check --mutate`: small faults in the linked bytes, each of which a judge must find."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from toolchain.cli.check import paths_of, run_tests

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.mutation.report import Counts, MutationReport
    from toolchain.asm.routine import Routine
    from toolchain.link import Image


def run_mutation(
    chosen: Sequence[Routine], images: Sequence[Image], *, as_json: bool, jobs: int
) -> None:
    """Record the tests' calls, try the mutants, print what became of them.

    Args:
        chosen: Routines to mutate; empty for all of the judged layers.
        images: The released images.
        as_json: Print JSON alone.
        jobs: Processes for the mutants; the calls are recorded by one.

    Raises:
        SystemExit: A test failed, a mutant survives without a reason, or a score is too low.
    """
    from emulator.mutation.plugin import RESULT  # noqa: PLC0415 - --help needs no emulator
    from emulator.mutation.report import report_of  # noqa: PLC0415

    routines = _routines(chosen, images)
    settings = {
        "SHARDFW_MUTATE": ",".join(f"{r.module}:{r.name}" for r in routines),
        "SHARDFW_MUTATE_JOBS": str(jobs),
        # The mutants meet the other judges; the original meets these two in every other run.
        "SHARDFW_SEMANTICS": "0",
        "SHARDFW_NATIVE": "0",
    }
    with tempfile.TemporaryDirectory(prefix="shardfw-mutate-") as name:
        folder = Path(name)
        tests, output = run_tests(
            _tests(routines), folder, 1, plugin="emulator.mutation.plugin", settings=settings
        )
        result = _result(folder / RESULT)
    report = report_of(routines, result, tests, restricted=bool(chosen))
    if tests["exit"]:
        report.problems.append(f"{tests['failed']} tests failed" if tests["failed"] else
                               "the tests could not run")  # fmt: skip
    else:
        report.judge()
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        _print(report)
    if tests["exit"]:
        click.echo(output, err=True)
    for problem in report.problems:
        click.echo(f"Error: {problem}", err=True)
    if report.problems:
        raise SystemExit(1)


def _routines(chosen: Sequence[Routine], images: Iterable[Image]) -> list[Routine]:
    from emulator.mutation.scope import judged  # noqa: PLC0415

    if not chosen:
        return judged({p.name: p.thing for image in images for p in image.routines()}.values())
    for routine in chosen:
        if routine.bits != 64:
            raise click.BadParameter(
                f"{routine.name} is {routine.bits}-bit code, which no recorded call can run",
                param_hint="ROUTINE",
            )
    return list(chosen)


def _tests(routines: Sequence[Routine]) -> list[str]:
    """Return the tests whose calls are recorded: those of all judged layers, and of others' modules."""
    from emulator.mutation.scope import TESTS, layer_of  # noqa: PLC0415

    others = [r for r in routines if not layer_of(r)]
    own = TESTS if len(others) < len(routines) else ()
    return list(dict.fromkeys((*own, *(paths_of(others) if others else ()))))


def _result(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


# -- printing -------------------------------------------------------------------------------------
_TITLES = ("", "mutants", "by tests", "by build", "equivalent", "survived", "score")


def _print(report: MutationReport) -> None:
    console = Console()
    layers = Table(box=None, pad_edge=False)
    routines = Table(box=None, pad_edge=False)
    for table, first in ((layers, "layer"), (routines, "routine")):
        for title in (first, *_TITLES[1:]):
            table.add_column(title, justify="left" if title == first else "right")
    for name, found in report.layers():
        _add(layers, name, report.of(found))
        for routine in found:
            _add(routines, routine.name, report.rows[routine.name])
    _add(layers, "total", report.total)
    for table in (routines, layers):
        console.print(table)
        console.print()
    figures = report.figures
    console.print(
        f"{report.tests['passed']} tests gave {figures['calls']:,} calls in "
        f"{figures['recording_seconds']:.0f} s; the mutants took {figures['seconds']:.0f} s.",
        highlight=False,
        soft_wrap=True,
    )
    if figures["unrepeatable"]:
        console.print(f"{figures['unrepeatable']} calls could not be repeated and were not used.")
    for sentence, count in sorted(report.proofs.items()):
        console.print(f"{count} equivalent: {sentence}.", highlight=False, soft_wrap=True)
    for survivor in report.survivors:
        console.print(
            f"{survivor.routine}+{survivor.offset:#x} {survivor.where}: {survivor.key}: "
            f"{survivor.reason or 'no reason given'}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _add(table: Table, name: str, counts: Counts) -> None:
    from emulator.mutation.trial import BUILD, LOCKSTEP, NOBODY, PROOF, REPLAY  # noqa: PLC0415

    table.add_row(
        name,
        f"{counts.total:,}",
        f"{counts.by[REPLAY] + counts.by[LOCKSTEP]:,}",
        f"{counts.by[BUILD]:,}",
        f"{counts.by[PROOF]:,}",
        f"{counts.by[NOBODY]:,}",
        f"{counts.score:.1f} %",
    )
