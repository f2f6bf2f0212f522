"""Client libraries that know nothing of us use the gateway as the real one."""

import asyncio
import base64
import dataclasses
import json
import logging
import os
import shutil
import subprocess
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import hikari
import pytest
from hikari.impl import HTTPSettings
from yarl import URL

from pxe.gateway import GatewayEvent, GatewayOptions, LoadOptions
from pxe.gateway.accounting import GatewayStats
from pxe.gateway.bodies import BOT_ID
from pxe.gateway.certificates import ServerChain, make_chain
from pxe.gateway.cli_support import LOCAL_NAMES
from pxe.gateway.load import COUNTER_KEY, MIX
from pxe.gateway.server import GatewayServer
from tests.support.npm import NODE, install

with warnings.catch_warnings():
    # discord.py imports audioop, which Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

# hikari wants a token whose first part is the base64 of a snowflake.
TOKEN = base64.b64encode(BOT_ID.encode()).decode() + ".aaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbb"
HERE = Path(__file__).parent
TIMEOUT_S = 60.0


OPTIONS = GatewayOptions(token=TOKEN, load=LoadOptions(rate=300.0))
# hikari takes events in tasks of their own, and asks its connection who it is when a guild comes: one
# whose turn comes after a cut is its error, not ours.
HIKARI_MIX = dict(MIX) | {"GUILD_CREATE": 0.0}
HIKARI_LOAD = LoadOptions(rate=300.0, mix=tuple(HIKARI_MIX.items()))


@pytest.fixture(params=[None, "tls"], ids=["plain", "tls"])
def chain(request) -> ServerChain | None:
    """What the gateway shows: nothing, or a chain of its own."""
    return None if request.param is None else make_chain(LOCAL_NAMES)


def serving(options: GatewayOptions, chain: ServerChain | None, **more: Any) -> GatewayServer:
    return GatewayServer(options, ssl_context=chain.context() if chain else None, **more)


def api(server: GatewayServer) -> str:
    """The URL of the HTTP interface."""
    return f"{server.url.replace('ws', 'http', 1)}/api/v10"


Predicate = Callable[[GatewayStats], bool]


def resumed(times: int) -> Predicate:
    return lambda stats: stats.shards[0].resumes >= times and stats.shards[0].connected


def more_load(stats: GatewayStats, events: int) -> Predicate:
    """A predicate: so many load dispatches beyond those of `stats`."""
    goal = stats.shards[0].load_counter + events
    return lambda now: now.shards[0].load_counter >= goal


async def cut_off_in_every_way(server: GatewayServer) -> GatewayStats:
    """Cut the only shard off by close code, op 7 and reset; each time it must resume."""
    await server.wait_until(lambda stats: stats.shards[0].connected, TIMEOUT_S)
    cuts: list[Callable[[], Awaitable[None]]] = [
        lambda: server.kick(0, 4000),
        lambda: server.reconnect(0),
        lambda: server.abort(0),
    ]
    for times, cut in enumerate(cuts, 1):
        await server.wait_until(more_load(server.stats(), 60), TIMEOUT_S)
        await cut()
        await server.wait_until(resumed(times), TIMEOUT_S)
    return await server.wait_until(more_load(server.stats(), 60), TIMEOUT_S)


def check_counts(stats: GatewayStats, counters: list[int]) -> None:
    """Every dispatch came exactly once and in order, over three cuts."""
    shard = stats.shards[0]
    assert (shard.identifies, shard.resumes, shard.connections) == (1, 3, 4)
    assert shard.closes["4000"] >= 1
    assert shard.closes["abort"] == 1
    assert shard.reconnect_requests == 1
    assert len(counters) > 200
    assert counters == list(range(1, len(counters) + 1))


def error_lines(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


def test_hikari_over_zlib_stream_identifies_is_cut_off_and_resumes(caplog, chain):
    async def scenario() -> tuple[GatewayStats, list[int]]:
        counters = []
        targets = []

        def observe(event: GatewayEvent) -> None:
            if event.name == "connect":
                targets.append(str(event.fields["target"]))

        options = dataclasses.replace(OPTIONS, load=HIKARI_LOAD)
        async with serving(options, chain, observer=observe) as server:
            bot = hikari.GatewayBot(
                TOKEN,
                banner=None,
                logs=None,
                rest_url=api(server),
                http_settings=HTTPSettings(ssl=chain.client_context() if chain else True),
                intents=hikari.Intents.ALL,
            )

            async def on_payload(event: hikari.ShardPayloadEvent) -> None:
                if COUNTER_KEY in event.payload:
                    counters.append(event.payload[COUNTER_KEY])

            bot.subscribe(hikari.ShardPayloadEvent, on_payload)
            await bot.start(check_for_updates=False, shard_count=1)
            stats = await cut_off_in_every_way(server)
            await bot.close()
        assert all("compress=zlib-stream" in target for target in targets)
        return stats, counters

    check_counts(*asyncio.run(scenario()))
    assert error_lines(caplog) == []


def test_discord_py_identifies_is_cut_off_and_resumes(caplog, monkeypatch, chain):
    async def scenario() -> tuple[GatewayStats, list[int]]:
        counters = []
        async with serving(OPTIONS, chain) as server:
            monkeypatch.setattr(Route, "BASE", api(server))
            monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", URL(server.url))
            client = discord.Client(
                intents=discord.Intents(guilds=True, guild_messages=True, guild_typing=True),
                enable_debug_events=True,
                connector=aiohttp.TCPConnector(ssl=chain.client_context() if chain else True),
            )

            @client.event
            async def on_socket_raw_receive(text: str) -> None:
                body = json.loads(text)["d"]
                if isinstance(body, dict) and COUNTER_KEY in body:
                    counters.append(body[COUNTER_KEY])

            async with client:
                running = asyncio.create_task(client.start(TOKEN))
                stats = await cut_off_in_every_way(server)
            await running
        return stats, counters

    check_counts(*asyncio.run(scenario()))
    assert error_lines(caplog) == []


def test_discordjs_ws_identifies_is_cut_off_and_resumes(tmp_path, chain):
    script = shutil.copy(HERE / "client.mjs", install("tests"))

    # Its WebSocket package sends no User-Agent.
    options = dataclasses.replace(OPTIONS, require_user_agent=False)
    trusted = {}
    if chain is not None:
        (tmp_path / "ca.pem").write_bytes(chain.root)
        trusted["NODE_EXTRA_CA_CERTS"] = str(tmp_path / "ca.pem")

    async def scenario() -> tuple[GatewayStats, list[int]]:
        async with serving(options, chain) as server:
            process = await asyncio.create_subprocess_exec(
                NODE,
                str(script),
                api(server),
                COUNTER_KEY,
                env={**os.environ, **trusted, "DISCORD_TOKEN": TOKEN},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stats = await cut_off_in_every_way(server)
            output, _ = await process.communicate(b"stop\n")
            assert process.returncode == 0
        return stats, json.loads(output)

    check_counts(*asyncio.run(scenario()))
