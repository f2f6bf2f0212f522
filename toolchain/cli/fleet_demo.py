"""`shardfw run --fleet N --demo-takeover`: a slot is moved, then a node is killed; what came of both."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from firmware.layouts.fleet import AVOID_MS, CLOCK_RATE_PERCENT
from toolchain.cli.fleet.records import takeover_s
from toolchain.cli.fleet_events import EventAccount
from toolchain.cli.runner import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pxe.gateway.events import GatewayEvent
    from toolchain.cli.fleet.records import Lease
    from toolchain.cli.fleet_events import Key
    from toolchain.cli.fleet_runner import FleetRunner, Machine

SLOT: Final = 0
"""The slot that is moved; who has it then is killed."""
IDENTIFY_S = 6
SLACK_S = 60.0
BOUND_S: Final = 2.0
"""For guards, jitter, claim and connection, beyond the lease itself."""
FLOW_S = 2.0
"""So long events go on before and behind what is done."""
MOVE_S, SETTLE_POLL_S = 60.0, 0.1
SETTLE_S, SETTLE_MAX_S = 20.0, 120.0
"""A shard that finds no room resumes after 10 s and gets all again: what comes late is not lost."""


@dataclass
class Sessions:
    """The sessions that shards get, as the gateway tells it.

    Attributes:
        told: `time.monotonic()`, shard, and `ready` or `resumed`, of each.
    """

    told: list[tuple[float, int, str]] = field(default_factory=list)

    def take(self, event: GatewayEvent) -> None:
        """Take what the gateway tells."""
        if event.shard is not None and event.name in ("ready", "resumed"):
            self.told.append((time.monotonic(), event.shard, event.name))


@dataclass
class Passage:
    """Shards on their way from one node to others.

    Attributes:
        sessions: What the gateway tells.
        shards: Which are on their way.
        since: `time.monotonic()` when it was ordered, or the node killed.
    """

    sessions: Sessions
    shards: frozenset[int]
    since: float = field(default_factory=time.monotonic)

    @property
    def arrived(self) -> dict[int, float]:
        """Return when each shard that got a session got it, the newest."""
        return {
            shard: at
            for at, shard, _ in self.sessions.told
            if at > self.since and shard in self.shards
        }

    @property
    def connected_s(self) -> float:
        """Return the seconds until the last one got its session."""
        return max(self.arrived.values()) - self.since

    def count(self, name: str) -> int:
        """Return how many sessions were `ready` (begun) or `resumed`."""
        return sum(
            at > self.since and shard in self.shards and name == how
            for at, shard, how in self.sessions.told
        )


class Demonstration:
    """What is done to a fleet that runs, and what is measured.

    Attributes:
        account: What was published and what a reader got.

    Args:
        runner: The fleet.
        say: Called with each step, for people.
    """

    def __init__(self, runner: FleetRunner, say: Callable[[str], None]) -> None:
        self._runner, self._say = runner, say
        self._core = runner.core
        self.account = EventAccount()
        self._sessions = Sessions()
        self._planned: frozenset[Key] = frozenset()

    async def run(self, timeout: float) -> dict[str, Any]:
        """Move a slot, kill its new holder, and return what came of it.

        Args:
            timeout: Seconds until all slots must be held first.

        Raises:
            RunError: The fleet does not start, or nobody takes over.
            FleetError: NATS does not do what it should.
        """
        self._core.observer = self._sessions.take
        self._core.roster.on_keep = self.account.published
        reading = asyncio.ensure_future(self._runner.read_events(self.account))
        try:
            await self._runner.until_owned(timeout)
            await asyncio.sleep(FLOW_S)
            handover = await self._hand_over()
            takeover = await self._take_over()
            await asyncio.sleep(FLOW_S)
            self._core.set_load(None)
            await self.settle()
            if reading.done():
                await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        options = self._runner.options
        return {
            "nodes": options.nodes,
            "shards": options.total,
            "slots": options.slots,
            "lease_ms": options.lease_ms,
            "events": len(self.account.sent),
            "overlaps": len(self._core.ownership.overlaps),
            "lost_events": len(self.account.missing),
            "doubled_events": self.account.doubled,
            **handover,
            "handover_lost_events": len(self._planned & self.account.missing),
            **takeover,
            "identify_gate_refusals": self._runner.gateway.identify_gate_refusals,
        }

    async def _hand_over(self) -> dict[str, Any]:
        """Move a slot to another node as an operator does."""
        runner = self._runner
        before = runner.holders()
        giver, taker = self._machine(before[SLOT].node), self._freest(before)
        self._say(f"slot {SLOT} is asked to go from {giver.label} to {taker.label}")
        passage = Passage(self._sessions, _shards(before[SLOT]))
        await runner.ask_move(SLOT, taker.name)
        await self._until_connected(passage, MOVE_S)
        await runner.until(
            lambda: SLOT in runner.holders(), MOVE_S, lambda: f"nobody holds slot {SLOT}"
        )
        holder = runner.label_of(runner.holders()[SLOT].node)
        self._say(f"{holder} has its shards after {1000 * passage.connected_s:.0f} ms")
        await asyncio.sleep(FLOW_S)
        self._planned = await self.settle()
        return {
            "handover_from": giver.label,
            "handover_to": holder,
            "handover_shards": len(passage.shards),
            "handover_s": round(passage.connected_s, 3),
            "handover_resumed": passage.count("resumed"),
            "handover_identified": passage.count("ready"),
            "handover_doubled_events": self.account.doubled,
        }

    async def _take_over(self) -> dict[str, Any]:
        """Kill a node and wait until its shards are connected again."""
        runner = self._runner
        before = runner.holders()
        victim = self._machine(before[SLOT].node)
        lost = {slot: lease for slot, lease in before.items() if lease.node == victim.name}
        shards = frozenset[int]().union(*map(_shards, lost.values()))
        names = ", ".join(map(str, lost))
        # Who is killed before it has saved a session leaves nothing to resume.
        await runner.until_saved(lost)
        self._say(f"{victim.label} holds slots {names} and is killed")
        renewed = {slot: runner.written_at(slot) for slot in lost}
        passage = Passage(self._sessions, shards)
        victim.node.process.kill()
        claimed: dict[int, float] = {}

        def taken() -> bool:
            held = runner.holders()
            for slot, lease in lost.items():
                if slot in held and held[slot].generation == lease.generation:
                    renewed[slot] = runner.written_at(slot)
                elif slot in held:
                    claimed.setdefault(slot, runner.written_at(slot))
            return claimed.keys() == lost.keys()

        wait = takeover_s(runner.options.lease_ms) + AVOID_MS / 1000 + SLACK_S
        await runner.until(taken, wait, lambda: f"nobody took slots {names}")
        claimed_s = max(claimed.values()) - passage.since
        takers = {slot: runner.label_of(runner.holders()[slot].node) for slot in lost}
        self._say(f"taken after {claimed_s:.1f} s by {', '.join(sorted(set(takers.values())))}")
        await self._until_connected(passage, SLACK_S + IDENTIFY_S * len(shards))
        at = passage.arrived
        away = [max(at[n] for n in _shards(lost[slot])) - renewed[slot] for slot in lost]
        return {
            "victim": victim.label,
            "takers": {str(slot): label for slot, label in takers.items()},
            "moved_shards": len(shards),
            "takeover_s": round(passage.connected_s, 3),
            "renewal_to_connected_s": round(max(away), 3),
            "takeover_bound_s": takeover_bound_s(runner.options.lease_ms),
            "kill_to_claim_ms": round(1000 * claimed_s),
            "kill_to_connected_ms": round(1000 * passage.connected_s),
            "resumed": passage.count("resumed"),
            "identified": passage.count("ready"),
        }

    def _machine(self, name: str) -> Machine:
        """Return a node of this run.

        Raises:
            RunError: There is none of that name.
        """
        found = next((m for m in self._runner.machines if m.name == name), None)
        if found is None:
            raise RunError(f"slot {SLOT} is held by {name}, which is no node of this run")
        return found

    def _freest(self, held: dict[int, Lease]) -> Machine:
        """Return the node with the fewest slots that is not the holder of the slot to be moved."""
        owners = [lease.node for lease in held.values()]
        others = (m for m in self._runner.machines if m.alive and m.name != held[SLOT].node)
        return min(others, key=lambda machine: owners.count(machine.name))

    async def _until_connected(self, passage: Passage, timeout: float) -> None:
        """Wait until each shard has got a session since a passage began.

        Raises:
            RunError: That took too long.
        """

        def back() -> bool:
            now = self._runner.gateway.shards
            return passage.arrived.keys() == passage.shards and all(
                now[shard].connected for shard in passage.shards
            )

        await self._runner.until(back, timeout, lambda: "not all of its shards are connected again")

    async def settle(self) -> frozenset[Key]:
        """Wait until the reader has got all that was published until now; return that.

        What it has not got when nothing of it came for SETTLE_S is taken for lost.
        """
        sent = frozenset(self.account.sent)
        left, began = len(sent), time.monotonic()
        came = began
        while left and time.monotonic() < min(came + SETTLE_S, began + SETTLE_MAX_S):
            await asyncio.sleep(SETTLE_POLL_S)
            now = len(sent & self.account.missing)
            if now < left:
                left, came = now, time.monotonic()
        return sent


def _shards(lease: Lease) -> frozenset[int]:
    return frozenset(range(lease.slot.start, lease.slot.end))


def takeover_bound_s(lease_ms: int) -> float:
    """Return how long after the last renewal of a node that died others have its shards, at most."""
    return round((100 + CLOCK_RATE_PERCENT) / 100 * lease_ms / 1000 + BOUND_S, 2)


def faults(report: dict[str, Any]) -> list[str]:
    """Return what must not be and is, as sentences; none when a fleet did as it should.

    Events may be missing when a node died and a session could not be resumed; else none is lost.
    """
    found = []
    if report["overlaps"]:
        found.append(f"two connections spoke for one shard, {report['overlaps']} times")
    if report["handover_lost_events"]:
        found.append(f"the planned hand-over lost {report['handover_lost_events']} events")
    if report["lost_events"] and not report["identified"]:
        found.append(f"{report['lost_events']} events are lost though every session was resumed")
    if report["doubled_events"]:
        found.append(f"a reader got {report['doubled_events']} events twice")
    if report["identify_gate_refusals"]:
        found.append(f"{report['identify_gate_refusals']} Identifies came too soon")
    return found


def rows(report: dict[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Give what people read: what, of the planned hand-over, of the takeover."""
    lost, doubled = "handover_lost_events", "handover_doubled_events"
    yield "from", report["handover_from"], f"{report['victim']}, killed"
    yield "to", report["handover_to"], ", ".join(sorted(set(report["takers"].values())))
    yield "slots", str(SLOT), ", ".join(report["takers"])
    yield "shards", str(report["handover_shards"]), str(report["moved_shards"])
    yield "claimed after", "", f"{report['kill_to_claim_ms'] / 1000:.2f} s"
    yield "connected after", f"{report['handover_s']:.2f} s", f"{report['takeover_s']:.2f} s"
    bound = f"{report['renewal_to_connected_s']:.2f} s, bound {report['takeover_bound_s']:g} s"
    yield "after the last renewal", "", bound
    yield "resumed", str(report["handover_resumed"]), str(report["resumed"])
    yield "identified", str(report["handover_identified"]), str(report["identified"])
    yield "lost events", str(report[lost]), str(report["lost_events"] - report[lost])
    yield "doubled events", str(report[doubled]), str(report["doubled_events"] - report[doubled])


def sentence(report: dict[str, Any]) -> str:
    """Return what a report says of the whole run."""
    return (
        f"{report['events']} events, {report['lost_events']} lost, {report['doubled_events']} doubled; "
        f"{report['overlaps']} overlaps"
    )
