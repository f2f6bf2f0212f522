"""dnsmasq as the boot server of a segment: DHCP, TFTP and, on request, DNS."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pxe.process import QUIT_SECONDS, NodeError
from pxe.qemu import require_program
from pxe.segment import BRIDGE, Segment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

START_SECONDS = 20.0


@dataclass(frozen=True)
class BootServer:
    """What the segment's server offers.

    Attributes:
        tftp: the folder that TFTP serves.
        bootfile: the file DHCP names, relative to `tftp`.
        first: first address to hand out.
        last: last address to hand out.
        lease_seconds: how long an address lasts, at least the 120 that dnsmasq grants.
        names: host names that DNS answers, to their addresses; empty for no DNS.
        extra: more dnsmasq options.
    """

    tftp: Path
    bootfile: str
    first: str = "10.77.0.50"
    last: str = "10.77.0.99"
    lease_seconds: int = 3600
    names: Mapping[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    def render(self, folder: Path) -> list[str]:
        """Return the dnsmasq arguments.

        Args:
            folder: where it may keep its files.
        """
        lease = f"{self.first},{self.last},255.255.255.0,{self.lease_seconds}s"
        return [
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--user=root",
            f"--pid-file={folder / 'pid'}",
            "--log-facility=-",
            "--log-dhcp",
            f"--interface={BRIDGE}",
            "--bind-interfaces",
            "--except-interface=lo",
            f"--port={53 if self.names else 0}",
            *(f"--address=/{name}/{address}" for name, address in self.names.items()),
            # A fresh segment has nobody to ping for three seconds before each offer.
            "--no-ping",
            "--dhcp-authoritative",
            f"--dhcp-leasefile={folder / 'leases'}",
            f"--dhcp-range={lease}",
            f"--dhcp-boot={self.bootfile}",
            "--enable-tftp",
            f"--tftp-root={self.tftp}",
            # Without router advertisements iPXE waits 15 s for them.
            "--enable-ra",
            "--dhcp-range=fd77::,ra-only",
            *self.extra,
        ]


class Dnsmasq:
    """A running dnsmasq; use it as `async with`.

    Attributes:
        lines: what it logged.
    """

    def __init__(self, segment: Segment, server: BootServer) -> None:
        """Prepare a server.

        Args:
            segment: where it answers.
            server: what it offers.
        """
        self.segment = segment
        self.server = server
        self.lines: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._folder = Path()

    async def __aenter__(self) -> Self:
        """Start it and wait until it has said that it serves.

        Raises:
            NodeError: it ended or stayed silent; with its words.
            MissingProgramError: it is not installed.
        """
        program = require_program("dnsmasq", "dnsmasq-base")
        self._folder = Path(tempfile.mkdtemp(prefix="shardfw-"))
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.segment.prefix,
                program,
                *self.server.render(self._folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            self._reader = asyncio.create_task(self._read())
            await asyncio.wait_for(self._ready.wait(), START_SECONDS)
            if not self.is_serving:
                raise NodeError("dnsmasq did not start: " + "\n".join(self.lines))
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        await self.stop()

    @property
    def is_serving(self) -> bool:
        """Return whether it has said that it serves."""
        return any("TFTP root is" in line for line in self.lines)

    def address_of(self, mac: str) -> str:
        """Return the address that was last granted to a node.

        Raises:
            NodeError: none was.
        """
        for line in reversed(self.lines):
            found = re.search(rf"DHCPACK\(\S+\) (\S+) {re.escape(mac.lower())}", line)
            if found is not None:
                return found[1]
        raise NodeError(f"dnsmasq has granted no address to {mac}")

    async def _read(self) -> None:
        stream = None if self._process is None else self._process.stderr
        while stream is not None and (line := await stream.readline()):
            self.lines.append(line.decode(errors="replace").rstrip())
            if self.is_serving:
                self._ready.set()
        self._ready.set()

    async def stop(self) -> None:
        """End it by its own handle and remove its files. Safe to call twice."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), QUIT_SECONDS)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._reader is not None:
            await self._reader
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = Path()
