"""A record is written when its stream has no leader for a moment; one that stays away is named."""

import asyncio

import pytest
from nats.js import JetStreamContext
from nats.js.errors import NoStreamResponseError

from pxe.nats import NatsServer
from tests.support.fleet_cli import BOT, new_fleet
from toolchain.cli.fleet import connect
from toolchain.cli.fleet.connect import DeniedError, Login, UnansweredError, connected


def without_leader(monkeypatch, times):
    """Let so many publications find nobody; return what was tried."""
    publish, tried = JetStreamContext.publish, []

    async def absent(self, subject, *more, **options):
        tried.append(subject)
        if len(tried) <= times:
            raise NoStreamResponseError
        return await publish(self, subject, *more, **options)

    monkeypatch.setattr(JetStreamContext, "publish", absent)
    return tried


def test_a_record_waits_for_a_leader(monkeypatch):
    async def run():
        async with NatsServer() as server:
            await new_fleet(server.url)
            tried = without_leader(monkeypatch, 3)
            async with connected(Login((server.url,)), BOT) as fleet:
                first = await fleet.swap("x", "1", 0)
                assert await fleet.swap("x", "2", first) == first + 1
            return tried

    assert asyncio.run(run()) == [f"$KV.shardfw.{BOT}.x"] * 5


def test_a_stream_that_gets_no_leader_is_named(monkeypatch):
    monkeypatch.setattr(connect, "ANSWER_S", 0.5)

    async def run():
        async with NatsServer() as server:
            await new_fleet(server.url)
            without_leader(monkeypatch, 1000)
            async with connected(Login((server.url,)), BOT) as fleet:
                await fleet.swap("x", "1", 0)

    text = (
        r"KV_shardfw at nats://127\.0\.0\.1:\d+ has no leader, so nothing was written\. Look at the"
    )
    with pytest.raises(UnansweredError, match=text):
        asyncio.run(run())


def test_a_stream_that_is_missing_is_not_waited_for(monkeypatch):
    tried = without_leader(monkeypatch, 0)

    async def run():
        async with NatsServer() as server, connected(Login((server.url,)), BOT) as fleet:
            await fleet.swap("x", "1", 0)

    with pytest.raises(DeniedError, match="there is no stream KV_shardfw"):
        asyncio.run(run())
    assert len(tried) == 1
