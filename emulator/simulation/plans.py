"""Fault plans made by chance: what one seed of a simulation does to one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.faults import ACTIONS, Event, FaultPlan, Rule

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

# Close codes of the Discord profile and of RFC 6455 that a server may send.
CLOSE_CODES = (
    1000, 1001, 1005, 1011, 1012, 4000, 4001, 4002, 4003, 4005, 4007, 4008, 4009,
)  # fmt: skip
# The longest that a fault of each kind holds a frame back.
LONGEST_DELAY_NS = 400 * NS_PER_MS
LONGEST_OUTAGE_NS = 60 * NS_PER_S


def random_plan(
    rng: random.Random,
    duration_ns: int,
    *,
    port: str = "node",
    shards: int = 16,
    most_rules: int = 4,
    most_events: int = 6,
) -> FaultPlan:
    """Make a plan of frame rules in time windows and of timed events.

    The events need `World.actions` of the gateway, see `peers.gateway.plan_actions`.

    Args:
        rng: decides everything.
        duration_ns: length of the run, in nanoseconds.
        port: the node's port.
        shards: number of shards, for events that concern one.
        most_rules: bound on rules.
        most_events: bound on events; an outage counts as one and has two lines.
    """
    rules = tuple(_rule(rng, duration_ns, port) for _ in range(rng.randrange(most_rules + 1)))
    events: list[Event] = []
    for _ in range(rng.randrange(most_events + 1)):
        make = rng.choice(_EVENTS)
        events += make(rng, rng.randrange(duration_ns), port, shards)
    return FaultPlan(rules, tuple(sorted(events, key=lambda event: event.at_ns)))


def _rule(rng: random.Random, duration_ns: int, port: str) -> Rule:
    start = rng.randrange(duration_ns)
    away = rng.random() < 0.5
    return Rule(
        rng.choice(ACTIONS),
        p=rng.choice((0.001, 0.01, 0.05, 0.2)),
        match=rng.choice(("any", "any", "tcp", "data", "ack", "arp", "udp")),
        src=port if away else "",
        dst="" if away else port,
        after_ns=start,
        before_ns=start + rng.randrange(NS_PER_S, duration_ns),
        by_ns=rng.randrange(NS_PER_MS, LONGEST_DELAY_NS),
        jitter_ns=rng.randrange(NS_PER_MS, LONGEST_DELAY_NS),
    )


def _outage(rng: random.Random, at_ns: int, port: str, _shards: int) -> list[Event]:
    length = rng.randrange(NS_PER_MS, LONGEST_OUTAGE_NS)
    return [Event(at_ns, "link-down", port), Event(at_ns + length, "link-up", port)]


def _stall(rng: random.Random, at_ns: int, _port: str, shards: int) -> list[Event]:
    shard = str(rng.randrange(shards))
    length = rng.randrange(NS_PER_MS, LONGEST_OUTAGE_NS)
    return [Event(at_ns, "gateway-stall", shard), Event(at_ns + length, "gateway-release", shard)]


def _close(rng: random.Random, at_ns: int, _port: str, shards: int) -> list[Event]:
    argument = f"{rng.randrange(shards)} {rng.choice(CLOSE_CODES)}"
    return [Event(at_ns, "gateway-close", argument)]


def _shard_event(rng: random.Random, at_ns: int, _port: str, shards: int) -> list[Event]:
    shard = rng.randrange(shards)
    what = rng.choice(("abort", "reconnect", "vanish", "invalid {} true", "invalid {} false"))
    text = what.format(shard) if "{}" in what else f"{what} {shard}"
    name, _, argument = text.partition(" ")
    return [Event(at_ns, f"gateway-{name}", argument)]


def _restart(rng: random.Random, at_ns: int, _port: str, _shards: int) -> list[Event]:
    return [Event(at_ns, "gateway-restart", rng.choice(("", "keep-sessions")))]


_EVENTS: tuple[Callable[[random.Random, int, str, int], list[Event]], ...] = (
    _outage,
    _stall,
    _close,
    _close,
    _shard_event,
    _shard_event,
    _restart,
)
