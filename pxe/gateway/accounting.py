"""What the gateway counts, so that a node's own figures can be held against it."""

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class ShardStats:
    """Counts of one shard since the gateway started.

    Attributes:
        shard: Shard id.
        connected: Whether a session of the shard has a connection now.
        session_id: Id of the newest session, or None.
        sequence: ``s`` of the newest dispatch of the newest session.
        published: Dispatches numbered for sessions of the shard, sent or only kept for Resume.
        dispatches: Op 0 messages handed to a live connection, replays included.
        replayed: The part of ``dispatches`` that a Resume replayed.
        load_counter: Last payload counter that the load generator used.
        connections: Connections that identified as this shard or resumed it.
        identifies: Identifies accepted.
        resumes: Resumes accepted.
        heartbeats: Heartbeats received.
        acks: Heartbeat ACKs sent.
        commands: Messages of the application received: presence, voice, requests.
        last_beat: ``d`` of the last heartbeat.
        beats_ahead: Heartbeats that named a sequence never sent.
        invalid_sessions: Op 9 sent.
        reconnect_requests: Op 7 sent.
        duplicate_sessions: Identifies while another session of the shard was connected.
        closes: Close code to count; "abort" is a reset by us, "lost" an end without a code.
    """

    shard: int
    connected: bool = False
    session_id: str | None = None
    sequence: int = 0
    published: int = 0
    dispatches: int = 0
    replayed: int = 0
    load_counter: int = 0
    connections: int = 0
    identifies: int = 0
    resumes: int = 0
    heartbeats: int = 0
    acks: int = 0
    commands: int = 0
    last_beat: int | None = None
    beats_ahead: int = 0
    invalid_sessions: int = 0
    reconnect_requests: int = 0
    duplicate_sessions: int = 0
    closes: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, object]:
        """Return a copy that ``json.dumps`` takes."""
        plain = {name.name: getattr(self, name.name) for name in fields(self)}
        return plain | {"closes": dict(self.closes)}


@dataclass(slots=True)
class GatewayStats:
    """Counts of the whole gateway.

    Attributes:
        shards: One entry for each shard id, in order.
        connections: Connections opened.
        open_connections: Connections open now.
        refused: Connections that ended before they had a session, by close code.
        identify_gate_refusals: Identifies that broke the gate.
        overlaps: Times in which two connections spoke for one shard; see the ownership module.
        session_starts_left: Identifies left in the present 24 hours.
    """

    shards: list[ShardStats]
    connections: int = 0
    open_connections: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    identify_gate_refusals: int = 0
    overlaps: int = 0
    session_starts_left: int = 0

    def total(self, name: str) -> int:
        """Return the sum of one numeric field over all shards."""
        return sum(int(getattr(shard, name)) for shard in self.shards)

    def to_dict(self) -> dict[str, object]:
        """Return a copy that ``json.dumps`` takes."""
        plain = {name.name: getattr(self, name.name) for name in fields(self)}
        plain["refused"] = dict(self.refused)
        plain["shards"] = [shard.to_dict() for shard in self.shards]
        return plain
