"""Fault plans made by chance: what one seed of a simulation does to one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.faults import ACTIONS, Event, FaultPlan, Rule

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

# Close codes of the Discord profile and of RFC 6455 that a server may send, unknown ones included.
CLOSE_CODES = (
    1000, 1001, 1002, 1003, 1005, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 4000,
    4001, 4002, 4003, 4005, 4006, 4007, 4008, 4009, 4999,
)  # fmt: skip
# Codes after which a shard never comes back; rare, because it then shows nothing more.
LAST_CODES = (4004, 4010, 4011, 4012, 4013, 4014)
LAST_CODE_SHARE = 0.1
# Answers to an upgrade that a client tries again after.
HTTP_ERRORS = (429, 500, 502, 503, 504)
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
    shard = rng.randrange(shards)
    code = rng.choice(LAST_CODES if rng.random() < LAST_CODE_SHARE else CLOSE_CODES)
    return [Event(at_ns, "gateway-close", f"{shard} {code}")]


def _shard_event(rng: random.Random, at_ns: int, _port: str, shards: int) -> list[Event]:
    shard = rng.randrange(shards)
    what = rng.choice(
        ("abort", "reconnect", "vanish", "beat", "invalid {} true", "invalid {} false")
    )
    text = what.format(shard) if "{}" in what else f"{what} {shard}"
    name, _, argument = text.partition(" ")
    return [Event(at_ns, f"gateway-{name}", argument)]


def _half(rng: random.Random, at_ns: int, _port: str, shards: int) -> list[Event]:
    """Break a connection within a message."""
    shard = str(rng.randrange(shards))
    begun = Event(max(0, at_ns - rng.randrange(NS_PER_S)), "gateway-half", shard)
    broken = Event(at_ns, rng.choice(("gateway-abort", "gateway-vanish")), shard)
    return [begun, broken, Event(at_ns, "gateway-release", shard)]


def _restart(rng: random.Random, at_ns: int, _port: str, _shards: int) -> list[Event]:
    return [Event(at_ns, "gateway-restart", rng.choice(("", "keep-sessions")))]


def _pause(rng: random.Random, at_ns: int, _port: str, shards: int) -> list[Event]:
    """Stop reading from TCP for a while: the window closes, nothing is acknowledged by anyone."""
    shard = str(rng.randrange(shards))
    length = rng.randrange(NS_PER_MS, LONGEST_OUTAGE_NS)
    return [Event(at_ns, "gateway-pause", shard), Event(at_ns + length, "gateway-read", shard)]


def _refuse(rng: random.Random, at_ns: int, _port: str, _shards: int) -> list[Event]:
    length = rng.randrange(NS_PER_MS, LONGEST_OUTAGE_NS)
    refused = Event(at_ns, "gateway-http", str(rng.choice(HTTP_ERRORS)))
    return [refused, Event(at_ns + length, "gateway-http", "0")]


def _no_names(rng: random.Random, at_ns: int, _port: str, _shards: int) -> list[Event]:
    length = rng.randrange(NS_PER_MS, LONGEST_OUTAGE_NS)
    return [Event(at_ns, "dns-down"), Event(at_ns + length, "dns-up")]


_EVENTS: tuple[Callable[[random.Random, int, str, int], list[Event]], ...] = (
    _outage,
    _stall,
    _close,
    _close,
    _shard_event,
    _shard_event,
    _half,
    _restart,
    _pause,
    _refuse,
    _no_names,
)
