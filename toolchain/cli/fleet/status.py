"""What `shardfw fleet status` shows: who has which slot, since when, and how far its shards are."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import nats.js.errors
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from toolchain.cli.fleet.change import BUDGET, IDENT, LEASE, PLAN, leases, read
from toolchain.cli.fleet.connect import EVENTS, STREAM, FleetError, no_fleet
from toolchain.cli.fleet.orders import moves, orders
from toolchain.cli.fleet.records import (
    DRAIN,
    NOBODY,
    Budget,
    Plan,
    Ticket,
    takeover_s,
)
from toolchain.cli.fleet.streams import stream_config
from toolchain.cli.status import milliseconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolchain.cli.fleet.connect import Fleet
    from toolchain.cli.fleet.records import Lease, Session
    from toolchain.cli.fleet.watch import View

Report = dict[str, Any]
MICROSECOND_CHARS = 26


async def server_time(fleet: Fleet) -> float:
    """Return the server's clock, seconds since 1970: what the times of records are compared with.

    Raises:
        FleetError: No answer, or no fleet.
    """
    try:
        text = str((await fleet.api(f"STREAM.INFO.{STREAM}"))["ts"]).rstrip("Z")
    except nats.js.errors.NotFoundError:
        raise FleetError(no_fleet(fleet)) from None
    return datetime.fromisoformat(text[:MICROSECOND_CHARS] + "+00:00").timestamp()


def slot_report(view: View, number: int, lease: Lease, clock_offset: float) -> Report:
    """Return one slot.

    Args:
        view: The records.
        number: The slot.
        lease: Its record.
        clock_offset: Server's clock less `time.monotonic()`.
    """
    seen = view.records[f"{LEASE}{number}"]
    now = time.monotonic()
    return {
        "slot": number,
        "start": lease.slot.start,
        "count": lease.slot.count,
        "node": lease.node if lease.held else None,
        "boot": lease.boot if lease.held else None,
        "generation": lease.generation,
        "epoch": lease.epoch,
        "revision": seen.revision,
        "age_ms": round(1000 * (now + clock_offset - seen.stored)),
        "seen_ms": round(1000 * (now - seen.at)),
        "takeover_ms": round(1000 * takeover_s(lease.duration_ms)) if lease.held else 0,
    }


async def has_events(fleet: Fleet) -> bool:
    """Return False when there is certainly no stream for events: a server alone forgets it when it restarts."""
    try:
        return await stream_config(fleet, EVENTS) is not None
    except FleetError:
        return True


def report(
    view: View, known: dict[int, Session], clock_offset: float, *, events: bool = True
) -> Report:
    """Return all of it, as `--json` prints it.

    Args:
        view: The records.
        known: Sessions by shard.
        clock_offset: Server's clock less `time.monotonic()`.
        events: Whether there is a stream for events.
    """
    plan, budget = read(view, PLAN, Plan), read(view, BUDGET, Budget)
    found = leases(view)
    count = 0 if plan is None else len(plan.slots)
    slots = [
        slot_report(view, number, lease, clock_offset)
        for number, lease in found.items()
        if number < count
    ]
    for slot in slots:
        shards = range(slot["start"], slot["start"] + slot["count"])
        total = found[slot["slot"]].total
        ours = [known[s] for s in shards if s in known and known[s].goes_on_in(total)]
        slot["sessions"] = len(ours)
        slot["sequence"] = sum(session.sequence for session in ours)
    tickets = {
        number: read(view, f"{IDENT}{number}", Ticket)
        for number in range(0 if plan is None else plan.max_concurrency)
    }
    return {
        "bot": view.fleet.bot,
        "events_stream": events,
        "plan": None if plan is None else plan_report(plan),
        "slots": slots,
        "missing": [number for number in range(count) if number not in found],
        "sessions": [
            {
                "shard": shard,
                "generation": session.generation,
                "total": session.total,
                "sequence": session.sequence,
                "ended": session.ended,
            }
            for shard, session in known.items()
        ],
        "tickets": [
            {
                "key": number,
                "node": ticket.node if ticket is not None and ticket.node != NOBODY else None,
                "shard": ticket.shard if ticket is not None and ticket.node != NOBODY else None,
                "missing": ticket is None,
            }
            for number, ticket in tickets.items()
        ],
        "budget": None
        if budget is None
        else {"remaining": budget.remaining, "total": budget.total},
        "orders": orders(view),
        "moves": [{"slot": slot, "to": node} for slot, node in moves(view).items()],
    }


def plan_report(plan: Plan) -> Report:
    """Return a plan."""
    return {
        "mode": plan.mode,
        "epoch": plan.epoch,
        "total": plan.total,
        "max_concurrency": plan.max_concurrency,
        "duration_ms": plan.duration_ms,
        "slots": [{"start": one.start, "count": one.count} for one in plan.slots],
    }


def sentence(plan: Report) -> str:
    """Return a plan as one line for people."""
    mode = "is changing: slots are given back" if plan["mode"] == DRAIN else "is active"
    return (
        f"plan {plan['epoch']} {mode}; {plan['total']} shards in {len(plan['slots'])} slots, "
        f"max_concurrency {plan['max_concurrency']}, leases of {plan['duration_ms'] / 1000:g} s"
    )


def _holder(slot: Report) -> Text:
    if slot["node"] is None:
        return Text("free", "yellow")
    late = slot["age_ms"] > slot["takeover_ms"] and slot["seen_ms"] > slot["takeover_ms"]
    return Text(slot["node"], "red" if late else "green")


def _shards(slot: Report) -> str:
    last = slot["start"] + slot["count"] - 1
    return str(slot["start"]) if slot["count"] == 1 else f"{slot['start']} to {last}"


def render(found: Report) -> Group:
    """Return a report for people."""
    parts: list[RenderableType] = []
    if found["plan"] is None:
        parts.append(Text("there is no plan. Make one with: shardfw fleet init", "red"))
    else:
        parts.append(Text(f"{found['bot']}: {sentence(found['plan'])}"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("slot", "shards", "node"):
        table.add_column(name, no_wrap=True)
    for name in ("gen", "written", "unchanged", "sessions", "sequences"):
        table.add_column(name, justify="right", no_wrap=True)
    for slot in found["slots"]:
        table.add_row(
            str(slot["slot"]),
            _shards(slot),
            _holder(slot),
            str(slot["generation"]),
            f"{milliseconds(slot['age_ms'])} ago",
            milliseconds(slot["seen_ms"]),
            f"{slot['sessions']} of {slot['count']}",
            str(slot["sequence"]),
        )
    parts.append(table)
    if not found["events_stream"]:
        text = f"there is no stream {EVENTS}: nodes keep no event. Make it with: shardfw fleet init"
        parts.append(Text(text, "red"))
    for number in found["missing"]:
        parts.append(Text(f"slot {number} has no record: nobody may take it", "red"))
    for move in found["moves"]:
        parts.append(Text(f"slot {move['slot']} is asked to go to {move['to']}", "yellow"))
    drained = [node for node, mode in found["orders"].items() if mode == DRAIN]
    if drained:
        parts.append(Text(f"drained: {', '.join(drained)}", "yellow"))
    last = [f"{t['key']}: shard {t['shard']} on {t['node']}" for t in found["tickets"] if t["node"]]
    if last:
        parts.append(Text("last Identify by key: " + ", ".join(last), "dim"))
    if found["budget"] is not None:
        budget = found["budget"]
        parts.append(Text(f"{budget['remaining']} of {budget['total']} session starts left", "dim"))
    return Group(*parts)
