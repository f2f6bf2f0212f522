"""A QEMU node: its serial lines, its cable, its memory, its end.

    async with Node(NodeOptions(net=UserNet(tftp=folder, bootfile="nbp.bin"))) as node:
        await node.wait_line(r"event=ready", timeout=20)

Lines carry the time since power-on, so boot figures come from here and not from the node's word.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pxe.process import START_SECONDS, NodeError, QemuProcess
from pxe.qemu import (
    NETDEV_ID,
    DatagramNet,
    DirectBoot,
    MissingProgramError,
    MulticastNet,
    Netdev,
    NicModel,
    NodeOptions,
    PxeBoot,
    StreamNet,
    TapNet,
    UserNet,
    build_command,
    build_hub_command,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "DatagramNet",
    "DirectBoot",
    "Hub",
    "MissingProgramError",
    "MulticastNet",
    "NicModel",
    "Node",
    "NodeError",
    "NodeOptions",
    "PxeBoot",
    "SerialLine",
    "StreamNet",
    "TapNet",
    "UserNet",
    "free_udp_port",
]


@dataclass(frozen=True)
class SerialLine:
    """One line from COM1.

    Attributes:
        seconds: time since QEMU was started.
        text: the line without its end, undecodable bytes replaced.
    """

    seconds: float
    text: str


class Node(QemuProcess):
    """A QEMU node with its serial port.

    Attributes:
        options: what it was made from.
        lines: all serial lines so far.
    """

    def __init__(
        self,
        options: NodeOptions,
        on_line: Callable[[SerialLine], None] | None = None,
        name: str = "node",
    ) -> None:
        """Prepare a node.

        Args:
            options: the machine.
            on_line: called for each serial line, in the event loop.
            name: what errors call it.
        """
        super().__init__(lambda qmp: build_command(options, qmp), options.prefix, name)
        self.options = options
        self.on_line = on_line
        self.lines: list[SerialLine] = []
        self._changed = asyncio.Condition()
        self._ended = False

    async def _read_output(self) -> None:
        """Make lines of COM1 until it closes; the last one need not be complete."""
        stream = self.process.stdout
        while stream is not None:
            try:
                data = await stream.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                data = error.partial
            except asyncio.LimitOverrunError as error:
                data = await stream.readexactly(error.consumed)
            if not data:
                break
            text = data.decode(errors="replace").rstrip("\r\n")
            line = SerialLine(time.monotonic() - self.started_at, text)
            async with self._changed:
                self.lines.append(line)
                self._changed.notify_all()
            if self.on_line is not None:
                self.on_line(line)
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def wait_line(self, pattern: str, timeout: float, after: int = 0) -> SerialLine:
        """Wait for a serial line; lines that have come already count.

        Args:
            pattern: regular expression, searched in the line.
            timeout: seconds.
            after: how many lines to pass over, `len(node.lines)` for new ones only.

        Raises:
            NodeError: it did not come; the text shows the last lines.
        """
        expression = re.compile(pattern)
        seen = after
        try:
            async with asyncio.timeout(timeout), self._changed:
                while True:
                    for line in self.lines[seen:]:
                        if expression.search(line.text):
                            return line
                    seen = max(seen, len(self.lines))
                    if self._ended:
                        raise NodeError(self._missing(pattern, "the serial port closed"))
                    await self._changed.wait()
        except TimeoutError:
            raise NodeError(self._missing(pattern, f"{timeout} s passed")) from None

    def _missing(self, pattern: str, why: str) -> str:
        last = "".join(f"\n  {line.seconds:8.3f} {line.text}" for line in self.lines[-20:])
        errors = f"\nQEMU: {self.errors}" if self.errors else ""
        return f"{self.name}: {why} and no line matched {pattern!r}. Last lines:{last or ' none'}{errors}"

    def send_serial(self, data: bytes) -> None:
        """Send bytes to COM1."""
        if self.process.stdin is not None:
            self.process.stdin.write(data)

    async def set_link(self, up: bool) -> None:
        """Plug the network cable in or pull it out."""
        await self.qmp("set_link", {"name": NETDEV_ID, "up": up})

    async def pause(self) -> None:
        """Stop the virtual CPU; its TSC stands still too."""
        await self.qmp("stop")

    async def resume(self) -> None:
        """Let the virtual CPU go on."""
        await self.qmp("cont")

    async def reset(self) -> None:
        """Press the reset button and wait until QEMU has done so."""
        await self.qmp("system_reset")
        await self.wait_event("RESET", timeout=START_SECONDS)

    async def status(self) -> str:
        """Return QEMU's run state, for example "running" or "paused"."""
        answer = cast("dict[str, object]", await self.qmp("query-status"))
        return str(answer["status"])

    async def read_memory(self, address: int, size: int) -> bytes:
        """Return physical memory.

        Args:
            address: first byte.
            size: number of bytes.
        """
        file = self.folder / "memory"
        await self.qmp("pmemsave", {"val": address, "size": size, "filename": str(file)})
        return file.read_bytes()


class Hub(QemuProcess):
    """DHCP, TFTP and the host at 10.0.2.2 for the nodes of one segment, without root."""

    def __init__(self, cables: Netdev | Sequence[Netdev], user: UserNet) -> None:
        """Prepare the hub of a segment.

        Args:
            cables: the segment, or what leads to each of its nodes.
            user: the boot server and forwards.
        """
        ends = (cables,) if isinstance(cables, Netdev) else tuple(cables)
        super().__init__(lambda qmp: build_hub_command(ends, user, qmp), name="hub")


def free_udp_port() -> int:
    """Return a UDP port that was free just now; for a `MulticastNet`, whose port many share."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
