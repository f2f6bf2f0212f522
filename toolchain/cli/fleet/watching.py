"""`shardfw fleet status` and `shardfw fleet tail`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from firmware.layouts.plan import TOTAL_MAX
from toolchain.cli.fleet.common import endless_command, say, viewed
from toolchain.cli.fleet.leftovers import sessions
from toolchain.cli.fleet.watch import SESSIONS, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from toolchain.cli.fleet.connect import Fleet

PIPE_COLUMNS = 160
"""Wide enough for a row whatever its names are: what is piped is not cut off at a terminal's edge."""
OUT_OF_SIGHT = "out of sight, and looked for again: {}"


def _say_trouble(why: str) -> None:
    say(OUT_OF_SIGHT.format(why))


@click.command(
    "status",
    short_help="Show who has which slot, and how far its shards are.",
    epilog="""\b
Examples:
  shardfw fleet status --bot b1              once
  shardfw fleet status --bot b1 --watch      again every second""",
)
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, with --watch one a line."
)
@endless_command
async def status(fleet: Fleet, *, watch: bool, as_json: bool) -> None:
    """Show who has which slot, since when, how far its shards are, tickets, budget.

    "written" is the age of the record by the server's clock. "unchanged" is how long this command
    has seen it as it is; a holder renews every five seconds of a 20 s lease. Records that are out of
    sight for too long end --watch with exit code 1, and the reason.
    """
    from rich.console import Console, Group  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from toolchain.cli.fleet.status import (  # noqa: PLC0415
        has_events,
        render,
        report,
        server_time,
    )

    console = Console() if sys.stdout.isatty() else Console(width=PIPE_COLUMNS)
    offset = await server_time(fleet) - time.monotonic()
    events = await has_events(fleet)
    drawn = watch and not as_json and console.is_terminal

    async def work(view: View) -> None:
        nonlocal events
        kept = View(fleet, SESSIONS)
        await kept.sync()
        shown, told = Group(), False
        with contextlib.ExitStack() as stack:
            show: Callable[[RenderableType], None] = console.print
            if drawn:
                live = stack.enter_context(Live(console=console, auto_refresh=False))
                show = partial(live.update, refresh=True)
            while True:
                if view.synced and kept.synced:
                    found = report(view, sessions(kept), offset, events=events)
                    if as_json:
                        click.echo(json.dumps(found))
                    else:
                        shown = render(found)
                        show(shown)
                why = view.trouble or kept.trouble
                if why and drawn:
                    show(Group(shown, Text(OUT_OF_SIGHT.format(why), "yellow")))
                elif why and not told:
                    _say_trouble(why)
                if told and not why:
                    # What was away may have come back without it.
                    events = await has_events(fleet)
                told = bool(why)
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
@endless_command
async def tail_command(
    fleet: Fleet, *, shard: int | None, types: tuple[str, ...], count: int | None, as_json: bool
) -> None:
    """Print the events that nodes publish from now on, each once, until Ctrl-C.

    What a shard's former owner said too late is left out. Notices of the nodes stand between the
    events: "-- GAP" tells what may be missing, "-- NEW_SESSION" and "-- RESUMED" what a connection
    began with. "-- not in the stream" are sequences that this command did not see. Events that are
    out of sight for too long, because stream, server or permission is gone, end it with exit code 1.
    """
    from toolchain.cli.fleet.tail import follow  # noqa: PLC0415

    left = count
    async with contextlib.aclosing(follow(fleet, shard, types, _say_trouble)) as events:
        async for event in events:
            if event is None:
                continue
            click.echo(json.dumps(event.report()) if as_json else event.line())
            left = None if left is None else left - 1
            if left == 0:
                return
