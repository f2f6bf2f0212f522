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
from emulator.simulation.invariants import InvariantError
from emulator.simulation.ledger import Ledger
from emulator.simulation.node import TSC_AT_ZERO
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.packet import ip
from emulator.simulation.plans import random_plan
from emulator.simulation.pools import leaks
from emulator.simulation.rig import GATEWAY_ADDRESS, Rig
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.policy import OnLimit, Policy
from firmware.layouts.profile import PROFILES, ProfileId
from firmware.layouts.shard import ShardState
from pxe.gateway import LoadOptions
from pxe.gateway.envelope import ENVELOPE_ORDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from emulator.simulation.campaign import Trial
    from emulator.simulation.faults import FaultPlan

STORM_S = 120
CALM_S = 300
"""Longest way back: a heartbeat to notice, a name to ask for, permits, three unanswered Resumes."""
RATE = 8
"""Dispatches a second over all shards."""
RESUME_HOST, RESUME_ADDRESS = "resume.gateway.test", "203.0.113.9"
RESUME_HOST_SHARE = 0.3
LEASE_SHARE, POWER_SHARE, CLOCK_SHARE = 0.2, 0.2, 0.15
"""Shares of the runs in which the lease expires, the power fails, or the clock jumps ahead."""


SIGN_SHARE = 0.1
FLUXER_SHARE, DISCOVERY_SHARE, STARTUP_FATAL_SHARE = 0.3, 0.25, 0.1
"""Shares of the runs on Fluxer, of those that ask for the address, of those that may not start late."""
POLICY_WEIGHTS = {Policy.JITTERED: 6, Policy.FIXED: 1, Policy.SCHEDULE: 1}
SCHEDULE_MS = (500, 1_000, 2_000, 5_000, *(10_000,) * 12)
DISTURBING = frozenset(("link-down", "gateway-pause", "power-off", "warm-reset", "jump-clock"))
"""Events that part what a node sends in time from what arrives in time."""


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
    keys = rng.choice((1, 4, 16, 16))
    options = _gateway(rng)
    resume_host = rng.random() < RESUME_HOST_SHARE
    facts = node_facts(trial.seed, shards, keys, asks=not resume_host)
    if resume_host:
        options["public_url"] = f"ws://{RESUME_HOST}"
    modern = rng.random() < 0.5
    plan = random_plan(rng, seconds * NS_PER_S, shards=shards)
    extra = _node_events(rng, seconds)
    plan = replace(plan, events=tuple(sorted((*plan.events, *extra), key=lambda e: e.at_ns)))
    rig = Rig(
        trial.seed,
        facts,
        trace=trace,
        modern=modern,
        watch=True,
        tsc_at_zero=_tsc_at_zero(rng, plan),
        **options,
    )
    if resume_host:
        rig.internet.gateway(RESUME_HOST, RESUME_ADDRESS, sessions_of="gateway.test")
    rig.internet.dhcp.policy.lease_s = rng.choice((60, 600, 3600))
    rig.internet.dns.delay_ns = rng.choice((0, 0, 300 * NS_PER_MS))
    rig.world.actions |= node_actions(rig)
    ledger = Ledger(rig, ip(GATEWAY_ADDRESS))
    if trial.on_rig is not None:
        trial.on_rig(rig)
    trial.faults(rig.segment, plan)
    rig.run(seconds)
    calm(rig)
    rig.world.run_until(lambda: settled(rig, ledger.fatal), within_ns=CALM_S * NS_PER_S)
    _judge_rest(rig, ledger, trial.plan)
    rig.save_coverage()
    return rig


def node_facts(seed: int, shards: int, keys: int, *, asks: bool) -> NodeFacts:
    """Choose a service and how the node is configured for it.

    The draws are its own, so that what else a seed decides does not depend on them.

    Args:
        seed: of the trial.
        shards: of the node.
        keys: Identify keys that are configured.
        asks: whether the gateway's own host may be asked for the gateway's address.
    """
    rng = random.Random(f"node {seed}")
    profile = ProfileId.FLUXER if rng.random() < FLUXER_SHARE else ProfileId.DISCORD
    policy = rng.choices(list(POLICY_WEIGHTS), list(POLICY_WEIGHTS.values()))[0]
    discovery = rng.random() < DISCOVERY_SHARE and asks
    service = PROFILES[profile]
    return NodeFacts(
        shards=shards,
        max_concurrency=keys,
        profile=profile,
        path=service.discovery_path if discovery else f"/?v={service.version}&encoding=json",
        discovery=DiscoveryMode.HTTP if discovery else DiscoveryMode.STATIC,
        policy=policy,
        schedule_ms=SCHEDULE_MS if policy == Policy.SCHEDULE else (),
        on_limit=OnLimit.FATAL if rng.random() < STARTUP_FATAL_SHARE else OnLimit.RETRY,
    )


def _tsc_at_zero(rng: random.Random, plan: FaultPlan) -> int:
    """In some runs the time-stamp counter passes its sign bit, while something is being mended."""
    if not plan.events or rng.random() >= SIGN_SHARE:
        return TSC_AT_ZERO
    event = rng.choice(plan.events)
    return (1 << 63) - event.at_ns - rng.randrange(5 * NS_PER_S)


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
        "warm-reset": lambda _name: rig.warm_reset(),
    }


def _node_events(rng: random.Random, seconds: int) -> list[Event]:
    """Expire a lease, cut the power, or move the clock on, in some of the runs."""
    at_ns = rng.randrange(seconds * NS_PER_S)
    back_ns = at_ns + rng.randrange(NS_PER_S, 30 * NS_PER_S)
    chance = rng.random()
    if chance < LEASE_SHARE:
        return _lease_events(rng, at_ns, back_ns)
    if chance < LEASE_SHARE + POWER_SHARE:
        return [Event(at_ns, "power-off", "node"), Event(back_ns, "power-on", "node")]
    if chance < LEASE_SHARE + POWER_SHARE + CLOCK_SHARE:
        return [Event(at_ns, "jump-clock", f"node {rng.choice((1, 1_000, 30_000, 90_000))}")]
    return []


def _lease_events(rng: random.Random, at_ns: int, back_ns: int) -> list[Event]:
    """End the lease by order, by its own deadline, or while the node was stopped, with work to do."""
    back = Event(back_ns, "console", "lease arm 4000000")
    stopped = Event(at_ns + NS_PER_S, "jump-clock", "node 90000")
    ways = (
        [Event(at_ns, "console", "lease expire")],
        [Event(at_ns, "console", f"lease arm {rng.randrange(1, 20_000)}")],
        [Event(at_ns, "console", "lease arm 60000"), stopped],
    )
    return [*rng.choice(ways), back]


def settled(rig: Rig, fatal: Collection[int] = ()) -> bool:
    """Say whether every shard is READY with the gateway's sequence and nothing is on its way.

    Shards that gave up for a good reason are FATAL instead.
    """
    rows = rig.invariants.rows
    for slot, row in enumerate(rows):
        if row.state != (ShardState.FATAL if slot in fatal else ShardState.READY):
            return False
        if row.close_deadline:
            return False
    if rig.node.inbox:
        return False
    return all(
        slot in fatal or (row.sequence == stats.sequence and stats.connected)
        for slot, (row, stats) in enumerate(zip(rows, rig.stats.shards, strict=True))
    )


def _judge_rest(rig: Rig, ledger: Ledger, plan: FaultPlan) -> None:
    """Judge what shows at the end only: nothing leaked, and the gateway refused no Identify."""
    rig.run(1)
    held = leaks(rig.node, rig.transmit_buffers)
    if held:
        raise InvariantError(f"rule 'no leak': {'; '.join(held)}")
    refused = rig.stats.identify_gate_refusals
    # The node counts from when it sent: late frames, a lost power and a clock that jumped excuse it.
    excused = plan.rules or any(event.name in DISTURBING for event in plan.events)
    if refused and not excused:
        raise InvariantError(f"rule 'permit': the gateway refused {refused} Identifies")
    if not ledger.handed_on and len(ledger.fatal) < rig.facts.shards:
        raise InvariantError("rule 'order of dispatches': none was handed on")


def calm(rig: Rig) -> None:
    """End the faults: power, cable and lease are there, and stalled connections go on."""
    rig.segment.set_faults(None)
    rig.load(None)
    rig.power_on()
    rig.node.console("lease arm 4000000")
    rig.world.port("node").set_link(up=True)
    rig.world.actions["dns-up"]("")
    rig.world.actions["gateway-http"]("0")
    for shard in range(rig.facts.shards):
        rig.world.actions["gateway-release"](str(shard))
        rig.world.actions["gateway-read"](str(shard))
