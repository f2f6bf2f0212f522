"""`shardfw fleet approve`: give nodes that wait for it the bot's token."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolchain.cli.fleet.common import check_name, fleet_command, json_option, say
from toolchain.cli.fleet.connect import FleetError
from toolchain.cli.fleet.enrolment import Identity, NodeLogin, grant_of
from toolchain.config.load import DEFAULT_TOKEN_ENV
from toolchain.config.nkey import parse_nkey
from toolchain.config.token import token_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from toolchain.cli.fleet.connect import Fleet
    from toolchain.cli.fleet.enrolment import Announcement

NODE_PASSWORD_ENV, NODE_NKEY_ENV = "SHARDFW_NODE_PASSWORD", "SHARDFW_NODE_NKEY"
WINDOW_MAX_S = 24 * 3600
UNITS = {"s": 1, "m": 60, "h": 3600}


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smh])", value)
    seconds = int(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < seconds <= WINDOW_MAX_S:
        raise click.BadParameter(f"{value!r} is no time. Write 90s, 10m or 2h, a day at most")
    return seconds


def _identities(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> list[Identity]:
    try:
        return [Identity.parse(text) for text in value]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _fingerprint(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"(0x)?[0-9a-fA-F]{1,16}", value):
        raise click.BadParameter(f"{value!r} is no fingerprint. Copy it from the node's log")
    return value


def read(what: str, variable: str, file: Path | None) -> str | None:
    """Return a secret from its file, else from its variable.

    Raises:
        FleetError: The file cannot be read.
    """
    if file is None:
        found = os.environ.get(variable)
        return None if found is None else found.strip()
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII text"
        raise FleetError(f"cannot read {file}: {reason}. It has to hold the {what} alone") from None


def token_of(file: Path | None) -> str:
    """Return the token from its file or variable, else ask for it; never from the command line.

    Raises:
        FleetError: There is none, or it is none.
    """
    found = read("token", DEFAULT_TOKEN_ENV, file)
    if found is None:
        if not sys.stdin.isatty():
            raise FleetError(f"no token to release. Set {DEFAULT_TOKEN_ENV}, or give --token-file")
        # The event loop takes the first Ctrl-C for itself, and would see it behind the answer.
        taken = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            found = click.prompt("the bot's token", hide_input=True, err=True).strip()
        finally:
            signal.signal(signal.SIGINT, taken)
    if (problem := token_problem(found)) is not None:
        raise FleetError(problem)
    return found


async def _line() -> str:
    """Return the next line of standard input; NATS is answered meanwhile, and Ctrl-C ends it."""
    if not sys.stdin.isatty():
        return await asyncio.to_thread(sys.stdin.readline)
    # No thread: it would wait for its line after Ctrl-C, and the command for it.
    ready, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()


async def agree(question: str) -> None:
    """Ask until the answer is one.

    Raises:
        click.Abort: It is no.
    """
    while True:
        click.echo(f"{question} [y/N]: ", nl=False, err=True)
        answer = (await _line()).strip().lower()
        if answer in ("y", "yes"):
            return
        if answer in ("", "n", "no"):
            raise click.Abort
        say("Error: write y or n")


def login_of_node(user: str, password_file: Path | None, nkey_file: Path | None) -> NodeLogin:
    """Return how nodes log in from then on.

    Raises:
        FleetError: A secret is missing or cannot be used.
    """
    seed = read("seed", NODE_NKEY_ENV, nkey_file)
    if user:
        password = read("password", NODE_PASSWORD_ENV, password_file)
        if not password:
            raise FleetError(
                f"--node-user {user} without a password. Set {NODE_PASSWORD_ENV}, or give "
                "--node-password-file"
            )
        for what, text in (("user", user), ("password", password)):
            if not re.fullmatch(r"[!#-\[\]-~]{1,64}", text):
                raise FleetError(
                    f"the node's {what} has to be 1 to 64 printable characters without quote, "
                    "backslash and space"
                )
        return NodeLogin(user, password)
    if not seed:
        return NodeLogin()
    try:
        return NodeLogin(nkey=parse_nkey(seed))
    except ValueError as error:
        raise FleetError(f"{nkey_file or NODE_NKEY_ENV}: {error}") from None


def table(waiting: Sequence[Announcement]) -> Table:
    """Return who waits, for people."""
    from rich import box  # noqa: PLC0415 - --help and --json need no rich
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("node", "fingerprint", "MAC", "UUID", "serial", "build", "refused"):
        made.add_column(name, no_wrap=True)
    for line in waiting:
        facts = [escape(value or "-") for value in line.facts.values()]
        made.add_row(line.node, line.fingerprint, *facts, str(line.refused))
    return made


def show(line: Announcement) -> None:
    """Print what an operator has to compare before he agrees."""
    say(f"{line.node} waits for its token:")
    for name, value in ({"fingerprint": line.fingerprint} | line.facts).items():
        say(f"  {name:<12} {value or 'not told'}")
    say(
        "Whoever may log in to enrol can write all of this but the fingerprint of a key that he does "
        "not have. Compare the fingerprint with the node's own log (code=enrol.waiting) or with "
        "shardfw status."
    )


def _check_names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    return [check_name(ctx, param, one) for one in dict.fromkeys(value)]


@click.command(
    "approve",
    epilog="""\b
Examples:
  shardfw fleet approve --bot b1                        who waits
  shardfw fleet approve --bot b1 n7                     show it, ask, release the token
  shardfw fleet approve --bot b1 n7 --fingerprint 0x5c1e9a7d03b24f68
  shardfw fleet approve --bot b1 --auto --identity mac=52:54:00:00:00:77 --for 10m

\b
The token is read from SHARDFW_TOKEN, from --token-file, or asked for. With --node-user and
SHARDFW_NODE_PASSWORD, or with SHARDFW_NODE_NKEY, nodes are given a login along with it: the one in
their image need not be allowed more than to enrol. --auto believes what a node says of its hardware:
in that time whoever may log in to enrol can pass for it. Each identity is served once.""",
)
@click.argument(
    "nodes",
    nargs=-1,
    metavar="[NODE]...",
    callback=_check_names,
)
@click.option(
    "--fingerprint",
    metavar="HEX",
    callback=_fingerprint,
    help="Do not ask: this is the node's key.",
)
@click.option("--auto", is_flag=True, help="Release to --identity without asking, as they come.")
@click.option(
    "--identity",
    "identities",
    metavar="IDENTITY",
    callback=_identities,
    multiple=True,
    help="With --auto: mac=...,uuid=...,serial=...; all that is given has to be so.",
)
@click.option(
    "--for",
    "window",
    metavar="TIME",
    callback=_seconds,
    help="With --auto: for so long, such as 10m.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"A file with the token; else {DEFAULT_TOKEN_ENV} is used.",
)
@click.option(
    "--node-user",
    default="",
    help=f"The user that a node gets with the token; its password: {NODE_PASSWORD_ENV}.",
)
@click.option(
    "--node-password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with that password.",
)
@click.option(
    "--node-nkey-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"A file with the nodes' seed, SU...; else {NODE_NKEY_ENV} is used.",
)
@json_option
@fleet_command
async def approve_command(
    fleet: Fleet,
    *,
    nodes: list[str],
    fingerprint: str | None,
    auto: bool,
    identities: list[Identity],
    window: float | None,
    token_file: Path | None,
    node_user: str,
    node_password_file: Path | None,
    node_nkey_file: Path | None,
    as_json: bool,
) -> None:
    """List nodes that wait for the bot's token, or release it to some of them.

    Without NODE and --auto nothing is released. Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
    from toolchain.cli.fleet.approving import Desk, approve_known, choose  # noqa: PLC0415

    if auto != (bool(identities) and window is not None) or (auto and (nodes or fingerprint)):
        raise click.UsageError("--auto goes with --identity and --for, and with no NODE")
    if not auto and (identities or window is not None):
        raise click.UsageError("--identity and --for go with --auto")
    if fingerprint is not None and len(nodes) != 1:
        raise click.UsageError("--fingerprint is of one NODE")
    desk = Desk(fleet)
    await desk.open()
    if not auto and not nodes:
        waiting = await desk.listen()
        if as_json:
            click.echo(json.dumps({"waiting": [line.report() for line in waiting]}))
        elif waiting:
            from rich.console import Console  # noqa: PLC0415

            Console(width=170, highlight=False).print(table(waiting))
        else:
            click.echo("no node waits for its token")
        return

    login = login_of_node(node_user, node_password_file, node_nkey_file)
    grant = grant_of(token_of(token_file), login)
    done: list[Announcement] = []

    def enrolled(line: Announcement) -> None:
        # At once, because the next one may fail.
        done.append(line)
        if not as_json:
            click.echo(f"{line.node} is enrolled")

    try:
        if auto and window is not None:
            await approve_known(desk, identities, window, grant, say, enrolled)
            return
        waiting = await desk.listen()
        for node in nodes:
            line = choose(waiting, node, fingerprint)
            show(line)
            if fingerprint is None:
                await agree("release the token to it?")
            await desk.release(line, grant)
            enrolled(line)
    finally:
        if as_json and done:
            click.echo(json.dumps({"enrolled": [line.report() for line in done]}))
