"""The example readers of pxe/examples take what a QEMU node publishes; their commands reach it."""

import asyncio

import pytest

from pxe.gateway.load import LoadOptions
from pxe.gateway.server import GatewayServer
from tests.support.fleet_cli import BOT
from tests.support.fleet_examples import LANGUAGES, command, consume
from tests.support.fleet_site import fleet_site
from tests.support.site import PATIENCE_S, quiet

pytestmark = pytest.mark.system
SHARDS = 2
EVENTS = 20
PRESENCE = '{"op":3,"d":{"since":null,"activities":[],"status":"idle","afk":false}}'


def test_examples_read_a_node_and_command_it(tmp_path):
    async def main():
        options = quiet(shards=SHARDS, max_concurrency=SHARDS)
        async with (
            GatewayServer(options) as gateway,
            fleet_site(gateway, tmp_path, SHARDS) as (server, _),
        ):
            await gateway.wait_until(lambda s: all(x.connected for x in s.shards), PATIENCE_S)
            await gateway.call(lambda core: core.set_load(LoadOptions(rate=20.0)))
            lines = {
                language: await consume(language, server.url, BOT, EVENTS, "--durable", language)
                for language in LANGUAGES
            }
            answers = [
                await command(language, server.url, BOT, shard, PRESENCE)
                for language in LANGUAGES
                for shard in (0, SHARDS)
            ]
            return lines, answers

    lines, answers = asyncio.run(main())
    assert lines["python"] == lines["javascript"]
    for shard in range(SHARDS):
        own = [line for line in lines["python"] if line["shard"] == shard]
        assert own[0] == {"notice": "NEW_SESSION", "shard": shard, "after": None}
        assert own[1]["type"] == "READY"
        assert [line["s"] for line in own[1:]] == list(range(1, len(own)))
    assert answers == [(0, '{"ok":true}'), (1, f"no node owns shard {SHARDS} now")] * 2
