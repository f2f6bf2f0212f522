"""The operator of a fleet: writes the first records, and changes the plan without overlap.

Its own mistakes are no subject here, so it reads the log itself and writes when a leader is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.fleet_records import LeaseRecord, PlanRecord, cut
from emulator.simulation.nats.stream import Proposal, StreamConfig

if TYPE_CHECKING:
    from emulator.simulation.nats.cluster import NatsCluster
    from emulator.simulation.nats.stream import Stream

SOON_NS = 100 * NS_PER_MS
BUDGET = 1_000


def wait_ns(duration_ms: int) -> int:
    """Return after how long an unchanged record is nobody's: D' of the lease algorithm."""
    return duration_ms * NS_PER_MS * 101 // 100 + 500 * NS_PER_MS


STREAMS = (
    StreamConfig("KV_shardfw", ("$KV.shardfw.>",), per_subject=1, allow_direct=True),
    StreamConfig("SHARDFW_EV", ("shardfw.*.ev.>",), memory=True, max_age_ns=300 * NS_PER_S),
)


class Operator:
    """Writes the records of one bot.

    Args:
        cluster: where; the streams are made here.
        bot: its name in keys.
        plan: the first.
    """

    def __init__(self, cluster: NatsCluster, bot: str, plan: PlanRecord) -> None:
        self.cluster, self.plan = cluster, plan
        self._prefix = f"$KV.shardfw.{bot}.ctl."
        for config in STREAMS:
            cluster.add_stream(config)
        self._replanning = False
        self.put("plan", str(plan))
        for slot, (start, count) in enumerate(plan.ranges):
            record = LeaseRecord(epoch=plan.epoch, start=start, count=count, total=plan.total)
            self.put(f"lease.{slot}", str(record))
        for key in range(plan.max_concurrency):
            self.put(f"ident.{key}", "1 - - 0 0")
        self.put("budget", f"1 {BUDGET} {BUDGET} operator 0")

    @property
    def stream(self) -> Stream:
        """The bucket."""
        return self.cluster.streams["KV_shardfw"]

    @property
    def busy(self) -> bool:
        """Whether a change of the plan is under way."""
        return self._replanning

    def replan(self, total: int, slots: int) -> None:
        """Drain, wait until nobody can speak for a shard, then cut the shards anew.

        A second change while one is under way is none.
        """
        if self._replanning:
            return
        self._replanning = True
        drain = replace(self.plan, active=False)
        new = replace(self.plan, epoch=self.plan.epoch + 1, total=total, ranges=cut(total, slots))
        self._drain(drain, new)

    @property
    def may_write(self) -> bool:
        """Whether somebody leads and nothing is in flight that a write would overtake."""
        return self.cluster.leaders["KV_shardfw"] is not None and not self.stream.pending

    def _drain(self, drain: PlanRecord, new: PlanRecord) -> None:
        if self.may_write:
            self.put("plan", str(drain))
            self._await_silence(new)
        else:
            self.cluster.events.after(SOON_NS, lambda: self._drain(drain, new))

    def _await_silence(self, new: PlanRecord) -> None:
        if self._silent and self.may_write:
            self._begin(new)
        else:
            self.cluster.events.after(SOON_NS, lambda: self._await_silence(new))

    @property
    def _silent(self) -> bool:
        """Whether every slot is free, or was held by somebody who must have stopped."""
        silent_ns = self.cluster.events.now_ns - wait_ns(self.plan.duration_ms)
        for slot in range(self._slots):
            seq = self.stream.last_of(f"{self._prefix}lease.{slot}")
            message = self.stream.log[seq - 1]
            if LeaseRecord.parse(message.body).holder is not None and message.at_ns > silent_ns:
                return False
        return True

    def _begin(self, new: PlanRecord) -> None:
        known = {slot: self._lease(slot) for slot in range(self._slots)}
        # Shards change slots, so generations go on from the highest, of slots without a plan too.
        highest = max(record.generation for record in known.values())
        for slot, (start, count) in enumerate(new.ranges):
            old = replace(known.get(slot) or LeaseRecord(), generation=highest)
            self.put(f"lease.{slot}", str(old.freed(new.epoch, start, count, new.total)))
        for slot, old in known.items():
            if slot >= len(new.ranges) and old.holder is not None:
                left = old.freed(old.epoch, old.start, old.count, old.total)
                self.put(f"lease.{slot}", str(left))
        self.put("plan", str(new))
        self.plan = new
        self._replanning = False

    @property
    def _slots(self) -> int:
        """How many slots have a record, those that earlier plans left behind too."""
        slots = len(self.plan.ranges)
        while self.stream.last_of(f"{self._prefix}lease.{slots}"):
            slots += 1
        return slots

    def _lease(self, slot: int) -> LeaseRecord:
        seq = self.stream.last_of(f"{self._prefix}lease.{slot}")
        return LeaseRecord.parse(self.stream.log[seq - 1].body)

    def put(self, key: str, value: str) -> None:
        """Write a record at once.

        Args:
            key: behind `ctl.`.
            value: the record.

        Raises:
            RuntimeError: nobody leads.
        """
        leader = self.cluster.leaders["KV_shardfw"]
        if leader is None:
            raise RuntimeError("an operator writes where somebody leads")
        proposal = Proposal(self._prefix + key, None, value.encode(), "")
        self.stream.pending.append(proposal)
        self.cluster.commit(leader, self.stream, proposal)
