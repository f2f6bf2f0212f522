"""A fleet's node in Python, for tests of the operator's tools: the lease algorithm of `firmware/docs/fleet.md`.

It holds slots and runs no shard: "running" is a set of slots, and the moments at which that changes are
kept. Time is this process's monotonic clock. It takes shards that have sessions no further than their
record: it writes one for each shard when a slot starts, as the firmware does at READY.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import nats

from firmware.layouts.fleet import (
    AVOID_MS,
    CLAIM_ANSWER_MS,
    CLAIM_JITTER_MS,
    RENEW_SHARE,
    RETRY_JITTER_MS,
    RETRY_MIN_MS,
)
from pxe.nats import is_wanted
from toolchain.cli.fleet.change import LEASE, PLAN, leases, read, revision
from toolchain.cli.fleet.connect import ConflictError, Fleet, FleetError, UnansweredError
from toolchain.cli.fleet.orders import MOVE, read_order
from toolchain.cli.fleet.records import (
    ACTIVE,
    DRAIN,
    Lease,
    Move,
    Plan,
    hard_stop_s,
    takeover_s,
)
from toolchain.cli.fleet.watch import View

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

TURN_S = 0.02


@dataclass
class Held:
    """A slot that the node holds or claims.

    Attributes:
        lease: Our newest record.
        revision: Its revision; 0 = not granted yet.
        stop_at: When the node must be silent.
        renew_at: When it renews next.
        claimed_at: When the claim was sent.
        plan: Revision of the plan when it was claimed.
        sent: When each operation was sent that is not answered.
        seen: Whether the claim came back on the watch.
        running: Whether its shards run.
    """

    lease: Lease
    claimed_at: float
    plan: int
    revision: int = 0
    stop_at: float = 0.0
    renew_at: float = 0.0
    sent: dict[int, float] = field(default_factory=dict)
    seen: bool = False
    running: bool = False


class FleetNode:
    """One node; use it as `async with`, it runs until the end of the block.

    Args:
        url: A server of NATS.
        bot: The fleet.
        name: The node.
        cap: Slots at once.
        login: More keywords for nats-py.

    Attributes:
        history: "start" or "stop", slot, generation and `time.monotonic()` of each change.
    """

    def __init__(self, url: str, bot: str, name: str, cap: int = 1, **login: str) -> None:
        self.url, self.bot, self.name, self.cap, self.login = url, bot, name, cap, login
        self.boot = f"{random.getrandbits(32):08x}"
        self.history: list[tuple[str, int, int, float]] = []
        self.held: dict[int, Held] = {}
        self.avoid: dict[int, float] = {}
        self._op = 0
        self._claim_at: dict[tuple[int, int, str | None], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect and begin."""
        client = await nats.connect(
            self.url, name=self.name, inbox_prefix=f"_I.{self.name}.{self.boot}", **self.login
        )
        self.fleet = Fleet(client, self.bot)
        self.view = View(self.fleet, deliver=lambda n: f"_W.{self.name}.{self.boot}.{n}")
        self._main = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it as a crash would: nothing is given back."""
        tasks = [*self._tasks, *([] if self._main is None else [self._main])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.fleet.client.close()

    @property
    def running(self) -> set[int]:
        """Return the slots whose shards run."""
        return {slot for slot, held in self.held.items() if held.running}

    async def runs(self, slots: set[int], timeout: float = 30) -> None:
        """Wait until exactly these slots run.

        Raises:
            AssertionError: They do not in time.
        """
        try:
            async with asyncio.timeout(timeout):
                while self.running != slots:
                    assert self._main is not None
                    assert not self._main.done(), f"{self.name} ended: {self._main}"
                    await asyncio.sleep(TURN_S)
        except TimeoutError:
            raise AssertionError(
                f"{self.name} runs {self.running}, not {slots}: {self.history}"
            ) from None

    async def _run(self) -> None:
        while is_wanted():
            self._guard()
            await self.view.pump(TURN_S)
            self._guard()
            self._read()
            self._start()
            self._release()
            self._renew()
            self._claim()

    def _guard(self) -> None:
        """Fall silent where the lease is over, before anything else is done."""
        now = time.monotonic()
        for slot, held in list(self.held.items()):
            unanswered = not held.revision and now >= held.claimed_at + CLAIM_ANSWER_MS / 1000
            if unanswered or (held.revision and now >= held.stop_at):
                self._drop(slot)

    def _drop(self, slot: int) -> None:
        held = self.held.pop(slot)
        if held.running:
            self.history.append(("stop", slot, held.lease.generation, time.monotonic()))

    def _read(self) -> None:
        """Take what the watch shows of our slots: grants, and losses."""
        for slot, held in list(self.held.items()):
            seen = self.view.records.get(f"{LEASE}{slot}")
            lease = leases(self.view).get(slot)
            if seen is None or lease is None or seen.revision < held.revision:
                continue
            if (lease.node, lease.boot) == (self.name, self.boot):
                if lease.op in held.sent:
                    self._granted(slot, lease.op, seen.revision)
                held.seen = held.seen or lease.generation == held.lease.generation
            elif held.revision and seen.revision > held.revision:
                self._drop(slot)

    def _granted(self, slot: int, op: int, granted: int) -> None:
        held = self.held.get(slot)
        if held is None or op not in held.sent or granted < held.revision:
            return
        sent = held.sent.pop(op)
        held.revision = granted
        held.stop_at = max(held.stop_at, sent + hard_stop_s(held.lease.duration_ms))
        held.renew_at = sent + held.lease.duration_ms / 1000 / RENEW_SHARE

    @property
    def _plan(self) -> Plan | None:
        return read(self.view, PLAN, Plan)

    def _start(self) -> None:
        for slot, held in self.held.items():
            if held.seen and held.revision and not held.running and not self._wants_back(slot):
                held.running = True
                self.history.append(("start", slot, held.lease.generation, time.monotonic()))
                self._task(self._save(held.lease))

    async def _save(self, lease: Lease) -> None:
        for shard in range(lease.slot.start, lease.slot.end):
            text = f"1 {lease.generation} {lease.total} 7 session{shard} wss://gateway.lan"
            subject = f"$KV.shardfw.{self.bot}.sess.{shard}"
            await self.fleet.client.publish(subject, text.encode())

    def _wants_back(self, slot: int) -> bool:
        """Return whether plan or operator ask for a slot that we hold."""
        held, plan = self.held[slot], self._plan
        if plan is None:
            return False
        changed = plan.mode == DRAIN or revision(self.view, PLAN) != held.plan
        if changed or read_order(self.view, self.name) == DRAIN:
            return True
        move = self._move(slot, held.lease.generation)
        return move is not None and move != self.name

    def _move(self, slot: int, generation: int) -> str | None:
        seen = self.view.records.get(f"{MOVE}{slot}")
        if seen is None:
            return None
        with contextlib.suppress(ValueError):
            wish = Move.parse(seen.value)
            return wish.node if wish.generation == generation else None
        return None

    def _release(self) -> None:
        for slot, held in list(self.held.items()):
            if held.seen and held.revision and self._wants_back(slot):
                # The shards are silent before anybody is told.
                self._drop(slot)
                self.avoid[slot] = time.monotonic() + AVOID_MS / 1000
                self._op += 1
                self._task(self._write(slot, held.lease.freed(self._op), held.revision))

    def _renew(self) -> None:
        now = time.monotonic()
        for slot, held in self.held.items():
            if held.revision and now >= held.renew_at:
                held.renew_at = now + (RETRY_MIN_MS + random.random() * RETRY_JITTER_MS) / 1000
                self._send(slot, held, held.revision)

    def _send(self, slot: int, held: Held, expected: int) -> None:
        self._op += 1
        lease = held.lease
        held.lease = Lease(
            self.name, self.boot, lease.generation, self._op, lease.duration_ms,
            lease.epoch, lease.slot, lease.total,
        )  # fmt: skip
        held.sent[self._op] = time.monotonic()
        self._task(self._write(slot, held.lease, expected))

    async def _write(self, slot: int, lease: Lease, expected: int) -> None:
        # A refusal or silence changes nothing: the watch tells what happened.
        with contextlib.suppress(ConflictError, UnansweredError, FleetError):
            granted = await self.fleet.swap(f"{LEASE}{slot}", lease, expected)
            if lease.held:
                self._granted(slot, lease.op, granted)

    def _claim(self) -> None:
        plan = self._plan
        draining = read_order(self.view, self.name) == DRAIN
        if not self.view.synced or plan is None or plan.mode != ACTIVE or draining:
            return
        now = time.monotonic()
        for slot, lease in leases(self.view).items():
            if len(self.held) >= self.cap:
                return
            seen = self.view.records[f"{LEASE}{slot}"]
            if slot in self.held or slot >= len(plan.slots):
                continue
            wish = self._move(slot, lease.generation)
            at = self._claim_at.setdefault(
                (slot, seen.revision, wish), seen.at + self._patience(slot, lease, wish)
            )
            if now < at:
                continue
            self._op += 1
            held = Held(
                Lease(
                    self.name, self.boot, lease.generation + 1, self._op, plan.duration_ms,
                    plan.epoch, plan.slots[slot], plan.total,
                ),
                now,
                revision(self.view, PLAN),
                sent={self._op: now},
            )  # fmt: skip
            self.held[slot] = held
            self._task(self._write(slot, held.lease, seen.revision))

    def _patience(self, slot: int, lease: Lease, wish: str | None) -> float:
        """Return how long a record must stay as it is until we claim its slot."""
        least = takeover_s(lease.duration_ms) if lease.held else 0.0
        if wish == self.name:
            return least
        jitter = random.random() * CLAIM_JITTER_MS / 1000
        seen = self.view.records[f"{LEASE}{slot}"]
        avoid = max(self.avoid.get(slot, 0.0) - seen.at, 0.0)
        return max(least, avoid) + jitter + (AVOID_MS / 1000 if wish is not None else 0.0)

    def _task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
