"""A whole fleet on this machine: NATS, a gateway, and nodes in QEMU on one segment, from start to clean end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pxe.nats import is_wanted
from pxe.node import (
    DirectBoot,
    Hub,
    Node,
    NodeOptions,
    PxeBoot,
    StreamNet,
    UserNet,
)
from toolchain.cli import diagnostics, images
from toolchain.cli.board import Board
from toolchain.cli.fleet.change import LEASE, leases
from toolchain.cli.fleet.leftovers import sessions
from toolchain.cli.fleet.orders import ask_move
from toolchain.cli.fleet.status import report as status_report
from toolchain.cli.fleet.watch import SESSIONS, View
from toolchain.cli.fleet_events import EventAccount, follow
from toolchain.cli.fleet_services import FleetRunOptions, FleetServices, fleet_services
from toolchain.cli.runner import RunError
from toolchain.cli.runtime import ControlServer, RunnerError
from toolchain.cli.trust import labels_of, trust_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pxe.gateway.accounting import GatewayStats
    from pxe.gateway.core import Gateway
    from pxe.node import SerialLine
    from toolchain.cli.fleet.records import Lease
    from toolchain.config import NodeConfig

MAC = "52:54:00:f1:ee:{:02x}"
NODES_MAX = 8
FIRST_GUEST = 15
"""QEMU's user network hands out 10.0.2.15 first."""
ASK_S = 1.0
POLL_S = 0.05
PUMP_S = 0.1
SAVED_S = 15.0
"""A session that goes on is saved every 5 s."""


@dataclass
class Machine:
    """One node of the fleet.

    Attributes:
        label: How people call it.
        name: How the fleet calls it: `n` and the address of its card.
        node: The QEMU.
        board: What its lines told.
    """

    label: str
    name: str
    node: Node
    board: Board = field(default_factory=lambda: Board({}))

    @property
    def alive(self) -> bool:
        """Return whether its QEMU runs."""
        return self.node.exit_code is None

    def take(self, line: SerialLine) -> None:
        """Take one serial line."""
        self.board.feed(line.seconds, line.text)


async def _until_gone(machine: Machine, server: ControlServer) -> None:
    """Let a node be found no longer than it lives."""
    await machine.node.process.wait()
    await server.__aexit__(None, None, None)


@dataclass
class FleetRunner:
    """A running fleet.

    Attributes:
        options: What runs.
        on_line: Called with label and line of every serial port.
        machines: The nodes.
        image_bytes: Size of the image that all of them boot.
    """

    options: FleetRunOptions
    on_line: Callable[[str, SerialLine], None] | None = None
    machines: list[Machine] = field(default_factory=list)
    image_bytes: int = 0
    _hub: Hub | None = None
    _guests: tuple[str, ...] = ()
    _services: FleetServices | None = None

    async def run(self, until: Callable[[FleetRunner], Awaitable[None]]) -> None:
        """Start everything, wait for `until`, end everything.

        Args:
            until: Returns when the fleet may go.

        Raises:
            NodeError: QEMU or nats-server did not start.
            FleetError: NATS does not do what it should.
            RunError: Every node has ended.
        """
        async with contextlib.AsyncExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="shardfw-fleet-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            services = fleet_services(self.options, folder)
            self._services = await stack.enter_async_context(services)
            config = self._services.config
            file = await self._image(folder, config)
            await self._boot(stack, file, config)
            await self._wait(until)

    async def _image(self, folder: Path, config: NodeConfig) -> Path:
        """Write the one image that all nodes boot: each takes its name from its card."""
        target = images.TARGETS[self.options.target]
        template = images.cached_template(self.options.target)
        if template is None:
            template = await asyncio.to_thread(images.fresh_template, self.options.target)
        contents = images.complete(template, config)
        images.judge(template, contents)
        tftp = folder / "tftp"
        tftp.mkdir()
        file = tftp / f"{target.stem}{target.suffix}"
        file.write_bytes(contents)
        self.image_bytes = len(contents)
        return file

    async def _boot(self, stack: contextlib.AsyncExitStack, file: Path, config: NodeConfig) -> None:
        options = self.options
        guests = tuple(f"10.0.2.{FIRST_GUEST + number}" for number in range(options.nodes))
        user = UserNet(file.parent, file.name, config.diagnostics.port, guests)
        # One segment: a hub with a cable to each node.
        cables = [file.parent.parent / f"cable{number}" for number in range(options.nodes)]
        hub = Hub([StreamNet(cable, server=True) for cable in cables], user)
        self._hub, self._guests = await stack.enter_async_context(hub), guests
        boot = DirectBoot(file) if options.target == "direct" else PxeBoot()
        for number, cable in enumerate(cables, 1):
            mac = MAC.format(number)
            label = f"{options.name}-{number}"
            # Which of the hub's addresses a node has is told by the serial number in its answers.
            serial = ("-smbios", f"type=1,serial={label}")
            made = NodeOptions(
                StreamNet(cable),
                boot,
                mac=mac,
                nic=options.nic,
                memory_mb=options.memory_mb,
                extra=serial,
            )
            machine = Machine(label, f"n{mac.replace(':', '')}", Node(made, name=label))
            machine.node.on_line = self._listener(machine)
            self.machines.append(machine)
            handlers = {"where": partial(self._where, machine)}
            server = await stack.enter_async_context(ControlServer(label, handlers))
            await stack.enter_async_context(machine.node)
            stack.callback(asyncio.ensure_future(_until_gone(machine, server)).cancel)

    async def _where(self, machine: Machine, _request: dict[str, Any]) -> dict[str, object]:
        """Tell where a node is reached from this machine, with which key, and whom it trusts."""
        config = self.services.config
        anchors = labels_of(trust_of(config, datetime.now(UTC)))
        return {
            "diagnostics_host": "127.0.0.1",
            "diagnostics_port": await self._port_of(machine),
            "control_key": config.control_key.get_secret_value().hex(),
            "gateway_port": self.services.gateway.port,
            "qemu_pid": machine.node.pid,
            "anchors": {f"{known:016x}": label for known, label in anchors.items()},
        }

    async def _port_of(self, machine: Machine) -> int:
        """Return the port from which a node's diagnostics are forwarded.

        Raises:
            RunnerError: It does not answer.
        """
        hub = self._hub
        for guest in self._guests if machine.alive else ():
            if hub is None:
                break
            port = await hub.forwarded_port(guest)
            with contextlib.suppress(diagnostics.NoAnswerError):
                replies = await asyncio.to_thread(diagnostics.ask, "127.0.0.1", port, ASK_S)
                if replies[0]["serial"].rstrip(b"\0") == machine.label.encode():
                    return port
        raise RunnerError(f"{machine.label} does not answer: it has ended, or still boots")

    def _listener(self, machine: Machine) -> Callable[[SerialLine], None]:
        def take(line: SerialLine) -> None:
            machine.take(line)
            if self.on_line is not None:
                self.on_line(machine.label, line)

        return take

    async def _wait(self, until: Callable[[FleetRunner], Awaitable[None]]) -> None:
        wanted = asyncio.ensure_future(until(self))
        watching = asyncio.ensure_future(self._pump())
        ended = asyncio.ensure_future(self._all_ended())
        tasks = (wanted, watching, ended)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self) -> None:
        while is_wanted():
            await self.services.view.pump(PUMP_S)

    async def _all_ended(self) -> None:
        await asyncio.gather(*(machine.node.process.wait() for machine in self.machines))
        raise RunError(f"every node has ended. {self.tail()}")

    @property
    def services(self) -> FleetServices:
        """Return what runs beside the nodes; valid while it runs."""
        if self._services is None:
            raise RunError("the fleet has not started")
        return self._services

    @property
    def gateway(self) -> GatewayStats:
        """Return what the gateway counted."""
        return self.services.gateway.stats()

    @property
    def core(self) -> Gateway:
        """Return the gateway without its sockets."""
        return self.services.gateway.core

    def label_of(self, name: str) -> str:
        """Return how people call a node of the fleet."""
        return next((m.label for m in self.machines if m.name == name), name)

    def holders(self) -> dict[int, Lease]:
        """Return the leases that are held, by slot."""
        return {slot: lease for slot, lease in leases(self.services.view).items() if lease.held}

    def written_at(self, slot: int) -> float:
        """Return `time.monotonic()` when the newest record of a slot's lease was seen."""
        return self.services.view.records[f"{LEASE}{slot}"].at

    async def ask_move(self, slot: int, node: str) -> None:
        """Ask for a slot that is held to go to a node, as `shardfw fleet move` does.

        Raises:
            FleetError: Somebody else asks at the same time, or NATS does not answer.
        """
        await ask_move(self.services.view, slot, self.holders()[slot], node)

    async def until_saved(self, held: Mapping[int, Lease]) -> None:
        """Wait until the holders of slots have saved a session of each shard.

        Args:
            held: The leases, by slot.

        Raises:
            RunError: That took too long.
        """
        kept = View(self.services.view.fleet, SESSIONS)
        wanted = {
            (shard, lease.generation)
            for lease in held.values()
            for shard in range(lease.slot.start, lease.slot.end)
        }

        def saved() -> bool | None:
            found = {(shard, session.generation) for shard, session in sessions(kept).items()}
            return wanted <= found or None

        try:
            if await kept.until(saved, SAVED_S) is None:
                raise RunError(f"not every session is saved after {SAVED_S:g} s. {self.tail()}")
        finally:
            await kept.stop()

    async def read_events(self, account: EventAccount) -> None:
        """Read what the nodes publish into an account until cancelled."""
        await follow(self.services.view.fleet, account)

    def connected_shards(self) -> int:
        """Return how many shards have a connection to the gateway."""
        return sum(shard.connected for shard in self.gateway.shards)

    async def until_owned(self, timeout: float) -> None:
        """Wait until every slot is held and every shard has a session.

        Raises:
            RunError: It took too long; with the last lines of every node.
        """
        await self.until(
            lambda: (
                len(self.holders()) == self.options.slots
                and self.connected_shards() == self.options.total
            ),
            timeout,
            lambda: (
                f"{len(self.holders())} of {self.options.slots} slots are held and "
                f"{self.connected_shards()} of {self.options.total} shards connected"
            ),
        )

    async def until(
        self, holds: Callable[[], bool], timeout: float, else_say: Callable[[], str]
    ) -> None:
        """Wait until something holds.

        Raises:
            RunError: It does not in time; with what is said then and the last lines.
        """
        end = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > end:
                raise RunError(f"{else_say()} after {timeout:g} s. {self.tail()}")
            await asyncio.sleep(POLL_S)

    def status(self) -> dict[str, Any]:
        """Return who has what, as `shardfw fleet status --json` prints it."""
        return status_report(self.services.view, {}, self.services.clock_offset)

    def report(self) -> dict[str, Any]:
        """Return the stable keys of `shardfw run --fleet --json`."""
        held = self.holders()
        return {
            "nodes": [
                {
                    "label": machine.label,
                    "name": machine.name,
                    "alive": machine.alive,
                    "slots": [s for s, lease in held.items() if lease.node == machine.name],
                }
                for machine in self.machines
            ],
            "shards": self.options.total,
            "connected": self.connected_shards(),
            "slots": self.options.slots,
            "held": len(held),
            "transport": "wss" if self.options.tls else "ws",
            "image_bytes": self.image_bytes,
        }

    def tail(self) -> str:
        """Return the last lines of every node, for an error message."""
        parts = []
        for machine in self.machines:
            lines = [f"\n    {s:8.3f} {text}" for s, text in list(machine.board.lines)[-8:]]
            errors = f"\n    QEMU says: {machine.node.errors}" if machine.node.errors else ""
            parts.append(f"\n  {machine.label}:{''.join(lines) or ' silent'}{errors}")
        return f"Last lines of each node:{''.join(parts)}"
