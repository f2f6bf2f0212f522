"""Bugs planted on purpose: each is put into a copy of the tree, and the simulation must find it.

    python -m emulator.simulation.planted                       all of them, and a table
    python -m emulator.simulation.planted ack-flag-kept         one

A bug is a patch under tests/planted: unified, with a first line that says what is wrong. Its hunks
are found by their text alone, so that a patch outlives changes elsewhere in its file. One whose name
begins with `fleet-` is hunted in a fleet.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.simulation.campaign import Scenario

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "planted"
SEEDS = 200
COPIED = ("firmware", "toolchain", "emulator", "pxe")
TIMEOUT_S = 1800


class PatchError(ValueError):
    """A patch that does not fit; the text names patch, file and hunk."""


_ONE_AT_A_TIME = Lock()
"""Around a run in this process; the hunts have processes of their own."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """A run of lines in one file and what stands there instead."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug.

    Attributes:
        name: of its patch, without the suffix.
        says: what is wrong.
        hunks: the changes.
    """

    name: str
    says: str
    hunks: tuple[Hunk, ...]

    @property
    def fleet(self) -> bool:
        """Whether it shows only where several nodes share shards."""
        return self.name.startswith("fleet-")

    def plant(self, root: Path) -> None:
        """Change the files under a folder.

        Raises:
            PatchError: A hunk's lines are not there, or more than once.
        """
        for number, hunk in enumerate(self.hunks, 1):
            path = root / hunk.path
            text = path.read_text(encoding="utf-8")
            found = text.count(hunk.old)
            if found != 1:
                raise PatchError(
                    f"{self.name}.patch, hunk {number}: its old lines stand {found} times in "
                    f"{hunk.path}; make the patch anew with lines that stand there once"
                )
            path.write_text(text.replace(hunk.old, hunk.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Found:
    """How the hunt for one bug ended.

    Attributes:
        bug: which.
        seeds: runs it took; 0 when none of them failed.
        by: what the failing run said.
        seconds: of real time.
    """

    bug: Bug
    seeds: int
    by: str
    seconds: float


def read_patch(path: Path) -> Bug:
    """Read a patch.

    Raises:
        PatchError: It has no first line that says what is wrong, or no hunk.
    """
    says, hunks = "", []
    target, old, new = "", [""], [""]
    inside = False

    def finish() -> None:
        if inside:
            hunks.append(Hunk(target, "".join(old), "".join(new)))

    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("+++ "):
            finish()
            inside = False
            target = line[4:].split()[0].removeprefix("b/")
        elif line.startswith("@@"):
            finish()
            inside, old, new = True, [], []
        elif line.startswith("--- "):
            finish()
            inside = False
        elif inside:
            mark, rest = line[0], line[1:]
            if mark in " -":
                old.append(rest)
            if mark in " +":
                new.append(rest)
        elif not says:
            says = line.strip()
    finish()
    if not says or not hunks:
        raise PatchError(
            f"{path.name}: a patch begins with a line that says what is wrong, then hunks"
        )
    return Bug(path.stem, says, tuple(hunks))


def bugs(names: tuple[str, ...] = ()) -> list[Bug]:
    """Return the named bugs, or all of them.

    Raises:
        PatchError: A name is unknown; the text lists the known ones.
    """
    paths = {path.stem: path for path in sorted(FOLDER.glob("*.patch"))}
    unknown = [name for name in names if name not in paths]
    if unknown:
        raise PatchError(f"no bug is called {unknown[0]!r}; known: {', '.join(paths)}")
    return [read_patch(paths[name]) for name in names or paths]


def copy_tree(root: Path) -> None:
    """Copy what a simulation needs."""
    for name in COPIED:
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc", "docs")
        shutil.copytree(ROOT / name, root / name, ignore=ignore)


def hunt(bug: Bug, seeds: int = SEEDS) -> Found:
    """Plant one bug in a copy of the tree and run seeds there until one fails."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardfw-planted-") as folder:
        root = Path(folder)
        copy_tree(root)
        bug.plant(root)
        options = ["--fleet"] if bug.fleet else []
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "emulator.simulation.planted", "--hunt", str(seeds), *options],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{bug.name}: the simulation could not run:\n{done.stderr}")
    answer = json.loads(done.stdout)
    if answer["seeds"]:
        _accuse(bug, answer["seeds"] - 1)
    return Found(bug, answer["seeds"], answer["by"], time.monotonic() - started)


def _accuse(bug: Bug, seed: int) -> None:
    """Make sure that it was the bug: the seed has to pass without it.

    Raises:
        RuntimeError: It fails in the sources of today too.
    """
    from emulator.simulation.campaign import run_seed  # noqa: PLC0415 - --help needs no emulator

    with _ONE_AT_A_TIME:
        error = run_seed(_scenario(fleet=bug.fleet), seed, most_reruns=0).error
    if error:
        raise RuntimeError(
            f"{bug.name}: seed {seed} fails without the bug too ({error}). Mend that first"
        )


def _scenario(*, fleet: bool) -> Scenario:
    from emulator.simulation import fleet_storm, storm  # noqa: PLC0415 - --help needs no emulator

    return fleet_storm.fleet_storm if fleet else storm.storm


def run_until_found(seeds: int, *, fleet: bool = False) -> tuple[int, str]:
    """Run seeds of this tree until one fails; return how many it took and what it said."""
    from emulator.simulation.campaign import run_seed  # noqa: PLC0415 - of the copy that is hunted
    from emulator.simulation.node import node_image  # noqa: PLC0415

    node_image()  # a bug that does not build is a bad patch, and not found by any seed
    scenario = _scenario(fleet=fleet)
    for seed in range(seeds):
        error = run_seed(scenario, seed, most_reruns=0).error
        if error:
            return seed + 1, error
    return 0, ""


def hunt_all(chosen: list[Bug], seeds: int, jobs: int) -> Iterator[Found]:
    """Hunt for bugs, so many at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda bug: hunt(bug, seeds), chosen)


@click.command(help="Plant each bug in a copy of the tree; the simulation must find every one.")
@click.argument("names", nargs=-1, metavar="[BUG]...")
@click.option("--seeds", default=SEEDS, show_default=True, help="Most seeds for each bug.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else to stdout.")
@click.option("--hunt", "hunted", type=int, hidden=True)
@click.option("--fleet", is_flag=True, hidden=True)
def main(
    names: tuple[str, ...],
    seeds: int,
    jobs: int,
    as_json: bool,
    hunted: int | None,
    fleet: bool,
) -> None:
    """Print what found each planted bug."""
    if hunted is not None:
        count, by = run_until_found(hunted, fleet=fleet)
        click.echo(json.dumps({"seeds": count, "by": by}))
        return
    try:
        chosen = bugs(names)
    except PatchError as error:
        raise click.BadParameter(str(error), param_hint="BUG") from error
    rows = []
    console = Console(stderr=True)
    for found in hunt_all(chosen, seeds, jobs):
        rows.append(found)
        console.print(f"{found.bug.name}: {found.seeds or 'not found'}", highlight=False)
    missed = [found for found in rows if not found.seeds]
    if as_json:
        click.echo(json.dumps(
            [{"bug": f.bug.name, "says": f.bug.says, "seeds": f.seeds, "by": f.by} for f in rows],
            indent=2,
        ))  # fmt: skip
    else:
        _print(rows)
    if missed:
        click.echo(f"Error: {len(missed)} bugs were not found in {seeds} seeds", err=True)
        raise SystemExit(1)


def _print(rows: list[Found]) -> None:
    table = Table("bug", "what is wrong", "seeds", "found by")
    for found in rows:
        table.add_row(found.bug.name, found.bug.says, str(found.seeds or "-"), found.by[:160])
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
