"""The sessions of the bot, the connections that carry them, and their accounts."""

from random import Random
from typing import TYPE_CHECKING

from pxe.gateway.accounting import ShardStats
from pxe.gateway.envelope import Envelopes
from pxe.gateway.options import GatewayOptions
from pxe.gateway.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pxe.gateway.connection import Connection


class Roster:
    """Sessions by id and by shard.

    Attributes:
        stats: One account for each shard, in order.
        on_keep: Called with session, sequence and JSON text of ``d`` of each dispatch that a Resume
            would repeat, or None.

    Args:
        options: Shard count and bounds of replay.
        rng: Source of session ids.
        envelopes: Writes dispatches.
    """

    def __init__(self, options: GatewayOptions, rng: Random, envelopes: Envelopes) -> None:
        self.stats = [ShardStats(shard) for shard in range(options.shards)]
        self.on_keep: Callable[[Session, int, str], None] | None = None
        self._options = options
        self._rng = rng
        self._envelopes = envelopes
        self._by_id: dict[str, Session] = {}
        self._by_shard: list[list[Session]] = [[] for _ in range(options.shards)]

    def grow(self, shards: int) -> None:
        """Keep accounts of so many shards; those that are kept already stay."""
        for shard in range(len(self.stats), shards):
            self.stats.append(ShardStats(shard))
            self._by_shard.append([])

    def create(self, shard: int, intents: int) -> Session:
        """Make a session; an older one of the shard stays, as with the service."""
        options = self._options
        session_id = f"{self._rng.getrandbits(128):032x}"
        session = Session(session_id, shard, intents, options.replay_events, options.replay_bytes)
        stats = self.stats[shard]
        stats.duplicate_sessions += any(s.connection for s in self._by_shard[shard])
        stats.identifies += 1
        stats.session_id = session_id
        stats.sequence = 0
        self._by_id[session_id] = session
        self._by_shard[shard].append(session)
        return session

    def find(self, session_id: str) -> Session | None:
        """Return a session that still lives, or None."""
        return self._by_id.get(session_id)

    def all(self) -> list[Session]:
        """Return every session, oldest first."""
        return list(self._by_id.values())

    def of_shard(self, shard: int) -> list[Session]:
        """Return the sessions of one shard, oldest first."""
        return list(self._by_shard[shard]) if 0 <= shard < len(self._by_shard) else []

    def shards_with_session(self) -> list[int]:
        """Return the shards that have a session, connected or not, in order."""
        return [shard for shard, sessions in enumerate(self._by_shard) if sessions]

    def attach(self, session: Session, connection: "Connection") -> None:
        """Let a connection carry a session."""
        session.connection = connection
        session.detached_at = None
        connection.session = session
        connection.shard = session.shard
        self.stats[session.shard].connections += 1
        self._note_connected(session.shard)

    def detach(self, session: Session, now_ms: int) -> None:
        """Take a session off its connection; its life without one begins."""
        if session.connection is not None:
            session.connection.session = None
        session.connection = None
        session.detached_at = now_ms
        self._note_connected(session.shard)

    def drop(self, session: Session) -> None:
        """Forget a session; its connection, if any, has none from now on."""
        if self._by_id.pop(session.id, None) is None:
            return
        self._by_shard[session.shard].remove(session)
        if session.connection is not None:
            session.connection.session = None
            session.connection = None
        self._note_connected(session.shard)

    def publish(self, session: Session, event: str, body: str) -> int:
        """Number a dispatch, keep it for Resume and send it when there is a connection.

        Args:
            session: Receiver.
            event: Dispatch name.
            body: JSON text of ``d``.

        Returns:
            Its sequence number.
        """
        sequence = session.next_sequence()
        text = self._envelopes.dispatch(event, sequence, body)
        if self._is_kept(event, text):
            session.keep(sequence, text)
            if self.on_keep is not None:
                self.on_keep(session, sequence, body)
        stats = self.stats[session.shard]
        stats.published += 1
        if session.id == stats.session_id:
            stats.sequence = sequence
        if session.connection is not None:
            stats.dispatches += 1
            session.connection.send(text)
        return sequence

    def replay(self, session: Session, connection: "Connection", sequence: int) -> int:
        """Continue a session on a connection: the missing dispatches, then RESUMED.

        Args:
            session: A session that can replay from ``sequence``.
            connection: Takes the session over.
            sequence: The last ``s`` that the client has.

        Returns:
            The number of dispatches replayed.
        """
        self.attach(session, connection)
        replay = list(session.replay_after(sequence))
        for text in replay:
            connection.send(text)
        number = session.next_sequence() if self._options.resumed_advances else session.sequence
        body = '{"_trace":["shardfw"]}' if self._options.profile.has_intents else "{}"
        connection.send(self._envelopes.dispatch("RESUMED", number, body))
        stats = self.stats[session.shard]
        stats.resumes += 1
        stats.replayed += len(replay)
        stats.dispatches += len(replay) + 1
        if session.id == stats.session_id:
            stats.sequence = session.sequence
        return len(replay)

    def _is_kept(self, event: str, text: str) -> bool:
        profile = self._options.profile
        too_large = profile.max_event_bytes is not None and len(text) > profile.max_event_bytes
        return event not in profile.volatile and not too_large

    def _note_connected(self, shard: int) -> None:
        self.stats[shard].connected = any(s.connection for s in self._by_shard[shard])
