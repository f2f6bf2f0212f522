"""`shardfw run --fleet N`: what it prints, its live table, its demonstration."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import sys
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from firmware.layouts.fleet import HELD_MAX
from pxe.node import MissingProgramError, NodeError
from toolchain.asm.errors import AsmError
from toolchain.build import BuildError
from toolchain.cli.fleet.connect import FleetError
from toolchain.cli.fleet.records import RecordError
from toolchain.cli.fleet.status import render as render_status
from toolchain.cli.fleet_demo import Demonstration, faults, rows, sentence
from toolchain.cli.fleet_runner import FleetRunner
from toolchain.cli.runner import RunError
from toolchain.cli.runtime import RunnerError
from toolchain.link import LinkError

if TYPE_CHECKING:
    from pxe.node import SerialLine
    from toolchain.cli.fleet_services import FleetRunOptions

FRAMES_A_SECOND = 4


def cap_for(nodes: int, slots: int) -> int:
    """Return how many slots a node must be allowed so that the others can take over those of one."""
    return min(math.ceil(slots / max(nodes - 1, 1)), HELD_MAX)


def _nodes(runner: FleetRunner) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("node", "name", "last step", "slots", "newest line"):
        table.add_column(name, no_wrap=True)
    held = runner.holders()
    for machine in runner.machines:
        slots = [str(slot) for slot, lease in held.items() if lease.node == machine.name]
        step = list(machine.board.steps)[-1:] if machine.alive else ["ended"]
        newest = machine.board.lines[-1][1] if machine.board.lines else ""
        table.add_row(
            Text(machine.label, "green" if machine.alive else "red"),
            machine.name,
            "".join(step),
            " ".join(slots),
            Text(newest, "dim"),
        )
    return table


def _advice(runner: FleetRunner) -> str:
    label = runner.machines[0].label
    return (
        f"Ctrl-C ends the fleet; in another terminal: . {runner.services.environment}; shardfw fleet status; "
        f"shardfw status --name {label}"
    )


def _render(runner: FleetRunner) -> Group:
    told = f"{runner.connected_shards()} of {runner.options.total} shards have a session"
    ending = Text(_advice(runner), "dim")
    return Group(_nodes(runner), render_status(runner.status()), Text(told), ending)


async def _watch(runner: FleetRunner, *, on_stderr: bool) -> None:
    """Draw the live table until cancelled; nothing when there is no terminal."""
    console = Console(stderr=on_stderr)
    if not console.is_terminal:
        return
    with Live(console=console, auto_refresh=False, transient=on_stderr) as live:
        while True:
            if runner.machines:
                live.update(_render(runner), refresh=True)
            await asyncio.sleep(1 / FRAMES_A_SECOND)


def _print_line(label: str, line: SerialLine) -> None:
    sys.stdout.write(f"{label} {line.seconds:8.3f} {line.text}\n")
    sys.stdout.flush()


async def run_fleet(
    options: FleetRunOptions, *, until_ready: bool, demo: bool, timeout: float, as_json: bool
) -> dict[str, Any]:
    """Run a fleet; return its report, or that of the demonstration.

    Args:
        options: What to run.
        until_ready: Whether to end when every shard has a session.
        demo: Whether to kill a node, measure, and end.
        timeout: Seconds until every shard must have a session.
        as_json: Whether standard output is for JSON alone.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    on_line = None if as_json or sys.stdout.isatty() else _print_line
    runner, found = FleetRunner(options, on_line), {}

    async def until(runner: FleetRunner) -> None:
        if not sys.stdout.isatty() or as_json:
            click.echo(_advice(runner), err=True)
        if demo:
            shown = Demonstration(runner, lambda text: click.echo(text, err=True))
            found.update(await shown.run(timeout))
            return
        if until_ready or as_json:
            await runner.until_owned(timeout)
            found.update(runner.report())
        if not until_ready:
            if as_json:
                click.echo(json.dumps(found))
            await asyncio.Event().wait()

    work = asyncio.ensure_future(runner.run(until))
    view = asyncio.ensure_future(_watch(runner, on_stderr=as_json))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await work
        elif until_ready or demo:
            raise click.Abort
        return found
    finally:
        for task in (view, work, stopped):
            task.cancel()
        await asyncio.gather(view, work, stopped, return_exceptions=True)


def fleet_main(
    options: FleetRunOptions, *, until_ready: bool, demo: bool, timeout: float, as_json: bool
) -> None:
    """Run a fleet for a command line and print what came of it.

    Raises:
        click.ClickException: It did not get where it should, with the last lines of every node; or
            the demonstration showed what must not be.
    """
    work = run_fleet(options, until_ready=until_ready, demo=demo, timeout=timeout, as_json=as_json)
    try:
        report = asyncio.run(work)
    except (
        AsmError, BuildError, FleetError, LinkError, MissingProgramError, NodeError, RecordError,
        RunError, RunnerError,
    ) as error:  # fmt: skip
        raise click.ClickException(str(error)) from error
    if report and not as_json:
        show(report, demo=demo)
    elif report and (demo or until_ready):
        click.echo(json.dumps(report))
    if demo and (found := faults(report)):
        raise click.ClickException(f"the fleet broke its word: {'; '.join(found)}")


def show(report: dict[str, Any], *, demo: bool) -> None:
    """Print a report for people."""
    if demo:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in ("", "planned hand-over", "takeover"):
            table.add_column(name, no_wrap=True)
        for row in rows(report):
            table.add_row(*row)
        Console().print(table)
        click.echo(sentence(report))
        return
    held = ", ".join(
        f"{node['label']} {'+'.join(map(str, node['slots'])) or 'none'}" for node in report["nodes"]
    )
    click.echo(
        f"{report['connected']} of {report['shards']} shards have a session over "
        f"{report['transport']}; slots: {held}"
    )
