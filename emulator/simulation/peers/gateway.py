"""The chat gateway on the virtual wire: the project's gateway core behind wsproto and our TCP.

The core knows no I/O; here its clock is the world's, its randomness comes from the world's seed,
and its actions become frames, close handshakes and resets.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, Alarm
from emulator.simulation.packet import ip_text
from emulator.simulation.peers.websocket import (
    CLOSE,
    TEXT,
    Upgrade,
    WebSocketPeer,
    WebSocketServer,
    frame,
)
from pxe.gateway import Abort, Gateway, GatewayOptions, HangUp, Send, Wire
from pxe.gateway.protocol import EMPTY_CLOSE
from pxe.gateway.rest import reply_to

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from emulator.simulation.host import Host
    from emulator.simulation.peers.tcp import TcpConfig
    from emulator.simulation.world import World
    from pxe.gateway import Action, Connection, GatewayEvent

# Bytes that may wait in TCP before the core keeps further messages, as a socket buffer would.
HIGH_WATER = 65_536
HALF_MESSAGE = frame(TEXT, b'{"t":"X","s":1,"op":0,"d":{"text":"' + b"x" * 200)[:-120]
"""A frame whose end never comes, in the middle of a text."""


class WorldClock:
    """The gateway's milliseconds, read from virtual time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        """Return virtual time in whole milliseconds."""
        return self._world.now_ns // NS_PER_MS


class GatewayPeer:
    """A gateway that listens on one host; `core` holds its sessions and its controls.

    After calling a control of `core`, call `flush`, which carries its actions out.

    Args:
        host: where it listens.
        port: TCP port.
        options: settings of the gateway.
        address: only this address of the host; None means all.
        config: TCP settings.
        core: sessions shared with another gateway, as the resume host shares them with the main
            host; None makes a core of its own.
        tls: what its connections are wrapped with; None leaves them plain.
    """

    def __init__(
        self,
        host: Host,
        port: int,
        options: GatewayOptions,
        *,
        address: bytes | None = None,
        config: TcpConfig | None = None,
        core: GatewayCore | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.world = host.world
        self.shared = core or GatewayCore(host.world, options, scheme="wss" if tls else "ws")
        self.core = self.shared.core
        self.events = self.shared.events
        self.server = WebSocketServer(
            host.tcp, port, self._accept, config=config, address=address, tls=tls
        )

    def flush(self) -> None:
        """Carry out what the core wants done now and set the next deadline."""
        self.shared.flush()

    def peer_of(self, shard: int) -> WebSocketPeer:
        """Return the newest open connection of a shard.

        Raises:
            LookupError: the shard has none; the text lists those that have.
        """
        live = {
            connection.shard: peer
            for connection, peer in self.shared.peers.values()
            if connection.shard is not None and not connection.closing
        }
        if shard not in live:
            raise LookupError(f"shard {shard} has no open connection; open: {sorted(live)}")
        return live[shard]

    def _accept(self, peer: WebSocketPeer) -> None:
        peer.on_open = lambda: self.shared.open(peer)
        peer.on_get = self._get

    def _get(self, request: Upgrade) -> bytes | None:
        authorization = request.headers.get("authorization")
        reply = reply_to(self.core, request.target, authorization=authorization, host=request.host)
        return None if reply.silent else reply.wire()


class GatewayCore:
    """One gateway core, its connections on the wire, and its timer."""

    def __init__(self, world: World, options: GatewayOptions, *, scheme: str = "ws") -> None:
        self.events: list[GatewayEvent] = []
        self.peers: dict[int, tuple[Connection, WebSocketPeer]] = {}
        self.core = Gateway(
            options,
            clock=WorldClock(world),
            rng=random.Random(world.random.getrandbits(64)),
            observer=self.events.append,
            url_scheme=scheme,
        )
        self._world = world
        self._alarm = Alarm(world.events, self._due)
        self._flushing = False
        # Whoever compares what goes over the wire with what a node makes of it.
        self.on_open: Callable[[WebSocketPeer], None] = _nothing
        self.on_send: Callable[[WebSocketPeer, str], None] = _nothing
        self.on_message: Callable[[WebSocketPeer, str | bytes], None] = _nothing
        self.on_close: Callable[[WebSocketPeer, int], None] = _nothing

    def open(self, peer: WebSocketPeer) -> None:
        """Join an accepted WebSocket to a new connection of the core."""
        upgrade = peer.upgrade
        if upgrade is None:
            raise RuntimeError("a WebSocket opened without an upgrade request")
        agent = upgrade.headers.get("user-agent")
        connection = self.core.open(
            upgrade.target,
            user_agent=agent,
            host=upgrade.host,
            address=ip_text(peer.tcp.remote[0]),
        )
        self.peers[connection.number] = (connection, peer)

        self.on_open(peer)

        def message(data: str | bytes) -> None:
            self.on_message(peer, data)
            connection.feed(data)
            self.flush()

        def lost(code: int | None) -> None:
            connection.lost(code)
            self.peers.pop(connection.number, None)
            self.flush()

        peer.on_message = message
        peer.on_lost = lost
        peer.tcp.on_progress = lambda: self._drain(connection, peer)
        self.flush()

    def flush(self, *, soonest_ns: int = 0) -> None:
        """Carry out queued actions and set the next deadline, not sooner than `soonest_ns`."""
        if self._flushing:
            return
        self._flushing = True
        try:
            while dirty := self.core.take_dirty():
                for connection in dirty:
                    entry = self.peers.get(connection.number)
                    if entry is not None:
                        self._drain(*entry)
        finally:
            self._flushing = False
        deadline_ms = self.core.next_deadline()
        if deadline_ms is None:
            self._alarm.stop()
        else:
            self._alarm.set_after(max(soonest_ns, deadline_ms * NS_PER_MS - self._world.now_ns))

    def _due(self) -> None:
        self.core.run_timers(self._world.now_ns // NS_PER_MS)
        # Its clock has whole milliseconds: within this one there is nothing left to do.
        self.flush(soonest_ns=NS_PER_MS)

    def _drain(self, connection: Connection, peer: WebSocketPeer) -> None:
        """Write what the connection queued, unless TCP is still busy with earlier messages."""
        if peer.tcp.sender.backlog >= HIGH_WATER:
            return
        with peer.tcp.corked() if peer.policy.coalesce else contextlib.nullcontext():
            for action in connection.drain():
                self._perform(peer, action)

    def _perform(self, peer: WebSocketPeer, action: Action) -> None:
        if isinstance(action, Send):
            if isinstance(action.data, str):
                self.on_send(peer, action.data)
            peer.send(action.data)
        elif isinstance(action, Abort):
            peer.abort()
        elif isinstance(action, HangUp):
            peer.tcp.close()
        elif isinstance(action, Wire):
            peer.raw(action.data)
        elif action.code == EMPTY_CLOSE:
            self.on_close(peer, action.code)
            peer.frame(CLOSE)
            peer.tcp.close()
        else:
            self.on_close(peer, action.code)
            peer.close(action.code, action.reason)


def _nothing(*_: object) -> None:
    """Nobody compares."""


def plan_actions(gateway: GatewayPeer) -> dict[str, Callable[[str], None]]:
    """Return what timed events of a fault plan may do to a gateway, for `World.actions`.

    `at 5s gateway-close 3 4009` closes shard 3 with 4009; `gateway-pause` stops reading from TCP and
    `gateway-stall` says nothing more; `gateway-half` says half a message and nothing more;
    `gateway-http 503` refuses upgrades until `gateway-http 0`. A shard without a connection is
    passed over, because a plan made by chance cannot know who is connected.
    """
    core = gateway.core

    def on_shard(act: Callable[[int, list[str]], None]) -> Callable[[str], None]:
        def run(argument: str) -> None:
            shard, *rest = argument.split()
            with contextlib.suppress(LookupError):
                act(int(shard), rest)
            gateway.flush()

        return run

    def restart(argument: str) -> None:
        core.restart(keep_sessions=argument == "keep-sessions")
        gateway.flush()

    def half(shard: int, _rest: list[str]) -> None:
        peer = gateway.peer_of(shard)
        core.stall(shard)
        peer.raw(HALF_MESSAGE)

    def http(argument: str) -> None:
        gateway.server.policy.status = int(argument)

    return {
        "gateway-beat": on_shard(lambda shard, _rest: core.request_heartbeat(shard)),
        "gateway-half": on_shard(half),
        "gateway-http": http,
        "gateway-pause": on_shard(lambda shard, _rest: gateway.peer_of(shard).tcp.pause()),
        "gateway-read": on_shard(lambda shard, _rest: gateway.peer_of(shard).tcp.resume()),
        "gateway-close": on_shard(lambda shard, rest: core.kick(shard, int(rest[0]))),
        "gateway-abort": on_shard(lambda shard, _rest: core.abort(shard)),
        "gateway-reconnect": on_shard(lambda shard, _rest: core.reconnect(shard)),
        "gateway-invalid": on_shard(
            lambda shard, rest: core.invalidate(shard, resumable=rest == ["true"])
        ),
        "gateway-stall": on_shard(lambda shard, _rest: core.stall(shard)),
        "gateway-release": on_shard(lambda shard, _rest: core.release(shard)),
        "gateway-vanish": on_shard(lambda shard, _rest: gateway.peer_of(shard).tcp.vanish()),
        "gateway-restart": restart,
    }
