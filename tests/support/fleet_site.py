"""A QEMU node of a fleet that publishes, with a gateway and a NATS server on this machine."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pxe.nats import NatsOptions, NatsServer
from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from tests.support.fleet_cli import BOT, told
from toolchain.cli import images
from toolchain.cli.run_config import with_lines
from toolchain.config import load_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pxe.gateway.server import GatewayServer

HOST = "10.0.2.2"
"""This machine, as a node on QEMU's user network sees it."""


def fleet_image(folder: Path, gateway: int, nats: int, **overrides: Any) -> Path:
    """Write the image of a node that publishes.

    Args:
        folder: Where.
        gateway: Its port on this machine.
        nats: The same of NATS.
        overrides: Keys of `[fleet]`.
    """
    settings = {
        "gateway.url": f"ws://{HOST}:{gateway}/",
        "fleet.bot": BOT,
        "fleet.node": "n7",
        "fleet.servers": [f"{HOST}:{nats}"],
        "fleet.publish": True,
        "fleet.enrol": False,
    } | {f"fleet.{key}": value for key, value in overrides.items()}
    config = load_config(None, dict(os.environ) | {"SHARDFW_TOKEN": "test-token"}, settings)
    template = images.cached_template("direct") or images.fresh_template("direct")
    file = folder / f"{settings['fleet.node']}.bin"
    file.write_bytes(images.complete(template, with_lines(config)))
    return file


@asynccontextmanager
async def fleet_site(
    gateway: GatewayServer, folder: Path, shards: int, *, event_mib: int = 128
) -> AsyncIterator[tuple[NatsServer, Node]]:
    """Boot a node that claims the only slot of a new fleet, whose shards all of the gateway has.

    Args:
        gateway: Runs.
        folder: For the image.
        shards: Of the bot.
        event_mib: Room for events in the stream.
    """
    async with NatsServer(NatsOptions(memory_bytes=(event_mib + 128) << 20)) as server:
        words = ["--total", str(shards), "--slots", "1", "--max-concurrency", str(shards)]
        await told(server.url, "init", *words, "--event-mib", str(event_mib), "--new")
        file = fleet_image(folder, gateway.port, server.port)
        async with Node(NodeOptions(UserNet(), boot=DirectBoot(file))) as node:
            yield server, node
