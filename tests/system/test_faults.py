"""A QEMU node whose connections are cut, whose cable is pulled, whose gateway restarts."""

import asyncio

import pytest

from firmware.layouts.shard import End, ShardState
from tests.support.site import SHARDS, quiet, running

pytestmark = pytest.mark.system
CABLE_S = 8


def counts(stats):
    return [(s.connections, s.identifies, s.resumes, s.sequence) for s in stats.shards]


def test_one_connection_of_sixteen_is_cut_and_the_others_notice_nothing(tmp_path):
    async def run():
        async with running(tmp_path) as site:
            await site.settled()
            before = counts(site.gateway.stats())
            rows_before = await site.shard_rows()
            await site.gateway.abort(5)
            await site.until(lambda s: s.shards[5].resumes == 1 and s.shards[5].connected)
            for n in range(SHARDS):
                await site.gateway.dispatch(n, "MESSAGE_CREATE", {"content": "after"})
            await site.settled()
            after = counts(site.gateway.stats())
            rows = await site.shard_rows()
            return before, rows_before, after, rows

    before, rows_before, after, rows = asyncio.run(run())
    for n in range(SHARDS):
        if n == 5:
            continue
        assert after[n][:3] == before[n][:3]
        assert after[n][3] == before[n][3] + 1
        assert rows[n]["reconnects"] == rows_before[n]["reconnects"] == 0
        assert rows[n]["connected_at"] == rows_before[n]["connected_at"]
    assert after[5][:3] == (before[5][0] + 1, before[5][1], before[5][2] + 1)
    assert (rows[5]["reconnects"], rows[5]["state"]) == (1, ShardState.READY)
    assert rows[5]["evidence"]["end"] == End.TCP_FAILED


def test_a_resume_replays_what_was_missed(tmp_path):
    async def run():
        async with running(tmp_path) as site:
            await site.settled()
            await site.gateway.kick(3, 4000)
            for n in range(20):
                await site.gateway.dispatch(3, "MESSAGE_CREATE", {"content": str(n)})
            await site.until(lambda s: s.shards[3].resumes == 1)
            await site.settled()
            return site.gateway.stats().shards[3], (await site.shard_rows())[3]

    stats, row = asyncio.run(run())
    assert stats.replayed == 20
    # RESUMED is a dispatch without a number of its own.
    assert row["dispatches"] == stats.sequence + stats.resumes
    assert row["sequence"] == stats.sequence


@pytest.mark.parametrize("keep", [True, False])
def test_after_a_gateway_restart_all_shards_come_back(tmp_path, keep):
    async def run():
        async with running(tmp_path) as site:
            await site.settled()
            await site.gateway.restart(keep_sessions=keep)
            await site.until(lambda s: all(x.connected and x.connections > 1 for x in s.shards))
            return site.gateway.stats(), await site.shard_rows()

    stats, rows = asyncio.run(run())
    assert [s.resumes for s in stats.shards] == [int(keep)] * SHARDS
    assert all(r["reconnects"] >= 1 for r in rows)


def test_a_cable_pulled_for_eight_seconds_loses_nothing(tmp_path):
    async def run():
        async with running(tmp_path) as site:
            await site.settled()
            await site.node.set_link(up=False)
            for n in range(SHARDS):
                await site.gateway.dispatch(n, "MESSAGE_CREATE", {"content": "while it was out"})
            await asyncio.sleep(CABLE_S)  # real time is what this test is about
            await site.node.set_link(up=True)
            await site.settled()
            await site.all_connected()
            return site.gateway.stats(), await site.shard_rows()

    stats, rows = asyncio.run(run())
    for shard, row in zip(stats.shards, rows, strict=True):
        assert row["sequence"] == shard.sequence
        assert shard.identifies == 1
        assert row["state"] == ShardState.READY


def test_an_expired_lease_is_silent_until_the_next_grant(tmp_path):
    async def run():
        async with running(tmp_path, quiet(heartbeat_interval_ms=2000)) as site:
            await site.settled()
            site.node.send_serial(b"lease expire\n")
            await site.node.wait_line("code=lease.expired", 30)
            held = await site.shard_rows()
            beats = [s.heartbeats for s in site.gateway.stats().shards]
            await asyncio.sleep(5)  # two heartbeat intervals
            quiet_beats = [s.heartbeats for s in site.gateway.stats().shards]
            still = await site.shard_rows()
            site.node.send_serial(b"lease arm 600000\n")
            await site.until(lambda s: all(x.connected and x.connections > 1 for x in s.shards))
            return held, beats, quiet_beats, still

    held, beats, quiet_beats, still = asyncio.run(run())
    assert {r["state"] for r in held} == {r["state"] for r in still} == {ShardState.ASSIGNED}
    assert beats == quiet_beats
