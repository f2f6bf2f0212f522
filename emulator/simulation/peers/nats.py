"""The servers of a simulated NATS cluster on the virtual wire: one address each, over TCP or TLS."""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from emulator.simulation.nats.cluster import NatsCluster
from emulator.simulation.nats.server import ServerOptions
from emulator.simulation.packet import ip, ip_text
from emulator.simulation.peers.tls import TlsConnection

if TYPE_CHECKING:
    import random

    from emulator.simulation.host import Host
    from emulator.simulation.nats.cluster import Pace
    from emulator.simulation.nats.server import NatsServer
    from emulator.simulation.peers.tcp import Connection, Listener, TcpConfig

NATS_PORT = 4222


class NatsPeer:
    """A cluster that listens on some addresses of one host.

    Args:
        host: where it listens.
        addresses: dotted, one for each server.
        random: decides everything that the pace leaves open.
        options: of all servers; INFO says by itself whether TLS follows.
        pace: how long things take.
        tls: what connections are wrapped with; None leaves them plain.
        handshake_first: whether TLS begins before INFO.
        config: TCP settings.

    Attributes:
        cluster: what is behind the wire.
        only: by address of a client, the one server that it reaches; others reach all.
    """

    def __init__(
        self,
        host: Host,
        addresses: tuple[str, ...],
        random: random.Random,
        *,
        options: ServerOptions | None = None,
        pace: Pace | None = None,
        tls: ssl.SSLContext | None = None,
        handshake_first: bool = False,
        config: TcpConfig | None = None,
    ) -> None:
        options = replace(options or ServerOptions(), tls=tls is not None)
        self.cluster = NatsCluster(
            host.world.events, random, servers=len(addresses), options=options, pace=pace
        )
        self.only: dict[bytes, int] = {}
        self._pipes: list[_Pipe] = []
        self._tls, self._first = tls, handshake_first
        for server, address in zip(self.cluster.servers, addresses, strict=True):
            raw = ip(address)
            if not host.owns(raw):
                host.add_address(address)
            server.address, server.port = address, NATS_PORT
            accept = partial(self._accept, server)
            listener = host.tcp.listen(NATS_PORT, accept, config, address=raw)
            server.on_power = partial(_listen, listener)

    def _accept(self, server: NatsServer, tcp: Connection) -> None:
        pipe = _Pipe(server, tcp, self._tls, first=self._first)
        self._pipes = [each for each in self._pipes if not each.tcp.close_reason]
        self._pipes.append(pipe)
        self._bar(pipe)

    def restrict(self, client: bytes, index: int) -> None:
        """Let a client reach one server alone: what it says to others vanishes, and their answers."""
        self.only[client] = index
        for pipe in self._pipes:
            self._bar(pipe)

    def release(self) -> None:
        """Let every client reach every server."""
        self.only.clear()
        for pipe in self._pipes:
            self._bar(pipe)

    def _bar(self, pipe: _Pipe) -> None:
        index = pipe.server.index
        barred = self.only.get(pipe.tcp.remote[0], index) != index
        pipe.tcp.in_filter = (lambda _segment: None) if barred else None
        pipe.tcp.out_filter = (lambda _segment: ()) if barred else None


def _listen(listener: Listener, up: bool) -> None:
    # The kernel outlives the process and refuses whoever comes.
    listener.refusing = not up


class _Pipe:
    """One connection between the wire and a session."""

    def __init__(
        self, server: NatsServer, tcp: Connection, tls: ssl.SSLContext | None, *, first: bool
    ) -> None:
        self.server, self.tcp, self._tls = server, tcp, tls
        self._stream: Connection | TlsConnection = tcp
        if tls is not None and first:
            self._stream = TlsConnection(tcp, tls)
        self._session = server.accept(
            self._write, self._close, tcp.abort, address=ip_text(tcp.remote[0])
        )
        self._listen(self._stream)
        if isinstance(self._stream, TlsConnection):
            self._stream.on_shaken = self._greet
        else:
            tcp.on_open = self._greet

    def _greet(self) -> None:
        if self.server.paused:
            self.server.backlog.append(self._greet)
            return
        self._session.greet()
        if self._tls is not None and self._stream is self.tcp:
            # What comes now is a ClientHello; what is said from now on is sealed.
            self._stream = TlsConnection(self.tcp, self._tls)
            self._listen(self._stream)

    def _listen(self, stream: Connection | TlsConnection) -> None:
        stream.on_data = self._session.receive
        stream.on_eof = self._end
        stream.on_close = lambda _reason: self._session.lost()

    def _write(self, data: bytes) -> None:
        # It is closing and nobody reads on, or TLS is not ready for words yet.
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self._stream.send(data)

    def _end(self) -> None:
        self._session.lost()
        self._stream.close()

    def _close(self) -> None:
        self._stream.close()
