"""One seed of the fleet simulation: nodes that share shards over NATS, bad weather, then calm.

All along every segment to the gateway is judged by who owns its shard; in the calm that follows every
slot must have an owner again, and every shard be READY there with the gateway's sequence. Some seeds end
with what an operator asks for in calm times.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.fleet_plans import random_fleet_plan
from emulator.simulation.fleet_shape import Shape
from emulator.simulation.handovers import planned
from emulator.simulation.leased import LeasedFleet
from pxe.gateway import LoadOptions
from toolchain.cli.fleet.records import DRAIN

if TYPE_CHECKING:
    from emulator.simulation.campaign import Trial

STORM_S = 120
CALM_S = 300
REST_S = 60
"""Until the stream has acknowledged the last event: given up after 10 s, resumed, published again."""
ENROL_SHARE, REFUSED_SHARE = 0.4, 0.3
"""Seeds whose nodes have no token in their image; those of them in which one never gets it."""
PLANNED_SHARE = 0.4
"""Seeds that end with planned hand-overs."""
RATE = 4
"""Dispatches a second over all shards."""
RATE_MOST_PPM = 9_900
"""Clocks are within one part in a hundred of the truth (decision 19)."""
TSC_MOST_NS = 1 << 50
RESUMED_ADVANCES_SHARE = 0.7
"""Services whose RESUMED has a sequence of its own."""


def shape_of(rng: random.Random) -> Shape:
    """Choose a fleet that can own every slot although one node is missing."""
    nodes, slots = 3, rng.choice((2, 3, 3, 4))
    enrol = rng.random() < ENROL_SHARE
    refused = enrol and rng.random() < REFUSED_SHARE
    return Shape(
        nodes=nodes,
        slots=slots,
        total=rng.randint(slots, slots + 2),
        cap=2,
        duration_ms=rng.choice((6_000, 10_000, 15_000, 20_000, 20_000)),
        max_concurrency=rng.choice((1, 1, 2)),
        named=rng.random() < 0.3,
        enrol=enrol,
        login=enrol and rng.random() < 0.5,
        refused=(f"node{rng.randrange(nodes)}",) if refused else (),
        clocks_ppm=tuple(rng.randint(-RATE_MOST_PPM, RATE_MOST_PPM) for _ in range(nodes)),
        clocks_ns=tuple(rng.randrange(NS_PER_S, TSC_MOST_NS) for _ in range(nodes)),
    )


def fleet_storm(trial: Trial, *, seconds: int = STORM_S) -> LeasedFleet:
    """Run one seed; return the fleet at its end.

    Args:
        trial: seed and, for a rerun, the plan.
        seconds: length of the bad weather, in virtual seconds.

    Raises:
        AssertionError: a rule is broken, or the calm does not bring everything back.
    """
    rng = random.Random(f"fleet {trial.seed}")
    shape = shape_of(rng)
    fleet = LeasedFleet(
        trial.seed,
        shape,
        load=LoadOptions(rate=RATE),
        heartbeat_interval_ms=rng.choice((5_000, 20_000, 41_250)),
        resumed_advances=random.Random(trial.seed).random() < RESUMED_ADVANCES_SHARE,
    )
    for station in fleet.stations:
        if rng.random() < 0.5:
            station.power_off()
            fleet.world.events.after(rng.randrange(10 * NS_PER_S), station.power_on)
    plan = random_fleet_plan(
        rng,
        seconds * NS_PER_S,
        nodes=shape.nodes,
        servers=shape.servers,
        shards=shape.total,
        slots=shape.slots,
        slots_most=shape.slots_most,
        enrol=shape.enrol,
    )
    quiet = rng.random() < PLANNED_SHARE
    if trial.on_rig is not None:
        trial.on_rig(fleet)
    trial.faults(fleet.segment, plan)
    fleet.run(seconds)
    calm(fleet)
    fleet.world.run_until(fleet.awake, within_ns=CALM_S * NS_PER_S)
    fleet.world.run_until(fleet.joined, within_ns=CALM_S * NS_PER_S)
    fleet.world.run_until(fleet.orders.obeyed, within_ns=CALM_S * NS_PER_S)
    fleet.until_owned(CALM_S)
    fleet.until_published(REST_S)
    if quiet:
        planned(fleet, rng)
    fleet.orders.judge()
    return fleet


def calm(fleet: LeasedFleet) -> None:
    """End the faults: power, cables and NATS are there, and stalled connections go on."""
    fleet.segment.set_faults(None)
    fleet.gateway.core.set_load(None)
    fleet.gateway.flush()
    actions = fleet.world.actions
    actions["nats-any"]("")
    actions["nats-mend"]("")
    actions["dns-up"]("")
    # With more than one of them there is no room for all slots.
    drained = [name for name, mode in fleet.orders.asked.items() if mode == DRAIN]
    for node in drained if fleet.shape.refused else drained[1:]:
        fleet.orders.undrain(node)
    for station in fleet.stations:
        station.power_on()
        fleet.world.port(station.name).set_link(up=True)
    for shard in range(fleet.shape.total):
        actions["gateway-release"](str(shard))
        actions["gateway-read"](str(shard))
