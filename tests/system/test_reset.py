"""A QEMU node is reset: memory stays, so its sessions are resumed and its Identifies counted."""

import asyncio

import pytest

from firmware.layouts.shard import ShardState
from tests.support.site import PATIENCE_S, SHARDS, running

pytestmark = pytest.mark.system


def test_after_a_reset_every_session_is_resumed_and_nothing_is_lost(tmp_path):
    async def run():
        async with running(tmp_path) as site:
            await site.settled()
            await asyncio.sleep(1.5)  # a sequence is kept at most once a second
            told = len(site.node.lines)
            await site.node.reset()
            for n in range(SHARDS):
                await site.gateway.dispatch(n, "MESSAGE_CREATE", {"content": "while it booted"})
            await site.node.wait_line("code=boot.warm boots=2", PATIENCE_S, told)
            await site.node.wait_line("code=lifecycle.sessionRestored", PATIENCE_S, told)
            await site.until(lambda s: all(x.resumes == 1 and x.connected for x in s.shards))
            await site.settled()
            return site.gateway.stats(), await site.shard_rows(), (await site.status())[0]

    stats, rows, node = asyncio.run(run())
    assert [s.identifies for s in stats.shards] == [1] * SHARDS
    assert [r["state"] for r in rows] == [ShardState.READY] * SHARDS
    assert [(r["identifies"], r["resumes"]) for r in rows] == [(0, 1)] * SHARDS
    assert (node["boots"], node["identified"], node["crash_hold"]) == (2, SHARDS, 0)


def test_three_crashes_hold_the_node(tmp_path):
    async def run():
        async with running(tmp_path) as site:
            told = 0
            for n in range(3):
                await site.settled()
                told = len(site.node.lines)
                await site.node.qmp("inject-nmi")
                await site.node.wait_line(f"code=boot.crashed .*crashes={n + 1} ", PATIENCE_S, told)
            await site.node.wait_line("code=node.crash_loop crashes=3", PATIENCE_S)
            await site.node.wait_line("code=node.started", PATIENCE_S, told)
            return [r["state"] for r in await site.shard_rows()], (await site.status())[0]

    states, node = asyncio.run(run())
    assert states == [ShardState.ASSIGNED] * SHARDS
    assert (node["boots"], node["identified"], node["crash_hold"]) == (4, SHARDS, 1)
