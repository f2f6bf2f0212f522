"""`shardfw fleet` with nodes: they claim, slots move, nodes are drained."""

import asyncio
import json
import signal
import sys

import nats
import pytest

from pxe.nats import NatsOptions, NatsUser, node_permissions
from tests.support.fleet_cli import (
    BOT,
    ROOT,
    SHARDFW,
    fleet,
    holders,
    new_fleet,
    overlaps,
    told,
    with_server,
)
from tests.support.fleet_node import FleetNode
from toolchain.cli.fleet.connect import Login, connected
from toolchain.cli.fleet.watch import View

PASSWORD = "n-pw"  # noqa: S105 - of a server that lives for a test
BOSS = NatsUser("boss", "boss-pw")


class TestNodes:
    def test_two_nodes_share_the_slots_and_the_status_says_who(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with (
                FleetNode(server.url, BOT, "a", user="n", password=PASSWORD) as a,
                FleetNode(server.url, BOT, "b", user="n", password=PASSWORD) as b,
            ):
                async with asyncio.timeout(30):
                    while len(a.running | b.running) < 2:
                        await asyncio.sleep(0.05)
                found = await told(server.url, "status")
                text = (await fleet(server.url, "status")).stdout
                return a, b, found, text

        limited = NatsUser("n", PASSWORD, permissions=node_permissions(BOT, "*"))
        options = NatsOptions(users=(BOSS, limited))

        async def logged_in(server):
            monkey = pytest.MonkeyPatch()
            monkey.setenv("SHARDFW_NATS_USER", BOSS.user)
            monkey.setenv("SHARDFW_NATS_PASSWORD", BOSS.password)
            with monkey.context():
                try:
                    return await scenario(server)
                finally:
                    monkey.undo()

        a, b, found, text = with_server(logged_in, options)
        assert overlaps(a, b) == []
        assert {slot["node"]: slot["boot"] for slot in found["slots"]} == {"a": a.boot, "b": b.boot}
        assert [slot["generation"] for slot in found["slots"]] == [1, 1]
        assert all(0 <= slot["seen_ms"] <= 60_000 for slot in found["slots"])
        assert {s["shard"] for s in found["sessions"]} == {0, 1, 2, 3}
        assert {(s["generation"], s["total"], s["sequence"]) for s in found["sessions"]} == {
            (1, 4, 7)
        }
        assert "b1: plan 1 is active; 4 shards in 2 slots, max_concurrency 1" in text
        assert "2 of 2" in text
        assert "1000 of 1000 session starts left" in text

    def test_a_status_that_is_watched_follows(self):
        async def scenario(server):
            await new_fleet(server.url)
            words = ["status", "--bot", BOT, "--server", server.url, "--watch", "--json"]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SHARDFW, "fleet", *words,
                cwd=ROOT, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None
            seen = [json.loads(await process.stdout.readline())]
            async with FleetNode(server.url, BOT, "a", 2):
                while seen[-1]["slots"][0]["node"] is None or not seen[-1]["sessions"]:
                    seen.append(json.loads(await process.stdout.readline()))
            process.send_signal(signal.SIGINT)
            return seen, await process.wait()

        seen, code = with_server(scenario)
        assert code == 0
        assert seen[0]["slots"][0]["node"] is None
        assert seen[-1]["slots"][0]["node"] == "a"

    def test_a_status_that_is_piped_is_not_cut_off(self):
        name = "a" * 32

        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, name, 2) as node:
                await node.runs({0, 1})
                return await fleet(server.url, "status", COLUMNS="80")

        text = with_server(scenario).stdout
        assert text.count(name) == 2 + text.count(f"on {name}")
        assert "…" not in text

    def test_a_dead_nodes_slot_is_taken_over(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, "a", 2) as a:
                await a.runs({0, 1})
            async with FleetNode(server.url, BOT, "b", 2) as b:
                await b.runs({0, 1})
                return await told(server.url, "status")

        found = with_server(scenario)
        assert [(slot["node"], slot["generation"]) for slot in found["slots"]] == [("b", 2)] * 2


class TestOrders:
    def test_a_drained_node_gives_all_back_and_takes_nothing_until_it_may(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, "a", 2) as a:
                await a.runs({0, 1})
                async with FleetNode(server.url, BOT, "b", 2) as b:
                    result = await fleet(server.url, "drain", "a")
                    await b.runs({0, 1})
                    report = await told(server.url, "status")
                    again = await told(server.url, "drain", "a")
                    assert overlaps(a, b) == []
                # b is dead and a may not: the slots stay free until a is asked back.
                undone = await fleet(server.url, "drain", "a", "--undo")
                await a.runs({0, 1})
                return result, report, again, undone

        result, report, again, undone = with_server(scenario)
        assert result.stdout == "a gave back: 0, 1\n"
        assert "a holds slots 0, 1 and is asked to give all back" in result.stderr
        assert report["orders"] == {"a": "drain"}
        assert again == {"node": "a", "mode": "drain", "slots": []}
        assert undone.stdout == "a may take slots again\n"

    def test_a_node_that_is_gone_is_drained_when_its_lease_is_over(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, "a", 2) as a:
                await a.runs({0, 1})
            return await fleet(server.url, "drain", "a", "--timeout", "1")

        result = with_server(scenario)
        assert result.exit_code == 1
        assert "a still holds slots 0, 1 after 1 s. When it does not run any more" in result.stderr

    def test_a_slot_of_an_earlier_plan_is_not_waited_for(self):
        async def scenario(server):
            await new_fleet(server.url)
            # Who lags claims by the plan that it knows; nobody gives that back.
            client = await nats.connect(server.url)
            late = b"1 held late 3fa2c1d0 1 1 4000 1 2 1 3"
            await client.jetstream().publish(f"$KV.shardfw.{BOT}.ctl.lease.2", late)
            await client.close()
            return await told(server.url, "drain", "late")

        assert with_server(scenario) == {"node": "late", "mode": "drain", "slots": []}

    def test_without_a_plan_that_can_be_read_every_slot_is_waited_for(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, "a", 2) as a:
                await a.runs({0, 1})
            client = await nats.connect(server.url)
            await client.jetstream().publish(f"$KV.shardfw.{BOT}.ctl.plan", b"9 what")
            await client.close()
            return await fleet(server.url, "drain", "a", "--timeout", "1")

        result = with_server(scenario)
        assert result.exit_code == 1
        assert "a still holds slots 0, 1 after 1 s" in result.stderr

    def test_a_wait_that_is_given_up_is_no_success(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, "a", 2) as a:
                await a.runs({0, 1})
            words = ["drain", "--bot", BOT, "--server", server.url, "a"]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", SHARDFW, "fleet", *words,
                cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stderr is not None
            asked = await process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, rest = await process.communicate()
            return process.returncode, out, (asked + rest).decode()

        code, out, text = with_server(scenario)
        assert (code, out) == (1, b"")
        assert text == "a holds slots 0, 1 and is asked to give all back\n\nAborted!\n"

    def test_a_slot_that_nobody_has_moves_too(self):
        async def scenario(server):
            await new_fleet(server.url)
            task = asyncio.create_task(fleet(server.url, "move", "1", "c"))
            async with connected(Login((server.url,)), BOT) as looking:
                view = View(looking)
                assert await view.until(lambda: "ctl.move.1" in view.records or None, 30)
                await view.stop()
            async with FleetNode(server.url, BOT, "c", 2):
                return await task

        result = with_server(scenario)
        assert result.stdout == "slot 1 went from nobody to c, generation 1\n"
        assert result.stderr == "slot 1 is asked to go from nobody to c\n"

    def test_a_slot_moves_to_the_node_that_was_named(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with (
                FleetNode(server.url, BOT, "a", 2) as a,
                FleetNode(server.url, BOT, "b", 2) as b,
            ):
                async with asyncio.timeout(30):
                    while len(a.running) + len(b.running) < 2:
                        await asyncio.sleep(0.05)
                async with FleetNode(server.url, BOT, "c", 2) as c:
                    moved = await told(server.url, "move", "1", "c")
                    await c.runs({1})
                    same = await fleet(server.url, "move", "1", "c")
                    assert overlaps(a, b, c) == []
                    return moved, same, await holders(server.url)

        moved, same, who = with_server(scenario)
        assert (moved["after"], moved["generation"]) == ("c", 2)
        assert moved["before"] in ("a", "b")
        assert same.stdout == "c has slot 1 already\n"
        assert who[1] == "c"

    def test_a_node_that_does_not_run_leaves_its_slot_to_another(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, "a", 2) as a:
                await a.runs({0, 1})
                async with FleetNode(server.url, BOT, "b") as b:
                    result = await fleet(server.url, "move", "0", "z")
                    assert overlaps(a, b) == []
                    return result, await told(server.url, "status")

        result, found = with_server(scenario)
        assert result.exit_code == 1
        taker = found["slots"][0]["node"]
        assert taker in ("a", "b")
        assert f"z did not take slot 0, {taker} did. Is it running, with room" in result.stderr
        assert found["moves"] == []

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("move", "2", "a"), "there is no slot 2; the fleet has slots 0 to 1"),
            (
                ("move", "0", "d"),
                "d is drained and takes nothing. First: shardfw fleet drain d --un",
            ),
        ],
    )
    def test_a_move_that_cannot_be_is_refused(self, words, message):
        async def scenario(server):
            await new_fleet(server.url)
            await told(server.url, "drain", "d", "--no-wait")
            return await fleet(server.url, *words)

        result = with_server(scenario)
        assert result.exit_code == 1
        assert message in result.stderr

    def test_a_name_that_is_none_is_wrong_usage(self):
        async def scenario(server):
            return await fleet(server.url, "drain", "a.b")

        result = with_server(scenario)
        assert result.exit_code == 2
        assert "a node's name has letters, digits, _ and - alone" in result.stderr
