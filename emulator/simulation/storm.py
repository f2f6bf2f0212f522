"""One seed of the simulation: a node, a load, a fault plan by chance, and then calm weather.

Whatever the plan did, in the calm that follows every shard must become READY again and hold exactly
the sequence that the gateway has; the invariants are checked after every turn all along.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.faults import Event
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.plans import random_plan
from emulator.simulation.rig import Rig
from pxe.gateway import LoadOptions
from pxe.gateway.envelope import ENVELOPE_ORDERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.campaign import Trial

STORM_S = 120
CALM_S = 300
"""Longest way back: a heartbeat to notice, a name to ask for, permits, three unanswered Resumes."""
RATE = 8
"""Dispatches a second over all shards."""
RESUME_HOST, RESUME_ADDRESS = "resume.test", "203.0.113.9"
RESUME_HOST_SHARE = 0.3
LEASE_SHARE, POWER_SHARE, CLOCK_SHARE = 0.2, 0.2, 0.15
"""Shares of the runs in which the lease expires, the power fails, or the clock jumps ahead."""


def storm(trial: Trial, *, shards: int = 16, seconds: int = STORM_S, trace: bool = False) -> Rig:
    """Run one seed; return the rig at its end.

    Args:
        trial: seed and, for a rerun, the plan.
        shards: of the node.
        seconds: length of the bad weather, in virtual seconds.
        trace: count instructions and record coverage.

    Raises:
        AssertionError: An invariant or the state at the end is wrong.
    """
    rng = random.Random(trial.seed)
    facts = NodeFacts(shards=shards, max_concurrency=rng.choice((1, 4, 16, 16)))
    options = _gateway(rng)
    resume_host = rng.random() < RESUME_HOST_SHARE
    if resume_host:
        options["public_url"] = f"ws://{RESUME_HOST}"
    modern = rng.random() < 0.5
    rig = Rig(trial.seed, facts, trace=trace, modern=modern, watch=True, **options)
    if resume_host:
        rig.internet.gateway(RESUME_HOST, RESUME_ADDRESS, sessions_of="gateway.test")
    rig.internet.dhcp.policy.lease_s = rng.choice((60, 600, 3600))
    rig.internet.dns.delay_ns = rng.choice((0, 0, 300 * NS_PER_MS))
    rig.world.actions |= node_actions(rig)
    if trial.on_rig is not None:
        trial.on_rig(rig)
    plan = random_plan(rng, seconds * NS_PER_S, shards=shards)
    events = sorted((*plan.events, *_node_events(rng, seconds)), key=lambda event: event.at_ns)
    trial.faults(rig.segment, replace(plan, events=tuple(events)))
    rig.run(seconds)
    calm(rig)
    rig.world.run_until(lambda: settled(rig), within_ns=CALM_S * NS_PER_S)
    rig.save_coverage()
    return rig


def _gateway(rng: random.Random) -> dict[str, Any]:
    """Choose how the gateway behaves within what the protocol allows."""
    return {
        "load": LoadOptions(rate=RATE),
        "heartbeat_interval_ms": rng.choice((5_000, 20_000, 41_250, 41_250)),
        "envelope": rng.choice(sorted(ENVELOPE_ORDERS)),
        "resumed_advances": rng.random() < 0.5,
        "guilds_per_shard": rng.choice((0, 2, 40)),
    }


def node_actions(rig: Rig) -> dict[str, Callable[[str], None]]:
    """Return what timed events of a plan may do to the node itself, for `World.actions`."""

    def type_line(line: str) -> None:
        rig.node.console(line)

    return {
        "console": type_line,
        "power-off": lambda _name: rig.power_off(),
        "power-on": lambda _name: rig.power_on(),
    }


def _node_events(rng: random.Random, seconds: int) -> list[Event]:
    """Expire a lease, cut the power, or move the clock on, in some of the runs."""
    at_ns = rng.randrange(seconds * NS_PER_S)
    back_ns = at_ns + rng.randrange(1, 30 * NS_PER_S)
    chance = rng.random()
    if chance < LEASE_SHARE:
        return [
            Event(at_ns, "console", "lease expire"),
            Event(back_ns, "console", "lease arm 4000000"),
        ]
    if chance < LEASE_SHARE + POWER_SHARE:
        return [Event(at_ns, "power-off", "node"), Event(back_ns, "power-on", "node")]
    if chance < LEASE_SHARE + POWER_SHARE + CLOCK_SHARE:
        return [Event(at_ns, "jump-clock", f"node {rng.choice((1, 1_000, 30_000, 90_000))}")]
    return []


def settled(rig: Rig) -> bool:
    """Say whether every shard is READY and holds the sequence that the gateway has."""
    return rig.all_ready() and all(
        (row.sequence, True) == (stats.sequence, stats.connected)
        for row, stats in zip(rig.invariants.rows, rig.stats.shards, strict=True)
    )


def calm(rig: Rig) -> None:
    """End the faults: power, cable and lease are there, and stalled connections go on."""
    rig.segment.set_faults(None)
    rig.load(None)
    rig.power_on()
    rig.node.console("lease arm 4000000")
    rig.world.port("node").set_link(up=True)
    for shard in range(rig.facts.shards):
        rig.world.actions["gateway-release"](str(shard))
