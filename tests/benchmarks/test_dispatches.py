"""Dispatches a second that 16 shards take, and what a million of them cost, beside peers.

The gateway pours prepared dispatches into all connections, held back by TCP alone. The node runs in
QEMU's translator, which costs it a factor that no real machine has; the peers run natively. QEMU's
own network, the Ethernet card and TCP of the node are part of its figure; TCP of the peers is the
kernel's, whose work in interrupts is not in theirs.
"""

import asyncio
import statistics
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from tests.support.bench import spread
from tests.support.clients import Client, Figures, cost, measure, peer
from tests.support.firehose import Firehose, bodies
from tests.support.site import SHARDS, Site, image, quiet

pytestmark = pytest.mark.bench
PEERS = ("aiohttp", "websockets", "discord.py")


@asynccontextmanager
async def node(gateway: Firehose, folder: Path):
    boot = DirectBoot(image(folder, gateway.port))
    async with Node(NodeOptions(UserNet(), boot=boot)) as machine:
        site = Site(gateway, machine, await machine.forwarded_port())

        async def counts():
            rows = await site.shard_rows()
            return [row["dispatches"] for row in rows]

        yield Client("this node in QEMU (TCG)", machine.pid, counts)


async def run(folder: Path) -> dict[str, Figures]:
    found = {}
    for library in (None, *PEERS):
        async with Firehose(quiet()) as gateway:
            made = node(gateway, folder) if library is None else peer(gateway, library, SHARDS)
            async with made as client:
                found[client.name] = await measure(gateway, client, bodies())
    return found


def test_dispatches(figure, tmp_path):
    found = asyncio.run(run(tmp_path))
    ours = next(iter(found.values()))
    for name, figures in found.items():
        share = statistics.median(figures.shares)
        rates = spread(figures.rates, "/s")
        figure(
            f"dispatches a second over 16 shards, {name}", f"{rates}; took {share:.0f} % of a core"
        )
        costs = spread(figures.costs, "s", 1)
        ratio = cost(figures) / cost(ours)
        beside = "" if figures is ours else f"; {ratio:.2f} times this node's"
        figure(f"processor time of a million dispatches, {name}", costs + beside)
        figure(f"memory with 16 idle shards, {name}", f"{figures.idle_mib:.0f} MiB resident")
