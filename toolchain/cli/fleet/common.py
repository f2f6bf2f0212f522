"""What the fleet's commands share: connecting, a view of the records, options."""

from __future__ import annotations

import asyncio
import contextlib
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
import nats.errors
import nats.js.errors

from firmware.layouts.fleet import FLEET_SLOTS_MAX
from firmware.layouts.permit import PERMITS_MAX
from firmware.layouts.plan import TOTAL_MAX
from toolchain.cli.fleet.connect import FleetError, Login, connected, login_of, login_options
from toolchain.cli.fleet.records import DEFAULT_DURATION_MS, NAME, Range, RecordError, split
from toolchain.cli.fleet.watch import View

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from toolchain.cli.fleet.connect import Fleet

R = TypeVar("R")


def say(text: str) -> None:
    """Print a step; results alone go to standard output."""
    click.echo(text, err=True)


def run(
    work: Callable[[Fleet], Awaitable[R]],
    bot: str,
    servers: tuple[str, ...],
    user: str,
    nkey_file: Path | None,
    ca: Path | None,
    *,
    handshake_first: bool,
) -> R:
    """Connect, do the work, close.

    Raises:
        click.ClickException: Something is wrong with fleet, server or request.
    """

    async def scenario(login: Login) -> R:
        async with connected(login, bot) as fleet:
            try:
                return await work(fleet)
            except nats.js.errors.APIError as error:
                raise FleetError(
                    f"JetStream at {', '.join(fleet.servers)} refuses it: {error.description} "
                    f"(error {error.err_code}). Look at the servers' logs"
                ) from error
            except (nats.errors.Error, TimeoutError) as error:
                raise FleetError(fleet.gone()) from error

    try:
        login = login_of(servers, user, nkey_file, ca, handshake_first=handshake_first)
        return asyncio.run(scenario(login))
    except (FleetError, RecordError) as error:
        raise click.ClickException(str(error)) from error


async def viewed(fleet: Fleet, work: Callable[[View], Awaitable[R]]) -> R:
    """Do work with a view that shows all records."""
    view = View(fleet)
    await view.sync()
    try:
        return await work(view)
    finally:
        await view.stop()


def endless_command(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Do as `fleet_command`; Ctrl-C is the way to end it, and no failure."""
    command = fleet_command(function)

    @wraps(command)
    def until_interrupted(**options: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            command(**options)

    return until_interrupted


def fleet_command(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a coroutine over a connected fleet a command's function, with the options of a login.

    Ctrl-C is a failure: what follows on success must not follow a wait that was given up.
    """

    @wraps(function)
    def command(
        *,
        bot: str,
        servers: tuple[str, ...],
        user: str,
        nkey_file: Path | None,
        ca: Path | None,
        handshake_first: bool,
        **own: object,
    ) -> None:
        run(
            lambda fleet: function(fleet, **own),
            bot,
            servers,
            user,
            nkey_file,
            ca,
            handshake_first=handshake_first,
        )

    return login_options(command)


def ranges_of(total: int, slots: int | None, ranges: tuple[str, ...]) -> tuple[Range, ...]:
    """Return the slots that the options mean.

    Raises:
        click.UsageError: Both or neither.
        RecordError: They cannot be.
    """
    if bool(ranges) == (slots is not None):
        raise click.UsageError("give either --slots, or --range once for each slot")
    return tuple(map(Range.parse, ranges)) if slots is None else split(total, slots)


def plan_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what a plan is."""
    options = (
        click.option("--total", type=click.IntRange(1, TOTAL_MAX), help="Shards of the whole bot."),
        click.option(
            "--slots",
            type=click.IntRange(1, FLEET_SLOTS_MAX),
            help="Into how many slots they are cut evenly; a node holds up to its [fleet] cap.",
        ),
        click.option(
            "--range",
            "ranges",
            multiple=True,
            metavar="START+COUNT",
            help="A slot by its first shard and how many; once for each, in order.",
        ),
        click.option(
            "--max-concurrency",
            type=click.IntRange(1, PERMITS_MAX),
            help="How many shards the service lets identify in the same five seconds, over all nodes.  "
            "[default: as it is, or 1]",
        ),
        click.option(
            "--duration-ms",
            type=int,
            help="How long a lease lasts: longer outlives more of an outage of NATS, and a dead "
            f"node's shards wait longer.  [default: as it is, or {DEFAULT_DURATION_MS}]",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def check_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return a node's name.

    Raises:
        click.BadParameter: It is none.
    """
    if not NAME.fullmatch(value):
        raise click.BadParameter("a node's name has letters, digits, _ and - alone, 32 at most")
    return value
