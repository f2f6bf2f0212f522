"""`shardfw lease`: a single node's permission to hold its shards."""

from __future__ import annotations

import json

import click

from firmware.layouts.control import ControlVerb
from toolchain.cli.control import command_node, find_place, place_options

MS_MAX = 0xFFFF_FFFF
_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


def _say(
    verb: ControlVerb, ms: int, where: tuple[str, str | None, int | None], *, as_json: bool
) -> None:
    """Give one order and print what became of it.

    Raises:
        click.ClickException: No node, no answer, or refused.
    """
    grant = command_node(verb, lambda: find_place(*where), argument=ms).value
    if as_json:
        click.echo(json.dumps({"generation": grant, "left_ms": ms}))
    else:
        click.echo(f"grant {grant} ends in {ms} ms" if ms else f"grant {grant} has ended")


@click.group(
    epilog="""\b
Examples:
  shardfw lease arm 60000      grant one minute; the node may connect
  shardfw lease renew 60000    one minute from now
  shardfw lease expire         end it now: all shard traffic stops at once

\b
The commands go over the control channel to the node that `shardfw run` started here, or to the one
that --host names. They print the grant's number and the milliseconds left; --json prints
{"generation": ..., "left_ms": ...}. A node of a fleet refuses all three: leases of its slots decide.
Exit codes: 0 done, 1 no node or refused, 2 wrong usage."""
)
def command() -> None:
    """Arm, renew or expire the lease of a single node."""


@command.command(epilog="Example: shardfw lease arm 60000")
@click.argument("ms", type=click.IntRange(1, MS_MAX))
@place_options
@_json
def arm(ms: int, *, name: str, host: str | None, port: int | None, as_json: bool) -> None:
    """Take a new grant of MS milliseconds; held shards may start."""
    _say(ControlVerb.LEASE_ARM, ms, (name, host, port), as_json=as_json)


@command.command(epilog="Example: shardfw lease renew 60000")
@click.argument("ms", type=click.IntRange(1, MS_MAX))
@place_options
@_json
def renew(ms: int, *, name: str, host: str | None, port: int | None, as_json: bool) -> None:
    """Move the deadline of a lease that still holds to MS milliseconds from now."""
    _say(ControlVerb.LEASE_RENEW, ms, (name, host, port), as_json=as_json)


@command.command(epilog="Example: shardfw lease expire")
@place_options
@_json
def expire(*, name: str, host: str | None, port: int | None, as_json: bool) -> None:
    """Let the lease run out now: nothing more leaves for any shard."""
    _say(ControlVerb.LEASE_EXPIRE, 0, (name, host, port), as_json=as_json)
