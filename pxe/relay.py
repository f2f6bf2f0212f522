"""A relay for Ethernet frames between two QEMU netdevs that loses, delays and damages by plan.

The kernel here may have no netem, so this is how a real QEMU node meets a bad network. The same
fault plans drive the simulator; ports are called `left` and `right`::

    left = DatagramEnd(local=folder / "left.relay", remote=folder / "left.qemu")
    right = StreamEnd(folder / "right.relay")
    async with Relay(left, right, "drop p=0.01; delay by=2ms jitter=5ms from=left", seed=7):
        ...  # QEMU: DatagramNet(local=left.remote, remote=left.local), StreamNet(right.path)

To give a node a user network behind the relay, start a `pxe.node.Hub` on the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import random
import socket
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

from emulator.simulation.faults import FaultInjector, FaultPlan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

LARGEST_FRAME = 65_536
LENGTH_BYTES = 4
# A Unix datagram socket holds few datagrams; what does not fit waits here, up to this many.
QUEUE_FRAMES = 4_096
RETRY_SECONDS = 0.0005
NS_PER_S = 1_000_000_000


class End(Protocol):
    """One side of the relay."""

    async def open(self, received: Callable[[bytes], None]) -> None:
        """Start taking frames and hand each one to `received`."""

    def send(self, frame: bytes) -> bool:
        """Send one frame; False when nobody takes it."""

    async def close(self) -> None:
        """Stop, and remove what was made in the file system."""


class DatagramEnd:
    """The relay's side of a `-netdev dgram` with Unix sockets: one datagram is one frame.

    Args:
        local: the socket that the relay makes; QEMU's `remote.path`.
        remote: the socket that QEMU makes; QEMU's `local.path`. It may appear later.
    """

    def __init__(self, local: Path, remote: Path) -> None:
        self.local = local
        self.remote = remote
        self._socket: socket.socket | None = None
        self._waiting: deque[bytes] = deque()
        self._retry: asyncio.TimerHandle | None = None

    async def open(self, received: Callable[[bytes], None]) -> None:
        """Bind the socket.

        Raises:
            OSError: the path is taken or its folder is missing.
        """
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        try:
            made.bind(str(self.local))
        except OSError:
            made.close()
            raise
        self._socket = made
        asyncio.get_running_loop().add_reader(made, self._read, made, received)

    def send(self, frame: bytes) -> bool:
        """Send or queue one frame; False when QEMU is not there or the queue is full."""
        if self._socket is None or len(self._waiting) >= QUEUE_FRAMES:
            return False
        if self._waiting:
            self._waiting.append(frame)
            return True
        try:
            self._socket.sendto(frame, str(self.remote))
        except BlockingIOError:
            self._waiting.append(frame)
            self._retry_later()
        except OSError:
            # Not started yet, or gone: a cable with nothing at its end.
            return False
        return True

    async def close(self) -> None:
        """Close the socket and remove its path."""
        if self._retry is not None:
            self._retry.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self.local.unlink(missing_ok=True)
        self._waiting.clear()

    @staticmethod
    def _read(source: socket.socket, received: Callable[[bytes], None]) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                received(source.recv(LARGEST_FRAME))

    def _retry_later(self) -> None:
        self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._send_waiting)

    def _send_waiting(self) -> None:
        while self._waiting and self._socket is not None:
            try:
                self._socket.sendto(self._waiting[0], str(self.remote))
            except BlockingIOError:
                self._retry_later()
                return
            except OSError:
                self._waiting.clear()
                return
            self._waiting.popleft()


class StreamEnd:
    """The relay's side of a `-netdev stream` over a Unix socket: length, 4 bytes, then the frame.

    The relay listens; QEMU connects (`server=off`) and may connect again after a restart.

    Args:
        path: the socket that the relay makes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._received: Callable[[bytes], None] | None = None

    async def open(self, received: Callable[[bytes], None]) -> None:
        """Listen.

        Raises:
            OSError: the path is taken or its folder is missing.
        """
        self._received = received
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))

    def send(self, frame: bytes) -> bool:
        """Send one frame; False when QEMU is not connected or does not read."""
        writer = self._writer
        if writer is None or writer.is_closing():
            return False
        if writer.transport.get_write_buffer_size() > QUEUE_FRAMES * LARGEST_FRAME // 64:
            return False
        writer.write(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
        return True

    async def close(self) -> None:
        """Stop listening, hang up and remove the path."""
        if self._server is not None:
            self._server.close()
        if self._writer is not None:
            self._writer.close()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None
        self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = writer
        # A QEMU that ends in the middle of a frame is no error here.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while self._received is not None:
                size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
                self._received(await reader.readexactly(size))
        writer.close()


class Relay:
    """Two ends and a fault plan; use it as `async with`.

    Timed events of the plan count from the start: `at 5s link-down left`, `link-up left`.

    Attributes:
        injector: what the plan has done so far; `injector.script()` replays it without chance.
        forwarded: frames that came out, by the end they came out of.
        lost: frames that an end did not take, by that end.
        taps: called with time in nanoseconds, port name and frame, before any damage.

    Args:
        left: one end.
        right: the other end.
        plan: rules, as a plan or its text.
        seed: decides chances when the plan has no seed of its own.
    """

    def __init__(self, left: End, right: End, plan: FaultPlan | str = "", *, seed: int = 0) -> None:
        self.ends: dict[str, End] = {"left": left, "right": right}
        self.forwarded: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.taps: list[Callable[[int, str, bytes], None]] = []
        self._random = random.Random(seed)
        self._down: set[str] = set()
        self._queue: list[tuple[int, int, Callable[[int], None]]] = []
        self._numbered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._events: list[asyncio.TimerHandle] = []
        self._started = 0.0
        self.injector = self._injector(plan)

    async def __aenter__(self) -> Self:
        """Open both ends and start the clock of the plan.

        Raises:
            LookupError: the plan has an event that a relay does not know.
            OSError: an end could not be opened.
        """
        loop = asyncio.get_running_loop()
        self._started = loop.time()
        for event in self.injector.plan.events:
            if event.name not in ("link-down", "link-up") or event.argument not in self.ends:
                raise LookupError(
                    f"a relay cannot do {event}; it knows link-down and link-up of left and right"
                )
        opened: list[End] = []
        try:
            for name, end in self.ends.items():
                other = "right" if name == "left" else "left"
                await end.open(partial(self._receive, name, other))
                opened.append(end)
        except BaseException:
            for end in opened:
                await end.close()
            raise
        for event in self.injector.plan.events:
            up = event.name == "link-up"
            delay = event.at_ns / NS_PER_S
            self._events.append(loop.call_later(delay, self._link_event, event.argument, up))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close both ends; frames still delayed are lost."""
        for handle in self._events:
            handle.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for end in self.ends.values():
            await end.close()

    @property
    def now_ns(self) -> int:
        """Nanoseconds since the relay was opened."""
        return round((asyncio.get_running_loop().time() - self._started) * NS_PER_S)

    def set_plan(self, plan: FaultPlan | str) -> None:
        """Replace the rules from now on; frames already delayed keep their time."""
        self.injector = self._injector(plan)

    def set_link(self, name: str, *, up: bool) -> None:
        """Plug or pull the cable of one end, `left` or `right`.

        Raises:
            LookupError: there is no such end.
        """
        if name not in self.ends:
            raise LookupError(f"no end is called {name!r}; known: left, right")
        (self._down.discard if up else self._down.add)(name)

    def _link_event(self, name: str, up: bool) -> None:
        self.set_link(name, up=up)

    def _injector(self, plan: FaultPlan | str) -> FaultInjector:
        parsed = FaultPlan.parse(plan) if isinstance(plan, str) else plan
        return FaultInjector(parsed, self._random)

    def _receive(self, source: str, target: str, frame: bytes) -> None:
        now_ns = self.now_ns
        for tap in self.taps:
            tap(now_ns, source, frame)
        if source in self._down:
            self.lost[target] += 1
            return
        # The loop's timer may be late; what is due goes out before what comes in.
        self._release_due(now_ns)
        for delivery in self.injector.enter(frame, now_ns, source):
            leave = partial(self._leave, source, target, delivery.frame)
            self._at(now_ns + delivery.delay_ns, now_ns, leave)

    def _leave(self, source: str, target: str, frame: bytes, now_ns: int) -> None:
        for delivery in self.injector.leave(frame, now_ns, source, target):
            deliver = partial(self._deliver, target, delivery.frame)
            self._at(now_ns + delivery.delay_ns, now_ns, deliver)

    def _at(self, when_ns: int, now_ns: int, action: Callable[[int], None]) -> None:
        if when_ns <= now_ns:
            action(now_ns)
            return
        # The event loop does not keep the order of equal times; the number does.
        self._numbered += 1
        heapq.heappush(self._queue, (when_ns, self._numbered, action))
        if self._queue[0][1] == self._numbered:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        when = self._started + self._queue[0][0] / NS_PER_S
        self._timer = asyncio.get_running_loop().call_at(when, self._release)

    def _release(self) -> None:
        self._timer = None
        self._release_due(self.now_ns)
        if self._queue:
            self._set_timer()

    def _release_due(self, now_ns: int) -> None:
        while self._queue and self._queue[0][0] <= now_ns:
            when_ns, _, action = heapq.heappop(self._queue)
            action(when_ns)

    def _deliver(self, target: str, frame: bytes, _now_ns: int) -> None:
        if target not in self._down and self.ends[target].send(frame):
            self.forwarded[target] += 1
        else:
            self.lost[target] += 1
