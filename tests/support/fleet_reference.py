"""A node's part of the lease algorithm in plain Python, with mistakes on request.

It speaks to a simulated NATS without a wire, and its shards speak by telling the judge so. What it is
for: the judge and the faults have to find each mistake, and nothing in a node without one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.fleet_records import LeaseRecord, PlanRecord
from emulator.simulation.nats.client import Ear, Heard
from tests.support.nats_script import CONNECT, cas, watch

if TYPE_CHECKING:
    from emulator.simulation.nats.cluster import NatsCluster
    from emulator.simulation.nats.session import Session
    from emulator.simulation.ownership import Ownership

TICK_NS = 100 * NS_PER_MS
SILENCE_NS = 2_500 * NS_PER_MS
F_NS = 250 * NS_PER_MS
HIDDEN_NS = 1_750 * NS_PER_MS
MISTAKES = ("no-deadline", "half-wait", "before-echo", "late-clock")
"""Deadline check removed; takeover wait halved; start before the echo; renewal time at the answer."""


@dataclass
class Held:
    """A slot that is claimed or held."""

    record: LeaseRecord
    expected: int
    plan_revision: int
    claimed_at: int
    revision: int = 0
    hard_stop: int = 0
    renew_at: int = 0
    running: bool = False
    ops: dict[int, int] = field(default_factory=dict)


class ReferenceNode:
    """One node.

    Args:
        cluster: NATS.
        ownership: told of everything that is said for a shard.
        name: of the node.
        seed: of its own draws.
        cap: slots at once.
        ppm: how much faster its clock runs.
        mistake: one of MISTAKES, or nothing.
    """

    def __init__(
        self, cluster: NatsCluster, ownership: Ownership, name: str, seed: int,
        *, cap: int = 2, ppm: int = 0, mistake: str = "",
    ) -> None:  # fmt: skip
        self.cluster, self.ownership, self.name = cluster, ownership, name
        self.events, self.random = cluster.events, random.Random(f"{name} {seed}")
        self.cap, self.ppm, self.mistake = cap, ppm, mistake
        self.offset_ns = 0
        self.server = self.random.randrange(3)
        self.boots = 0
        self.cut_off = self.halted = False
        self.boot()
        self._tick()

    # -- what may happen to it --------------------------------------------------------------------
    def boot(self) -> None:
        self.boots += 1
        self.boot_text = f"{self.random.getrandbits(32):08x}"
        self.op = self.numbers = 0
        self.held: dict[int, Held] = {}
        self.session: Session | None = None
        self.next_try = 0
        self._forget()

    def halt(self, duration_ns: int, *, freeze: bool = False) -> None:
        if self.halted:
            return
        self.halted = True

        def go_on() -> None:
            self.halted = False
            # A node that finds its RTC ahead of its clock gives everything up.
            if freeze:
                self.offset_ns -= duration_ns
                self.held.clear()

        self.events.after(duration_ns, go_on)

    @property
    def now(self) -> int:
        true_ns = self.events.now_ns
        return true_ns + true_ns * self.ppm // 1_000_000 + self.offset_ns

    # -- NATS -------------------------------------------------------------------------------------
    def _forget(self) -> None:
        self.view: dict[int, tuple[int, LeaseRecord, int]] = {}
        self.plan: PlanRecord | None = None
        self.plan_revision = 0
        self.synced = False
        self.consumer_seq = 0

    def _dial(self) -> None:
        self._hang_up()
        self.server = (self.server + 1) % 3
        self.next_try = self.now + self.random.randrange(50, 500) * NS_PER_MS
        server = self.cluster.servers[self.server]
        if self.cut_off or not server.up:
            return
        ear, boots = Ear(), self.boots

        def write(data: bytes) -> None:
            if not self.cut_off and not self.halted and self.session is session:
                for heard in ear.hear(data):
                    self._take(heard)

        def end() -> None:
            if self.session is session and self.boots == boots:
                self.session = None

        session = server.accept(write, end, end)
        self.session = session
        session.greet()
        self.numbers += 1
        self.deliver = f"_W.{self.name}.{self.numbers}"
        self.heard_at = self.now
        self._say(CONNECT + f"SUB _I.{self.name}.* 1\r\nSUB {self.deliver} 2\r\n".encode())
        self._say(watch(self.deliver, f"_I.{self.name}.w", idle_heartbeat=NS_PER_S))

    def _hang_up(self) -> None:
        self._forget()
        session, self.session = self.session, None
        if session is not None and not self.cut_off:
            session.lost()

    def _say(self, data: bytes) -> None:
        if self.session is not None and not self.cut_off:
            self.session.receive(data)

    def _take(self, heard: Heard) -> None:
        if heard.sid == "1":
            number = heard.subject.rpartition(".")[2]
            if b'"seq":' in heard.body and b'"error"' not in heard.body and number != "w":
                seq = int(heard.body.partition(b'"seq":')[2].split(b"}")[0].split(b",")[0])
                for slot, held in self.held.items():
                    if int(number) in held.ops:
                        self._granted(slot, int(number), seq)
            return
        self.heard_at = self.now
        if not heard.reply:
            if f"Nats-Last-Consumer: {self.consumer_seq}\r".encode() not in heard.header:
                self._hang_up()
            self.synced = self.synced or self.session is not None
            return
        seq, consumer_seq, pending = heard.place
        if consumer_seq != self.consumer_seq + 1:
            self._hang_up()
            return
        self.consumer_seq = consumer_seq
        self.synced = self.synced or pending == 0
        words = heard.subject.split(".")[4:]
        if words == ["plan"]:
            self.plan, self.plan_revision = PlanRecord.parse(heard.body), seq
        elif words[0] == "lease":
            self._see(int(words[1]), seq, LeaseRecord.parse(heard.body))

    def _see(self, slot: int, seq: int, record: LeaseRecord) -> None:
        self.view[slot] = seq, record, self.now
        held = self.held.get(slot)
        if held is None:
            return
        if record.holder == (self.name, self.boot_text):
            self._granted(slot, record.op, seq)
            late = self.plan_revision != held.plan_revision or not self._active
            if not held.running and record.generation == held.record.generation:
                if late:
                    self._release(slot)
                else:
                    held.running = True
        elif held.revision and seq > held.revision:
            del self.held[slot]

    @property
    def _active(self) -> bool:
        return self.plan is not None and self.plan.active

    # -- leases -----------------------------------------------------------------------------------
    def _granted(self, slot: int, op: int, seq: int) -> None:
        held = self.held[slot]
        sent_at = held.ops.pop(op, None)
        held.revision = max(held.revision, seq)
        if sent_at is None:
            return
        if self.mistake == "late-clock":
            sent_at = self.now
        duration_ns = held.record.duration_ms * NS_PER_MS
        held.hard_stop = max(held.hard_stop, sent_at + duration_ns * 99 // 100 - F_NS - HIDDEN_NS)
        held.renew_at = sent_at + duration_ns // 4
        if self.mistake == "before-echo":
            held.running = True

    def _send(self, slot: int, expected: int, record: LeaseRecord) -> None:
        held = self.held[slot]
        held.ops[record.op] = self.now
        subject = f"$KV.shardfw.b1.ctl.lease.{slot}"
        self._say(cas(subject, expected, str(record).encode(), f"_I.{self.name}.{record.op}"))

    def _next(self, **fields: object) -> LeaseRecord:
        self.op += 1
        mine = {"node": self.name, "boot": self.boot_text}
        return LeaseRecord(**{**mine, "op": self.op, **fields})  # type: ignore[arg-type]

    def _claim(self, slot: int, seq: int, old: LeaseRecord) -> None:
        assert self.plan is not None
        record = self._next(
            generation=old.generation + 1, duration_ms=self.plan.duration_ms, epoch=old.epoch,
            start=old.start, count=old.count, total=old.total,
        )  # fmt: skip
        self.held[slot] = Held(record, seq, self.plan_revision, self.now)
        self._send(slot, seq, record)

    def _release(self, slot: int) -> None:
        held = self.held[slot]
        old = held.record
        record = self._next(
            node="-", boot="-", generation=old.generation, epoch=old.epoch,
            start=old.start, count=old.count, total=old.total,
        )  # fmt: skip
        self._send(slot, held.revision, record)
        del self.held[slot]

    def _tick(self) -> None:
        self.events.after(TICK_NS, self._tick)
        if self.halted:
            return
        now = self.now
        for slot, held in list(self.held.items()):
            unsure = not held.revision and now >= held.claimed_at + 2 * NS_PER_S
            over = held.hard_stop and now >= held.hard_stop and self.mistake != "no-deadline"
            if unsure or over:
                del self.held[slot]
            elif held.running:
                for shard in range(held.record.start, held.record.start + held.record.count):
                    who = self.name, self.boot_text
                    self.ownership.speaks(who, shard, held.record.total, "a word")
        if self.session is not None and now >= self.heard_at + SILENCE_NS:
            self._hang_up()
        if self.session is None:
            if now >= self.next_try:
                self._dial()
            return
        if self.synced:
            self._work(now)

    def _work(self, now: int) -> None:
        if not self._active:
            for slot, held in list(self.held.items()):
                if held.revision:
                    self._release(slot)
            return
        assert self.plan is not None
        for slot, held in list(self.held.items()):
            if held.revision and now >= held.renew_at:
                held.renew_at = now + self.random.randrange(600, 1_000) * NS_PER_MS
                fields = ("generation", "duration_ms", "epoch", "start", "count", "total")
                same = {name: getattr(held.record, name) for name in fields}
                self._send(slot, held.revision, self._next(**same))
        if len(self.held) >= self.cap:
            return
        wait_ns = self.plan.duration_ms * NS_PER_MS * 101 // 100 + 2 * F_NS
        if self.mistake == "half-wait":
            wait_ns //= 2
        wait_ns += self.random.randrange(300) * NS_PER_MS
        for slot, (seq, record, seen_at) in self.view.items():
            fits = slot < len(self.plan.ranges) and slot not in self.held
            waited = record.holder is None or now >= seen_at + wait_ns
            if fits and waited and record.epoch == self.plan.epoch:
                self._claim(slot, seq, record)
                return
