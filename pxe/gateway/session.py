"""A gateway session: sequence numbers and what a Resume can replay."""

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pxe.gateway.connection import Connection


class Session:
    """One identified shard, with or without a connection.

    Attributes:
        id: Name that Resume gives.
        shard: Shard id.
        intents: Intents of the Identify.
        sequence: ``s`` of the newest dispatch; 0 before READY.
        connection: Where dispatches go now, or None while it waits for a Resume.
        detached_at: Time in ms at which the connection ended, or None.
        acknowledged: Highest sequence that :meth:`acknowledge` was told of.

    Args:
        session_id: See ``id``.
        shard: See ``shard``.
        intents: See ``intents``.
        max_events: Dispatches to keep.
        max_bytes: UTF-8 bytes of dispatches to keep.
    """

    def __init__(
        self, session_id: str, shard: int, intents: int, max_events: int, max_bytes: int
    ) -> None:
        self.id = session_id
        self.shard = shard
        self.intents = intents
        self.sequence = 0
        self.connection: Connection | None = None
        self.detached_at: int | None = None
        self.acknowledged = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._kept: deque[tuple[int, str, int]] = deque()
        self._kept_bytes = 0
        self._floor = 0

    @property
    def replay_floor(self) -> int:
        """The lowest ``seq`` from which nothing is missing."""
        return self._floor

    def next_sequence(self) -> int:
        """Take the next sequence number."""
        self.sequence += 1
        return self.sequence

    def acknowledge(self, sequence: int) -> None:
        """Forget what the client has: it cannot resume from below this any more."""
        while self._kept and self._kept[0][0] <= sequence:
            self._kept_bytes -= self._kept.popleft()[2]
        self.acknowledged = max(self.acknowledged, min(sequence, self.sequence))

    def keep(self, sequence: int, text: str) -> None:
        """Keep a dispatch for Resume and forget the oldest beyond the bounds."""
        size = len(text.encode())
        self._kept.append((sequence, text, size))
        self._kept_bytes += size
        while len(self._kept) > self._max_events or self._kept_bytes > self._max_bytes:
            forgotten, _, forgotten_size = self._kept.popleft()
            self._kept_bytes -= forgotten_size
            self._floor = forgotten

    def can_replay_from(self, sequence: int) -> bool:
        """Say whether every dispatch after ``sequence`` is still kept."""
        return self._floor <= sequence <= self.sequence

    def replay_after(self, sequence: int) -> "Iterator[str]":
        """Give the kept dispatches after ``sequence``, oldest first."""
        return (text for kept, text, _ in self._kept if kept > sequence)
