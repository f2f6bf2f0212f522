"""`shardfw fleet status` and `shardfw fleet tail`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from firmware.layouts.plan import TOTAL_MAX
from toolchain.cli.fleet.common import fleet_command, json_option, viewed
from toolchain.cli.fleet.leftovers import sessions
from toolchain.cli.fleet.watch import SESSIONS, View

if TYPE_CHECKING:
    from toolchain.cli.fleet.connect import Fleet


def _json(report: object) -> None:
    click.echo(json.dumps(report))


@click.command(
    "status",
    short_help="Show who has which slot, and how far its shards are.",
    epilog="""\b
Examples:
  shardfw fleet status --bot b1              once
  shardfw fleet status --bot b1 --watch      as it changes""",
)
@click.option("--watch", is_flag=True, help="Show it again with each change, until Ctrl-C.")
@json_option
@fleet_command
async def status(fleet: Fleet, *, watch: bool, as_json: bool) -> None:
    """Show who has which slot, since when, how far its shards are, tickets, budget.

    "written" is the age of the record by the server's clock. "unchanged" is how long this command
    has seen it as it is; a holder renews every five seconds of a 20 s lease.
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    from toolchain.cli.fleet.status import render, report, server_time  # noqa: PLC0415

    console = Console()
    offset = await server_time(fleet) - time.monotonic()

    async def work(view: View) -> None:
        kept = View(fleet, SESSIONS)
        await kept.sync()
        with contextlib.ExitStack() as stack:
            show = _json if as_json else console.print
            if watch and not as_json:
                live = stack.enter_context(Live(console=console, auto_refresh=False))
                show = partial(live.update, refresh=True)
            while True:
                found = report(view, sessions(kept), offset)
                show(found if as_json else render(found))
                if not watch:
                    break
                await asyncio.gather(*(each.until(lambda: None, 1.0) for each in (view, kept)))
        await kept.stop()

    await viewed(fleet, work)


@click.command(
    "tail",
    short_help="Print the events of the shards as they come.",
    epilog="""\b
Examples:
  shardfw fleet tail --bot b1                                    everything
  shardfw fleet tail --bot b1 --shard 3 --type MESSAGE_CREATE    messages of one shard
  shardfw fleet tail --bot b1 --json | jq 'select(.notice)'      what may be missing""",
)
@click.option("--shard", type=click.IntRange(0, TOTAL_MAX - 1), help="This shard only.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="NAME",
    help="Such events only; also SHARDFW_GAP and other notices.",
)
@click.option("--count", type=click.IntRange(1), help="End after so many lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@fleet_command
async def tail_command(
    fleet: Fleet, *, shard: int | None, types: tuple[str, ...], count: int | None, as_json: bool
) -> None:
    """Print the events that nodes publish from now on, each once, until Ctrl-C.

    What a shard's former owner said too late is left out. Notices of the nodes stand between the
    events: "-- GAP" tells what may be missing, "-- NEW_SESSION" and "-- RESUMED" what a connection
    began with. "-- not in the stream" are sequences that this command did not see.
    """
    from toolchain.cli.fleet.tail import follow  # noqa: PLC0415

    left = count
    async with contextlib.aclosing(follow(fleet, shard, types)) as events:
        async for event in events:
            if event is None:
                continue
            click.echo(json.dumps(event.report()) if as_json else event.line())
            left = None if left is None else left - 1
            if left == 0:
                return
