"""The gateway on a TCP port: a thin shell around :mod:`pxe.gateway.core`.

::

    async with GatewayServer(GatewayOptions(shards=16, max_concurrency=16)) as server:
        print(server.url)
        await server.wait_until(lambda stats: stats.shards[3].connected)
        await server.kick(3, 4000)
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from pxe.gateway.accounting import GatewayStats
from pxe.gateway.actions import Abort, Action, Close, HangUp, Send, Wire
from pxe.gateway.connection import Connection
from pxe.gateway.core import Gateway
from pxe.gateway.events import Observer
from pxe.gateway.options import GatewayOptions
from pxe.gateway.protocol import EMPTY_CLOSE
from pxe.gateway.rest import json_reply, reply_to

# The core judges sizes; this only bounds what a hostile client can make us hold.
_MAX_MESSAGE_BYTES: Final = 1 << 20
_CLOSE_TIMEOUT_S: Final = 2.0
# Dispatches due within this time leave together, so a high rate costs few wake-ups.
_BATCH_S: Final = 0.002
# l_onoff = 1, l_linger = 0: the kernel answers the close with RST.
_LINGER_RESET: Final = struct.pack("ii", 1, 0)

T = TypeVar("T")


class GatewayServer:
    """A gateway that listens.

    Attributes:
        core: The gateway itself; use :meth:`call` to touch it.

    Args:
        options: Settings; ignored when ``core`` is given.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        observer: Called for every event, or None.
        ssl_context: Serves TLS when given.
        core: A gateway that lives on from an earlier server, with its sessions.
        sock: A listening socket of another network namespace; `host` and `port` then do nothing.
    """

    def __init__(
        self,
        options: GatewayOptions | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        observer: Observer | None = None,
        ssl_context: ssl.SSLContext | None = None,
        core: Gateway | None = None,
        sock: socket.socket | None = None,
    ) -> None:
        self._sock = sock
        scheme = "wss" if ssl_context else "ws"
        self.core = core or Gateway(
            options or GatewayOptions(), observer=observer, url_scheme=scheme
        )
        self._host = host
        self._wanted_port = port
        self._ssl = ssl_context
        self._server: Server | None = None
        self._door_servers: list[Server] = []
        self._ticker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._outlets: dict[int, _Outlet] = {}
        self._waiters: list[tuple[Callable[[GatewayStats], bool], asyncio.Future[None]]] = []

    @property
    def port(self) -> int:
        """The port it listens on.

        Raises:
            RuntimeError: The server has not been started.
        """
        if self._server is None:
            msg = "the gateway does not listen yet: use it as `async with GatewayServer(...)`"
            raise RuntimeError(msg)
        return _port_of(self._server)

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._host

    @property
    def url(self) -> str:
        """The gateway URL without a query, as ``ws://127.0.0.1:8080``."""
        return f"{self.core.url_scheme}://{self._host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Start to listen."""
        self._server = await self._listen(self._wanted_port, self._sock)
        if self.core.options.doors:
            for shard in range(self.core.options.shards):
                door = await self._listen(0, None)
                self._door_servers.append(door)
                self.core.doors.ports[shard] = _port_of(door)
        self._ticker = asyncio.create_task(self._tick())
        return self

    async def _listen(self, port: int, sock: socket.socket | None) -> Server:
        return await serve(
            self._handle,
            None if sock else self._host,
            None if sock else port,
            sock=sock,
            process_request=self._process_request,
            # A client that is gone does not say goodbye: nobody waits for it longer than for a close.
            ssl=self._ssl,
            ssl_shutdown_timeout=_CLOSE_TIMEOUT_S if self._ssl else None,
            compression=None,  # the service does not negotiate permessage-deflate
            ping_interval=None,  # nor send WebSocket pings: heartbeats do that
            close_timeout=_CLOSE_TIMEOUT_S,
            max_size=_MAX_MESSAGE_BYTES,
        )

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection with 1001, drop those that do not answer, stop."""
        for connection in list(self.core.connections.values()):
            connection.close(1001)
        self._flush()
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        for server in (*self._door_servers, *([self._server] if self._server else [])):
            server.close(code=1001)
            await server.wait_closed()
        for _, future in self._waiters:
            future.cancel()

    # Controls; see pxe.gateway.controls for what each means.

    async def call(self, command: Callable[[Gateway], T]) -> T:
        """Run a command on the core and pass on what it makes connections do."""
        result = command(self.core)
        self._flush()
        await asyncio.sleep(0)
        return result

    async def kick(self, shard: int, code: int = 4000, reason: str | None = None) -> None:
        """Close a shard's connections with a code; 1005 sends an empty close frame."""
        await self.call(lambda core: core.kick(shard, code, reason))

    async def reconnect(self, shard: int) -> None:
        """Send op 7."""
        await self.call(lambda core: core.reconnect(shard))

    async def invalidate(self, shard: int, *, resumable: bool) -> None:
        """Send op 9; when it is not resumable the session is gone."""
        await self.call(lambda core: core.invalidate(shard, resumable=resumable))

    async def abort(self, shard: int) -> None:
        """Reset a shard's TCP connections."""
        await self.call(lambda core: core.abort(shard))

    async def stall(self, shard: int) -> None:
        """Let a shard's connections play dead until :meth:`release`."""
        await self.call(lambda core: core.stall(shard))

    async def release(self, shard: int) -> None:
        """End a stall."""
        await self.call(lambda core: core.release(shard))

    async def request_heartbeat(self, shard: int) -> None:
        """Send op 1, which asks for a heartbeat at once."""
        await self.call(lambda core: core.request_heartbeat(shard))

    async def dispatch(self, shard: int, event: str, data: object) -> int:
        """Publish an event to a shard's sessions and return its sequence number."""
        return await self.call(lambda core: core.dispatch(shard, event, data))

    async def restart(self, *, keep_sessions: bool = False) -> None:
        """Reset every connection; sessions go unless kept. The port stays open."""
        await self.call(lambda core: core.restart(keep_sessions=keep_sessions))

    def stats(self) -> GatewayStats:
        """Return a copy of the present counts."""
        return self.core.stats()

    async def wait_until(
        self, predicate: Callable[[GatewayStats], bool], timeout_s: float = 10.0
    ) -> GatewayStats:
        """Wait until the counts satisfy a predicate and return them.

        Raises:
            TimeoutError: They did not in time; the message holds the counts.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiters.append((predicate, future))
        self._check_waiters()
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            msg = f"the gateway did not get there in {timeout_s} s: {self.stats()}"
            raise TimeoutError(msg) from None
        return self.stats()

    # Inside.

    async def _process_request(
        self, connection: ServerConnection, request: Request
    ) -> Response | None:
        if "Upgrade" in request.headers:
            refusal = self.core.take_upgrade_refusal(self._door_of(connection))
            if refusal is None:
                return None
            after = refusal.retry_after_s
            reply = json_reply(
                refusal.status,
                {"message": "refused", "code": 0},
                () if after is None else (("Retry-After", str(after)),),
            )
        else:
            reply = reply_to(
                self.core,
                request.path,
                authorization=request.headers.get("Authorization"),
                host=request.headers.get("Host", ""),
            )
        connection.protocol.logger.debug("GET %s: %d", request.path, reply.status)
        if reply.silent:
            await connection.wait_closed()
        elif reply.raw is not None:
            connection.transport.write(reply.raw)
            connection.transport.close()
        else:
            fields, content = reply.framed
            phrase = HTTPStatus(reply.status).phrase
            return Response(reply.status, phrase, Headers(fields), content)
        return None

    async def _handle(self, websocket: ServerConnection) -> None:
        request = websocket.request
        if request is None:
            msg = "the library called the handler before the upgrade request"
            raise RuntimeError(msg)
        connection = self.core.open(
            request.path,
            user_agent=request.headers.get("User-Agent"),
            host=request.headers.get("Host", ""),
            address=str(websocket.remote_address[0]),
            peer="{}:{}".format(*websocket.remote_address),
            door=self._door_of(websocket),
        )
        outlet = _Outlet(websocket, connection)
        self._outlets[connection.number] = outlet
        writer = asyncio.create_task(outlet.run())
        self._flush()
        try:
            # How the connection ended is read from the protocol below.
            with contextlib.suppress(ConnectionClosed):
                async for message in websocket:
                    connection.feed(message)
                    self._flush()
        finally:
            received = websocket.protocol.close_rcvd
            connection.lost(received.code if received else None)
            del self._outlets[connection.number]
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writer
            self._flush()

    def _door_of(self, websocket: ServerConnection) -> int | None:
        return self.core.doors.shard_at(websocket.local_address[1])

    def _flush(self) -> None:
        for connection in self.core.take_dirty():
            outlet = self._outlets.get(connection.number)
            if outlet is not None:
                outlet.wake()
        self._wake.set()
        self._check_waiters()

    def _check_waiters(self) -> None:
        if self._waiters:
            stats = self.core.stats()
            for predicate, future in self._waiters:
                if not future.done() and predicate(stats):
                    future.set_result(None)
            self._waiters = [waiter for waiter in self._waiters if not waiter[1].done()]

    async def _tick(self) -> None:
        while True:
            self._wake.clear()
            deadline = self.core.next_deadline()
            timeout = None
            if deadline is not None:
                timeout = max(_BATCH_S, (deadline - self.core.clock.now_ms()) / 1000)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            now = self.core.clock.now_ms()
            deadline = self.core.next_deadline()
            if deadline is not None and now >= deadline:
                self.core.run_timers(now)
                self._flush()


def _port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


class _Outlet:
    """Carries out one connection's actions in order.

    Actions stay in the core while a slow client blocks the socket, so the core sees
    the backlog and can bound it.
    """

    def __init__(self, websocket: ServerConnection, connection: Connection) -> None:
        self._ready = asyncio.Event()
        self._websocket = websocket
        self._connection = connection
        self._reaper: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Note that there are actions."""
        self._ready.set()
        if self._connection.aborted:
            # The writer may wait for a client that does not read.
            self._reset()
        elif self._connection.closing and self._reaper is None:
            loop = asyncio.get_running_loop()
            self._reaper = loop.call_later(2 * _CLOSE_TIMEOUT_S, self._reset)

    async def run(self) -> None:
        """Work until the connection has ended."""
        with contextlib.suppress(ConnectionClosed):  # the reader sees it too and tells the core
            while True:
                await self._ready.wait()
                self._ready.clear()
                for action in self._connection.drain():
                    await self._perform(action)

    async def _perform(self, action: Action) -> None:
        if isinstance(action, Send):
            await self._websocket.send(action.data)
        elif isinstance(action, Close) and action.code != EMPTY_CLOSE:
            await self._websocket.close(action.code, action.reason)
        elif isinstance(action, Close):
            async with self._websocket.send_context():
                self._websocket.protocol.send_close()
        elif isinstance(action, Wire):
            await self._write(action)
        elif isinstance(action, HangUp):
            self._websocket.transport.close()
        elif isinstance(action, Abort):
            self._reset()

    async def _write(self, wire: Wire) -> None:
        step = 1 if wire.one_by_one else len(wire.data)
        for start in range(0, len(wire.data), max(1, step)):
            self._websocket.transport.write(wire.data[start : start + step])
            await asyncio.sleep(_BATCH_S)

    def _reset(self) -> None:
        transport = self._websocket.transport
        if not transport.is_closing():
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        transport.abort()
