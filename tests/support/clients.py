"""Whoever holds shards of a firehose, in a process of its own, and what that costs."""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.bench import REPEATS, cpu_seconds, resident_mib
from tests.support.npm import NODE, install

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from tests.support.firehose import Firehose, Prepared

CONNECT_S = 180.0
"""discord.py waits five seconds between two shards, whatever the gateway allows."""
WARM_S, WINDOW_S, SETTLE_S = 1.0, 5.0, 2.0
_TESTS = Path(__file__).parents[1]
PYTHON_PEER = _TESTS / "benchmarks" / "peer.py"
NODE_PEER = _TESTS / "benchmarks" / "peer.mjs"
DISCORDJS = "@discordjs/ws"


@dataclass
class Client:
    """Whoever holds the shards.

    Attributes:
        name: For the table.
        pid: Its process.
        counts: Returns the dispatches of each shard.
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


def _command(library: str, port: int, shards: int) -> Sequence[str]:
    arguments = (library, str(port), str(shards))
    if library != DISCORDJS:
        return (sys.executable, str(PYTHON_PEER), *arguments)
    folder = install("tests")
    script = shutil.copy(NODE_PEER, folder / NODE_PEER.name)
    return (NODE, str(script), *arguments)


@asynccontextmanager
async def piped(
    command: Sequence[str], shards: int
) -> AsyncIterator[tuple[int, Callable[[], Awaitable[list[int]]]]]:
    """Start a program that answers each line with JSON, shard id to a number; give pid and counts."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    questions, answers = process.stdin, process.stdout

    async def counts() -> list[int]:
        questions.write(b"?\n")
        rows = json.loads(await answers.readline())
        return [rows[str(shard)] for shard in range(shards)]

    try:
        yield process.pid, counts
    finally:
        questions.close()
        await process.wait()


@asynccontextmanager
async def peer(gateway: Firehose, library: str, shards: int) -> AsyncIterator[Client]:
    """Let a library of other people hold the shards natively."""
    async with piped(_command(library, gateway.port, shards), shards) as (pid, counts):
        yield Client(f"{library}, natively", pid, counts)


async def settled(gateway: Firehose, client: Client) -> float:
    """Wait until every shard is READY and quiet; return the memory of the process in MiB."""
    await gateway.wait_until(lambda stats: all(s.connected for s in stats.shards), CONNECT_S)
    await asyncio.sleep(SETTLE_S)
    return resident_mib(client.pid)


async def measure(
    gateway: Firehose, client: Client, prepared: Sequence[Prepared], first: int | None = None
) -> Figures:
    """Wait for READY, pour, look at the clock twice, and see that nothing was lost.

    Args:
        gateway: Pours.
        client: Takes.
        prepared: What is poured.
        first: Number of the first dispatch; None goes on from the session's own.
    """
    found = Figures(idle_mib=await settled(gateway, client))

    async def sample() -> tuple[int, float, float]:
        return sum(await client.counts()), time.monotonic(), cpu_seconds(client.pid)

    before = await client.counts()
    gateway.open_hoses(prepared, first)
    sent_before = dict(gateway.sent)
    await asyncio.sleep(WARM_S)
    for _ in range(REPEATS):
        start = await sample()
        await asyncio.sleep(WINDOW_S)
        count, seconds, cpu = (b - a for a, b in zip(start, await sample(), strict=True))
        found.rates.append(count / seconds)
        found.costs.append(cpu / count * 1e6)
        found.shares.append(100 * cpu / seconds)
    last = await gateway.close_hoses()
    wanted = [n + last[shard] - sent_before[shard] for shard, n in enumerate(before)]
    async with asyncio.timeout(120):
        while await client.counts() != wanted:
            await asyncio.sleep(0.2)
    return found


def cost(figures: Figures) -> float:
    """Return the median of the processor time of a million dispatches, in seconds."""
    return statistics.median(figures.costs)
