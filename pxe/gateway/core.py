"""The whole gateway without any I/O.

A driver opens connections, hands messages in, and carries out what comes back::

    clock = ManualClock()
    gateway = Gateway(GatewayOptions(shards=16), clock=clock)
    connection = gateway.open("/?v=10&encoding=json", user_agent="node", host="10.0.2.2:80")
    for who, action in gateway.drain():
        ...
    connection.receive('{"op":1,"d":null}')
    clock.set(gateway.next_deadline())
    for who, action in gateway.poll():
        ...
    connection.lost()
"""

import dataclasses
from collections import Counter, deque
from random import Random
from typing import TYPE_CHECKING

from pxe.gateway import bodies
from pxe.gateway.accounting import GatewayStats
from pxe.gateway.clock import Clock, MonotonicClock
from pxe.gateway.connection import Connection
from pxe.gateway.controls import Controls
from pxe.gateway.doors import Doors
from pxe.gateway.envelope import Envelopes, dumps
from pxe.gateway.events import GatewayEvent, Observer
from pxe.gateway.gate import AddressGate, IdentifyGate
from pxe.gateway.handshake import identify, resume
from pxe.gateway.load import LoadGenerator, LoadOptions
from pxe.gateway.options import GatewayOptions
from pxe.gateway.ownership import OwnershipRecord
from pxe.gateway.protocol import SESSION_ENDING_CLIENT_CODES, Opcode
from pxe.gateway.roster import Roster
from pxe.gateway.script import Script
from pxe.gateway.session import Session

if TYPE_CHECKING:
    from pxe.gateway.actions import Action


class Gateway(Controls):
    """Sessions of one bot and the connections that carry them.

    Attributes:
        options: Settings.
        clock: Source of time.
        envelopes: Writes messages.
        roster: Sessions and their accounts.
        gate: Paces Identify by key and day.
        ownership: Which connection spoke for which shard, and when.
        doors: Resume URLs.
        address_gate: Paces handshakes by address instead, or None.
        observer: Called for every event, or None.
        url_scheme: ``ws`` or ``wss``, for URLs that clients are told.

    Args:
        options: See above.
        clock: See above; real time when not given.
        rng: Source of randomness; seeded with ``options.seed`` when not given.
        observer: See above.
        url_scheme: See above.
    """

    def __init__(
        self,
        options: GatewayOptions,
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        observer: Observer | None = None,
        url_scheme: str = "ws",
    ) -> None:
        self.options = options
        self.clock: Clock = clock or MonotonicClock()
        profile = options.profile
        self.envelopes = Envelopes(options.key_order, bare_controls=profile.bare_controls)
        self.observer = observer
        self.url_scheme = url_scheme
        rng = rng or Random(options.seed)
        self.roster = Roster(options, rng, self.envelopes)
        self.ownership = OwnershipRecord(self.clock)
        self.gate = IdentifyGate(options)
        self.doors = Doors(options, url_scheme)
        limit = profile.address_limit
        self.address_gate = None if limit is None else AddressGate(limit)
        self.token_revoked = False
        self.connections: dict[int, Connection] = {}
        self.upgrade_refusals = deque()
        self.replies = deque()
        self.ready_edits = {}
        self._connection_count = 0
        self._refused: Counter[str] = Counter()
        self._dirty: dict[int, Connection] = {}
        self.script = Script(options.script)
        self._load: LoadGenerator | None = None
        self._rng = rng
        self.set_load(options.load)

    # What a driver calls.

    def open(
        self,
        target: str,
        *,
        user_agent: str | None,
        host: str,
        address: str = "",
        peer: str = "",
        door: int | None = None,
    ) -> Connection:
        """Take a new connection right after its upgrade.

        Args:
            target: Path and query of the request, as ``/?v=10&encoding=json``.
            user_agent: The User-Agent header, or None.
            host: The Host header; READY's resume URL is made of it.
            address: The client's IP address, by which some profiles limit handshakes.
            peer: Address and port of the client, for the record of who spoke for a shard.
            door: The shard at whose door the client came, or None.
        """
        self._connection_count += 1
        connection = Connection(self, self._connection_count, host, address, door, peer)
        self.connections[connection.number] = connection
        self.tell("connect", connection, target=target)
        connection.start(target, user_agent)
        return connection

    def poll(self, now_ms: int | None = None) -> "list[tuple[Connection, Action]]":
        """Act on every timer that is due and return all actions not yet taken.

        Args:
            now_ms: Time of the clock, which is asked when it is not given.
        """
        self.run_timers(self.clock.now_ms() if now_ms is None else now_ms)
        return self.drain()

    def run_timers(self, now_ms: int) -> None:
        """Act on every timer that is due; the actions stay with their connections."""
        for connection in list(self.connections.values()):
            connection.run_timer(now_ms)
        for connection, step in self.script.due(now_ms):
            self.act(connection, step)
        for session in self.roster.all():
            if session.detached_at is not None and now_ms >= self._expiry(session):
                self.roster.drop(session)
                self.tell("expire", None, session=session.id, of_shard=session.shard)
        if self._load is not None:
            for event in self._load.due(now_ms, self.roster.shards_with_session()):
                self.roster.stats[event.shard].load_counter = self._load.counter(event.shard)
                for session in self.roster.of_shard(event.shard):
                    self.publish(session, event.event, event.body)

    def next_deadline(self) -> int | None:
        """Return the time in ms at which :meth:`poll` has something to do, or None."""
        sessions = self.roster.all()
        times = [connection.next_deadline() for connection in self.connections.values()]
        times += [self._expiry(session) for session in sessions if session.detached_at is not None]
        times.append(self.script.next_deadline())
        if self._load is not None and sessions:
            times.append(self._load.next_deadline())
        return min((time for time in times if time is not None), default=None)

    def reshard(self, total: int) -> None:
        """Serve another number of shards from now on: each Identify must name it.

        Args:
            total: How many.
        """
        self.options = dataclasses.replace(self.options, shards=total)
        self.roster.grow(total)

    def set_load(self, load: LoadOptions | None) -> LoadGenerator | None:
        """Start a load of dispatches instead of the present one, or end it; return its maker."""
        self._load = None
        if load is not None:
            self._load = LoadGenerator(
                load,
                self._rng,
                shards=self.options.shards,
                guilds=self.options.guilds_per_shard,
                now_ms=self.clock.now_ms(),
            )
        return self._load

    def skip_load(self) -> None:
        """Drop what the load has due by now, for which nobody was there."""
        if self._load is not None:
            self._load.due(self.clock.now_ms(), [])

    def take_dirty(self) -> list[Connection]:
        """Return the connections that have got something to do since the last call."""
        dirty = list(self._dirty.values())
        self._dirty.clear()
        return dirty

    def drain(self) -> "list[tuple[Connection, Action]]":
        """Take every action of every connection, in order for each."""
        return [(who, action) for who in self.take_dirty() for action in who.drain()]

    def stats(self) -> GatewayStats:
        """Return a copy of the present counts."""
        return GatewayStats(
            shards=[dataclasses.replace(s, closes=s.closes.copy()) for s in self.roster.stats],
            connections=self._connection_count,
            open_connections=len(self.connections),
            refused=self._refused.copy(),
            identify_gate_refusals=self.gate.refusals,
            overlaps=len(self.ownership.overlaps),
            session_starts_left=self.gate.starts_left(self.clock.now_ms()),
        )

    def is_token(self, token: object) -> bool:
        """Say whether a token is the bot's."""
        if self.token_revoked or not isinstance(token, str) or not token:
            return False
        return self.options.token is None or token == self.options.token

    # What a connection calls.

    def mark_dirty(self, connection: Connection) -> None:
        """Note that a connection has actions."""
        self._dirty[connection.number] = connection

    def tell(self, name: str, connection: Connection | None = None, **fields: object) -> None:
        """Tell the observer of an event."""
        if self.observer is not None:
            number = connection.number if connection else None
            shard = connection.shard if connection else None
            self.observer(GatewayEvent(self.clock.now_ms(), name, number, shard, fields))

    def triggered(self, trigger: str, connection: Connection) -> bool:
        """Carry out the script's steps; True when one stands instead of the usual."""
        steps = self.script.triggered(trigger, connection, self.clock.now_ms())
        for step in steps:
            self.act(connection, step)
        return any(step.instead for step in steps)

    def heard(self, connection: Connection) -> None:
        """Note that a client's message was received, whatever comes of it."""
        for overlap in self.ownership.heard(connection):
            self.tell("overlap", connection, newer=overlap.newer)

    def beat(self, connection: Connection, sequence: int | None) -> bool:
        """Count a heartbeat and say whether to acknowledge it.

        One that runs ahead of what was sent is acknowledged too, but counted apart.
        """
        session = connection.session
        if session is not None:
            stats = self.roster.stats[session.shard]
            stats.heartbeats += 1
            stats.last_beat = sequence
            stats.beats_ahead += sequence is not None and sequence > session.sequence
            if sequence is not None and self.options.profile.beats_trim:
                session.acknowledge(sequence)
        if self.triggered("heartbeat", connection) or connection.closing:
            return False
        if session is not None:
            self.roster.stats[session.shard].acks += 1
        return True

    def command(self, connection: Connection, op: Opcode, body: dict[str, object]) -> None:
        """Carry out a client's message other than a heartbeat.

        Presence, voice and the other requests are taken, told and counted, and change nothing.
        """
        if op is Opcode.IDENTIFY:
            identify(self, connection, body)
        elif op is Opcode.RESUME:
            resume(self, connection, body)
        elif connection.session is not None:
            self._application(connection, connection.session, op, body)

    def _application(
        self, connection: Connection, session: Session, op: Opcode, body: dict[str, object]
    ) -> None:
        self.tell("command", connection, op=int(op), d=dumps(body))
        self.roster.stats[session.shard].commands += 1
        if op is Opcode.REQUEST_GUILD_MEMBERS:
            chunk = bodies.members_chunk(body.get("guild_id"), body.get("nonce"))
            self.publish(session, "GUILD_MEMBERS_CHUNK", dumps(chunk))

    def server_closed(self, connection: Connection, how: str, *, keeps_session: bool) -> None:
        """Note that we end a connection; ``how`` is a close code or "abort"."""
        self.tell("abort" if how == "abort" else "close", connection, code=how)
        self._count_end(connection, how, keeps_session=keeps_session)

    def client_closed(self, connection: Connection, code: int | None) -> None:
        """Note that the client ended a connection; None means without a close frame."""
        how = "lost" if code is None else str(code)
        self.tell("lost" if code is None else "closed", connection, code=how)
        keeps = code not in SESSION_ENDING_CLIENT_CODES
        self._count_end(connection, how, keeps_session=keeps)

    def forget(self, connection: Connection) -> None:
        """Drop a connection whose transport is gone."""
        self.connections.pop(connection.number, None)
        self.ownership.forget(connection)
        self._dirty.pop(connection.number, None)

    def publish(self, session: Session, event: str, body: str) -> int:
        """Publish one event to one session and return its sequence number.

        Args:
            session: Receiver.
            event: Dispatch name.
            body: JSON text of ``d``.
        """
        connection = session.connection
        sequence = self.roster.publish(session, event, body)
        if connection is not None:
            for step in self.script.dispatched(connection, self.clock.now_ms()):
                self.act(connection, step)
        return sequence

    # Ends.

    def _count_end(self, connection: Connection, how: str, *, keeps_session: bool) -> None:
        closes = self._refused
        if connection.shard is not None:
            closes = self.roster.stats[connection.shard].closes
        closes[how] += 1
        self.ownership.end(connection)
        self.script.forget(connection)
        session = connection.session
        if session is not None:
            self.roster.detach(session, self.clock.now_ms())
            if not keeps_session:
                self.roster.drop(session)

    def _expiry(self, session: Session) -> int:
        return (session.detached_at or 0) + self.options.session_life_ms
