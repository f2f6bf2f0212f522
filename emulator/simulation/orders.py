"""What an operator asks of nodes by records (ADR 0020), and whether they obey.

The records are those of `shardfw fleet drain` and `shardfw fleet move`. Nodes are judged by NATS's log
alone: a claim names the revision that it replaces, and who watches in the order of the log knew
everything before that revision. So a claim on a revision behind an order was made knowing the order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.fleet_records import LeaseRecord, PlanRecord
from emulator.simulation.invariants import InvariantError
from emulator.simulation.nats.protocol import header_value
from emulator.simulation.nats.stream import EXPECTED
from toolchain.cli.fleet.records import DRAIN, OPEN, Move, NodeOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.nats.stream import Message, Stream
    from emulator.simulation.operator import Operator

    Line = tuple[str, str]

SOON_NS = 50 * NS_PER_MS
HEAD_START_NS = 5 * NS_PER_S * 100 // 101
"""What everybody leaves to the node that a slot shall go to, by a clock that is 1 % fast."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A move as it stands in the log.

    Attributes:
        move: generation that it counts for, and the node.
        seq: of its record.
    """

    move: Move
    seq: int


class Orders:
    """Writes the orders of one operator and follows what becomes of them.

    Args:
        operator: of the bot.

    Attributes:
        asked: by node, what was asked of it last, written already or not.
        drained: by node, sequence of the record since which it shall hold nothing.
        wishes: by slot, the newest move.
        claims: slot, former record, and record of every claim.
    """

    def __init__(self, operator: Operator) -> None:
        self.asked: dict[str, str] = {}
        self.drained: dict[str, int] = {}
        self.wishes: dict[int, Wish] = {}
        self._leases: dict[int, LeaseRecord] = {}
        self._slots = 0
        self.claims: list[tuple[int, LeaseRecord, LeaseRecord]] = []
        self._operator, self._stream = operator, operator.stream
        self._events = operator.cluster.events
        self._waiting: deque[Callable[[], Line | None]] = deque()
        for message in self._stream.log:
            self._take(message)
        operator.cluster.on_commit.append(self._committed)

    # -- asking -----------------------------------------------------------------------------------
    def drain(self, node: str) -> None:
        """Ask a node to give everything back and to take nothing."""
        self._ask(node, DRAIN)

    def undrain(self, node: str) -> None:
        """Let a node take slots again."""
        if self.asked.get(node) == DRAIN:
            self._ask(node, OPEN)

    def move(self, slot: int, node: str) -> None:
        """Ask for a slot to go to a node, whatever state that is in."""

        def line() -> Line | None:
            lease = self.leases.get(slot)
            if lease is None:
                return None
            return f"move.{slot}", str(Move(lease.generation, node))

        self._write(line)

    @property
    def written(self) -> bool:
        """Whether every order is in the log."""
        return not self._waiting

    def _ask(self, node: str, mode: str) -> None:
        self.asked[node] = mode
        self._write(lambda: (f"node.{node}", str(NodeOrder(mode))))

    def _write(self, line: Callable[[], Line | None]) -> None:
        self._waiting.append(line)
        if len(self._waiting) == 1:
            self._pump()

    def _pump(self) -> None:
        while self._waiting and self._operator.may_write:
            found = self._waiting[0]()
            if found is not None:
                self._operator.put(*found)
            self._waiting.popleft()
        if self._waiting:
            self._events.after(SOON_NS, self._pump)

    # -- judging ----------------------------------------------------------------------------------
    @property
    def leases(self) -> dict[int, LeaseRecord]:
        """Return the newest records by slot of the plan.

        Who lags may still claim a slot of an earlier plan, which nobody runs and nobody gives back.
        """
        return {slot: lease for slot, lease in self._leases.items() if slot < self._slots}

    def held_by(self, node: str) -> list[int]:
        """Return the slots that a node holds."""
        return [slot for slot, lease in self.leases.items() if lease.node == node]

    def open_wish(self, slot: int) -> Wish | None:
        """Return the move that counts for a slot, or None."""
        wish, lease = self.wishes.get(slot), self.leases.get(slot)
        if wish is None or lease is None or wish.move.generation != lease.generation:
            return None
        return wish

    def obeyed(self) -> bool:
        """Say whether every order is written and nobody has what he was asked to give back."""
        return self.written and not self.disobeyed()

    def disobeyed(self) -> str:
        """Say who still has what he was asked to give back; empty when nobody does."""
        for node in self.drained:
            if slots := self.held_by(node):
                return f"rule 'drain': {node} is drained and holds {slots}"
        for slot, lease in self.leases.items():
            wish = self.open_wish(slot)
            if wish is not None and lease.holder is not None and lease.node != wish.move.node:
                return f"rule 'move': slot {slot} shall go to {wish.move.node}: {lease}"
        return ""

    def judge(self) -> None:
        """Judge what has become of the orders, when all had time to obey.

        Raises:
            InvariantError: somebody has what he was asked to give back.
        """
        if wrong := self.disobeyed():
            raise InvariantError(wrong)

    def _committed(self, stream: Stream, message: Message) -> None:
        if stream is self._stream:
            self._take(message)

    def _take(self, message: Message) -> None:
        kind, _, name = message.subject.partition(".ctl.")[2].partition(".")
        if kind == "node":
            self._take_mode(name, message)
        elif kind == "move":
            self.wishes[int(name)] = Wish(Move.parse(message.body.decode()), message.seq)
        elif kind == "plan":
            self._slots = len(PlanRecord.parse(message.body).ranges)
        elif kind == "lease":
            self._take_lease(int(name), message)

    def _take_mode(self, node: str, message: Message) -> None:
        if NodeOrder.parse(message.body.decode()).mode == DRAIN:
            self.drained.setdefault(node, message.seq)
        else:
            self.drained.pop(node, None)

    def _take_lease(self, slot: int, message: Message) -> None:
        record, before = LeaseRecord.parse(message.body), self._leases.get(slot)
        renewed = before is not None and record.holder == before.holder
        renewed = renewed and before is not None and record.generation == before.generation
        if before is not None and record.holder is not None and not renewed:
            self._claimed(slot, message, before, record)
        self._leases[slot] = record

    def _claimed(
        self, slot: int, message: Message, before: LeaseRecord, record: LeaseRecord
    ) -> None:
        """Judge a claim by what its claimer had seen.

        Raises:
            InvariantError: it knew that it should not, or not yet.
        """
        self.claims.append((slot, before, record))
        expected = int(header_value(message.header, EXPECTED) or 0)
        drained = self.drained.get(record.node)
        if drained is not None and expected > drained:
            raise InvariantError(
                f"rule 'drain': {record.node} claims slot {slot} by record {message.seq} on "
                f"{expected}, though record {drained} drains it"
            )
        wish = self.open_wish(slot)
        if wish is None or wish.move.node == record.node or expected <= wish.seq:
            return
        waited_ns = message.at_ns - self._stream.log[expected - 1].at_ns
        if waited_ns < HEAD_START_NS:
            raise InvariantError(
                f"rule 'move': {record.node} claims slot {slot} {waited_ns / NS_PER_MS:g} ms after "
                f"record {expected}, though record {wish.seq} names {wish.move.node}"
            )
