"""Load through a lossy wire: every dispatch arrives once, and nothing leaks.

`make soak` runs the last test for SHARDFW_SOAK_SECONDS real seconds.
"""

import asyncio
import os
import time

import pytest

from firmware.layouts.shard import ShardState
from pxe.gateway.load import LoadOptions
from pxe.gateway.server import GatewayServer
from pxe.node import DatagramNet, DirectBoot, Hub, Node, NodeOptions, UserNet
from pxe.relay import DatagramEnd, Relay
from tests.support.site import SHARDS, Site, image, quiet

pytestmark = pytest.mark.system
RATE = 2000
SECONDS = 30
LOSS = "drop p=0.01"


async def loaded(folder, seconds, *, plan=LOSS, seed=1):
    """Send RATE dispatches a second for `seconds`; return counts, rows and the rate that arrived."""
    left = DatagramEnd(folder / "l.relay", folder / "l.qemu")
    right = DatagramEnd(folder / "r.relay", folder / "r.qemu")
    images = folder / "images"
    images.mkdir()
    async with GatewayServer(quiet(seed=seed)) as gateway:
        boot = DirectBoot(image(images, gateway.port))
        async with (
            Relay(left, right, seed=seed) as relay,
            Hub(DatagramNet(right.remote, right.local), UserNet()) as hub,
            Node(NodeOptions(DatagramNet(left.remote, left.local), boot=boot)) as node,
        ):
            site = Site(gateway, node, await hub.forwarded_port())
            await site.all_connected()
            await site.settled()
            start = [s.sequence for s in gateway.stats().shards]
            relay.set_plan(plan)
            begun = time.monotonic()
            await gateway.call(lambda core: core.set_load(LoadOptions(rate=RATE)))
            await asyncio.sleep(seconds)  # real load for real seconds
            await gateway.call(lambda core: core.set_load(None))
            await site.settled()
            took = time.monotonic() - begun
            drops = relay.injector.hits
            relay.set_plan("")
            await site.all_connected()
            await site.settled()
            stats, rows = gateway.stats(), await site.shard_rows()
            sent = sum(s.sequence for s in stats.shards) - sum(start)
            return stats, rows, sent / took, drops


def check(stats, rows):
    for shard, row in zip(stats.shards, rows, strict=True):
        assert row["sequence"] == shard.sequence
        assert row["state"] == ShardState.READY
        # Every numbered dispatch once, and each RESUMED, which repeats a number.
        assert row["dispatches"] == shard.sequence + shard.resumes
        assert shard.identifies == 1
    assert len(rows) == SHARDS


def test_two_thousand_dispatches_a_second_with_one_percent_loss(tmp_path):
    stats, rows, rate, _ = asyncio.run(loaded(tmp_path, SECONDS))
    check(stats, rows)
    print(f"\n{rate:.0f} dispatches/s over {SHARDS} shards, {SECONDS} s, {LOSS}")  # noqa: T201


@pytest.mark.soak
def test_soak(tmp_path):
    seconds = float(os.environ["SHARDFW_SOAK_SECONDS"])
    stats, rows, rate, drops = asyncio.run(loaded(tmp_path, seconds))
    check(stats, rows)
    taken = sum(row["dispatches"] for row in rows)
    breaks = sum(row["reconnects"] for row in rows)
    print(  # noqa: T201
        f"\n{taken} dispatches, {rate:.0f} a second over {SHARDS} shards for {seconds:.0f} s; "
        f"{LOSS} dropped {drops['drop']} frames; none lost, {breaks} connections broke"
    )
