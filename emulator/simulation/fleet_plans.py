"""Fault plans made by chance for a leased fleet: its nodes, NATS, the gateway, and what lies between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.faults import ACTIONS, Event, FaultPlan, Rule
from emulator.simulation.peers.nats import NATS_PORT

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Made = tuple[list[Rule], list[Event]]

LONGEST_OUTAGE_NS = 45 * NS_PER_S
LONGEST_HALT_NS = 40 * NS_PER_S
LONGEST_DRAIN_NS = 90 * NS_PER_S
ORDERS_MOST = 3
ENROL_NS, EARLY_MOST = 25 * NS_PER_S, 3
LONGEST_DELAY_NS = 400 * NS_PER_MS
RULES_MOST, FAULTS_LEAST, FAULTS_MOST = 2, 2, 7
BEHIND_SHARE = 0.3
"""Plans in which a server is behind with what is stored."""
RESUMABLE_CODES = (1001, 1011, 4000, 4001, 4002, 4008)


def random_fleet_plan(
    rng: random.Random,
    duration_ns: int,
    *,
    nodes: int,
    servers: int,
    shards: int,
    slots: int,
    slots_most: int,
    enrol: bool = False,
) -> FaultPlan:
    """Make a plan; its events need the actions of a `LeasedFleet`.

    Args:
        rng: decides everything.
        duration_ns: length of the run.
        nodes: called node0, node1 and so on.
        servers: of NATS.
        shards: of the bot.
        slots: of the plan; it may be cut into one more or one less.
        slots_most: into no more than these.
        enrol: whether nodes get their token after the boot: then that meets faults, too.
    """
    rules = [_noise(rng, duration_ns, nodes) for _ in range(rng.randrange(RULES_MOST + 1))]
    events: list[Event] = []
    chance = _Chance(rng, duration_ns, nodes, servers, shards, slots, slots_most)
    faults = [(chance, _FAULTS)] * rng.randint(FAULTS_LEAST, FAULTS_MOST)
    faults += [(chance, _ORDERS)] * rng.randint(0, ORDERS_MOST)
    if enrol:
        early = _Chance(rng, ENROL_NS, nodes, servers, shards, slots, slots_most)
        faults += [(early, _LINK_FAULTS)] * rng.randint(1, EARLY_MOST)
    for when, table in faults:
        more_rules, more_events = rng.choice(table)(when)
        rules += more_rules
        events += more_events
    # Drawn last: what seeds made of the rest before stays as it was.
    if rng.random() < BEHIND_SHARE:
        events += _behind(chance)[1]
    return FaultPlan(tuple(rules), tuple(sorted(events, key=lambda event: event.at_ns)))


class _Chance:
    """What a fault may draw from."""

    def __init__(
        self,
        rng: random.Random,
        duration_ns: int,
        nodes: int,
        servers: int,
        shards: int,
        slots: int,
        slots_most: int,
    ) -> None:
        self.rng, self.duration_ns = rng, duration_ns
        self.nodes, self.servers, self.shards = nodes, servers, shards
        self.slots, self.slots_most = slots, slots_most

    def node(self) -> str:
        return f"node{self.rng.randrange(self.nodes)}"

    def server(self) -> int:
        return self.rng.randrange(self.servers)

    def span(self, longest_ns: int = LONGEST_OUTAGE_NS) -> tuple[int, int]:
        """Choose when something begins and when it ends, in whole milliseconds."""
        start = self.rng.randrange(self.duration_ns // NS_PER_MS) * NS_PER_MS
        return start, start + self.rng.randrange(1, longest_ns // NS_PER_MS) * NS_PER_MS


def _noise(rng: random.Random, duration_ns: int, nodes: int) -> Rule:
    start = rng.randrange(duration_ns // NS_PER_MS) * NS_PER_MS
    node, away = f"node{rng.randrange(nodes)}", rng.random() < 0.5
    return Rule(
        rng.choice(ACTIONS),
        p=rng.choice((0.001, 0.01, 0.05, 0.2)),
        match=rng.choice(("any", "tcp", "data", f"port:{NATS_PORT}")),
        src=node if away else "",
        dst="" if away else node,
        after_ns=start,
        before_ns=start + rng.randrange(1, duration_ns // NS_PER_S) * NS_PER_S,
        by_ns=rng.randrange(NS_PER_MS, LONGEST_DELAY_NS),
        jitter_ns=rng.randrange(NS_PER_MS, LONGEST_DELAY_NS),
    )


def _drop(
    match: str, node: str, after_ns: int, before_ns: int, *, ways: str = "both"
) -> list[Rule]:
    rules = []
    if ways in ("both", "out"):
        rules.append(Rule("drop", match=match, src=node, after_ns=after_ns, before_ns=before_ns))
    if ways in ("both", "in"):
        rules.append(Rule("drop", match=match, dst=node, after_ns=after_ns, before_ns=before_ns))
    return rules


def _no_nats(c: _Chance) -> Made:
    """Cut a node off from NATS while the gateway still hears it, in one or both directions."""
    ways = c.rng.choice(("both", "both", "out", "in"))
    return _drop(f"port:{NATS_PORT}", c.node(), *c.span(), ways=ways), []


def _late_nats(c: _Chance) -> Made:
    """Let what NATS says to a node come seconds late, or what the node says to NATS."""
    start, end = c.span()
    by_ns = c.rng.randrange(200, 5_000) * NS_PER_MS
    return [_late(c.node(), start, end, by_ns, answers=c.rng.random() < 0.5)], []


def _late(node: str, start_ns: int, end_ns: int, by_ns: int, *, answers: bool) -> Rule:
    src, dst = ("", node) if answers else (node, "")
    return Rule(
        "delay", match=f"port:{NATS_PORT}", src=src, dst=dst, after_ns=start_ns, before_ns=end_ns,
        by_ns=by_ns,
    )  # fmt: skip


def _told_late(c: _Chance) -> Made:
    """Let a node hear of its last renewal seconds later, from another watch, and then nothing more."""
    start, _ = c.span()
    node, match = c.node(), f"port:{NATS_PORT}"
    back = start + c.rng.randrange(4_000, 13_000) * NS_PER_MS
    cut = back + c.rng.randrange(1_500, 6_000) * NS_PER_MS
    end = cut + c.rng.randrange(20, 45) * NS_PER_S
    return _drop(match, node, start, back, ways="in") + _drop(match, node, cut, end), []


def _claims_behind_a_drain(c: _Chance) -> Made:
    """Change the plan again and again while the watches are late: claims come behind a drain."""
    # Early enough for some changes before the calm.
    start = c.rng.randrange(c.duration_ns * 3 // 4 // NS_PER_MS) * NS_PER_MS
    late_ms = c.rng.randrange(2_000, 5_000)
    events = [Event(start, "nats-behind", f"{n} {late_ms}") for n in range(c.servers)]
    # One change at a time: the next one comes soon behind the plan that ends the last.
    for _ in range(c.rng.randint(7, 12)):
        events.append(_replan_at(c, start))
        start += c.rng.randrange(800, 2_500) * NS_PER_MS
    end = start + c.rng.randrange(5, 15) * NS_PER_S
    return [], events + [Event(end, "nats-behind", f"{n} 0") for n in range(c.servers)]


def _pair(c: _Chance, first: str, second: str, longest_ns: int = LONGEST_OUTAGE_NS) -> Made:
    start, end = c.span(longest_ns)
    return [], [Event(start, *_split(first)), Event(end, *_split(second))]


def _split(text: str) -> tuple[str, str]:
    name, _, argument = text.partition(" ")
    return name, argument


def _crash(c: _Chance) -> Made:
    node = c.node()
    return _pair(c, f"power-off {node}", f"power-on {node}")


def _unplug(c: _Chance) -> Made:
    node = c.node()
    return _pair(c, f"link-down {node}", f"link-up {node}")


def _halt(c: _Chance) -> Made:
    start, end = c.span(LONGEST_HALT_NS)
    what = c.rng.choice(("halt", "freeze"))
    return [], [Event(start, what, f"{c.node()} {(end - start) // NS_PER_MS}")]


def _server_down(c: _Chance) -> Made:
    number = c.server()
    how = c.rng.choice(("nats-kill", "nats-kill", "nats-stop"))
    return _pair(c, f"{how} {number}", f"nats-start {number}")


def _server_retires(c: _Chance) -> Made:
    number = c.server()
    start, end = c.span()
    end = max(end, start + 11 * NS_PER_S)
    return [], [Event(start, "nats-retire", str(number)), Event(end, "nats-start", str(number))]


def _server_paused(c: _Chance) -> Made:
    number = c.server()
    return _pair(c, f"nats-pause {number}", f"nats-resume {number}")


def _isolated(c: _Chance) -> Made:
    return _pair(c, f"nats-isolate {c.server()}", "nats-heal")


def _isolated_with_a_node(c: _Chance) -> Made:
    """Leave a node with an isolated server alone: it reaches none of the others."""
    start, end = c.span()
    number = c.server()
    return [], [
        Event(start, "nats-isolate", str(number)),
        Event(start, "nats-only", f"{c.node()} {number}"),
        Event(end, "nats-heal"),
        Event(end, "nats-any"),
    ]


def _slow(c: _Chance) -> Made:
    milliseconds = c.rng.choice((200, 1_000, 3_000, 8_000))
    return _pair(c, f"nats-slow {milliseconds}", "nats-slow 0", 30 * NS_PER_S)


def _lag(c: _Chance) -> Made:
    number = c.server()
    milliseconds = c.rng.choice((200, 800, 2_000, 5_000))
    return _pair(c, f"nats-lag {number} {milliseconds}", f"nats-lag {number} 0", 30 * NS_PER_S)


def _behind(c: _Chance) -> Made:
    number = c.server()
    milliseconds = c.rng.choice((500, 2_000, 8_000, 15_000))
    return _pair(c, f"nats-behind {number} {milliseconds}", f"nats-behind {number} 0")


def _once(c: _Chance) -> Made:
    """Do something to NATS that is over at once."""
    at_ns, _ = c.span()
    number = c.server()
    what = c.rng.choice((
        "nats-depose", f"nats-cut {number}", f"nats-lose {number}", f"nats-skip {number}",
        f"nats-repeat {number} {c.rng.randint(1, 4)}",
    ))  # fmt: skip
    return [], [Event(at_ns, *_split(what))]


def _cut_links(c: _Chance) -> Made:
    return [], [Event(c.span()[0], "nats-cut", str(n)) for n in range(c.servers)]


def _deaf(c: _Chance) -> Made:
    rules, events = _pair(c, "nats-deaf 1", "nats-deaf 0")
    return rules, [*events, Event(events[0].at_ns, "nats-depose")]


def _gateway(c: _Chance) -> Made:
    at_ns, _ = c.span()
    shard = c.rng.randrange(c.shards)
    what = c.rng.choice((
        f"gateway-close {shard} {c.rng.choice(RESUMABLE_CODES)}", f"gateway-abort {shard}",
        f"gateway-reconnect {shard}", f"gateway-invalid {shard} true",
        f"gateway-invalid {shard} false", f"gateway-vanish {shard}",
    ))  # fmt: skip
    return [], [Event(at_ns, *_split(what))]


def _replan(c: _Chance) -> Made:
    return [], [_replan_at(c, c.span()[0])]


def _replan_at(c: _Chance, at_ns: int) -> Event:
    slots = max(1, min(c.slots_most, c.slots + c.rng.choice((-1, 0, 1))))
    return Event(at_ns, "replan", str(slots))


def _drain(c: _Chance) -> Made:
    """Drain a node, for a while or for good."""
    node = c.node()
    rules, events = _pair(c, f"drain {node}", f"undrain {node}", LONGEST_DRAIN_NS)
    return rules, events[: c.rng.choice((1, 2, 2))]


def _move(c: _Chance) -> Made:
    """Ask for slots to go to nodes, whatever state those are in."""
    return [], [
        Event(c.span()[0], "move", f"{c.rng.randrange(c.slots)} {c.node()}")
        for _ in range(c.rng.randint(1, 3))
    ]


_FAULTS: tuple[Callable[[_Chance], Made], ...] = (
    _no_nats, _no_nats, _no_nats, _late_nats, _late_nats, _crash, _crash, _unplug, _halt, _halt,
    _halt, _server_down, _server_down, _server_retires, _server_paused, _isolated,
    _isolated_with_a_node, _slow, _lag, _once, _once, _deaf, _gateway, _replan, _told_late,
    _told_late, _claims_behind_a_drain, _claims_behind_a_drain, _claims_behind_a_drain,
)  # fmt: skip
_ORDERS: tuple[Callable[[_Chance], Made], ...] = (_drain, _move)
"""What an operator asks for meanwhile."""
_LINK_FAULTS: tuple[Callable[[_Chance], Made], ...] = (
    _no_nats, _no_nats, _late_nats, _late_nats, _crash, _crash, _unplug, _server_down,
    _server_down, _server_retires, _server_paused, _isolated, _lag, _cut_links, _cut_links,
)  # fmt: skip
"""What happens to links while nodes wait for their token."""
