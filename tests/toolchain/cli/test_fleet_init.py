"""`shardfw fleet init`: streams and records of a fleet, after a look at its servers."""

import asyncio
import contextlib
import json
import signal

import nats
import pytest

from pxe.nats import NatsCluster, NatsOptions, NatsUser, node_permissions
from tests.support.fleet_cli import (
    BOT,
    DURATION_MS,
    PLAN,
    fleet,
    new_fleet,
    overlaps,
    told,
    with_server,
)
from tests.support.fleet_node import FleetNode
from toolchain.cli.fleet import streams
from toolchain.cli.fleet.streams import wanted


def test_streams_and_records_are_those_of_a_fleet_and_made_once():
    async def scenario(server):
        monitor = ("--monitor", server.monitor_url)
        first = await told(server.url, "init", "--total", "5", *PLAN, "--new", *monitor)
        client = await nats.connect(server.url)
        found = {}
        for name in first["streams"]:
            answer = await client.request(f"$JS.API.STREAM.INFO.{name}", b"", timeout=5)
            found[name] = json.loads(answer.data)["config"]
        records = {}
        for key in ("plan", "lease.0", "lease.1", "ident.0", "budget"):
            message = await client.jetstream().get_last_msg(
                "KV_shardfw", f"$KV.shardfw.{BOT}.ctl.{key}"
            )
            records[key] = (message.data or b"").decode()
        await client.close()
        again = await told(server.url, "init", "--total", "5", *PLAN, *monitor)
        return first, found, records, again

    first, found, records, again = with_server(scenario)
    for name, config in wanted(1, 128 << 20).items():
        assert found[name].items() >= config.items()
    assert records == {
        "plan": f"1 active 1 5 1 {DURATION_MS} 2 0+3 3+2",
        "lease.0": "1 free - - 0 0 0 1 0 3 5",
        "lease.1": "1 free - - 0 0 0 1 3 2 5",
        "ident.0": "1 - - 0 0",
        "budget": "1 1000 1000 - 0",
    }
    assert {one["what"] for one in first["findings"] if one["level"] == "ok"} == {
        "version", "max_payload", "sync", "KV_shardfw", "SHARDFW_EV", "sessions",
    }  # fmt: skip
    assert (again["streams"], again["records"], again["plan"]) == ([], [], first["plan"])


@pytest.mark.parametrize("what", ["all", "sub"])
def test_no_login_of_a_node_takes_records_away_by_a_rollup(what):
    """Not of others, and not of its own bot: that would be a purge, which it is not allowed."""
    boss = NatsUser("boss", "pw")
    node = NatsUser("n7", "pw", permissions=node_permissions(BOT, "n7"))
    lease = f"$KV.shardfw.{BOT}.ctl.lease.0"

    async def scenario(server):
        operator = await nats.connect(server.url, user=boss.user, password=boss.password)
        config = wanted(1, 128 << 20)["KV_shardfw"]
        await operator.request("$JS.API.STREAM.CREATE.KV_shardfw", json.dumps(config).encode())
        stream = operator.jetstream()
        for key in (lease, f"$KV.shardfw.{BOT}.ctl.plan", "$KV.shardfw.b9.ctl.plan"):
            await stream.publish(key, b"kept")
        limited = await nats.connect(
            server.url, user=node.user, password=node.password, inbox_prefix="_I.n7"
        )
        answer = await limited.request(lease, b"x", timeout=5, headers={"Nats-Rollup": what})
        kept = (await stream.stream_info("KV_shardfw")).state.messages
        await limited.close()
        await operator.close()
        return json.loads(answer.data), kept

    answer, kept = with_server(scenario, NatsOptions(users=(boss, node)))
    assert kept == 3
    assert answer["error"]["err_code"] == 10111


def test_a_server_that_loses_acknowledged_writes_is_refused():
    async def scenario(server):
        words = ("init", "--total", "4", *PLAN, "--new", "--monitor", server.monitor_url)
        return await fleet(server.url, *words), await fleet(server.url, "plan")

    result, plan = with_server(scenario, NatsOptions(sync_always=False, max_payload=4096))
    assert result.exit_code == 1
    assert (
        "bad  sync           n1 acknowledges what a power loss takes away, and then two nodes may "
        "hold one slot. Write jetstream { sync_interval: always }"
    ) in result.stdout
    assert "note max_payload    messages of at most 4096 bytes: larger events" in result.stdout
    assert "Error: 1 of these must be mended first; no record was written" in result.stderr
    assert "the fleet has no plan. Make one with: shardfw fleet init" in plan.stderr


def test_a_stream_that_is_set_up_otherwise_is_named_key_by_key():
    async def scenario(server):
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(
            name="KV_shardfw", subjects=["$KV.shardfw.>"], max_age=60, allow_rollup_hdrs=True
        )
        await client.close()
        return await fleet(server.url, "init", "--check")

    result = with_server(scenario)
    assert result.exit_code == 1
    for text in (
        "max_age is 60000000000. Set it to 0 with: nats stream edit KV_shardfw",
        "allow_rollup_hdrs is True. Set it to False with: nats stream edit KV_shardfw",
        "deny_delete is False. Set it to True with: nats stream edit KV_shardfw",
        "SHARDFW_EV     missing. Make it with: shardfw fleet init",
        "not checked: sync_interval: always keeps leases over a power loss",
    ):
        assert text in result.stdout


def test_a_plan_that_no_node_can_read_is_written_anew_and_later():
    async def scenario(server):
        await new_fleet(server.url)
        client = await nats.connect(server.url)
        await client.publish(f"$KV.shardfw.{BOT}.ctl.plan", b"1 active once more")
        await client.close()
        shown = await fleet(server.url, "status")
        made = await told(server.url, "init", "--total", "4", *PLAN)
        return shown, made["plan"]

    shown, plan = with_server(scenario)
    assert "there is no plan. Make one with: shardfw fleet init" in shown.stdout
    assert (plan["epoch"], plan["mode"]) == (2, "active")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--total", "6", "--slots", "3"), "total"),
        (("--total", "4", "--slots", "3"), "cut of slots"),
        (("--slots", "4"), "cut of slots"),
        (("--max-concurrency", "2"), "max_concurrency"),
        (("--duration-ms", "20000"), "duration"),
    ],
)
def test_another_plan_is_not_made_by_init(words, what):
    async def scenario(server):
        await new_fleet(server.url)
        return await fleet(server.url, "init", *words)

    result = with_server(scenario)
    assert result.exit_code == 1
    message = f"the fleet has plan 1 with another {what}. Change it with: shardfw fleet plan"
    assert message in result.stderr


def test_records_that_vanished_come_back_when_nobody_can_hold_them_any_more():
    async def scenario(server):
        await new_fleet(server.url)
        async with FleetNode(server.url, BOT, "a", 2) as node:
            await node.runs({0, 1})
            client = await nats.connect(server.url)
            await client.jetstream().purge_stream(
                "KV_shardfw", subject=f"$KV.shardfw.{BOT}.ctl.lease.1"
            )
            await client.close()
            made = await told(server.url, "init")
            await node.runs({0, 1})
            assert overlaps(node) == []
        return made

    assert with_server(scenario)["records"] == ["ctl.lease.1"]


def test_a_cluster_keeps_three_copies_and_nodes_outlive_a_leader():
    async def scenario():
        async with NatsCluster() as cluster:
            url = cluster.urls[0]
            slow = ["--slots", "2", "--duration-ms", "20000"]
            made = await told(url, "init", "--total", "4", *slow, "--new")
            client = await nats.connect(cluster.urls)
            info = await client.jetstream().stream_info("KV_shardfw")
            await client.close()
            assert info.cluster is not None
            names = {server.name: server for server in cluster.servers}
            stays = next(s for n, s in names.items() if n != info.cluster.leader)
            async with FleetNode(stays.url, BOT, "a", 2) as node:
                await node.runs({0, 1})
                await names[str(info.cluster.leader)].end(signal.SIGKILL)
                before = [held.revision for held in node.held.values()]
                async with asyncio.timeout(30):
                    while [held.revision for held in node.held.values()] == before:
                        await asyncio.sleep(0.1)
                assert node.running == {0, 1}
            return made, info.config.num_replicas

    made, copies = asyncio.run(scenario())
    assert copies == 3
    assert {f["text"] for f in made["findings"] if f["what"] == "copies"} == {
        "3, in cluster shardfw"
    }


@contextlib.asynccontextmanager
async def two_of_three():
    """A cluster that was just started, all but its third server; the first and the third."""
    async with NatsCluster() as cluster:
        for server in cluster.servers:
            await server.end(signal.SIGKILL)
        first, second, late = cluster.servers
        await asyncio.gather(first.start(), second.start())
        await cluster.settled()
        yield first, late


def test_init_waits_for_a_server_of_a_cluster_that_has_just_started():
    async def scenario():
        async with two_of_three() as (first, late):
            slow = ["--slots", "2", "--duration-ms", "20000"]
            init = asyncio.create_task(told(first.url, "init", "--total", "4", *slow, "--new"))
            done, _ = await asyncio.wait([init], timeout=1)
            assert not done
            await late.start()
            return await init

    assert asyncio.run(scenario())["streams"] == ["KV_shardfw", "SHARDFW_EV"]


def test_init_says_what_a_cluster_without_its_third_server_lacks(monkeypatch):
    monkeypatch.setattr(streams, "PEERS_S", 0.5)

    async def scenario():
        async with two_of_three() as (first, _):
            return await fleet(first.url, "init", "--total", "4", "--new")

    result = asyncio.run(scenario())
    assert result.exit_code == 1
    assert "does not make KV_shardfw with 3 replicas: no suitable peers" in result.output
    assert "A cluster needs three servers that run" in result.output
