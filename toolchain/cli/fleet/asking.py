"""`shardfw fleet drain` and `shardfw fleet move`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from firmware.layouts.fleet import FLEET_SLOTS_MAX
from toolchain.cli.fleet.common import check_name, fleet_command, json_option, say, viewed
from toolchain.cli.fleet.connect import FleetError
from toolchain.cli.fleet.orders import drain, held_by, move, order
from toolchain.cli.fleet.records import DRAIN, OPEN

if TYPE_CHECKING:
    from toolchain.cli.fleet.connect import Fleet
    from toolchain.cli.fleet.watch import View

DRAIN_WAIT_S = 60.0


@click.command(
    "drain",
    short_help="Take a node out of service, or back.",
    epilog="""\b
Examples:
  shardfw fleet drain --bot b1 n7            before maintenance; returns when n7 holds nothing
  shardfw fleet drain --bot b1 n7 --undo     after it""",
)
@click.argument("node", callback=check_name)
@click.option("--undo", is_flag=True, help="Let it take slots again.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it holds nothing.")
@click.option(
    "--timeout",
    default=DRAIN_WAIT_S,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Seconds to wait.",
)
@json_option
@fleet_command
async def drain_command(
    fleet: Fleet, *, node: str, undo: bool, no_wait: bool, timeout: float, as_json: bool
) -> None:
    """Ask NODE to give all of its slots back and take none, until --undo; a reset does not change that."""

    async def work(view: View) -> list[int]:
        if undo or no_wait:
            await order(view, node, OPEN if undo else DRAIN)
            return held_by(view, node)
        return await drain(view, node, timeout, say)

    slots = await viewed(fleet, work)
    if as_json:
        click.echo(json.dumps({"node": node, "mode": OPEN if undo else DRAIN, "slots": slots}))
    elif undo:
        click.echo(f"{node} may take slots again")
    else:
        held = ", ".join(map(str, slots)) or "none"
        click.echo(f"{node} {'is asked to give back' if no_wait else 'gave back'}: {held}")


@click.command(
    "move",
    short_help="Give a slot to a certain node.",
    epilog="""\b
Examples:
  shardfw fleet move --bot b1 3 n7           slot 3 goes to n7, with its sessions""",
)
@click.argument("slot", type=click.IntRange(0, FLEET_SLOTS_MAX - 1))
@click.argument("node", callback=check_name)
@json_option
@fleet_command
async def move_command(fleet: Fleet, *, slot: int, node: str, as_json: bool) -> None:
    """Ask for SLOT to go to NODE, and wait until somebody has it.

    Its holder gives it back, NODE may take it at once and everybody else five seconds later: a node that
    does not run, is full or drained leaves it to another one, which is exit code 1.
    """
    moved = await viewed(fleet, lambda view: move(view, slot, node, say))
    if as_json:
        click.echo(json.dumps(vars(moved)))
    elif moved.after == moved.before == node:
        click.echo(f"{node} has slot {slot} already")
    elif moved.after == node:
        click.echo(
            f"slot {slot} went from {moved.before or 'nobody'} to {node}, generation {moved.generation}"
        )
    if moved.after != node:
        raise FleetError(
            f"{node} did not take slot {slot}, {moved.after} did. Is it running, with room for one "
            "more, and not drained?"
        )
