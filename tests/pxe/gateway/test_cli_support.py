"""What the commands need of the gateway: a server that runs until it is stopped, and script files."""

import asyncio
import json
import re
from typing import Any

import pytest
from websockets.asyncio.client import connect

from pxe.gateway import GatewayEvent, Step
from pxe.gateway.cli_support import load_script, serve
from tests.support.gateway_socket import QUERY, identify, receive


class TestServe:
    def test_it_tells_the_port_and_every_event_and_returns_the_counts(self):
        lines: list[str] = []

        async def scenario() -> Any:
            stop, bound = asyncio.Event(), asyncio.get_running_loop().create_future()

            def note(event: GatewayEvent) -> None:
                lines.append(event.line().partition(" ")[2])

            serving = asyncio.create_task(
                serve(
                    shards=2,
                    load_rate=500.0,
                    guilds_per_shard=0,
                    on_event=note,
                    on_bound=bound.set_result,
                    stop=stop,
                )
            )
            server = await bound
            async with connect(server.url + QUERY) as client:
                await identify(client, 1)
                while (await receive(client))["s"] != 50:
                    pass
            stop.set()
            return server.port, await serving

        port, stats = asyncio.run(scenario())
        assert lines[0] == f"event=listening url=ws://127.0.0.1:{port} shards=2"
        assert [line.split()[0] for line in lines[1:]] == [
            "event=connect",
            "event=identify",
            "event=ready",
            "event=closed",
        ]
        assert stats.shards[1].load_counter >= 49
        assert json.loads(json.dumps(stats.to_dict()))["shards"][1]["identifies"] == 1

    def test_script_file_is_toml_or_json(self, tmp_path):
        step = Step(on="ready", do="kick", shard=3, after_dispatches=5, code=4000)
        toml, other = tmp_path / "s.toml", tmp_path / "s.json"
        toml.write_text(
            '[[step]]\non = "ready"\ndo = "kick"\nshard = 3\nafter_dispatches = 5\ncode = 4000\n'
        )
        other.write_text('[{"on":"ready","do":"kick","shard":3,"after_dispatches":5,"code":4000}]')
        assert load_script(toml) == load_script(other) == (step,)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.toml", "[[step]]\non = 'x'\ndo = 'kick'\n", "a.toml: step 1: on is 'x'"),
            ("a.toml", "[[step\n", "a.toml: "),
            ("a.json", "{}", "a.json: expected a list of steps: [[step]] tables in TOML"),
        ],
    )
    def test_wrong_script_file_is_named(self, tmp_path, name, text, message):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(ValueError, match=re.escape(message)):
            load_script(path)
