"""`shardfw fleet` with nodes: they claim, the plan changes, slots move, nodes are drained."""

import asyncio
import json
import signal
import sys

import nats
import pytest

from pxe.nats import NatsCluster, NatsOptions, NatsServer, NatsUser, node_permissions
from tests.support.fleet_cli import (
    BOT,
    DURATION_MS,
    PLAN,
    ROOT,
    SHARDFW,
    fleet,
    holders,
    new_fleet,
    told,
)
from tests.support.fleet_node import FleetNode
from toolchain.cli.fleet.change import Change, Changer
from toolchain.cli.fleet.connect import ConflictError, Login, connected
from toolchain.cli.fleet.records import split
from toolchain.cli.fleet.streams import wanted
from toolchain.cli.fleet.watch import View

PASSWORD = "n-pw"  # noqa: S105 - of a server that lives for a test
BOSS = NatsUser("boss", "boss-pw")


def with_server(scenario, options=None):
    async def run():
        async with NatsServer(options) as server:
            return await scenario(server)

    return asyncio.run(run())


def overlaps(*nodes):
    """Return pairs of runs of one slot that were at the same time; a crashed node's never end."""
    runs = []
    for node in nodes:
        open_ = {}
        for what, slot, generation, at in node.history:
            if what == "start":
                open_[slot] = (generation, at)
            else:
                runs.append((slot, *open_.pop(slot), at))
        runs += [(slot, *begun, float("inf")) for slot, begun in open_.items()]
    runs.sort(key=lambda run: run[2])
    return [
        (one, other)
        for number, one in enumerate(runs)
        for other in runs[number + 1 :]
        if one[0] == other[0] and other[2] < one[3]
    ]


class TestInit:
    def test_streams_and_records_are_those_of_a_fleet_and_made_once(self):
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

    def test_a_server_that_loses_acknowledged_writes_is_refused(self):
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

    def test_a_stream_that_is_set_up_otherwise_is_named_key_by_key(self):
        async def scenario(server):
            client = await nats.connect(server.url)
            await client.jetstream().add_stream(
                name="KV_shardfw", subjects=["$KV.shardfw.>"], max_age=60
            )
            await client.close()
            return await fleet(server.url, "init", "--check")

        result = with_server(scenario)
        assert result.exit_code == 1
        for text in (
            "max_age is 60000000000. Set it to 0 with: nats stream edit KV_shardfw",
            "deny_delete is False. Set it to True with: nats stream edit KV_shardfw",
            "SHARDFW_EV     missing. Make it with: shardfw fleet init",
            "not checked: sync_interval: always keeps leases over a power loss",
        ):
            assert text in result.stdout

    def test_a_plan_that_no_node_can_read_is_written_anew_and_later(self):
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
    def test_another_plan_is_not_made_by_init(self, words, what):
        async def scenario(server):
            await new_fleet(server.url)
            return await fleet(server.url, "init", *words)

        result = with_server(scenario)
        assert result.exit_code == 1
        message = f"the fleet has plan 1 with another {what}. Change it with: shardfw fleet plan"
        assert message in result.stderr

    def test_records_that_vanished_come_back_when_nobody_can_hold_them_any_more(self):
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

    def test_a_cluster_keeps_three_copies_and_nodes_outlive_a_leader(self):
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


class TestPlan:
    def test_a_plan_changes_without_an_overlap_and_generations_go_on(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with (
                FleetNode(server.url, BOT, "a", 2) as a,
                FleetNode(server.url, BOT, "b", 2) as b,
            ):
                async with asyncio.timeout(30):
                    while len(a.running | b.running) < 2:
                        await asyncio.sleep(0.05)
                words = ("--total", "8", "--slots", "4", "--max-concurrency", "2")
                plan = await told(server.url, "plan", *words)
                async with asyncio.timeout(30):
                    while len(a.running) + len(b.running) < 4:
                        await asyncio.sleep(0.05)
                found = await told(server.url, "status")
                return a, b, plan, found

        a, b, plan, found = with_server(scenario)
        assert (plan["epoch"], plan["mode"], plan["total"]) == (2, "active", 8)
        assert plan["slots"] == [{"start": n, "count": 2} for n in (0, 2, 4, 6)]
        assert overlaps(a, b) == []
        moments = sorted(a.history + b.history, key=lambda each: each[3])
        whats = [what for what, _, generation, _ in moments if generation == 1]
        assert whats == ["start"] * 2 + ["stop"] * 2
        # All shards changed hands, so every generation is above all that there were.
        assert {slot["generation"] for slot in found["slots"]} == {2}
        assert {slot["epoch"] for slot in found["slots"]} == {2}
        assert [ticket["key"] for ticket in found["tickets"]] == [0, 1]

    def test_a_dead_holder_is_waited_out(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, "a", 2) as a:
                await a.runs({0, 1})
            result = await fleet(server.url, "plan", "--total", "2", "--slots", "1")
            return result, await told(server.url, "status")

        result, found = with_server(scenario)
        assert result.exit_code == 0, result.output
        assert "waiting: slot 0 is held by a, slot 1 is held by a" in result.stderr
        assert "plan 2 is active; 2 shards in 1 slots" in result.stdout
        assert [(slot["node"], slot["count"]) for slot in found["slots"]] == [(None, 2)]

    def test_of_two_operators_one_makes_the_plan_and_the_other_is_told(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with FleetNode(server.url, BOT, "a", 2) as a:
                await a.runs({0, 1})
            steps: list[str] = []
            async with (
                connected(Login((server.url,)), BOT) as one,
                connected(Login((server.url,)), BOT) as two,
            ):
                views = View(one), View(two)
                for view in views:
                    await view.sync()
                first = asyncio.create_task(
                    Changer(views[0], steps.append).change(
                        Change(4, split(4, 4), 1, DURATION_MS), wait_ms=DURATION_MS
                    )
                )
                async with asyncio.timeout(30):
                    while not any(step.startswith("waiting") for step in steps):
                        await asyncio.sleep(0.05)
                await views[1].until(lambda: None, 1)
                second = await Changer(views[1], steps.append).change(
                    Change(4, split(4, 1), 1, DURATION_MS), wait_ms=DURATION_MS
                )
                with pytest.raises(ConflictError, match="another operator changes the plan"):
                    await first
                for view in views:
                    await view.stop()
            return second, await told(server.url, "status")

        second, found = with_server(scenario)
        assert found["plan"]["slots"] == [{"start": 0, "count": 4}]
        assert second.epoch == found["plan"]["epoch"] == 2
        assert [slot["count"] for slot in found["slots"]] == [4]

    def test_an_interrupted_change_is_ended_with_the_plan_as_it_is(self):
        async def scenario(server):
            await new_fleet(server.url)
            async with connected(Login((server.url,)), BOT) as one:
                view = View(one)
                await view.sync()
                changer = Changer(view, lambda _: None)
                await changer._claim_plan(Change(4, split(4, 2), 1, DURATION_MS).plan("drain", 1))
                await view.stop()
            shown = await fleet(server.url, "plan")
            ended = await told(server.url, "plan", "--same")
            return shown, ended

        shown, ended = with_server(scenario)
        assert "plan 1 is changing: slots are given back; 4 shards in 2 slots" in shown.stdout
        assert "end it with: shardfw fleet plan --same" in shown.stdout
        assert (ended["mode"], ended["epoch"]) == ("active", 2)

    @pytest.mark.parametrize(
        ("words", "code", "message"),
        [
            (
                ("--total", "600", "--slots", "2"),
                1,
                "the number of shards of slot 0, 0+300, is 300",
            ),
            (
                ("--range", "0+2", "--range", "1+2"),
                1,
                "1+2 begins before 0+2 ends. Write the slots",
            ),
            (("--range", "0+5"), 1, "slot 0, 0+5, goes beyond the total of 4"),
            (("--range", "5"), 1, "'5' is no range. Write the first shard and how many: 0+16"),
            (("--slots", "1", "--range", "0+4"), 2, "give either --slots, or --range once for"),
            (("--total", "8"), 2, "give either --slots, or --range once for each slot"),
            (("--duration-ms", "100"), 1, "the duration in ms is 100. Write 4000 to 600000"),
            (("--same", "--total", "4"), 2, "--same keeps the plan. Leave the other options out"),
        ],
    )
    def test_a_plan_that_no_node_would_read_is_refused_before_anything_is_written(
        self, words, code, message
    ):
        async def scenario(server):
            await new_fleet(server.url)
            result = await fleet(server.url, "plan", *words)
            return result, await told(server.url, "plan")

        result, plan = with_server(scenario)
        assert result.exit_code == code
        assert message in result.stderr
        assert (plan["mode"], plan["epoch"]) == ("active", 1)

    def test_shards_in_no_slot_are_counted(self):
        async def scenario(server):
            await new_fleet(server.url)
            return await fleet(server.url, "plan", "--range", "0+1", "--range", "3+1")

        assert "2 of 4 shards are in no slot" in with_server(scenario).stdout


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
