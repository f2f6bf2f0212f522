"""A node in QEMU with a gateway on this machine, for tests that pull at both."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pxe.gateway.options import GatewayOptions
from pxe.gateway.server import GatewayServer
from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from toolchain.cli import images
from toolchain.cli.diagnostics import ask
from toolchain.cli.run_config import with_gateway, with_lines
from toolchain.config import load_config
from toolchain.layout.pack import unpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pxe.gateway.accounting import GatewayStats
    from pxe.gateway.events import Observer

SHARDS = 16
PATIENCE_S = 60.0
"""Longest wait for anything here; a loaded machine of two cores needs a fraction of it."""


def quiet(**changes: Any) -> GatewayOptions:
    """Return settings of a gateway that says nothing by itself."""
    given: dict[str, Any] = {
        "shards": SHARDS,
        "max_concurrency": SHARDS,
        "guilds_per_shard": 0,
        "token": None,
    }
    return GatewayOptions(**given | changes)


def image(
    folder: Path, port: int, *, target: str = "direct", overrides: dict[str, Any] | None = None
) -> Path:
    """Write a bootable file.

    Args:
        folder: Where.
        port: The gateway's on this machine, as QEMU's user net shows it; 0 keeps the given one.
        target: A key of `images.TARGETS`.
        overrides: Dotted keys of the node's configuration.
    """
    shards = {"shards.total": SHARDS, "shards.count": SHARDS, "gateway.max_concurrency": SHARDS}
    config = load_config(None, os.environ, shards | (overrides or {}))
    if port:
        config = with_gateway(config, port)
    suffix = images.TARGETS[target].suffix
    file = folder / f"node{len(list(folder.iterdir()))}{suffix}"
    template = images.cached_template(target) or images.fresh_template(target)
    file.write_bytes(images.complete(template, with_lines(config)))
    return file


@dataclass
class Site:
    """One running node and its gateway.

    Attributes:
        gateway: The local gateway.
        node: The QEMU node.
        diagnostics: Its forwarded UDP port.
    """

    gateway: GatewayServer
    node: Node
    diagnostics: int

    async def all_connected(self) -> None:
        """Wait until every shard has a session with a connection."""
        await self.until(lambda stats: all(s.connected for s in stats.shards))

    async def until(self, predicate: Callable[[GatewayStats], bool]) -> None:
        """Wait until the gateway's counts say so."""
        await self.gateway.wait_until(predicate, PATIENCE_S)

    async def status(self) -> list[dict[str, Any]]:
        """Return what the node says of itself and of every slot."""
        return await asyncio.to_thread(ask, "127.0.0.1", self.diagnostics, PATIENCE_S)

    async def shard_rows(self) -> list[dict[str, Any]]:
        """Return the head of every ShardContext, by field."""
        from firmware.layouts.shard import ShardContext

        rows = await self.status()
        return [unpack(ShardContext, r["shard"].ljust(ShardContext.SIZE, b"\0")) for r in rows]

    async def settled(self) -> None:
        """Wait until the node has seen everything that the gateway has sent."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                rows = await self.shard_rows()
                stats = self.gateway.stats()
                told = [r["sequence"] for r in rows]
                if told == [s.sequence for s in stats.shards]:
                    return
                await asyncio.sleep(0.2)


class running:  # noqa: N801 - used as `async with running(...)`
    """Boot a node against a gateway and wait until all shards are READY.

    Args:
        folder: For the image.
        options: The gateway's.
        overrides: Of the node's configuration.
        observer: Called for every event of the gateway.
        connected: Whether to wait until all shards are READY.
    """

    def __init__(
        self,
        folder: Path,
        options: GatewayOptions | None = None,
        overrides: dict[str, Any] | None = None,
        *,
        observer: Observer | None = None,
        connected: bool = True,
    ) -> None:
        self._folder, self._overrides, self._connected = folder, overrides, connected
        self._gateway = GatewayServer(options or quiet(), observer=observer)
        self._node: Node | None = None

    async def __aenter__(self) -> Site:
        await self._gateway.__aenter__()
        try:
            file = image(self._folder, self._gateway.port, overrides=self._overrides)
            net = UserNet()
            self._node = Node(NodeOptions(net, boot=DirectBoot(file)))
            await self._node.__aenter__()
            site = Site(self._gateway, self._node, await self._node.forwarded_port())
            if self._connected:
                await site.all_connected()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return site

    async def __aexit__(self, *_: object) -> None:
        if self._node is not None:
            await self._node.__aexit__(None, None, None)
        await self._gateway.__aexit__(None, None, None)
