"""Who spoke for each shard, and when: what shows that no two nodes ran one shard.

The gateway feeds it with what it received, never with what it sent or believes::

    async with GatewayServer(GatewayOptions(shards=16)) as server:
        ...
        assert server.core.ownership.overlaps == []

A connection speaks for a shard from its first Identify or Resume on, accepted or not. Two of them
overlap when a message of the older one is received after the newer one's Identify or Resume. That is
evidence of two senders. A connection of a node that died, which nobody has ended yet, is none; nor is
its end: a close frame says that a connection is over, and is read when the transport goes.
"""

from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from pxe.gateway.clock import Clock

if TYPE_CHECKING:
    from pxe.gateway.connection import Connection

TENURES_KEPT: Final = 1024
"""Tenures that are remembered of each shard, the newest."""


@dataclass(slots=True)
class Tenure:
    """The time for which one connection spoke for one shard; times in ms of the gateway's clock.

    Attributes:
        shard: Shard id.
        connection: Number of the connection.
        peer: Address and port that it came from, or empty when the driver does not know.
        began_ms: When its first Identify or Resume was received.
        heard_ms: When its last message was received.
        ended_ms: When either side ended it, or None.
        order: Counts the tenures of the gateway.
    """

    shard: int
    connection: int
    peer: str
    began_ms: int
    heard_ms: int
    ended_ms: int | None
    order: int


@dataclass(slots=True)
class Overlap:
    """A time in which two connections spoke for one shard.

    Attributes:
        shard: Shard id.
        older: Number of the connection that should have been silent.
        newer: Number of the one that had come after it.
        older_peer: Address and port of the older one.
        newer_peer: Address and port of the newer one.
        from_ms: When the newer one's Identify or Resume was received.
        to_ms: When the last message of the older one was received.
        messages: How many messages of the older one came after ``from_ms``.
    """

    shard: int
    older: int
    newer: int
    older_peer: str
    newer_peer: str
    from_ms: int
    to_ms: int
    messages: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return a copy that ``json.dumps`` takes."""
        return asdict(self)


class OwnershipRecord:
    """Tenures of all shards and their overlaps.

    Attributes:
        overlaps: Every overlap, in the order in which they began.

    Args:
        clock: Of the gateway.
    """

    def __init__(self, clock: Clock) -> None:
        self.overlaps: list[Overlap] = []
        self._clock = clock
        self._count = 0
        self._by_shard: dict[int, deque[Tenure]] = {}
        self._speaking: dict[int, Tenure] = {}
        self._pairs: dict[tuple[int, int], Overlap] = {}

    def tenures(self, shard: int) -> list[Tenure]:
        """Return the tenures of a shard, oldest first."""
        return list(self._by_shard.get(shard, ()))

    def begin(self, connection: "Connection") -> None:
        """Note an Identify or a Resume; nothing when the connection spoke for its shard already."""
        if connection.shard is None or connection.number in self._speaking:
            return
        now = self._clock.now_ms()
        self._count += 1
        tenure = Tenure(
            connection.shard, connection.number, connection.peer, now, now, None, self._count
        )
        self._speaking[connection.number] = tenure
        self._by_shard.setdefault(connection.shard, deque(maxlen=TENURES_KEPT)).append(tenure)

    def heard(self, connection: "Connection") -> list[Overlap]:
        """Note a message of a client, before it is looked at; return the overlaps that it began."""
        tenure = self._speaking.get(connection.number)
        if tenure is None:
            return []
        tenure.heard_ms = self._clock.now_ms()
        began = []
        for newer in reversed(self._by_shard[tenure.shard]):
            if newer.order <= tenure.order:
                break
            began += self._note(tenure, newer)
        return began

    def end(self, connection: "Connection") -> None:
        """Note that either side ended a connection; what still comes from it counts."""
        tenure = self._speaking.get(connection.number)
        if tenure is not None and tenure.ended_ms is None:
            tenure.ended_ms = self._clock.now_ms()

    def forget(self, connection: "Connection") -> None:
        """Note that the transport of a connection is gone: nothing comes from it any more."""
        self._speaking.pop(connection.number, None)

    def _note(self, older: Tenure, newer: Tenure) -> list[Overlap]:
        key = older.order, newer.order
        found = self._pairs.get(key)
        began = []
        if found is None:
            found = self._pairs[key] = Overlap(
                older.shard,
                older.connection,
                newer.connection,
                older.peer,
                newer.peer,
                newer.began_ms,
                older.heard_ms,
            )
            self.overlaps.append(found)
            began.append(found)
        found.to_ms = older.heard_ms
        found.messages += 1
        return began
