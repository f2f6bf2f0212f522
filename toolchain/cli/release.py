"""`shardfw release`: end the hold of a node that crashed again and again."""

from __future__ import annotations

import json

import click

from firmware.layouts.control import ControlVerb
from toolchain.cli.control import command_node, find_place, place_options


@click.command(
    epilog="""\b
Examples:
  shardfw release                      the node that `shardfw run` started here
  shardfw release --host 192.0.2.7     a node on the network

\b
A node that crashes three times in ten minutes keeps its shards in ASSIGNED (CRASH_LOOP), so that it
spends no Identifies; its log says node.crash_loop. Look at boot.crashed first. A power cycle ends
the hold as well. --json prints {"was_held": true or false}.
Exit codes: 0 done, 1 no node or refused, 2 wrong usage."""
)
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(*, name: str, host: str | None, port: int | None, as_json: bool) -> None:
    """Let a node start its shards again after it crashed three times in ten minutes."""
    reply = command_node(ControlVerb.NODE_RELEASE, lambda: find_place(name, host, port))
    was_held = bool(reply.value)
    if as_json:
        click.echo(json.dumps({"was_held": was_held}))
    else:
        click.echo("the hold has ended" if was_held else "the node was not held")
