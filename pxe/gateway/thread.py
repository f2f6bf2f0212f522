"""The gateway server beside synchronous code, such as a test that drives QEMU.

::

    with GatewayThread(GatewayOptions(shards=16), host="0.0.0.0") as gateway:
        node = boot(port=gateway.port)
        gateway.wait_until(lambda stats: all(s.connected for s in stats.shards))
        gateway.call(lambda core: core.kick(3, 4000))
"""

import asyncio
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from pxe.gateway.accounting import GatewayStats
from pxe.gateway.core import Gateway
from pxe.gateway.events import Observer
from pxe.gateway.options import GatewayOptions
from pxe.gateway.server import GatewayServer

T = TypeVar("T")


class GatewayThread:
    """Runs a :class:`GatewayServer` in a thread with an event loop of its own.

    Args:
        options: Settings.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        observer: Called in that thread for every event, or None.
        ssl_context: Serves TLS when given.
    """

    def __init__(
        self,
        options: GatewayOptions | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        observer: Observer | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.port = port
        self.url = ""
        self._options = options
        self._host = host
        self._observer = observer
        self._ssl = ssl_context
        self._thread = threading.Thread(target=self._main, name="gateway", daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: GatewayServer | None = None
        self._stop: asyncio.Event | None = None

    def __enter__(self) -> Self:
        """Start the thread and wait until it listens.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the server and the thread."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def call(self, command: Callable[[Gateway], T], timeout_s: float = 10.0) -> T:
        """Run a command on the gateway in its thread and return the result."""
        loop, server = self._running()
        return asyncio.run_coroutine_threadsafe(server.call(command), loop).result(timeout_s)

    def stats(self) -> GatewayStats:
        """Return a copy of the present counts."""
        return self.call(lambda core: core.stats())

    def wait_until(
        self, predicate: Callable[[GatewayStats], bool], timeout_s: float = 10.0
    ) -> GatewayStats:
        """Wait until the counts satisfy a predicate and return them.

        Raises:
            TimeoutError: They did not in time; the message holds the counts.
        """
        loop, server = self._running()
        return asyncio.run_coroutine_threadsafe(
            server.wait_until(predicate, timeout_s), loop
        ).result()

    def _running(self) -> tuple[asyncio.AbstractEventLoop, GatewayServer]:
        if self._loop is None or self._server is None:
            msg = "the gateway does not run: use it as `with GatewayThread(...)`"
            raise RuntimeError(msg)
        return self._loop, self._server

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # handed to the thread that waits
            self._failure = failure
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = GatewayServer(
            self._options,
            host=self._host,
            port=self.port,
            observer=self._observer,
            ssl_context=self._ssl,
        )
        async with server:
            self._loop, self._server = asyncio.get_running_loop(), server
            self.port, self.url = server.port, server.url
            self._started.set()
            await self._stop.wait()
