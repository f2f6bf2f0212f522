"""One seed of the simulation: a node, a load, a fault plan by chance, and then calm weather.

Whatever the plan did, in the calm that follows every shard must become READY again and hold exactly
the sequence that the gateway has; the invariants are checked after every turn all along.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.plans import random_plan
from emulator.simulation.rig import Rig
from emulator.simulation.write_watch import WriteWatch
from pxe.gateway import LoadOptions

if TYPE_CHECKING:
    from emulator.simulation.campaign import Trial

STORM_S = 120
CALM_S = 240
"""Longest way back: a heartbeat to notice, a name to ask for, permits, three unanswered Resumes."""
RATE = 8
"""Dispatches a second over all shards."""
WATCH_EVERY = 4
"""One seed in so many runs with every store into a workspace watched."""


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
    rig = Rig(trial.seed, NodeFacts(shards=shards), trace=trace, load=LoadOptions(rate=RATE))
    watch = WriteWatch(rig.node) if trial.seed % WATCH_EVERY == 0 else None
    rng = random.Random(trial.seed)
    trial.faults(rig.segment, random_plan(rng, seconds * NS_PER_S, shards=shards))
    rig.run(seconds)
    calm(rig)
    rig.load(None)
    rig.world.run_until(lambda: settled(rig), within_ns=CALM_S * NS_PER_S)
    if rig.stats.identify_gate_refusals:
        raise AssertionError(f"{rig.stats.identify_gate_refusals} Identifies came too early")
    if watch is not None:
        watch.stop()
    return rig


def settled(rig: Rig) -> bool:
    """Say whether every shard is READY and holds the sequence that the gateway has."""
    return rig.all_ready() and all(
        (row.sequence, True) == (stats.sequence, stats.connected)
        for row, stats in zip(rig.invariants.rows, rig.stats.shards, strict=True)
    )


def calm(rig: Rig) -> None:
    """End the faults, plug the cable, and let every stalled connection go on."""
    rig.segment.set_faults(None)
    rig.world.port("node").set_link(up=True)
    for shard in range(rig.facts.shards):
        rig.world.actions["gateway-release"](str(shard))
