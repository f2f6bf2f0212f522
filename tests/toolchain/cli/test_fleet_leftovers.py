"""`shardfw fleet init` and sessions that an earlier fleet of the same bot left in the store."""

import asyncio

import nats
import pytest

from pxe.nats import NatsServer
from tests.support.fleet_cli import BOT, PLAN, fleet, new_fleet, told
from tests.support.fleet_node import FleetNode
from toolchain.cli.fleet.leftovers import Kept, judge
from toolchain.cli.fleet.records import Lease, Plan, Range, Session


def with_records(records, scenario):
    """Return what a scenario gives beside a fleet's server with these records."""

    async def run():
        async with NatsServer() as server:
            await told(server.url, "init", "--total", "4", *PLAN, "--new")
            client = await nats.connect(server.url)
            for key, value in records.items():
                await client.publish(f"$KV.shardfw.{BOT}.{key}", value.encode())
            await client.flush()
            await client.close()
            return await scenario(server.url)

    return asyncio.run(run())


async def forget(url, keys):
    """Take records away, as nobody should."""
    client = await nats.connect(url)
    await client.jetstream().purge_stream("KV_shardfw", subject=f"$KV.shardfw.{BOT}.{keys}")
    await client.close()


def about_sessions(report):
    (found,) = [one for one in report["findings"] if one["what"] == "sessions"]
    return found["level"], found["text"]


def kept(*sessions):
    return {f"sess.{shard}": f"1 {rest}" for shard, rest in enumerate(sessions)}


def test_sessions_of_another_total_are_told_of_and_harmless():
    records = kept("0 4 9 abc -", "0 2 9 def -", "0 2 0 - -")

    async def scenario(url):
        made = await told(url, "init", "--check"), await told(url, "init")
        async with FleetNode(url, BOT, "a", 2) as node:
            await node.runs({0, 1})
        return made, await told(url, "status")

    made, status = with_records(records, scenario)
    assert about_sessions(made[0]) == about_sessions(made[1])
    assert about_sessions(made[0]) == (
        "note",
        "2 of 3 are of another total. They are harmless: no node resumes one, and the next session "
        "of its shard is written over it",
    )
    # Slots count what is resumed, and the node wrote over what is not.
    assert [slot["sessions"] for slot in status["slots"]] == [2, 2]
    assert {one["total"] for one in status["sessions"]} == {4}


def test_leases_that_were_lost_begin_above_what_is_kept():
    async def scenario(url):
        await forget(url, "ctl.>")
        refused = await fleet(url, "init", "--total", "4", *PLAN, "--new")
        made = await told(url, "init", "--total", "4", *PLAN)
        async with FleetNode(url, BOT, "a", 2) as node:
            await node.runs({0, 1})
        return refused, made, await told(url, "status")

    refused, made, status = with_records(kept("7 4 9 abc -", "5 4 9 def -"), scenario)
    assert refused.exit_code == 1
    assert refused.stderr.endswith(
        "Error: --new says that no node of this bot ever ran, but sessions of 2 shards are kept. "
        "Leave it out: then the command waits until nobody can hold a lease\n"
    )
    assert about_sessions(made) == ("ok", "2 kept, all of this total")
    assert [slot["generation"] for slot in status["slots"]] == [8, 8]


@pytest.mark.parametrize("repair", [("init",), ("plan", "--same")])
def test_a_lease_below_its_sessions_is_told_of_and_mended(repair):
    async def scenario(url):
        before = await told(url, "init", "--check")
        await forget(url, "ctl.lease.1")
        await told(url, *repair)
        return before, await told(url, "init", "--check"), await told(url, "status")

    before, after, status = with_records({"sess.3": "1 7 4 9 abc -"}, scenario)
    assert about_sessions(before) == (
        "note",
        "1 of 1 are of a later generation than the slot's lease, so that no node saves a session of "
        "those shards. Let leases begin above with: shardfw fleet plan --same",
    )
    assert about_sessions(after) == ("ok", "1 kept, all of this total")
    assert status["slots"][1]["generation"] == 7


def test_without_a_plan_the_generation_is_told():
    finding = judge(Kept({3: Session(7, 4, 9)}), None, {})
    assert (finding.level, finding.text) == (
        "note",
        "1 kept; leases begin above their generation 7",
    )


def test_a_session_of_the_present_holder_is_none_that_was_left():
    plan = Plan("active", 1, 4, 1, 4000, (Range(0, 4),))
    lease = Lease("a", "0badcafe", 7, 0, 4000, 1, Range(0, 4), 4)
    assert judge(Kept({3: Session(7, 4, 9)}), plan, {0: lease}).level == "ok"


def test_what_is_no_session_counts_for_nothing():
    async def scenario(url):
        return await told(url, "init", "--check")

    found = with_records({"sess.0": "nonsense", "sess.x": "1 7 4 9 abc -"}, scenario)
    assert about_sessions(found) == ("ok", "none is kept")


def test_a_check_without_a_stream_says_nothing_of_sessions():
    async def run():
        async with NatsServer() as server:
            return await fleet(server.url, "init", "--check")

    result = asyncio.run(run())
    assert result.exit_code == 1
    assert "sessions" not in result.stdout


def test_a_new_fleet_is_new():
    async def run():
        async with NatsServer() as server:
            await new_fleet(server.url)
            return await told(server.url, "init", "--check")

    assert about_sessions(asyncio.run(run())) == ("ok", "none is kept")
