"""Planned hand-overs between real nodes: a drain, a move, a stop. Every session is resumed, none begins anew."""

import asyncio
import json
import re
import time

import pytest

from tests.system.test_run import cli, environ, leftovers
from toolchain.cli.fleet.orders import MOVE, NODE
from toolchain.cli.fleet_runner import FleetRunner
from toolchain.cli.fleet_services import FleetRunOptions
from toolchain.config import load_config

__all__ = ["environ"]

pytestmark = pytest.mark.system
READY_S, BACK_S = 240, 60
SHARDS = 2


class Fleet:
    """Two nodes and one slot, over TLS; what their lines said, and when they did."""

    def __init__(self):
        config = load_config(None, {}, {"shards.count": SHARDS, "gateway.max_concurrency": 2})
        options = FleetRunOptions(config, 2, SHARDS, 1, 1, 20_000, target="direct")
        self.lines = []
        self.runner = FleetRunner(options, self._take)

    def _take(self, label, line):
        self.lines.append((time.monotonic(), label, line.text))

    def said(self, text):
        """Return when lines with a text came."""
        return [at for at, _, line in self.lines if text in line]

    async def owners(self):
        """Wait until all runs; return the node that has the slot, and the other one."""
        await self.runner.until_owned(READY_S)
        first = self.runner.holders()[0].node
        found = {machine.name: machine for machine in self.runner.machines}
        return found.pop(first), *found.values()

    async def resumed(self, work):
        """Return what some work returns, and when every shard was resumed meanwhile."""
        gateway = self.runner.gateway
        resumes, identifies = gateway.total("resumes"), gateway.total("identifies")
        running = asyncio.ensure_future(work)

        def back():
            now = self.runner.gateway
            count = now.total("resumes") - resumes
            return count == SHARDS and all(shard.connected for shard in now.shards)

        await self.runner.until(back, BACK_S, lambda: "not all shards are resumed")
        at = time.monotonic()
        assert self.runner.gateway.total("identifies") == identifies
        return await running, at


async def ask(*words):
    """Return what a command prints as JSON."""
    done = await asyncio.to_thread(cli, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nodes_obey_drain_and_move(environ, monkeypatch, record_property):
    fleet = Fleet()

    async def until(runner):
        holder, other = await fleet.owners()
        file = runner.services.environment.read_text()
        for name, value in re.findall(r"export (\w+)=(\S+)", file):
            monkeypatch.setenv(name, value)

        drain = ask("fleet", "drain", holder.name)
        report, at = await fleet.resumed(drain)
        assert report == {"node": holder.name, "mode": "drain", "slots": [0]}
        assert runner.holders()[0].node == other.name
        asked = runner.services.view.records[f"{NODE}{holder.name}"].at
        record_property("milliseconds_from_drain_to_resumed", round(1000 * (at - asked)))
        assert (await ask("fleet", "drain", holder.name, "--undo"))["mode"] == "open"

        report, at = await fleet.resumed(ask("fleet", "move", "0", holder.name))
        assert (report["before"], report["after"]) == (other.name, holder.name)
        assert runner.holders()[0].node == holder.name
        asked = runner.services.view.records[f"{MOVE}0"].at
        record_property("milliseconds_from_move_to_resumed", round(1000 * (at - asked)))

    asyncio.run(fleet.runner.run(until))
    assert len(fleet.said("code=fleet.stopping")) == len(fleet.said("reason=asked")) == 2
    assert fleet.said("code=fleet.lost") == []
    assert leftovers(environ) == []


@pytest.mark.parametrize("how", ["command", "power_button"])
def test_a_node_that_stops_hands_its_shards_over(environ, record_property, how):
    fleet = Fleet()

    async def until(runner):
        holder, other = await fleet.owners()
        stop = ask("stop", "--name", holder.label)
        if how == "power_button":
            stop.close()
            stop = holder.node.qmp("system_powerdown")
        _, at = await fleet.resumed(stop)
        assert runner.holders()[0].node == other.name
        (began,) = fleet.said(f"code=node.stopping reason={how}")
        record_property("milliseconds_from_stop_to_resumed", round(1000 * (at - began)))
        assert await holder.node.wait_exit(BACK_S) == 0

    asyncio.run(fleet.runner.run(until))
    assert len(fleet.said("code=node.stopped closed=2 reset=0 left=0")) == 1
    assert fleet.said("code=fleet.lost") == []
    assert leftovers(environ) == []
