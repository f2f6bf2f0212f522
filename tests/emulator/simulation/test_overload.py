"""A fleet's node whose stream takes half of what comes: all shards go on, each more slowly, each alike."""

from __future__ import annotations

from collections import Counter

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.fleet_shape import Shape
from emulator.simulation.leased import LeasedFleet
from firmware.layouts.outbox import OUTBOX

SHARDS = 6
TAKEN = 120
"""Events a second that the stream takes."""
STEPS = 60
"""Of the load in a second."""
EVENT = '{"content":"' + "x" * 900 + '"}'
SOCKET_BYTES = 16_384
"""What the gateway's TCP keeps for a shard; with more in it the gateway says nothing."""
STREAM = "SHARDFW_EV"


class Overload:
    """One node that has every shard, and twice what the stream takes, the same for each shard.

    Args:
        heartbeat_ms: interval of the heartbeats.
    """

    def __init__(self, heartbeat_ms: int) -> None:
        shape = Shape(
            nodes=1, slots=1, total=SHARDS, cap=1, servers=1, max_concurrency=SHARDS
        )  # fmt: skip
        self.fleet = LeasedFleet(5, shape, heartbeat_interval_ms=heartbeat_ms)
        self.fleet.until_owned()
        self.taken: Counter[int] = Counter()
        self.offered = self.held_back = 0
        self.fleet.nats.cluster.on_commit.append(self._count)

    def _count(self, stream, message) -> None:
        if stream.config.name == STREAM:
            self.taken[int(message.subject.split(".")[3])] += 1

    def _is_held_back(self, shard: int) -> bool:
        """Say whether the gateway waits for a shard's TCP, or for the shard."""
        try:
            peer = self.fleet.gateway.peer_of(shard)
        except LookupError:
            return True
        return peer.tcp.sender.backlog > SOCKET_BYTES

    def run(self, seconds: int) -> None:
        cluster, gateway = self.fleet.nats.cluster, self.fleet.gateway
        cluster.apart_ns[STREAM] = NS_PER_S // TAKEN
        self.taken.clear()
        for step in range(seconds * STEPS):
            for n in range(2 * TAKEN // STEPS):
                shard = (step * 2 * TAKEN // STEPS + n) % SHARDS
                self.offered += 1
                if self._is_held_back(shard):
                    self.held_back += 1
                    continue
                session = gateway.core.roster.of_shard(shard)[-1]
                gateway.core.publish(session, "MESSAGE_CREATE", EVENT)
            gateway.flush()
            self.fleet.run(1 / STEPS)

    @property
    def outbox(self):
        return self.fleet.stations[0].node.g(OUTBOX)

    def told(self, *names: str) -> Counter[str]:
        """What the gateway saw of that."""
        return Counter(event.name for event in self.fleet.gateway.events if event.name in names)


@pytest.fixture(scope="module")
def overload():
    """A node after half a minute of it, with three heartbeats of each shard at least."""
    found = Overload(heartbeat_ms=8_000)
    found.run(28)
    return found


def test_it_is_one(overload):
    assert sum(overload.taken.values()) == pytest.approx(28 * TAKEN, rel=0.02)
    # What the outbox and the sockets hold was said and not taken; TCP held the gateway back from the rest.
    assert overload.held_back > overload.offered / 4


def test_no_shard_is_closed(overload):
    assert overload.told("closed", "lost", "resume", "identify") == {"identify": SHARDS}
    assert (overload.outbox.dropped, overload.outbox.overdue) == (0, 0)


def test_each_shard_gets_its_part(overload):
    part = 28 * TAKEN / SHARDS
    assert [overload.taken[n] for n in range(SHARDS)] == pytest.approx([part] * SHARDS, rel=0.1)


def test_heartbeats_go_on_and_are_answered(overload):
    for row in overload.fleet.stations[0].shards:
        assert row.gateway_beats >= 3
        assert row.hb_misses == 0


def test_nothing_is_missing_when_it_is_over(overload):
    overload.fleet.nats.cluster.apart_ns.clear()
    overload.fleet.until_owned()
    overload.fleet.until_published()
    assert overload.fleet.events.repeated == 0
