"""`shardfw plan`: which shards a node holds, and a move to others while it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.plan import MOVES_MAX, TOTAL_MAX, PlanOrder, PlanReport
from firmware.layouts.policy import SessionProvider
from firmware.layouts.refusal import PlanRefusal
from toolchain.cli.control import (
    REMEDIES,
    Commander,
    CommandError,
    RefusedError,
    find_place,
    place_options,
)
from toolchain.cli.handover import HandOver, HandoverStore
from toolchain.cli.sessions import TAKE_PATIENCE_S
from toolchain.config.schema import MAX_LOCAL_SHARDS
from toolchain.layout.pack import pack, unpack

if TYPE_CHECKING:
    from toolchain.cli.control import Place

REFUSALS = {
    PlanRefusal.OUT_OF_BOUNDS: "these shards do not exist among that total",
    PlanRefusal.TOO_MANY_MOVES: f"it has moved {MOVES_MAX} times within an hour. Wait until one is an hour ago",
    PlanRefusal.STILL_MOVING: "shards of the last move still close. Try again in a few seconds",
    PlanRefusal.STOPPING: "it stops",
    PlanRefusal.FLEET: REMEDIES[ControlResult.FLEET],
    PlanRefusal.NO_CLOCK: "its clock is not calibrated yet, so moves cannot be counted. Try again in a minute",
}
SHOWN = ("total", "start", "count", "generation", "moves", "leaving", "sessions")
OFFER_WAIT_MS = round(1000 * TAKE_PATIENCE_S)
"""How long a shard that comes may wait for its session; whoever moves it offers one at once."""


def _send(node: Commander, order: dict[str, int] | None = None) -> dict[str, Any]:
    """Return what the node tells of its plan, after it has obeyed an order.

    Raises:
        CommandError: It did not answer, or refused.
    """
    payload = b"" if order is None else pack(PlanOrder, order)
    try:
        reply = node.send(ControlVerb.PLAN, payload=payload, room=PlanReport.SIZE)
    except RefusedError as error:
        if error.result != ControlResult.PLAN_REFUSED:
            raise
        known = REFUSALS.get(PlanRefusal(error.value), f"it gives the reason {error.value}")
        raise CommandError(f"the node refused to move: {known}") from None
    return unpack(PlanReport, reply.payload)


def _shards(plan: dict[str, int]) -> range:
    return range(plan["start"], plan["start"] + plan["count"])


def ask_plan(place: Place, order: dict[str, int] | None = None) -> dict[str, Any]:
    """Return a node's plan; with an order it moves first, and sessions change hands.

    Args:
        place: The node.
        order: Fields of the plan to change, as PlanOrder; the others stay.

    Returns:
        The fields of PlanReport, and `sessions`: how many were taken and given by this move.

    Raises:
        CommandError: It did not answer, or refused.
    """
    nothing = {"sessions": {"taken": 0, "given": 0}}
    with Commander(place) as node:
        before = _send(node)
        if order is None:
            return before | nothing
        wanted = {key: before[key] for key in ("total", "start", "count")} | order
        leaving = sorted(set(_shards(before)) - set(_shards(wanted)))
        coming = sorted(set(_shards(wanted)) - set(_shards(before)))
        # A session belongs to a total, and without a provider the node keeps none.
        if wanted["total"] != before["total"] or before["provider"] == SessionProvider.NONE:
            return _send(node, wanted) | nothing
        work = HandOver(place, HandoverStore.of(before["bot"], wanted["total"]))
        offers = coming if work.store.holds(coming) else []
        _send(node, wanted | {"wait_ms": OFFER_WAIT_MS if offers else 0})
        work.run(leaving, offers)
        return _send(node) | {"sessions": {"taken": work.taken, "given": work.given}}


def _counted(sessions: int) -> str:
    """Return `2 sessions are`, or nothing when there are none."""
    return f"{sessions} {'session is' if sessions == 1 else 'sessions are'}" if sessions else ""


def _sentence(report: dict[str, Any]) -> str:
    last = report["start"] + report["count"] - 1
    text = (
        f"shards {report['start']} to {last} of {report['total']}, plan {report['generation']}, "
        f"{report['moves']} of {MOVES_MAX} moves in the last hour"
    )
    if leaving := report["leaving"]:
        text += f"; {leaving} {'shard is' if leaving == 1 else 'shards are'} closing"
    taken, given = (_counted(report["sessions"][key]) for key in ("taken", "given"))
    if taken:
        text += f"; {taken} kept for a minute, for the node that gets their shards"
    if given:
        text += f"; {given} handed to it"
    return text


@click.command(
    epilog="""\b
Examples:
  shardfw plan                               which shards the node that runs here holds
  shardfw plan --start 4 --count 4           others of the same total
  shardfw plan --total 8 --start 0 --count 8 another total
  shardfw plan --name a --count 2 && shardfw plan --name b --start 2 --count 6
                                             shards 2 and 3 change nodes, with their sessions

\b
What is not given stays as it is. With the same total, shards that stay feel nothing, and those
that go close with code 4000. Where the node has a keeper of sessions (`shardfw run`, or [sessions]
provider = "host"), this command takes theirs, and offers them to the node that it moves there
within a minute: first the move that gives shards up, then the one that takes them. It returns when
that is done, after twelve seconds at most. With another total every shard closes with 1000 and starts anew,
because sessions belong to a total. Shards that failed for good start anew as well. A node moves
at most three times an hour. The plan is that of the configuration again after a restart.

\b
JSON: total, start, count, generation (counts the plans since the boot), moves (in the last hour),
leaving (shards that still close), sessions (taken and given by this move).
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
