"""The TCP of a peer: listeners, connections, resets for everything else, and a segment log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.packet import ACK, PROTOCOL_TCP, RST, SYN, Ipv4, Tcp
from emulator.simulation.peers.tcp_connection import Connection
from emulator.simulation.peers.tcp_types import SEQ_MASK, State, TcpConfig, distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.simulation.peers.tcp_core import ConnectionCore
    from emulator.simulation.world import World

    SegmentFilter = Callable[[Tcp], Iterable[Tcp]]

__all__ = ["Connection", "Listener", "State", "TcpConfig", "TcpStack"]

FIRST_EPHEMERAL_PORT = 49152


class Listener:
    """A port that accepts connections.

    Args:
        accept: called with each new connection before its SYN is answered; sets callbacks.
        config: settings of the connections.
    """

    def __init__(self, accept: Callable[[Connection], None], config: TcpConfig) -> None:
        self.accept = accept
        self.config = config
        self.silent = False
        self.refusing = False
        self.syns: list[tuple[int, Tcp]] = []


class TcpStack:
    """Every connection of one host.

    Hooks: `in_filter(segment)` and `out_filter(segment)` return what to believe or send instead,
    for all connections, before and after everything else.

    Args:
        world: gives time and randomness.
        send: puts an IPv4 packet on its way.
    """

    def __init__(self, world: World, send: Callable[[Ipv4], None]) -> None:
        self.world = world
        self.listeners: dict[tuple[bytes | None, int], Listener] = {}
        self.connections: dict[tuple[bytes, int, bytes, int], Connection] = {}
        self.in_filter: SegmentFilter | None = None
        self.out_filter: SegmentFilter | None = None
        self.answer_strays = True
        self.stray_segments = 0
        self.log: list[tuple[int, str, Tcp]] | None = None
        self._send = send

    def listen(
        self,
        port: int,
        accept: Callable[[Connection], None],
        config: TcpConfig | None = None,
        *,
        address: bytes | None = None,
    ) -> Listener:
        """Accept connections on a port of one address of the host, or of all that have no own."""
        if (address, port) in self.listeners:
            raise ValueError(f"TCP port {port} has a listener already; close it first")
        listener = Listener(accept, config or TcpConfig())
        self.listeners[address, port] = listener
        return listener

    def close_port(self, port: int, address: bytes | None = None) -> None:
        """Stop listening; connections live on."""
        del self.listeners[address, port]

    def connect(
        self,
        local: bytes,
        remote: bytes,
        port: int,
        config: TcpConfig | None = None,
        local_port: int | None = None,
    ) -> Connection:
        """Open a connection actively, from a random port unless one is given."""
        if local_port is None:
            local_port = self.world.random.randrange(FIRST_EPHEMERAL_PORT, 65536)
        connection = self._new((local, local_port), (remote, port), config or TcpConfig())
        connection.open_active()
        return connection

    def receive(self, src: bytes, dst: bytes, segment: Tcp) -> None:
        """Handle one segment that arrived for this host."""
        self._note("in", segment)
        for each in (segment,) if self.in_filter is None else self.in_filter(segment):
            self._dispatch(src, dst, each)

    def transmit(self, src: bytes, dst: bytes, segment: Tcp) -> None:
        """Send one segment."""
        for each in (segment,) if self.out_filter is None else self.out_filter(segment):
            self._note("out", each)
            self._send(Ipv4(src, dst, PROTOCOL_TCP, each.encode(src, dst)))

    def reset_for(self, local: tuple[bytes, int], remote: tuple[bytes, int], bad: Tcp) -> None:
        """Answer a segment with the RST that RFC 9293 section 3.10.7.1 prescribes."""
        if bad.flags & ACK:
            reset = Tcp(local[1], remote[1], bad.ack, 0, RST, 0)
        else:
            ack = (bad.seq + bad.length) & SEQ_MASK
            reset = Tcp(local[1], remote[1], 0, ack, RST | ACK, 0)
        self.transmit(local[0], remote[0], reset)

    def forget(self, connection: ConnectionCore) -> None:
        """Drop a connection that has ended."""
        key = (*connection.local, *connection.remote)
        if self.connections.get(key) is connection:
            del self.connections[key]

    def crash(self) -> None:
        """Forget every connection without a word, as a restart does."""
        for connection in list(self.connections.values()):
            connection.vanish()

    def _dispatch(self, src: bytes, dst: bytes, segment: Tcp) -> None:
        local, remote = (dst, segment.dst_port), (src, segment.src_port)
        connection = self.connections.get((*local, *remote))
        opening = segment.flags & (SYN | ACK | RST) == SYN
        if connection is not None:
            # RFC 9293 section 3.6.1: a SYN beyond the old sequence may reuse a TIME-WAIT pair.
            stale = connection.state is State.TIME_WAIT and opening
            if not (stale and distance(segment.seq, connection.rcv_nxt) >= 0):
                connection.receive(segment)
                return
            connection.vanish()
        port = segment.dst_port
        listener = self.listeners.get((dst, port)) or self.listeners.get((None, port))
        if listener is not None and opening:
            listener.syns.append((self.world.now_ns, segment))
            if listener.silent:
                return
            if not listener.refusing:
                connection = self._new(local, remote, listener.config)
                connection.passive = True
                listener.accept(connection)
                connection.open_passive(segment)
                return
        self.stray_segments += 1
        if self.answer_strays and not segment.flags & RST:
            self.reset_for(local, remote, segment)

    def _new(
        self, local: tuple[bytes, int], remote: tuple[bytes, int], config: TcpConfig
    ) -> Connection:
        isn = self.world.random.getrandbits(32) if config.isn is None else config.isn
        connection = Connection(self, local, remote, config, isn)
        self.connections[(*local, *remote)] = connection
        return connection

    def _note(self, way: str, segment: Tcp) -> None:
        if self.log is not None:
            self.log.append((self.world.now_ns, way, segment))
