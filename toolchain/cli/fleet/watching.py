"""`shardfw fleet status` and `shardfw fleet tail`."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

import click

from firmware.layouts.plan import TOTAL_MAX
from toolchain.cli.fleet.common import fleet_command, json_option, viewed

if TYPE_CHECKING:
    from toolchain.cli.fleet.connect import Fleet
    from toolchain.cli.fleet.watch import View


@click.command("status")
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C.")
@json_option
@fleet_command
async def status(fleet: Fleet, *, watch: bool, as_json: bool) -> None:
    """Show who has which slot, since when, how far its shards are, tickets, budget.

    "written" is the age of the record by the server's clock. "unchanged here" is how long this command
    has seen it as it is; a holder renews every five seconds of a 20 s lease.
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    from toolchain.cli.fleet.status import render, report, server_time, sessions  # noqa: PLC0415

    console = Console()
    offset = await server_time(fleet) - time.monotonic()

    async def work(view: View) -> None:
        found = report(view, await sessions(fleet), offset)
        if as_json and not watch:
            click.echo(json.dumps(found))
            return
        if not watch:
            console.print(render(found))
            return
        with Live(render(found), console=console, auto_refresh=False) as live:
            while True:
                await view.until(lambda: None, 1.0)
                found = report(view, await sessions(fleet), offset)
                if as_json:
                    click.echo(json.dumps(found))
                else:
                    live.update(render(found), refresh=True)

    await viewed(fleet, work)


@click.command("tail")
@click.option("--shard", type=click.IntRange(0, TOTAL_MAX - 1), help="This shard only.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="These dispatches only.")
@click.option("--count", type=click.IntRange(1), help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@fleet_command
async def tail_command(
    fleet: Fleet, *, shard: int | None, types: tuple[str, ...], count: int | None, as_json: bool
) -> None:
    """Print the events that nodes publish, as they come."""
    from toolchain.cli.fleet.tail import follow, line  # noqa: PLC0415

    left = count
    async with contextlib.aclosing(follow(fleet, shard, types)) as events:
        async for event in events:
            if event is None:
                continue
            click.echo(json.dumps(event.report()) if as_json else line(event))
            left = None if left is None else left - 1
            if left == 0:
                return
