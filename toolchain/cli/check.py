"""`shardfw check`: prove the routines against their models and print what was covered."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from toolchain.cli.check_print import print_report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from emulator.lockstep import Statistics
    from emulator.native_judge import Figures
    from toolchain.asm.routine import Routine
    from toolchain.cli.check_report import Report
    from toolchain.link import Image

ROOT = Path(__file__).resolve().parents[2]
PROBE_SECONDS = 0.4
LOGGED_TESTS = 1000
"""A run of so many tests tells a log, which shows no bar, how far it is."""


def release_images() -> list[Image]:
    """Return every image that is released; their routines together are what must be proved."""
    from firmware.image import link_bios, link_direct  # noqa: PLC0415 - --help needs no firmware

    return [link_bios()[0], link_direct()[0]]


@click.command(
    context_settings={"max_content_width": 100},
    epilog="""\b
Examples:
  shardfw check                            every routine of the release image
  shardfw check schedule_backoff           one routine, with the tests of its module
  shardfw check --coverage                 also ask for the promised coverage, list the rest
  shardfw check --coverage --json | jq .total
  shardfw check --mutate                   plant small faults in the lifecycle; list the survivors
  shardfw check --mutate schedule_backoff  in one routine, with a table of its mutants

\b
Exit codes: 0 proved, 1 a test failed, a model is missing, coverage or score is too low, or a mutant
survives without a reason, 2 wrong usage.""",
)
@click.argument("routines", nargs=-1, metavar="[ROUTINE]...")
@click.option("--coverage", is_flag=True, help="Ask for the promised coverage; list what is left.")
@click.option("--mutate", is_flag=True, help="Plant small faults; each must be found.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else to stdout.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes.")
def command(
    routines: Sequence[str], coverage: bool, mutate: bool, as_json: bool, jobs: int
) -> None:
    """Run each routine in lockstep with its reference model, in the release image or not yet."""
    if coverage and mutate:
        raise click.UsageError("--coverage and --mutate are two runs; give one of them")
    _need_tests()
    images = release_images()
    declared, problems = _declared()
    chosen = _choose(routines, images, declared)
    if mutate:
        from toolchain.cli.check_mutate import run_mutation  # noqa: PLC0415 - only here

        run_mutation(chosen, images, as_json=as_json, jobs=jobs)
        return
    linked = {p.name for image in images for p in image.routines()}
    images += [_link_alone(r) for r in chosen if r.name not in linked]
    with tempfile.TemporaryDirectory(prefix="shardfw-check-") as folder:
        tests, output = run_tests(paths_of(chosen), Path(folder), jobs)
        unlinked = [] if chosen else [r for r in declared if r.name not in linked]
        report = _report(images, chosen, Path(folder), unlinked)
    report.tests = tests
    report.problems += [] if chosen else problems
    report.unlinked = sorted(r.name for r in unlinked)
    if tests["exit"]:
        report.problems.append(f"{tests['failed']} tests failed" if tests["failed"] else
                               "the tests could not run")  # fmt: skip
    report.judge(coverage=coverage)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        print_report(report, coverage)
    if tests["exit"]:
        click.echo(output, err=True)
    for problem in report.problems:
        click.echo(f"Error: {problem}", err=True)
    if report.problems:
        raise SystemExit(1)


def _need_tests() -> None:
    if not (ROOT / "tests" / "firmware").is_dir():
        raise click.ClickException(
            f"{ROOT} has no tests/firmware: run it from a checkout installed with "
            "`pip install -e .[test]`"
        )
    for module, package in (("pytest", "pytest"), ("xdist", "pytest-xdist")):
        if importlib.util.find_spec(module) is None:
            raise click.ClickException(f"{package} is missing: `pip install -e .[test]`")


def _declared() -> tuple[list[Routine], list[str]]:
    """Return every routine of the firmware's modules, linked or not, and what cannot be imported."""
    import firmware  # noqa: PLC0415
    from toolchain.asm.routine import Routine  # noqa: PLC0415

    found: dict[str, Routine] = {}
    problems: list[str] = []
    for info in pkgutil.walk_packages(firmware.__path__, "firmware.", problems.append):
        try:
            module = importlib.import_module(info.name)
        except Exception as error:  # a module under work must not hide the others
            problems.append(f"cannot import {info.name}: {type(error).__name__}: {error}")
            continue
        found.update((t.name, t) for t in vars(module).values() if isinstance(t, Routine))
    return list(found.values()), problems


def _link_alone(*routines: Routine) -> Image:
    """Return an image of some routines and what they call."""
    from firmware.limits import IMAGE_BASE  # noqa: PLC0415
    from toolchain.link import Linker, SectionPlan  # noqa: PLC0415

    rest = (
        SectionPlan(name, align=4096) for name in (".rodata", ".data", ".bss", ".trust", ".boot")
    )
    return Linker(routines, (SectionPlan(".text", IMAGE_BASE, executable=True), *rest)).link()


def _choose(
    names: Sequence[str], images: Sequence[Image], declared: Sequence[Routine]
) -> list[Routine]:
    """Return the named routines, or an empty list for all of the release image."""
    known = {routine.name: routine for routine in declared}
    known |= {p.name: p.thing for image in images for p in image.routines()}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise click.BadParameter(
                f"the firmware has no routine {name!r}{hint} (`shardfw listing` names them all)",
                param_hint="ROUTINE",
            )
    return [known[name] for name in dict.fromkeys(names)]


def paths_of(chosen: Sequence[Routine]) -> list[str]:
    """Return the tests to run: those of the routines' modules, or everything."""
    if not chosen:
        return ["tests/firmware"]
    paths: dict[str, None] = {}
    for routine in chosen:
        *folders, name = routine.module.split(".")
        folder = ROOT.joinpath("tests", *folders)
        own = sorted(folder.glob(f"test_{name}*.py"))
        for path in own or [folder]:
            paths[str(path.relative_to(ROOT))] = None
    return list(paths)


def run_tests(
    paths: Sequence[str],
    folder: Path,
    jobs: int,
    *,
    plugin: str = "emulator.pytest_plugin",
    settings: Mapping[str, str] | None = None,
) -> tuple[dict[str, int], str]:
    """Run the conformance tests; return counts and what pytest printed.

    Args:
        paths: The tests.
        folder: Where the plugins save what they saw.
        jobs: Processes.
        plugin: A further plugin of pytest.
        settings: Further environment variables.
    """
    reader, writer = os.pipe()
    # Within a worker of pytest-xdist its variables would make our pytest take itself for one.
    outer = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment = outer | {
        "SHARDFW_CHECK_PIPE": str(writer),
        "SHARDFW_CHECK_DIR": str(folder),
        **(settings or {}),
    }
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "emulator.pytest_plugin"]
    arguments += ["-p", plugin, "-p", "no:cacheprovider", "-n", str(jobs) if jobs > 1 else "0"]
    # What the tests of the machine add needs root and real time; the proof needs neither.
    arguments += ["--dist", "worksteal", "-m", "not system", *paths]
    printed = folder / "pytest.txt"
    with printed.open("wb") as out:
        process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env=environment,
            pass_fds=(writer,),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        os.close(writer)
        tests = {"passed": 0, "failed": 0, "skipped": 0}
        with os.fdopen(reader, encoding="utf-8") as stream:
            for outcome in _progress(stream):
                tests[outcome] += 1
        tests["exit"] = process.wait()
    return tests, printed.read_text(encoding="utf-8", errors="replace")


def _progress(stream: Iterator[str]) -> Iterator[str]:
    """Yield the outcome of each test; show a bar on a terminal, a line per tenth in a log."""
    console = Console(stderr=True)
    columns = (TextColumn("proving"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    total = done = 0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as p:
        task = p.add_task("proving", total=None)
        for line in stream:
            message = json.loads(line)
            if "mutants" in message:
                p.update(
                    task,
                    description="mutating",
                    total=message["mutants"],
                    completed=message["done"],
                )
                continue
            if "total" in message:
                total = message["total"]
                p.update(task, total=total)
                continue
            p.advance(task)
            done += 1
            if not console.is_terminal and total >= LOGGED_TESTS and done % (total // 10) == 0:
                click.echo(f"proving: {done} of {total} tests", err=True)
            yield message["outcome"]


def _report(
    images: Sequence[Image],
    chosen: Sequence[Routine],
    folder: Path,
    unlinked: Sequence[Routine] = (),
) -> Report:
    from emulator.coverage import Coverage  # noqa: PLC0415 - --help needs no emulator
    from toolchain.cli.check_report import Report, rows_of  # noqa: PLC0415

    coverage, fixed = Coverage(), Coverage()
    for path in folder.glob("*.fixed.coverage.json"):
        fixed.merge(Coverage.load(path))
    for path in folder.glob("*.coverage.json"):
        coverage.merge(Coverage.load(path))
    rows = rows_of(images, coverage, fixed)
    if chosen:
        rows = [row for row in rows if row.routine in chosen]
    known = {row.routine.name for row in rows}
    others = rows_of([_link_alone(*unlinked)], coverage) if unlinked else []
    outside = [row for row in others if row.routine.name not in known]
    figures = _statistics(folder), _native(folder)
    traced = _traced(folder)
    return Report(
        rows, *figures, _speeds(), {}, restricted=bool(chosen), traced=traced, outside=outside
    )


def _statistics(folder: Path) -> Statistics:
    from emulator.lockstep import Statistics  # noqa: PLC0415

    total = Statistics()
    for path in folder.glob("*.statistics.json"):
        for name, value in json.loads(path.read_text(encoding="utf-8")).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def _native(folder: Path) -> Figures:
    from emulator.native_judge import Figures  # noqa: PLC0415

    total = Figures()
    for path in sorted(folder.glob("*.native.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        for name, count in found["judged"].items():
            total.judged[name] = total.judged.get(name, 0) + count
        total.left |= found["left"]
    total.left = {n: why for n, why in sorted(total.left.items()) if n not in total.judged}
    return total


def _traced(folder: Path) -> dict[str, int]:
    """Return how many traces were compared for each routine that keeps a secret."""
    total: dict[str, int] = {}
    for path in sorted(folder.glob("*.traces.json")):
        for name, count in json.loads(path.read_text(encoding="utf-8"))["judged"].items():
            total[name] = total.get(name, 0) + count
    return total


def _speeds() -> dict[str, float]:
    """Measure lockstep on a long run of plain code, with and without the semantics judge.

    By processor time, so that a busy machine does not change the figure.
    """
    from emulator.lockstep import Lockstep  # noqa: PLC0415
    from emulator.machine import Machine  # noqa: PLC0415
    from firmware.limits import IMAGE_BASE  # noqa: PLC0415
    from firmware.net.checksum import checksum  # noqa: PLC0415
    from toolchain.link import Linker, SectionPlan  # noqa: PLC0415

    image = Linker((checksum,), (SectionPlan(".text", IMAGE_BASE, executable=True),)).link()
    speeds: dict[str, float] = {}
    for name, semantics in (("", False), ("_with_semantics", True)):
        machine = Machine(image)
        lockstep = Lockstep(machine, semantics=semantics)
        data, length = machine.alloc(60_000), 60_000 if not semantics else 8_000
        count, begun = 0, time.process_time()
        while (spent := time.process_time() - begun) < PROBE_SECONDS:
            count += len(lockstep.call(checksum, total=0, data=data, length=length).trace)
        speeds[f"instructions_per_second{name}"] = round(count / spent)
    return speeds
