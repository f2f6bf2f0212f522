"""What a node in QEMU needs: memory, processor time when idle."""

import asyncio
import os

import pytest

from pxe.node import NodeError
from tests.support.bench import REPEATS, cpu_seconds, resident_mib, spread
from tests.support.site import SHARDS, quiet, running
from toolchain.cli.runner import RunError, Runner, RunOptions
from toolchain.config import load_config

pytestmark = pytest.mark.bench
BOOT_S = 45.0
"""A machine that is not READY by then counts as one that has too little memory."""
IDLE_S = 30


async def starts(memory_mb: int, count: int) -> bool:
    """Say whether all of so many shards reach READY through the boot ROM with so much RAM."""
    shards = {"shards.total": count, "shards.count": count, "gateway.max_concurrency": count}
    config = load_config(None, os.environ, shards)
    runner = Runner(RunOptions(config, f"bench-{os.getpid()}", memory_mb=memory_mb))
    try:
        await runner.run(lambda runner: runner.until_ready(BOOT_S))
    except (NodeError, RunError):
        return False
    return True


def test_smallest_memory(figure):
    """A node without memory for all of its shards holds those that fit, and counts as too small."""
    enough, too_small, count = 32, 1, SHARDS
    assert asyncio.run(starts(enough, count))
    while enough - too_small > 1:
        middle = (enough + too_small) // 2
        if asyncio.run(starts(middle, count)):
            enough = middle
        else:
            too_small = middle
    figure(f"smallest RAM with which {count} shards reach READY", f"`-m {enough}` (MiB)")


async def idle(folder) -> tuple[list[float], float]:
    shares = []
    async with running(folder, quiet()) as site:
        await asyncio.sleep(2)
        for _ in range(REPEATS):
            before = cpu_seconds(site.node.pid)
            await asyncio.sleep(IDLE_S)
            shares.append(100 * (cpu_seconds(site.node.pid) - before) / IDLE_S)
        return shares, resident_mib(site.node.pid)


def test_idle_cpu(figure, tmp_path):
    shares, resident = asyncio.run(idle(tmp_path))
    figure(f"one core of QEMU with 16 idle READY shards, over {IDLE_S} s", spread(shares, "%", 2))
    figure("memory of that QEMU process, its own included", f"{resident:.0f} MiB")
