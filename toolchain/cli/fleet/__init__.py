"""`shardfw fleet`: what an operator does with the nodes that share a bot's shards over NATS."""

from __future__ import annotations

import click

from toolchain.cli.fleet.approve import approve_command
from toolchain.cli.fleet.asking import drain_command, move_command
from toolchain.cli.fleet.keys import nkey
from toolchain.cli.fleet.planning import init, plan_command
from toolchain.cli.fleet.watching import status, tail_command


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  shardfw fleet init --bot b1 --total 16 --slots 4 --new      streams and records of a new fleet
  shardfw fleet status --bot b1                               who has which slot
  shardfw fleet plan --bot b1 --total 32 --slots 8            change the plan, without overlap
  shardfw fleet drain --bot b1 n7                             take a node out of service
  shardfw fleet approve --bot b1                              nodes that wait for the token

\b
Passwords and seeds are read from SHARDFW_NATS_PASSWORD and SHARDFW_NATS_NKEY. Steps are printed on
standard error, results on standard output. Exit codes: 0 done, 1 failed (the message says what),
2 wrong usage.""",
)
def command() -> None:
    """Look after the nodes that share a bot's shards over NATS.

    The plan cuts the shards of the bot into slots. A slot belongs to one node at a time, by a lease
    that the node renews; when it does not, another node takes the slot and its sessions.
    """


for each in (
    init,
    plan_command,
    status,
    drain_command,
    move_command,
    tail_command,
    approve_command,
    nkey,
):
    command.add_command(each)
