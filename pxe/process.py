"""A QEMU process under QMP control: start without races, stop without leftovers.

QEMU inherits its end of the control connection, so there is no path to choose, nothing to poll and
nothing to retry. Files live in one temporary folder that goes away with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from qemu.qmp import QMPClient, QMPError
from qemu.qmp.events import EventListener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

# QEMU closes the control connection in its own time when it quits, so a lost connection is no fault.
CLOSING = (QMPError, EOFError, OSError, asyncio.CancelledError)
START_SECONDS = 20.0
QUIT_SECONDS = 3.0


class NodeError(RuntimeError):
    """QEMU did not do what was asked; the text holds its own words."""


class QemuProcess:
    """One QEMU, from spawn to the end of its process.

    Use it as `async with`. All waits have a bound; the process is ended by its own handle.

    Attributes:
        folder: the temporary folder, valid while running.
        started_at: `time.monotonic()` at spawn.
        process: the asyncio process.
    """

    def __init__(
        self, build: Callable[[int], list[str]], prefix: tuple[str, ...] = (), name: str = "node"
    ) -> None:
        """Prepare a process.

        Args:
            build: returns the command for the file descriptor of the control connection.
            prefix: a command to put in front, such as `ip netns exec NAME`.
            name: what errors call it.
        """
        self.build = build
        self.prefix = prefix
        self.name = name
        self.started_at = 0.0
        self.folder = Path()
        self._process: asyncio.subprocess.Process | None = None
        self._qmp = QMPClient(name)
        # The library logs what it also raises.
        self._qmp.logger.setLevel(logging.CRITICAL)
        self._events = EventListener()
        self._tasks: list[asyncio.Task[None]] = []
        self._errors: list[str] = []

    @property
    def process(self) -> asyncio.subprocess.Process:
        """Return the running or ended process.

        Raises:
            NodeError: it was never started.
        """
        if self._process is None:
            raise NodeError(f"{self.name} has not been started. Use it as: async with")
        return self._process

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self.process.returncode

    async def __aenter__(self) -> Self:
        """Start the process and wait until its control connection answers."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the process."""
        await self.stop()

    async def start(self) -> None:
        """Start QEMU and take its control connection.

        Raises:
            NodeError: QEMU ended or stayed silent; with what it wrote on standard error.
            MissingProgramError: QEMU is not installed.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="shardfw-"))
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            self.started_at = time.monotonic()
            try:
                command = [*self.prefix, *die_with_parent(), *self.build(descriptor)]
                self._process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    pass_fds=(descriptor,),
                )
            except BaseException:
                ours.close()
                raise
        self._qmp.register_listener(self._events)
        self._tasks.append(asyncio.create_task(self._read_errors()))
        self._tasks.append(asyncio.create_task(self._read_output()))
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._qmp.connect(ours)
        except (QMPError, EOFError, OSError) as error:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), QUIT_SECONDS)
                await self._tasks[0]
            status = "still runs" if self.exit_code is None else f"ended with {self.exit_code}"
            words = self.errors or f"no message ({error!r})"
            raise NodeError(f"{self.name}: QEMU did not start and {status}: {words}") from None

    @property
    def errors(self) -> str:
        """Return what QEMU wrote on standard error so far."""
        return "\n".join(self._errors)

    async def _read_errors(self) -> None:
        stream = self.process.stderr
        while stream is not None and (line := await stream.readline()):
            self._errors.append(line.decode(errors="replace").rstrip())

    async def _read_output(self) -> None:
        """Read standard output to its end; a subclass makes lines of it."""
        stream = self.process.stdout
        while stream is not None and await stream.read(4096):
            continue

    async def stop(self) -> int | None:
        """End QEMU: ask, then terminate, then kill. Safe to call twice.

        Returns:
            The exit status, None when it was never started.
        """
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(*CLOSING):
                await asyncio.wait_for(self._qmp.execute("quit"), QUIT_SECONDS)
            for end in (None, signal.SIGTERM, signal.SIGKILL):
                if end is not None:
                    with contextlib.suppress(ProcessLookupError):
                        self._process.send_signal(end)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), QUIT_SECONDS)
                    break
        with contextlib.suppress(*CLOSING):
            await asyncio.wait_for(self._qmp.disconnect(), QUIT_SECONDS)
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = Path()
        return None if self._process is None else self._process.returncode

    async def qmp(self, command: str, arguments: Mapping[str, object] | None = None) -> object:
        """Run one QMP command and return its answer, as decoded JSON.

        Raises:
            NodeError: QEMU refused it, or the connection is gone.
        """
        try:
            return await self._qmp.execute(command, arguments)
        except (QMPError, EOFError) as error:
            raise NodeError(f"{self.name}: QMP {command}: {error}") from error

    async def hmp(self, line: str) -> str:
        """Run one line of the human monitor and return its text."""
        return str(await self.qmp("human-monitor-command", {"command-line": line}))

    async def wait_event(self, event: str, timeout: float) -> Mapping[str, object]:
        """Wait for a QMP event by name; earlier ones not yet waited for count, others are dropped.

        Args:
            event: for example RESET or WATCHDOG.
            timeout: seconds.

        Raises:
            NodeError: it did not come in time.
        """
        try:
            async with asyncio.timeout(timeout):
                while True:
                    message = await self._events.get()
                    if message["event"] == event:
                        return cast("dict[str, object]", message.get("data", {}))
        except TimeoutError:
            raise NodeError(f"{self.name}: no event {event} within {timeout} s") from None

    async def wait_exit(self, timeout: float) -> int:
        """Wait until QEMU ends by itself; return its exit status.

        Raises:
            NodeError: it still runs after `timeout` seconds.
        """
        try:
            return await asyncio.wait_for(self.process.wait(), timeout)
        except TimeoutError:
            raise NodeError(f"{self.name}: still running after {timeout} s") from None

    async def forwarded_port(self, guest: str = "") -> int:
        """Return the port of 127.0.0.1 from which UDP is forwarded to a node.

        Args:
            guest: one of `UserNet.guests`.

        Raises:
            NodeError: this process has no user network with such a forward.
        """
        text = await self.hmp("info usernet")
        target = re.escape(guest) or r"\S+"
        found = re.search(rf"UDP\[HOST_FORWARD\]\s+\d+\s+\S+\s+(\d+)\s+{target}\s", text)
        if found is None:
            raise NodeError(
                f"{self.name}: no UDP port is forwarded to {guest or 'a node'}. Set "
                "UserNet.diagnostics_port and UserNet.guests"
            )
        return int(found[1])


def die_with_parent() -> list[str]:
    """Return a prefix that lets the kernel end a child should this process die first."""
    found = shutil.which("setpriv")
    return [] if found is None else [found, "--pdeathsig", "KILL"]
