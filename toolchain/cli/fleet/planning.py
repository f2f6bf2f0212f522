"""`shardfw fleet init` and `shardfw fleet plan`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.fleet.change import PLAN, Change, Changer, complete, leases, read, set_budget
from toolchain.cli.fleet.common import (
    fleet_command,
    json_option,
    plan_options,
    ranges_of,
    say,
    viewed,
)
from toolchain.cli.fleet.connect import STREAM, FleetError
from toolchain.cli.fleet.leftovers import judge, kept
from toolchain.cli.fleet.records import DEFAULT_DURATION_MS, DRAIN, Plan
from toolchain.cli.fleet.streams import (
    BAD,
    EVENT_BYTES,
    NOTE,
    OK,
    default_replicas,
    examine,
    make_streams,
    stream_config,
)

if TYPE_CHECKING:
    from toolchain.cli.fleet.connect import Fleet
    from toolchain.cli.fleet.streams import Finding
    from toolchain.cli.fleet.watch import View

MIB = 1 << 20
ALLOWANCE = 1000
COLOURS = {OK: "green", NOTE: "yellow", BAD: "red"}


def _print_findings(findings: list[Finding]) -> None:
    for one in findings:
        click.echo(
            f"  {click.style(f'{one.level:5}', fg=COLOURS[one.level])}{one.what:14} {one.text}"
        )


@click.command(
    "init",
    short_help="Make the streams, the plan and the records of a fleet.",
    epilog="""\b
Examples:
  shardfw fleet init --bot b1 --total 16 --slots 4 --new    the first time
  shardfw fleet init --bot b1                               write what is missing
  shardfw fleet init --bot b1 --check --monitor http://127.0.0.1:8222""",
)
@plan_options
@click.option(
    "--budget",
    default=ALLOWANCE,
    show_default=True,
    type=click.IntRange(0, 1_000_000),
    help="Session starts that the service allows in 24 hours.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 5),
    help="Copies of each stream.  [default: 3 in a cluster, else 1]",
)
@click.option(
    "--event-mib",
    default=EVENT_BYTES // MIB,
    show_default=True,
    type=click.IntRange(1),
    help="Room for events of five minutes, in MiB of the servers' memory.",
)
@click.option(
    "--monitor",
    "monitors",
    multiple=True,
    metavar="URL",
    help="A server's HTTP monitoring, to check its sync_interval; once for each server.",
)
@click.option("--new", is_flag=True, help="No node of this bot ever ran, so wait for no lease.")
@click.option(
    "--generation",
    default=0,
    type=click.IntRange(0, 2**31),
    help="After all records were lost: a generation above those that readers of events saw.",
)
@click.option("--check", is_flag=True, help="Look at servers and streams, change nothing.")
@json_option
@fleet_command
async def init(
    fleet: Fleet,
    *,
    total: int | None,
    slots: int | None,
    ranges: tuple[str, ...],
    max_concurrency: int | None,
    duration_ms: int | None,
    budget: int,
    replicas: int | None,
    event_mib: int,
    monitors: tuple[str, ...],
    new: bool,
    generation: int,
    check: bool,
    as_json: bool,
) -> None:
    """Make the streams and records of a fleet, after a look at the servers; safe to run again.

    Records that vanished may stand for leases that still run: they are written again only after
    everybody who could hold one must have stopped, about 21 s.
    """
    copies = replicas or default_replicas(fleet.info)
    made = [] if check else await make_streams(fleet, copies, event_mib * MIB)
    findings = await examine(fleet, copies, event_mib * MIB, monitors)
    bad = [one for one in findings if one.level == BAD]
    written: list[str] = []
    left = await kept(fleet) if await stream_config(fleet, STREAM) is not None else None

    async def look(view: View) -> None:
        if left is not None:
            findings.append(judge(left, read(view, PLAN, Plan), leases(view)))

    async def fill(view: View) -> Plan | None:
        old = read(view, PLAN, Plan)
        first = max(generation, 0 if left is None else left.generation)
        if old is None:
            if total is None:
                raise FleetError("the fleet has no plan yet. Give --total and --slots")
            change = Change(
                total,
                ranges_of(total, slots, ranges),
                max_concurrency or 1,
                duration_ms or DEFAULT_DURATION_MS,
            )
            if new and left is not None:
                left.refuse_as_new()
            wait = 0 if new else change.duration_ms
            await Changer(view, say).change(change, wait_ms=wait, generation=first)
        elif differing := _differing(old, total, slots, ranges, max_concurrency, duration_ms):
            raise FleetError(
                f"the fleet has plan {old.epoch} with another {differing}. Change it with: shardfw "
                "fleet plan"
            )
        written.extend(await complete(view, say, budget, first))
        await look(view)
        return read(view, PLAN, Plan)

    if left is not None and (check or bad):
        await viewed(fleet, look)
    plan = None if check or bad else await viewed(fleet, fill)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "streams": made,
                    "findings": [vars(one) for one in findings],
                    "records": written,
                    "plan": None if plan is None else _plan_report(plan),
                }
            )
        )
    else:
        for name in made:
            say(f"made stream {name}")
        _print_findings(findings)
        if plan is not None:
            click.echo(_sentence(plan))
    if bad:
        raise FleetError(
            f"{len(bad)} of these must be mended first"
            + ("" if check else "; no record was written")
        )


def _differing(
    old: Plan,
    total: int | None,
    slots: int | None,
    ranges: tuple[str, ...],
    max_concurrency: int | None,
    duration_ms: int | None,
) -> str:
    """Return what of the options a plan has otherwise, for people; nothing when it is as they say."""
    if total is not None and old.total != total:
        return "total"
    if (total is not None or slots is not None or ranges) and old.slots != ranges_of(
        old.total, slots, ranges
    ):
        return "cut of slots"
    if max_concurrency not in (None, old.max_concurrency):
        return "max_concurrency"
    return "duration" if duration_ms not in (None, old.duration_ms) else ""


def _plan_report(plan: Plan) -> dict[str, Any]:
    from toolchain.cli.fleet.status import plan_report  # noqa: PLC0415 - rich is slow to import

    return plan_report(plan)


def _sentence(plan: Plan) -> str:
    from toolchain.cli.fleet.status import plan_report, sentence  # noqa: PLC0415

    return sentence(plan_report(plan))


@click.command(
    "plan",
    short_help="Show the plan, or change it.",
    epilog="""\b
Examples:
  shardfw fleet plan --bot b1                               how the shards are cut into slots
  shardfw fleet plan --bot b1 --slots 8                     smaller slots; every session goes on
  shardfw fleet plan --bot b1 --total 32 --slots 8          more shards; every session begins anew
  shardfw fleet plan --bot b1 --same                        end a change that was interrupted""",
)
@plan_options
@click.option("--same", is_flag=True, help="End a change that was interrupted; keep the plan.")
@click.option(
    "--budget",
    type=click.IntRange(0, 1_000_000),
    help="Session starts that are left, where no node asks the service.",
)
@json_option
@fleet_command
async def plan_command(
    fleet: Fleet,
    *,
    total: int | None,
    slots: int | None,
    ranges: tuple[str, ...],
    max_concurrency: int | None,
    duration_ms: int | None,
    same: bool,
    budget: int | None,
    as_json: bool,
) -> None:
    """Show the plan, or change it: all slots are given back first, then cut anew.

    With the same total sessions go on: whoever gets a shard resumes it. With another one all begin
    anew, because a session belongs to a total. A node that died without a word is waited out,
    about 21 s. Two operators at once: one plan wins, the other command fails and says so.
    """

    async def work(view: View) -> Plan:
        old = read(view, PLAN, Plan)
        if old is None:
            raise FleetError("the fleet has no plan. Make one with: shardfw fleet init")
        if budget is not None:
            await set_budget(view, budget)
        asked = [total, slots, max_concurrency, duration_ms, *ranges]
        if not same and not any(value is not None for value in asked):
            return old
        if same and any(value is not None for value in asked):
            raise click.UsageError("--same keeps the plan. Leave the other options out")
        cut = old.slots
        if total is not None or slots is not None or ranges:
            cut = ranges_of(total or old.total, slots, ranges)
        change = Change(
            total or old.total,
            cut,
            max_concurrency or old.max_concurrency,
            duration_ms or old.duration_ms,
        )
        first = (await kept(fleet)).generation
        return await Changer(view, say).change(change, wait_ms=old.duration_ms, generation=first)

    plan = await viewed(fleet, work)
    if as_json:
        click.echo(json.dumps(_plan_report(plan)))
        return
    click.echo(_sentence(plan))
    for number, slot in enumerate(plan.slots):
        click.echo(f"  slot {number:<3} {slot}")
    if plan.missing:
        click.echo(f"  {plan.missing} of {plan.total} shards are in no slot")
    if plan.mode == DRAIN:
        click.echo(
            "  a change is under way or was interrupted; end it with: shardfw fleet plan --same"
        )
