"""Nodes of a fleet in plain Python: the reference models on memory of their own, a store between them.

The models are those that every routine is held against, so what these nodes do the firmware does. The
network delays, reorders across connections and loses; clocks run at their own rates; nodes pause.
"""

from __future__ import annotations

import functools
import heapq
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import emulator.models.fleet.budget as budget_model
import emulator.models.fleet.claim as claim_model
import emulator.models.fleet.idle as idle_model
import emulator.models.fleet.operation as operation_model
import emulator.models.fleet.renew as renew_model
import emulator.models.fleet.ticket as ticket_model
from emulator.models.fleet.spans import wait_span
from firmware.layouts.bus import BUS, CONTROL, LinkState
from firmware.layouts.fleet import (
    OPS_MAX,
    HeldSlot,
)
from tests.support.fleet_model import CYCLES, Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.fleet_memory import Memory


@dataclass
class Record:
    """A value of the store."""

    revision: int
    value: bytes


class Store:
    """A linearizable store with compare-and-swap, and its log."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.log: list[tuple[int, str, bytes]] = []

    def swap(self, key: str, expected: int | None, value: bytes) -> int:
        """Replace a revision (None: whatever there is); return the new one, or 0."""
        known = self.records.get(key)
        if expected is not None and (known.revision if known else 0) != expected:
            return 0
        revision = len(self.log) + 1
        self.log.append((revision, key, value))
        self.records[key] = Record(revision, value)
        return revision


@dataclass(order=True)
class Event:
    """Something that happens at a time."""

    at: float
    order: int
    do: Callable[[], None] = field(compare=False)


class FleetWorld:
    """Nodes, a store, and everything that may go wrong between them.

    Args:
        seed: Of all that is random.
        nodes: How many.
        unsafe: Which rule of the algorithm is left out; none by default.
        calm: Nothing goes wrong but what the test lets go wrong.

    Attributes:
        overlaps: Shards with two owners, counted at every event.
        starts: Changes of owners.
        identifies: When each Identify left, if nodes are to send some.
    """

    def __init__(self, seed: int, nodes: int = 3, unsafe: str = "", *, calm: bool = False) -> None:
        self.calm = calm
        self.random = random.Random(seed)
        self.now, self._order, self._left_out = 0.0, 0, unsafe
        self._events: list[Event] = []
        self.store = Store()
        self._watchers: list[tuple[Node, int, int, list[Any]]] = []
        self.starts = self.overlaps = 0
        self.identifies: list[float] | None = None
        self.owners: dict[int, tuple[Node, int]] = {}
        rates = [self.random.choice((0.991, 1.0, 1.009)) for _ in range(nodes)]
        self.nodes = [Node(self, n, rate) for n, rate in enumerate(rates)]
        for node in self.nodes:
            self.after(self.random.uniform(0, 1), node.connect)
            self.after(self.random.uniform(0, 1), functools.partial(self.run_node, node))
            if not calm:
                self.after(self.random.uniform(2, 20), functools.partial(self.trouble, node))
        self.after(1.0, self.beats)

    def unsafe(self, rule: str) -> bool:
        """Tell whether a rule is left out."""
        return self._left_out == rule

    def may_send(self, node: Node, held: Any) -> bool:
        """Tell whether the transmit path lets a slot's bytes pass now."""
        return self.unsafe("no deadline") or node.tsc() < held.hard_stop

    # -- time -------------------------------------------------------------------------------------
    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Let something happen later."""
        self._order += 1
        heapq.heappush(self._events, Event(self.now + seconds, self._order, do))

    def run(self, seconds: float) -> None:
        """Let time pass; at every event no shard may have two owners."""
        while self._events and self._events[0].at < seconds:
            event = heapq.heappop(self._events)
            self.now = max(self.now, event.at)
            event.do()
            self.look()
        self.now = max(self.now, seconds)

    def look(self) -> None:
        """Count shards that two nodes may send for at this moment, and owners that are new."""
        owners: dict[int, tuple[Node, int]] = {}
        for node in self.nodes:
            for shards, generation in node.holds():
                for shard in shards:
                    if shard in owners:
                        self.overlaps += 1
                    owners[shard] = node, generation
        self.starts += sum(self.owners.get(s) != owner for s, owner in owners.items())
        self.owners.update(owners)

    def pause(self, node: Node) -> None:
        """Let time pass in the middle of a turn, and cut the node off after a long pause."""
        pause = node.pause_after_send
        if not self.calm and self.random.random() < 0.1:
            pause = self.random.uniform(0, 3)
            if pause > 1.5:
                self.after(pause + 0.2, functools.partial(node.drop, 12))
        if pause:
            self.run(self.now + pause)  # the others go on meanwhile

    def cut(self, node: Node) -> None:
        """Cut a node off for good."""
        node.drop(1e9)

    def run_node(self, node: Node) -> None:
        """Run one turn, and the next one some time later."""
        with self.stand_in(node):
            node.turn()
        span = (0.05, 0.05) if self.calm else (2, 9) if self.random.random() < 0.02 else (0.05, 0.4)
        self.after(self.random.uniform(*span), functools.partial(self.run_node, node))

    def stand_in(self, node: Node) -> Any:
        """Let the models of claims and renewals speak to this network."""
        return _Patched(self, node)

    def trouble(self, node: Node) -> None:
        """Drop a connection now and then."""
        if node.g(BUS).links[CONTROL].state == LinkState.UP:
            node.drop(self.random.choice((1, 12)))
        self.after(self.random.uniform(3, 25), functools.partial(self.trouble, node))

    # -- the network ------------------------------------------------------------------------------
    def delay(self) -> float:
        """Return how long something travels."""
        if self.calm:
            return 0.01
        if self.random.random() < 0.03:
            return self.random.uniform(0, 8)
        return self.random.uniform(0.001, 0.1)

    def travel(self, do: Callable[[], None]) -> None:
        """Let something arrive at the store, in any order."""
        self.after(self.delay(), do)

    def request(
        self, node: Node, connection: int, number: int, key: str, expected: int, value: bytes
    ) -> None:
        """Carry a compare-and-swap to the store, and perhaps its answer back."""

        def arrived() -> None:
            revision = self.store.swap(key, expected, value)
            if revision:
                self.committed(revision, key, value)
            if self.calm or self.random.random() > 0.1:
                answer = functools.partial(node.told, number, revision)
                self.after(self.delay(), lambda: node.arrive(connection, answer))

        if self.calm or self.random.random() > 0.03:
            self.travel(arrived)

    def subscribe(self, node: Node, connection: int, number: int) -> None:
        """Make a watch: what there is, in the order of revisions."""
        if node.connection != connection:
            return
        watch = node.watching[1] if node.watching else 0
        channel: list[Any] = [0, 0.0]
        answer = functools.partial(node.answered, number)
        self.after(self.delay(), lambda: node.arrive(connection, answer))
        newest = sorted(self.store.records.items(), key=lambda item: item[1].revision)
        for n, (key, record) in enumerate(newest):
            self.deliver(node, connection, watch, channel, key, record.value, record.revision,
                         len(newest) - n - 1)  # fmt: skip
        self._watchers.append((node, connection, watch, channel))

    def deliver(
        self, node: Node, connection: int, watch: int, channel: list[Any], key: str, value: bytes,
        revision: int, pending: int,
    ) -> None:  # fmt: skip
        """Carry a delivery; one connection keeps the order of a watch."""
        channel[0] += 1
        do = functools.partial(node.delivered, watch, key, value, revision, channel[0], pending)
        channel[1] = max(channel[1], self.now + self.delay() + node.watch_delay)
        self.after(channel[1] - self.now, lambda: node.arrive(connection, do))

    def committed(self, revision: int, key: str, value: bytes) -> None:
        """Show a new record to every watch that still has its connection."""
        self._watchers = [one for one in self._watchers if one[0].connection == one[1]]
        for node, connection, watch, channel in self._watchers:
            self.deliver(node, connection, watch, channel, key, value, revision, 0)

    def beats(self) -> None:
        """Let every watch hear a heartbeat."""
        for node, connection, watch, channel in self._watchers:
            if node.connection == connection:
                do = functools.partial(node.beat, watch, channel[0])
                channel[1] = max(channel[1], self.now + self.delay() + node.watch_delay)
                self.after(channel[1] - self.now, functools.partial(node.arrive, connection, do))
        self.after(1.0, self.beats)

    def put(self, key: str, value: bytes, expected: int | None = None) -> int:
        """Write as an operator does; return the revision, or 0."""
        revision = self.store.swap("b1.ctl." + key, expected, value)
        if revision:
            self.committed(revision, "b1.ctl." + key, value)
        return revision

    def record(self, key: str) -> Record:
        """Return a record of the store."""
        return self.store.records["b1.ctl." + key]


class _Patched:
    """The models' way to NATS, and the rules that a negative control leaves out."""

    def __init__(self, fleet: FleetWorld, node: Node) -> None:
        self._new: list[tuple[Any, str, Any]] = [
            (operation_model, "cas_send", node.swap),
            (renew_model, "cas_send", node.swap),
            (ticket_model, "cas_send", node.swap),
            (budget_model, "cas_send", node.swap),
            (ticket_model, "jitter", lambda _w, ms: fleet.random.randrange(ms * CYCLES)),
            (idle_model, "bus_fail", lambda *_: node.drop()),
            (idle_model, "jitter", lambda _w, ms: fleet.random.randrange(ms * CYCLES)),
            (claim_model, "jitter", lambda _w, ms: fleet.random.randrange(ms * CYCLES)),
            (operation_model, "jitter", lambda _w, ms: fleet.random.randrange(ms * CYCLES)),
        ]
        if fleet.unsafe("half the wait"):
            self._new.append((claim_model, "wait_span", lambda w, ms: wait_span(w, ms) // 2))
        if fleet.unsafe("time after the send"):
            send = operation_model.op_send
            late = functools.partial(_time_after, send)
            self._new += [(claim_model, "op_send", late), (renew_model, "op_send", late)]
        self._old: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        for module, name, new in self._new:
            self._old.append((module, name, getattr(module, name)))
            setattr(module, name, new)

    def __exit__(self, *_problem: object) -> None:
        for module, name, old in self._old:
            setattr(module, name, old)


def _time_after(send: Callable[..., int], w: Memory, held: int, expected: int) -> int:
    """Take the time of an operation when it has left."""
    refused = send(w, held, expected)
    if not refused:
        slot = w.view(HeldSlot, held)
        op = slot.ops[(slot.ops_next - 1) % OPS_MAX]
        op.sent_at = slot.sent_at = w.rdtsc()
    return refused
