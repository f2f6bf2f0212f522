"""A node in QEMU that is stopped: by command, by its power button, and where nothing switches it off."""

import asyncio
import json
import re

import pytest

from firmware.image import link_direct
from tests.support.site import PATIENCE_S, running
from tests.system.roles import no_off
from tests.system.test_run import Running, alive, cli, environ, leftovers
from toolchain.cli import images

pytestmark = pytest.mark.system
__all__ = ["environ"]
SHARDS = 16
WATCHDOG_S = 10


def test_shardfw_stop_ends_the_node_and_its_runner(environ):
    with Running("--shards", "4", "--direct") as run:
        run.wait("code=lifecycle.ready", count=4)
        stopped = cli("stop", "--json")
        assert stopped.returncode == 0, stopped.stderr
        report = json.loads(stopped.stdout)
        assert (report["closed"], report["reset"], report["left"]) == (4, 0, 0)
        run.process.wait(timeout=30)
        run._reader.join()
        assert run.process.returncode == 0
        text = "\n".join(run.lines)
        assert len(re.findall("code=shard.held hold=stopped", text)) == 4
        assert re.search(r"code=node\.stopped closed=4 reset=0 left=0 took=\d+", text)
        assert "code=node.off acpi=1" in text
        assert f"the node has stopped in {report['took_ms']} ms: 4 connections closed" in text
        assert not alive(run.process.pid)
    assert leftovers(environ) == []
    again = cli("stop")
    assert again.returncode == 1
    assert "no node 'node' runs here" in again.stderr


def test_the_power_button_stops_the_node_and_switches_it_off(tmp_path):
    async def main():
        async with running(tmp_path) as site:
            await site.node.qmp("system_powerdown")
            await site.node.wait_line("code=node.stopping reason=power_button", PATIENCE_S)
            said = await site.node.wait_line(r"code=node\.stopped", PATIENCE_S)
            assert f" closed={SHARDS} reset=0 left=0 " in said.text
            assert await site.node.wait_exit(PATIENCE_S) == 0
            return [dict(shard.closes) for shard in site.gateway.stats().shards]

    assert asyncio.run(main()) == [{"4000": 1}] * SHARDS


def test_a_machine_that_cannot_be_switched_off_halts_for_good(tmp_path, monkeypatch):
    """The watchdog has ten seconds; it must not start the node again."""
    replaced, _ = link_direct({"acpi_soft_off": no_off.acpi_soft_off})
    template = images.template_of(replaced, release=False)
    monkeypatch.setattr(images, "cached_template", lambda _target: template)

    async def main():
        async with running(tmp_path) as site:
            await site.node.qmp("system_powerdown")
            await site.node.wait_line("code=node.off acpi=0", PATIENCE_S)
            count = len(site.node.lines)
            await asyncio.sleep(WATCHDOG_S + 2)
            assert await site.node.status() == "running"
            return site.node.lines[count:]

    assert asyncio.run(main()) == []
