"""One server of a cluster: its clients, what it says of itself, and whether it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.nats.session import Session

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from emulator.simulation.clock import EventQueue
    from emulator.simulation.nats.auth import User
    from emulator.simulation.nats.cluster import NatsCluster
    from emulator.simulation.nats.consumer import Consumer

BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What an operator wrote into the servers' configuration.

    Attributes:
        version: that INFO tells.
        max_payload: bytes of headers and body together.
        users: who may connect; empty lets everybody in.
        auth_timeout_ns: within which a client must say CONNECT.
        ping_interval_ns: between PINGs of the server.
        tls: whether INFO says that TLS follows.
        cluster: name of the cluster; used with more than one server.
        lame_duck_ns: from the warning to the end of a server that stops for good.
    """

    version: str = "2.15.1"
    max_payload: int = 8 << 20
    users: tuple[User, ...] = ()
    auth_timeout_ns: int = 2 * NS_PER_S
    ping_interval_ns: int = 120 * NS_PER_S
    tls: bool = False
    cluster: str = "shardfw"
    lame_duck_ns: int = 10 * NS_PER_S


class NatsServer:
    """A server; sessions are joined to transports by whoever accepts connections.

    Attributes:
        up: whether its process exists.
        paused: whether its process stands still.
        lame: whether it is about to stop.
        lag_ns: what it says reaches clients so much later.
        applied: by stream, how much of its log this server has.
        consumers: those that live here; they die with the process.
        backlog: what other servers said to it while it stood still.
        on_power: called when the process ends or begins, with whether it is up.
    """

    def __init__(self, cluster: NatsCluster, index: int, options: ServerOptions) -> None:
        self.cluster, self.index, self.options = cluster, index, options
        self.events: EventQueue = cluster.events
        self.random: random.Random = cluster.random
        self.name = f"n{index + 1}"
        self.address, self.port = "127.0.0.1", 4222
        self.up, self.paused, self.lame = True, False, False
        self.lag_ns = self.behind_ns = 0
        self.sessions: list[Session] = []
        self.applied: dict[str, int] = {}
        self.consumers: list[Consumer] = []
        self.on_power: Callable[[bool], None] = _nothing
        self.backlog: list[Callable[[], None]] = []
        self._ident = "N" + "".join(self.random.choice(BASE32) for _ in range(55))
        self._clients = 4

    def accept(
        self,
        write: Callable[[bytes], None],
        close: Callable[[], None],
        reset: Callable[[], None],
        address: str = "127.0.0.1",
    ) -> Session:
        """Take a client; `Session.greet` says INFO."""
        self._clients += 1
        session = Session(self, self._clients, write, close, reset, address=address)
        self.sessions.append(session)
        return session

    def info(self, session: Session, *, connected: bool = False) -> bytes:
        """Write INFO for a client."""
        options = self.options
        told: dict[str, object] = {
            "server_id": self._ident,
            "server_name": self.name,
            "version": options.version,
            "proto": 1,
            "git_commit": "b2fd3ef",
            "go": "go1.27.2",
            "host": self.address,
            "port": self.port,
            "headers": True,
        }
        if options.users:
            told["auth_required"] = True
        if options.tls:
            told["tls_required"] = True
        told |= {"max_payload": options.max_payload, "jetstream": True}
        told |= {"client_id": session.number, "client_ip": session.address}
        if any(user.nkey for user in options.users):
            told["nonce"] = session.nonce
        if self.cluster.clustered:
            told["cluster"] = options.cluster
        if connected:
            told |= {"connect_info": True, "remote_account": "$G"}
        if self.lame:
            told["ldm"] = True
        told["api_lvl"] = 5
        # Unlike its other JSON, INFO ends with a blank.
        return f"INFO {json.dumps(told, separators=(',', ':'))} \r\n".encode()

    def publish(
        self, session: Session, subject: str, reply: str, header: bytes | None, body: bytes
    ) -> None:
        """Take a message that a client published here."""
        if not self.cluster.publish(self, subject, reply, header, body) and reply:
            session.no_responders(subject, reply)

    def forget(self, session: Session) -> None:
        """Drop a session whose client is gone."""
        if session in self.sessions:
            self.sessions.remove(session)
            self.interest_changed()

    def interest_changed(self) -> None:
        """Let consumers look whether somebody hears them."""
        self.cluster.interest_changed()

    # -- its process ------------------------------------------------------------------------------
    def stop(self) -> None:
        """End the process: clients are cut off, consumers are gone, the log stays on its disk."""
        self.up = self.paused = self.lame = False
        self.backlog.clear()
        for session in list(self.sessions):
            session.reset()
        for consumer in list(self.consumers):
            consumer.end()
        self.on_power(False)

    def start(self) -> None:
        """Begin the process anew."""
        self.up = True
        self.on_power(True)

    def pause(self) -> None:
        """Let the process stand still: its kernel goes on taking bytes."""
        self.paused = True

    def resume(self) -> None:
        """Let it go on, with what came meanwhile."""
        self.paused = False
        backlog, self.backlog = self.backlog, []
        for action in backlog:
            action()
        for session in list(self.sessions):
            session.wake()
        for consumer in list(self.consumers):
            consumer.pump()

    def warn(self) -> None:
        """Tell every client that this server is about to stop."""
        self.lame = True
        for session in list(self.sessions):
            session.send(self.info(session, connected=True))


def _nothing(_up: bool) -> None:
    """Nobody listens."""
