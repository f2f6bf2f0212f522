"""`shardfw plan`: which shards a node holds, and a move to others while it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.plan import MOVES_MAX, TOTAL_MAX, PlanOrder, PlanRefusal, PlanReport
from toolchain.cli.control import Commander, CommandError, RefusedError, find_place, place_options
from toolchain.config.schema import MAX_LOCAL_SHARDS
from toolchain.layout.pack import pack, unpack

if TYPE_CHECKING:
    from toolchain.cli.control import Place

REFUSALS = {
    PlanRefusal.OUT_OF_BOUNDS: "these shards do not exist among that total",
    PlanRefusal.TOO_MANY_MOVES: f"it has moved {MOVES_MAX} times within an hour. Wait until one is an hour ago",
    PlanRefusal.STILL_MOVING: "shards of the last move still close. Try again in a few seconds",
    PlanRefusal.STOPPING: "it stops",
    PlanRefusal.NO_CLOCK: "its clock is not calibrated yet, so moves cannot be counted. Try again in a minute",
}
SHOWN = ("total", "start", "count", "generation", "moves", "leaving")


def ask_plan(place: Place, order: dict[str, int] | None = None) -> dict[str, Any]:
    """Return a node's plan, after a move when there is an order.

    Args:
        place: The node.
        order: Fields of the plan to change, as PlanOrder; the others stay.

    Raises:
        CommandError: It did not answer, or refused.
    """
    with Commander(place) as node:
        report = unpack(PlanReport, node.send(ControlVerb.PLAN, room=PlanReport.SIZE).payload)
        if order is None:
            return report
        wanted = {key: report[key] for key in ("total", "start", "count")} | order
        try:
            reply = node.send(
                ControlVerb.PLAN, payload=pack(PlanOrder, wanted), room=PlanReport.SIZE
            )
        except RefusedError as error:
            if error.result != ControlResult.PLAN_REFUSED:
                raise
            known = REFUSALS.get(PlanRefusal(error.value), f"it gives the reason {error.value}")
            raise CommandError(f"the node refused to move: {known}") from None
        return unpack(PlanReport, reply.payload)


def _sentence(report: dict[str, Any]) -> str:
    last = report["start"] + report["count"] - 1
    text = (
        f"shards {report['start']} to {last} of {report['total']}, plan {report['generation']}, "
        f"{report['moves']} of {MOVES_MAX} moves in the last hour"
    )
    leaving = report["leaving"]
    return (
        f"{text}; {leaving} {'shard is' if leaving == 1 else 'shards are'} closing"
        if leaving
        else text
    )


@click.command(
    epilog="""\b
Examples:
  shardfw plan                               which shards the node that runs here holds
  shardfw plan --start 4 --count 4           others of the same total
  shardfw plan --total 8 --start 0 --count 8 another total

\b
What is not given stays as it is. With the same total, shards that stay feel nothing, and those
that go close with code 4000. With another total every shard closes with 1000 and starts anew,
because sessions belong to a total. Shards that failed for good start anew as well. A node moves
at most three times an hour. The plan is that of the configuration again after a restart.

\b
JSON: total, start, count, generation (counts the plans since the boot), moves (in the last hour),
leaving (shards that still close).
Exit codes: 0 done, 1 no node or refused, 2 wrong usage."""
)
@click.option("--total", type=click.IntRange(1, TOTAL_MAX), help="Shards of the whole bot.")
@click.option("--start", type=click.IntRange(0, TOTAL_MAX - 1), help="First shard of this node.")
@click.option("--count", type=click.IntRange(1, MAX_LOCAL_SHARDS), help="Shards of this node.")
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON object.")
def command(
    *,
    total: int | None,
    start: int | None,
    count: int | None,
    name: str,
    host: str | None,
    port: int | None,
    as_json: bool,
) -> None:
    """Show which shards a node holds, or move it to others while it runs."""
    given = {"total": total, "start": start, "count": count}
    order = {key: value for key, value in given.items() if value is not None}
    try:
        report = ask_plan(find_place(name, host, port), order or None)
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps({key: report[key] for key in SHOWN}))
    else:
        click.echo(_sentence(report))
