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
        _Pipe(server, tcp, self._tls, first=self._first)


def _listen(listener: Listener, up: bool) -> None:
    # The kernel outlives the process and refuses whoever comes.
    listener.refusing = not up


class _Pipe:
    """One connection between the wire and a session."""

    def __init__(
        self, server: NatsServer, tcp: Connection, tls: ssl.SSLContext | None, *, first: bool
    ) -> None:
        self._tcp, self._tls = tcp, tls
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
        server = self._session.server
        if server.paused:
            server.backlog.append(self._greet)
            return
        self._session.greet()
        if self._tls is not None and self._stream is self._tcp:
            # What comes now is a ClientHello; what is said from now on is sealed.
            self._stream = TlsConnection(self._tcp, self._tls)
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
