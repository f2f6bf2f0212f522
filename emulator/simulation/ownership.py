"""Who may speak for a shard, judged by two records that no node keeps: NATS's log and the wire.

Every lease record in the log was true from the instant of its commit on. So at any instant a shard has
at most one owner, and a segment to the gateway is lawful if its sender is the owner when it leaves.
That is stronger than "the last segment of an older generation comes before the first of a newer one".
A bare reset is no speech: it answers a segment of a connection that is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.fleet_records import LeaseRecord, PlanRecord
from emulator.simulation.invariants import InvariantError

if TYPE_CHECKING:
    from emulator.simulation.clock import EventQueue
    from emulator.simulation.nats.stream import Message, Stream

Holder = tuple[str, str]
"""Node and boot."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A record that is in force.

    Attributes:
        record: the newest of its slot.
        claimed: sequence of the claim that began it.
        lawful: whether the plan before the claim allowed it; otherwise it must never be used.
    """

    record: LeaseRecord
    claimed: int
    lawful: bool


class Ownership:
    """Follows the log and judges what leaves.

    Args:
        stream: of the bucket.
        bot: whose keys count.
        events: the clock.

    Attributes:
        grants: by slot, what is in force.
        plan: the newest one.
        takeovers: claims of a slot that somebody else held.
        handovers: for each change of the speaker of a shard, shard and seconds of silence.
    """

    def __init__(self, stream: Stream, bot: str, events: EventQueue) -> None:
        self.grants: dict[int, Grant] = {}
        self.plan: PlanRecord | None = None
        self.takeovers = 0
        self.handovers: list[tuple[int, float]] = []
        self._stream, self._events = stream, events
        self._prefix = f"$KV.shardfw.{bot}.ctl."
        self._read = 0
        self._spoke: dict[int, tuple[int, int]] = {}
        self._epoch = 0

    def follow(self) -> None:
        """Read what became true since the last call.

        Raises:
            InvariantError: a record that must not follow its predecessor.
        """
        for message in self._stream.log[self._read :]:
            if message.subject == self._prefix + "plan":
                self.plan = PlanRecord.parse(message.body)
            elif message.subject.startswith(self._prefix + "lease."):
                self._take(int(message.subject.rpartition(".")[2]), message)
        self._read = self._stream.last_seq

    def owner(self, shard: int) -> Grant | None:
        """Return the grant under which a shard may be spoken for, or None."""
        self.follow()
        for grant in self.grants.values():
            if grant.record.holder is not None and grant.record.covers(shard):
                return grant
        return None

    def speaks(self, who: Holder, shard: int, total: int, what: str) -> None:
        """Judge a segment to the gateway at the instant when it leaves.

        Args:
            who: node and boot that send it.
            shard: whose connection it belongs to.
            total: shards of the bot, as the sender believes.
            what: the segment, for the message.

        Raises:
            InvariantError: the sender does not own the shard.
        """
        grant = self.owner(shard)
        if grant is None or grant.record.holder != who:
            holder = "nobody" if grant is None else " ".join(grant.record.holder or ())
            raise InvariantError(
                f"rule 'one owner': {' '.join(who)} sends {what} for shard {shard}, "
                f"whose owner is {holder}"
            )
        if not grant.lawful or total != grant.record.total:
            raise InvariantError(
                f"rule 'plan': {' '.join(who)} sends {what} for shard {shard} of {total} under "
                f"the claim {grant.claimed}, which came behind another plan"
            )
        if grant.record.epoch < self._epoch:
            raise InvariantError(
                f"rule 'plan': shard {shard} of epoch {grant.record.epoch} speaks after one of "
                f"epoch {self._epoch}"
            )
        self._epoch = grant.record.epoch
        last_claim, last_ns = self._spoke.get(shard, (grant.claimed, 0))
        if last_claim > grant.claimed:
            raise InvariantError(
                f"rule 'one owner': shard {shard} speaks under the claim {grant.claimed} after "
                f"one under {last_claim}"
            )
        if last_claim < grant.claimed:
            self.handovers.append((shard, (self._events.now_ns - last_ns) / NS_PER_S))
        self._spoke[shard] = grant.claimed, self._events.now_ns

    def _take(self, slot: int, message: Message) -> None:
        record, before = LeaseRecord.parse(message.body), self.grants.get(slot)
        plan = self.plan
        if before is None or record.holder is None:
            self._check_freed(slot, before, record)
            self.grants[slot] = Grant(record, message.seq, lawful=True)
            return
        old = before.record
        same = record.holder == old.holder and record.generation == old.generation
        if same:
            fixed = ("epoch", "start", "count", "total", "duration_ms")
            if record.op <= old.op or any(getattr(record, n) != getattr(old, n) for n in fixed):
                raise InvariantError(f"rule 'renewal': slot {slot}: {record} after {old}")
            self.grants[slot] = Grant(record, before.claimed, before.lawful)
            return
        if record.generation != old.generation + 1:
            raise InvariantError(f"rule 'generations grow': slot {slot}: {record} after {old}")
        self.takeovers += old.holder is not None
        lawful = plan is not None and plan.active and plan.epoch == record.epoch
        lawful = lawful and plan is not None and (record.start, record.count) in plan.ranges
        self.grants[slot] = Grant(record, message.seq, lawful)

    def _check_freed(self, slot: int, before: Grant | None, record: LeaseRecord) -> None:
        if before is None or record.generation == before.record.generation:
            return
        # A new plan goes on from the highest generation of all slots.
        if record.epoch <= before.record.epoch or record.generation < before.record.generation:
            raise InvariantError(
                f"rule 'generations grow': slot {slot}: {record} after {before.record}"
            )
