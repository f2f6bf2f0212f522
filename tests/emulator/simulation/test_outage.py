"""A fleet's node whose stream has no leader for a while: seconds cost no connection, a minute no session."""

from __future__ import annotations

from collections import Counter

from emulator.simulation.fleet_shape import Shape
from emulator.simulation.leased import LeasedFleet
from emulator.simulation.node_facts import NodeFacts
from firmware.layouts.policy import Policy
from firmware.layouts.shard import ShardState, Stop

STREAM = "SHARDFW_EV"


class Outage:
    """One node that has every shard, and a stream of events that takes nothing until it is over.

    Args:
        shards: how many.
        delay_ms: from the node to the others, and back.
        facts: of the node.
    """

    def __init__(self, shards: int, *, delay_ms: int = 0, facts: NodeFacts | None = None) -> None:
        shape = Shape(nodes=1, slots=1, total=shards, cap=1, servers=1, max_concurrency=shards)
        self.fleet = LeasedFleet(5, shape, facts=facts, heartbeat_interval_ms=41_250)
        self.fleet.until_owned()
        if delay_ms:
            self.fleet.segment.set_faults(
                f"delay by={delay_ms}ms from=node0; delay by={delay_ms}ms to=node0"
            )
        leaders = self.fleet.nats.cluster.leaders
        self._leader, leaders[STREAM] = leaders[STREAM], None

    def say(self, events: int, size: int, *shards: int) -> None:
        """Let each of these shards have so many events, of so many bytes."""
        gateway, body = self.fleet.gateway, '{"content":"' + "x" * size + '"}'
        for _ in range(events):
            for shard in shards:
                session = gateway.core.roster.of_shard(shard)[-1]
                gateway.core.publish(session, "MESSAGE_CREATE", body)
        gateway.flush()

    def end(self) -> None:
        """Let it be over; wait until the stream has everything that was said."""
        self.fleet.nats.cluster.leaders[STREAM] = self._leader
        self.fleet.until_owned()
        self.fleet.until_published()

    def told(self, *names: str) -> Counter[str]:
        """What the gateway saw of that."""
        return Counter(event.name for event in self.fleet.gateway.events if event.name in names)


def test_some_seconds_cost_no_connection():
    """More shards than buffers are in the middle of a message when the outbox is full."""
    outage = Outage(6)
    outage.say(8, 30_000, *range(6))
    outage.fleet.run(7)
    outage.end()
    assert outage.told("identify", "closed", "lost", "resume") == {"identify": 6}
    assert outage.fleet.events.repeated == 0


def test_a_minute_costs_no_session():
    """A replay is more than the outbox holds: RESUMED comes when the stream takes it."""
    outage = Outage(1, delay_ms=25)
    outage.say(150, 8_000, 0)
    outage.fleet.run(60)
    outage.end()
    told = outage.told("identify", "resume")
    assert told["identify"] == 1
    # Three that were broken off, and one that was not.
    assert told["resume"] >= 4


def test_an_outage_takes_steps_of_a_schedule():
    """A schedule counts each close, whoever is to blame; behind its last delay the shard gives up."""
    facts = NodeFacts(policy=Policy.SCHEDULE, schedule_ms=(1_000, 1_000))
    outage = Outage(1, delay_ms=25, facts=facts)
    outage.say(150, 8_000, 0)
    outage.fleet.run(60)
    ((_, row),) = outage.fleet.rows_of(0)
    assert (row.state, row.evidence_stop) == (ShardState.FATAL, Stop.SCHEDULE_ENDED)
    assert outage.told("closed", "resume") == {"closed": 3, "resume": 2}


def test_an_attempt_shorter_than_a_stall_hears_its_ready():
    """Shard 0 fills the outbox; the session of shard 1 is over, and it needs one Identify."""
    outage = Outage(2, facts=NodeFacts(attempt_timeout_ms=5_000))
    outage.say(150, 8_000, 0)
    outage.fleet.run(1)
    outage.fleet.gateway.core.invalidate(1, resumable=False)
    outage.fleet.gateway.flush()
    outage.fleet.run(29)
    assert outage.told("identify") == {"identify": 3}
    outage.end()
