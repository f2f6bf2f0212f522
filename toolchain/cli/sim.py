"""`shardfw sim`: whole nodes in virtual time, one seed a run, checked after every turn."""

from __future__ import annotations

import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emulator.simulation.campaign import Outcome, Trial
    from emulator.simulation.faults import FaultPlan
    from emulator.simulation.timeline import Line

DEFAULT_SEEDS = 60
SHORTEN_RUNS = 60
"""Runs that may look for a shorter plan, for each failure; most plans have less than ten items."""
SOURCES = ("node", "gateway", "nats", "fault", "plan", "verdict")


@click.command(
    context_settings={"max_content_width": 100},
    epilog="""\b
Examples:
  shardfw sim                              sixty seeds
  shardfw sim --seeds 500 --first 1000     seeds 1000 to 1499
  shardfw sim --seeds 200 --json | jq .speed_ratio
  shardfw sim --seed 7 --replay            what happens in seed 7, line by line
  shardfw sim --seed 7 --replay --shard 3 --source node --source gateway
  shardfw sim --seed 7 --plan "at 20s gateway-close 3 4009"    seed 7 with another fault plan
  shardfw sim --fleet --seeds 500          nodes that share shards over NATS
  shardfw sim --fleet --seed 7 --replay --source nats      the leases of seed 7

\b
A seed decides a node of sixteen shards, its gateway, a load and a fault plan for 120 virtual
seconds; then the faults end and every shard must come back with nothing lost. With --fleet it decides
three nodes with clocks of their own, a plan of slots, what happens to them and to NATS, and what an
operator asks for: drains, moves, and in some seeds the token for each boot. Nobody but its owner may
ever speak for a shard. speed_ratio is virtual seconds for each second of one
processor, boots included.

\b
Exit codes: 0 nothing failed, 1 a seed failed (its shortest fault plan is printed), 2 wrong usage.""",
)
@click.option("--fleet", is_flag=True, help="Several nodes that share the shards by leases.")
@click.option("--seeds", default=DEFAULT_SEEDS, show_default=True, type=click.IntRange(1),
              help="How many seeds.")  # fmt: skip
@click.option("--first", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
@click.option("--seed", type=click.IntRange(0), help="This seed alone.")
@click.option("--plan", "plan_text", help="A fault plan instead of the seed's own; with --seed.")
@click.option("--replay", is_flag=True, help="Print what happens; with --seed.")
@click.option("--shard", type=click.IntRange(0), help="Only lines about this shard; with --replay.")
@click.option("--source", "sources", multiple=True, type=click.Choice(SOURCES),
              help="Only lines from here, may be repeated; with --replay.")  # fmt: skip
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else to stdout.")
def command(
    fleet: bool,
    seeds: int,
    first: int,
    seed: int | None,
    plan_text: str | None,
    replay: bool,
    shard: int | None,
    sources: tuple[str, ...],
    jobs: int,
    as_json: bool,
) -> None:
    """Run seeds of the simulation, or show what happens in one."""
    if seed is None and (replay or plan_text is not None):
        raise click.UsageError("--replay and --plan are about one seed: give --seed N too")
    if not replay and (shard is not None or sources):
        raise click.UsageError("--shard and --source choose lines of a replay: give --replay too")
    if replay and seed is not None:
        _replay(seed, plan_text, shard, sources, fleet=fleet, as_json=as_json)
        return
    chosen = range(first, first + seeds) if seed is None else range(seed, seed + 1)
    started = time.monotonic()
    outcomes = list(_run(chosen, plan_text, jobs, fleet=fleet))
    seconds = time.monotonic() - started
    failed = [outcome for outcome in outcomes if outcome.error]
    figures = _figures(outcomes, chosen, seconds)
    if as_json:
        click.echo(json.dumps(figures, indent=2))
    else:
        for outcome in failed:
            _explain(outcome, " --fleet" if fleet else "")
        click.echo(
            f"{len(outcomes)} seeds from {chosen.start}, {len(failed)} failed, "
            f"{figures['virtual_seconds']:,} virtual seconds in {seconds:.1f} s: "
            f"{figures['speed_ratio']:g} times as fast as real time on one processor"
        )
    if failed:
        raise SystemExit(1)


def _run(chosen: range, plan_text: str | None, jobs: int, *, fleet: bool) -> Iterator[Outcome]:
    """Run the seeds in so many processes, with a bar on a terminal."""
    run = partial(run_one, plan_text=plan_text, fleet=fleet)
    jobs = min(jobs, len(chosen))
    console = Console(stderr=True)
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as p:
        if jobs == 1:
            yield from p.track(map(run, chosen), total=len(chosen))
            return
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield from p.track(pool.map(run, chosen), total=len(chosen))


def run_one(seed: int, *, plan_text: str | None = None, fleet: bool = False) -> Outcome:
    """Run one seed in this process."""
    from emulator.simulation.campaign import run_seed  # noqa: PLC0415 - --help needs no emulator
    from emulator.simulation.node import node_image  # noqa: PLC0415

    node_image()  # linked once per process, which is no part of a seed
    scenario = _scenario(fleet=fleet)
    return run_seed(scenario, seed, plan=_plan(plan_text), most_reruns=SHORTEN_RUNS)


def _scenario(*, fleet: bool) -> Callable[[Trial], object]:
    from emulator.simulation.fleet_storm import fleet_storm  # noqa: PLC0415
    from emulator.simulation.storm import storm  # noqa: PLC0415

    return fleet_storm if fleet else storm


def _plan(text: str | None) -> FaultPlan | None:
    from emulator.simulation.faults import FaultPlan, PlanError  # noqa: PLC0415

    if text is None:
        return None
    try:
        return FaultPlan.parse(text)
    except PlanError as error:
        raise click.BadParameter(str(error), param_hint="--plan") from error


def _figures(outcomes: list[Outcome], chosen: range, seconds: float) -> dict[str, object]:
    virtual = sum(outcome.virtual_s for outcome in outcomes)
    cpu = sum(outcome.cpu_s for outcome in outcomes)
    return {
        "seeds": len(outcomes),
        "first": chosen.start,
        "failures": sum(bool(outcome.error) for outcome in outcomes),
        "speed_ratio": round(virtual / cpu, 1),
        "virtual_seconds": round(virtual),
        "cpu_seconds_per_seed": round(cpu / len(outcomes), 3),
        "seconds": round(seconds, 2),
        "failed": [asdict(outcome) for outcome in outcomes if outcome.error],
    }


def _explain(outcome: Outcome, options: str) -> None:
    click.echo(
        f"seed {outcome.seed} failed at step {outcome.step}, t={outcome.virtual_s:.6f} s:\n"
        f"  {outcome.error}\n"
        f"  shortest fault plan found in {outcome.reruns} runs: {outcome.plan or 'none'}\n"
        f"  replay: shardfw sim{options} --seed {outcome.seed} --replay --plan {outcome.plan!r}"
    )


def _replay(
    seed: int,
    plan_text: str | None,
    shard: int | None,
    sources: tuple[str, ...],
    *,
    fleet: bool,
    as_json: bool,
) -> None:
    from emulator.simulation.campaign import Trial  # noqa: PLC0415
    from emulator.simulation.timeline import FleetTimeline, Line, Timeline  # noqa: PLC0415

    lines: list[Line] = []
    teller = FleetTimeline if fleet else Timeline
    trial = Trial(seed, _plan(plan_text), lambda rig: teller(rig, lines.append).listen())
    failure: Exception | None = None
    try:
        _scenario(fleet=fleet)(trial)
    except Exception as error:  # it is told after the lines that lead to it
        failure = error
    rules = [Line(0, "plan", None, f"rule {rule}") for rule in trial.plan.rules]
    verdict = "every rule held" if failure is None else "failed"
    end = 0 if trial.world is None else trial.world.now_ns
    for line in (*rules, *lines, Line(end, "verdict", None, verdict)):
        about = shard is None or line.shard == shard or line.source in ("plan", "verdict")
        if about and (not sources or line.source in sources):
            click.echo(json.dumps(asdict(line)) if as_json else str(line))
    if failure is not None:
        world = trial.world
        where = "before its world began" if world is None else world.describe()
        raise click.ClickException(f"{type(failure).__name__}: {failure}; {where}") from failure
