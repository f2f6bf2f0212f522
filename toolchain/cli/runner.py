"""One node in QEMU with its image, its gateway and its control socket, from start to clean end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware.layouts import log
from pxe.gateway.certificates import make_chain
from pxe.gateway.cli_support import LOCAL_NAMES
from pxe.gateway.options import GatewayOptions
from pxe.gateway.protocol import PROFILES
from pxe.gateway.server import GatewayServer
from pxe.node import DirectBoot, NicModel, Node, NodeError, NodeOptions, PxeBoot, UserNet
from toolchain.cli import diagnostics, images
from toolchain.cli.board import STEPS, Board
from toolchain.cli.control import Place
from toolchain.cli.handover import handed_over
from toolchain.cli.run_config import with_control_key, with_gateway, with_lines, with_sessions
from toolchain.cli.runtime import ControlServer, RunnerError
from toolchain.cli.sessions import SessionKeeper, SessionStore, state_folder
from toolchain.cli.trust import labels_of, trust_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pxe.node import SerialLine
    from toolchain.build import Template
    from toolchain.cli.loglines import LogLine
    from toolchain.config import NodeConfig

# The boot ROM asks for the image 4 s after power-on and does not ask twice: a machine that is still
# without it by then is stopped until it is there.
PATIENCE_S = 2.5
QUIET_S = 2.0
KEEP_S = 2.0
"""How long the sessions of a node that is gone are still hoped for; seconds."""
OFF_S, OFF_POLL_S = 3.0, 0.25
"""How long a machine has to switch itself off after its node said so; seconds."""
"""Without a line for so long, the node is asked whether its serial port dropped some."""


class RunError(RuntimeError):
    """The node did not get where it should; the text says what was last seen."""


class NodeStoppedError(RunError):
    """The node was told to stop and did: by command or by its power button."""


@dataclass(frozen=True)
class RunOptions:
    """What to run.

    Attributes:
        config: The node; its gateway is replaced by the local one.
        name: Under which name other commands find it.
        target: A key of `images.TARGETS`.
        memory_mb: RAM in MiB.
        nic: The device.
        local_gateway: Whether to start one; else the configuration's is used.
        tls: Whether the local one serves TLS, with a CA that the image trusts.
        load: Dispatches a second of the local gateway.
        pcap: File for every frame, or None.
        extra: More arguments of QEMU, behind all others.
    """

    config: NodeConfig
    name: str
    target: str = "bios"
    memory_mb: int = 32
    nic: NicModel = NicModel.TRANSITIONAL
    local_gateway: bool = True
    tls: bool = True
    load: float = 0.0
    pcap: Path | None = None
    extra: tuple[str, ...] = ()


@dataclass
class Runner:
    """A running node.

    Attributes:
        options: What runs.
        on_line: Called for each serial line.
        board: What its lines told.
        image_bytes: Size of the image; 0 until it is made.
        gateway: The local gateway, None without one.
        root: The certificate of its CA, PEM; None without TLS.
    """

    options: RunOptions
    on_line: Callable[[SerialLine, LogLine | None], None] | None = None
    board: Board = field(init=False)
    image_bytes: int = 0
    gateway: GatewayServer | None = None
    root: bytes | None = None
    _node: Node | None = None
    _key: bytes = field(default=b"", repr=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _keeper: SessionKeeper | None = None
    _keeping: asyncio.Task[int] | None = None
    _saves: bool = False
    _secure: bool = False
    _anchors: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shards = self.options.config.shards
        self.board = Board.of(shards.start, shards.count)

    @property
    def seconds(self) -> float:
        """Return the time since power-on; 0 before it."""
        return time.monotonic() - self._node.started_at if self._node is not None else 0.0

    async def run(self, until: Callable[[Runner], Awaitable[None]]) -> None:
        """Start everything, wait for `until`, end everything.

        Args:
            until: Returns when the node may go.

        Raises:
            NodeError: QEMU did not start.
            RunnerError: A node of that name runs already.
            NodeStoppedError: The node was stopped.
            RunError: QEMU ended by itself.
        """
        handlers = {"where": self._where}
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(ControlServer(self.options.name, handlers))
            folder = Path(tempfile.mkdtemp(prefix="shardfw-tftp-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            store = SessionStore(state_folder() / f"{self.options.name}.sessions.json")
            if self.options.local_gateway:
                store.take()  # the gateway of an earlier run took its sessions with it
            self._keeper = SessionKeeper(store)
            config = with_control_key(self.options.config)
            moved = handed_over(config.token.get_secret_value(), config.shards)
            config = with_sessions(config, kept=self._keeper.load(moved))
            self._key = config.control_key.get_secret_value()
            if self.options.local_gateway:
                chain = make_chain(LOCAL_NAMES) if self.options.tls else None
                self.root = None if chain is None else chain.root
                context = None if chain is None else chain.context()
                server = GatewayServer(self._gateway(), ssl_context=context)
                self.gateway = await stack.enter_async_context(server)
                config = with_gateway(config, self.gateway.port, self.root)
            self._secure = config.gateway.endpoint.secure
            self._anchors = labels_of(trust_of(config, datetime.now(UTC)))
            config = with_lines(config)
            self._node = await self._start(stack, folder, config)
            try:
                await self._wait(until)
            finally:
                await self._end_keeping()

    def _gateway(self) -> GatewayOptions:
        from pxe.gateway.load import LoadOptions  # noqa: PLC0415

        config, load = self.options.config, self.options.load
        return GatewayOptions(
            shards=config.shards.total,
            max_concurrency=config.gateway.max_concurrency,
            profile=PROFILES[config.gateway.profile],
            load=LoadOptions(rate=load) if load else None,
        )

    async def _start(
        self, stack: contextlib.AsyncExitStack, folder: Path, config: NodeConfig
    ) -> Node:
        """Start QEMU at once, and have the image in its place before the boot ROM asks for it."""
        target = images.TARGETS[self.options.target]
        file = folder / f"{target.stem}{target.suffix}"
        template = images.cached_template(self.options.target)
        if template is not None:
            self._lay(file, template, config)
        direct = self.options.target == "direct"
        if template is None and direct:
            self._lay(file, await self._link(), config)
        net = UserNet(folder, file.name, config.diagnostics.port)
        node = Node(
            NodeOptions(
                net=net,
                boot=DirectBoot(file) if direct else PxeBoot(),
                nic=self.options.nic,
                memory_mb=self.options.memory_mb,
                pcap=self.options.pcap,
                extra=self.options.extra,
            ),
            on_line=self._take,
            name=self.options.name,
        )
        await stack.enter_async_context(node)
        if not file.exists():
            linking = asyncio.ensure_future(self._link())
            done, _ = await asyncio.wait([linking], timeout=PATIENCE_S)
            if not done:
                await node.pause()
            self._lay(file, await linking, config)
            if not done:
                await node.resume()
        return node

    async def _link(self) -> Template:
        return await asyncio.to_thread(images.fresh_template, self.options.target)

    def _lay(self, file: Path, template: Template, config: NodeConfig) -> None:
        """Write the image where the node finds it, all at once."""
        contents = images.complete(template, config)
        images.judge(template, contents)
        part = file.with_suffix(".part")
        part.write_bytes(contents)
        part.replace(file)
        self.image_bytes = len(contents)

    async def _wait(self, until: Callable[[Runner], Awaitable[None]]) -> None:
        node = self._running()
        ended = asyncio.ensure_future(node.process.wait())
        wanted = asyncio.ensure_future(until(self))
        asking = asyncio.ensure_future(self._ask_when_quiet())
        halted = asyncio.ensure_future(self._halted())
        try:
            await asyncio.wait([ended, wanted, halted], return_when=asyncio.FIRST_COMPLETED)
            if wanted.done():
                await wanted
            elif self.board.stopped is not None:
                raise NodeStoppedError(self._stopped())
            else:
                raise RunError(f"QEMU ended with status {ended.result()}. {self.tail()}")
        finally:
            tasks = (ended, wanted, asking, halted)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _halted(self) -> None:
        """Return a while after the node said that it goes off: it may not know how."""
        while not self.board.off:
            await asyncio.sleep(OFF_POLL_S)
        await asyncio.sleep(OFF_S)

    def _stopped(self) -> str:
        """Return what the node told of its stop."""
        told = self.board.stopped or {}
        text = f"the node has stopped in {told['took']} ms: {told['closed']} connections closed, "
        return f"{text}{told['reset']} reset, {told['left']} left"

    async def _ask_when_quiet(self) -> None:
        """Correct the board by the node's diagnostics after lines were dropped."""
        node, dropped = self._running(), 0
        while True:
            seen = len(node.lines)
            await asyncio.sleep(QUIET_S)
            if len(node.lines) != seen or STEPS[-1][0] not in self.board.steps:
                continue
            with contextlib.suppress(NodeError, diagnostics.NoAnswerError):
                port = await node.forwarded_port()
                replies = await asyncio.to_thread(diagnostics.ask, "127.0.0.1", port)
                if replies[0]["log_dropped"] != dropped:
                    dropped = replies[0]["log_dropped"]
                    self._correct(replies)

    def _correct(self, replies: list[dict[str, Any]]) -> None:
        """Take what the node says of its shards."""
        shards = [diagnostics.shard_report(r) for r in replies if diagnostics.has_shard(r)]
        ready_ms = max((diagnostics.ready_ms(r) or 0 for r in replies), default=0)
        node = diagnostics.node_report(replies[0])
        self.board.correct(self.seconds, node, shards, ready_ms)
        self._changed.set()

    async def until_ready(self, timeout: float) -> None:
        """Wait until all shards are READY at once.

        Raises:
            RunError: It took too long, a shard is FATAL or found no memory; with the last lines.
        """
        try:
            async with asyncio.timeout(timeout):
                while self.board.power_on_to_ready_ms is None:
                    if self.lacks:
                        raise RunError(f"{self.lacks}. {self.tail()}")
                    if self.board.fatal:
                        first = self.board.fatal[0]
                        raise RunError(
                            f"shard {first.shard} is FATAL: {first.detail}. {self.tail()}"
                        )
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            ready, count = self.board.ready, len(self.board.rows)
            raise RunError(
                f"{ready} of {count} shards are READY after {timeout:g} s. {self.tail()}"
            ) from None

    @property
    def lacks(self) -> str:
        """Return how many shards found no memory and what to do; nothing when all did."""
        lacking, asked = len(self.board.without_memory), len(self.board.rows)
        if not lacking:
            return ""
        return (
            f"{asked - lacking} of {asked} shards found memory in {self.options.memory_mb} MiB: give "
            "the node more (--memory), or fewer shards (--shards, or shards.count)"
        )

    def tail(self) -> str:
        """Return the last lines for an error message."""
        lines = [f"\n  {seconds:8.3f} {text}" for seconds, text in self.board.lines]
        errors = self._node.errors if self._node is not None else ""
        said = f"\nQEMU says: {errors}" if errors else ""
        if not lines:
            return f"The serial port was silent: does the machine reach the boot ROM?{said}"
        return f"Last lines:{''.join(lines[-20:])}{said}"

    def report(self) -> dict[str, Any]:
        """Return the stable keys of `shardfw run --json`."""
        return {
            "shards": len(self.board.rows),
            "ready": self.board.ready,
            "transport": "wss" if self._secure else "ws",
            "nbp_to_ready_ms": self.board.nbp_to_ready_ms,
            "power_on_to_ready_ms": self.board.power_on_to_ready_ms,
            "image_bytes": self.image_bytes,
        }

    def _running(self) -> Node:
        if self._node is None:
            raise RunnerError("the node is still being started. Try again in a second")
        return self._node

    def _take(self, line: SerialLine) -> None:
        """Take one serial line: board, sessions, listener."""
        parsed = self.board.feed(line.seconds, line.text)
        keeps = self._keeper is not None and not self._keeper.ended.is_set()
        if keeps and parsed and parsed.code in (log.NODE_STARTED, log.NODE_STOPPING):
            self._saves = parsed.code is log.NODE_STOPPING
            self._keeping = asyncio.ensure_future(self._keep(self._keeping))
        self._changed.set()
        if self.on_line is not None:
            self.on_line(line, parsed)

    async def _keep(self, before: asyncio.Task[int] | None) -> int:
        """Offer sessions to the node that has started, or take those of the one that stops."""
        node, shards = self._running(), self.options.config.shards
        saves, keeper = self._saves, self._keeper
        if before is not None:
            await before
        if keeper is None:
            return 0
        place = Place("127.0.0.1", await node.forwarded_port(), self._key)
        work = keeper.collect if saves else keeper.offer
        return await asyncio.to_thread(
            work, place, range(shards.start, shards.start + shards.count)
        )

    async def _end_keeping(self) -> None:
        """Let a stop have its sessions; whatever else goes on ends at once."""
        if self._keeper is None:
            return
        if self._saves and self._keeping is not None:
            await asyncio.wait([self._keeping], timeout=KEEP_S)
        self._keeper.ended.set()  # and nothing begins any more
        if self._keeping is not None:
            with contextlib.suppress(NodeError):
                await self._keeping

    async def _where(self, _request: dict[str, Any]) -> dict[str, object]:
        """Tell where the node is reached from this machine, with which key, and whom it trusts.

        The socket that asks is private to this user.
        """
        node = self._running()
        return {
            "diagnostics_host": "127.0.0.1",
            "diagnostics_port": await node.forwarded_port(),
            "control_key": self._key.hex(),
            "gateway_port": None if self.gateway is None else self.gateway.port,
            "qemu_pid": node.pid,
            "anchors": {f"{known:016x}": label for known, label in self._anchors.items()},
        }


__all__ = ["NodeError", "NodeStoppedError", "RunError", "RunOptions", "Runner"]
