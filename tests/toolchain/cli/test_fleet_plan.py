"""`shardfw fleet plan` with nodes: another cut without two holders of a shard."""

import asyncio
import time

import pytest

from tests.support.fleet_cli import (
    BOT,
    DURATION_MS,
    fleet,
    new_fleet,
    overlaps,
    told,
    with_server,
)
from tests.support.fleet_node import FleetNode
from toolchain.cli.fleet.change import LEASE, Change, Changer, revision
from toolchain.cli.fleet.connect import ConflictError, Login, connected
from toolchain.cli.fleet.records import Lease, Range, split, takeover_s
from toolchain.cli.fleet.watch import View


def test_a_plan_changes_without_an_overlap_and_generations_go_on():
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


def test_a_dead_holder_is_waited_out():
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


def test_of_two_operators_one_makes_the_plan_and_the_other_is_told():
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


def test_a_renewal_behind_the_wait_is_waited_out_and_not_written_over(monkeypatch):
    """A holder that does not see the drain renews; the operator's watch stood still meanwhile."""
    wait = Changer._wait
    renewed: list[float] = []

    async def wait_and_be_late(self, slots, duration_ms):
        await wait(self, slots, duration_ms)
        if not renewed:
            lease = Lease("a", "0a0a0a0a", 7, 1, DURATION_MS, 1, Range(0, 2), 4)
            await self.fleet.swap(f"{LEASE}0", lease, revision(self.view, f"{LEASE}0"))
            renewed.append(time.monotonic())

    async def scenario(server):
        await new_fleet(server.url)
        async with connected(Login((server.url,)), BOT) as one:
            view = View(one)
            await view.sync()
            monkeypatch.setattr(Changer, "_wait", wait_and_be_late)
            steps: list[str] = []
            change = Change(4, split(4, 1), 1, DURATION_MS)
            await Changer(view, steps.append).change(change, wait_ms=DURATION_MS)
            await view.stop()
        return steps, time.monotonic() - renewed[0], await told(server.url, "status")

    steps, waited_s, found = with_server(scenario)
    assert "waiting: slot 0 is held by a" in steps
    assert waited_s >= takeover_s(DURATION_MS)
    assert [(slot["node"], slot["generation"]) for slot in found["slots"]] == [(None, 7)]


def test_an_interrupted_change_is_ended_with_the_plan_as_it_is():
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
def test_a_plan_that_no_node_would_read_is_refused_before_anything_is_written(words, code, message):
    async def scenario(server):
        await new_fleet(server.url)
        result = await fleet(server.url, "plan", *words)
        return result, await told(server.url, "plan")

    result, plan = with_server(scenario)
    assert result.exit_code == code
    assert message in result.stderr
    assert (plan["mode"], plan["epoch"]) == ("active", 1)


def test_shards_in_no_slot_are_counted():
    async def scenario(server):
        await new_fleet(server.url)
        return await fleet(server.url, "plan", "--range", "0+1", "--range", "3+1")

    assert "2 of 4 shards are in no slot" in with_server(scenario).stdout
