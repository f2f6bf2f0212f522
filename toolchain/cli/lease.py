"""`shardfw lease`: a single node's permission to hold its shards."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from toolchain.cli.runtime import DEFAULT_NAME, RunnerError, ask

F = TypeVar("F", bound=Callable[..., Any])

MS_MAX = 0xFFFF_FFFF
REFUSED = "lease.bad_command"
# What to do when the node refuses; it does so for one reason each.
REFUSALS = {
    "arm": "the node refused it. Give 1 to 4294967295 milliseconds",
    "renew": "the node refused it: the lease has expired, or is no number. Take a new grant: "
    "shardfw lease arm MS",
    "expire": "the node refused it: the lease has expired already",
}


def _say(name: str, verb: str, line: str, answer: str, *, as_json: bool) -> None:
    """Send one line to the node and print what it logs.

    Raises:
        click.ClickException: No node, no answer, or refused.
    """
    try:
        reply = ask(name, {"ask": "serial", "line": line, "codes": [answer, REFUSED]})
    except RunnerError as error:
        raise click.ClickException(str(error)) from error
    from toolchain.cli.loglines import parse_line  # noqa: PLC0415 - --help needs no firmware

    parsed = parse_line(reply["line"])
    if parsed is None or parsed.code.name == REFUSED:
        raise click.ClickException(REFUSALS[verb])
    if as_json:
        click.echo(json.dumps({"t_ms": parsed.t_ms, "code": parsed.code.name} | parsed.values))
    else:
        click.echo(reply["line"])


def _common(function: F) -> F:
    """Add the options that all three have."""
    options = (
        click.option(
            "--name", default=DEFAULT_NAME, show_default=True, help="Which node run here."
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group(
    epilog="""\b
Examples:
  shardfw lease arm 60000      grant one minute; the node may connect
  shardfw lease renew 60000    one minute from now
  shardfw lease expire         end it now: all shard traffic stops at once

\b
The commands reach the node that `shardfw run` started, over its serial line, and print what it
logs: the grant's generation and the milliseconds left.
Exit codes: 0 done, 1 no node or refused, 2 wrong usage."""
)
def command() -> None:
    """Arm, renew or expire the lease of a single node."""


@command.command(epilog="Example: shardfw lease arm 60000")
@click.argument("ms", type=click.IntRange(1, MS_MAX))
@_common
def arm(ms: int, *, name: str, as_json: bool) -> None:
    """Take a new grant of MS milliseconds; held shards may start."""
    _say(name, "arm", f"lease arm {ms}", "lease.granted", as_json=as_json)


@command.command(epilog="Example: shardfw lease renew 60000")
@click.argument("ms", type=click.IntRange(1, MS_MAX))
@_common
def renew(ms: int, *, name: str, as_json: bool) -> None:
    """Move the deadline of a lease that still holds to MS milliseconds from now."""
    _say(name, "renew", f"lease renew {ms}", "lease.granted", as_json=as_json)


@command.command(epilog="Example: shardfw lease expire")
@_common
def expire(*, name: str, as_json: bool) -> None:
    """Let the lease run out now: nothing more leaves for any shard."""
    _say(name, "expire", "lease expire", "lease.expired", as_json=as_json)
