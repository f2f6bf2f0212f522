"""Dispatches a second that 16 shards take, and what a million of them cost, beside peers.

The gateway pours prepared dispatches into all connections, held back by TCP alone. The node runs in
QEMU's translator, which costs it a factor that no real machine has; the peers run natively. QEMU's
own network, the Ethernet card and TCP of the node are part of its figure; TCP of the peers is the
kernel's, whose work in interrupts is not in theirs.
"""

import asyncio
import json
import statistics
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pxe.node import DirectBoot, Node, NodeOptions, UserNet
from tests.support.bench import REPEATS, cpu_seconds, resident_mib, spread
from tests.support.firehose import Firehose
from tests.support.site import SHARDS, Site, image, quiet

pytestmark = pytest.mark.bench
CONNECT_S = 180.0
"""discord.py waits five seconds between two shards, whatever the gateway allows."""
WARM_S, WINDOW_S = 1.0, 5.0
PEER = Path(__file__).with_name("peer.py")
PEERS = ("aiohttp", "websockets", "discord.py")


@dataclass
class Client:
    """Whoever holds the shards.

    Attributes:
        name: For the table.
        pid: Its process.
        counts: Returns dispatches and last sequence of each shard.
    """

    name: str
    pid: int
    counts: Any


@dataclass
class Figures:
    """What one client did.

    Attributes:
        rates: Dispatches a second, one for each window.
        costs: Seconds of processor time for a million.
        shares: Of a core, in percent; well under 100 when the gateway or the machine's other work
            held it back.
        idle_mib: Memory before the load.
    """

    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    idle_mib: float = 0.0


@asynccontextmanager
async def node(gateway: Firehose, folder: Path):
    boot = DirectBoot(image(folder, gateway.port))
    async with Node(NodeOptions(UserNet(), boot=boot)) as machine:
        site = Site(gateway, machine, await machine.forwarded_port())

        async def counts():
            rows = await site.shard_rows()
            return [(row["dispatches"], row["sequence"]) for row in rows]

        yield Client("this node in QEMU (TCG)", machine.pid, counts)


@asynccontextmanager
async def peer(gateway: Firehose, library: str):
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, str(PEER), library, str(gateway.port))
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)

    assert process.stdin is not None
    assert process.stdout is not None
    questions, answers = process.stdin, process.stdout

    async def counts():
        questions.write(b"?\n")
        rows = json.loads(await answers.readline())
        return [tuple(rows[str(shard)]) for shard in range(SHARDS)]

    try:
        yield Client(f"{library}, natively", process.pid, counts)
    finally:
        questions.close()
        await process.wait()


async def measure(gateway: Firehose, client: Client) -> Figures:
    """Wait for READY, pour, look at the clock twice, and see that nothing was lost."""
    found = Figures()
    await gateway.wait_until(lambda stats: all(s.connected for s in stats.shards), CONNECT_S)
    await asyncio.sleep(2)
    found.idle_mib = resident_mib(client.pid)

    async def sample():
        rows = await client.counts()
        return sum(count for count, _ in rows), time.monotonic(), cpu_seconds(client.pid)

    before = sum(count for count, _ in await client.counts())
    gateway.open_hoses()
    sent_before = sum(gateway.sent.values())
    await asyncio.sleep(WARM_S)
    for _ in range(REPEATS):
        start = await sample()
        await asyncio.sleep(WINDOW_S)
        count, seconds, cpu = (b - a for a, b in zip(start, await sample(), strict=True))
        found.rates.append(count / seconds)
        found.costs.append(cpu / count * 1e6)
        found.shares.append(100 * cpu / seconds)
    last = await gateway.close_hoses()
    async with asyncio.timeout(120):
        while [s for _, s in await client.counts()] != [last[n] for n in range(SHARDS)]:
            await asyncio.sleep(0.2)
    taken = sum(count for count, _ in await client.counts()) - before
    assert taken == sum(last.values()) - sent_before
    return found


async def run(folder: Path) -> dict[str, Figures]:
    found = {}
    for library in (None, *PEERS):
        async with Firehose(quiet()) as gateway:
            made = node(gateway, folder) if library is None else peer(gateway, library)
            async with made as client:
                found[client.name] = await measure(gateway, client)
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
        ratio = statistics.median(figures.costs) / statistics.median(ours.costs)
        beside = "" if figures is ours else f"; {ratio:.2f} times this node's"
        figure(f"processor time of a million dispatches, {name}", costs + beside)
        figure(f"memory with 16 idle shards, {name}", f"{figures.idle_mib:.0f} MiB resident")
