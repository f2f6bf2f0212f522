"""The example programs against a real NATS server, with events as a node publishes them."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import nats
import pytest

from pxe.gateway.certificates import make_chain
from pxe.nats import NatsOptions, NatsServer, NatsUser, reader_permissions, settle
from tests.support.fleet_cli import BOT, new_fleet
from tests.support.fleet_examples import LANGUAGES, command, consume
from toolchain.cli.fleet.connect import EVENTS
from toolchain.config.nkey import nkey_of, seed_text

pytestmark = pytest.mark.parametrize("language", LANGUAGES)


@asynccontextmanager
async def fleet():
    """A server with a fleet's streams, and a client of it."""
    async with NatsServer() as server:
        await new_fleet(server.url)
        client = await nats.connect(server.url)
        try:
            yield server, client
        finally:
            await client.close()


async def publish(client, s, *, g=1, session="one", kind="MESSAGE_CREATE", shard=0, **fields):
    """Publish as a node does; return whether the stream had it already."""
    body = json.dumps({"t": kind, "s": s} | (fields or {"op": 0, "d": {"from": g}})).encode()
    headers = {"Nats-Msg-Id": f"{session}-{s}", "Shardfw": f"g={g} n=n{g} t=4 s={s}"}
    subject = f"shardfw.{BOT}.ev.{shard}.{kind}"
    return (await client.jetstream().publish(subject, body, headers=headers)).duplicate


def seen(lines):
    """Return what was read, short: sequence and publisher, or the notice."""
    return [
        (line["s"], line["d"]["from"])
        if "s" in line
        else (line["notice"], *list(line.values())[2:])
        for line in lines
    ]


def test_events_come_once_in_order_and_a_reader_goes_on_where_it_stopped(language):
    async def main():
        async with fleet() as (server, client):
            await publish(client, 1, kind="READY")
            await publish(client, 2)
            assert await publish(client, 2)
            await client.publish(f"shardfw.{BOT}.ev.0.MESSAGE_CREATE", b'{"d":1}')
            await publish(client, 1, kind="READY", session="two", shard=1)
            await publish(client, 3)
            first = await consume(language, server.url, BOT, 3)
            return first, await consume(language, server.url, BOT, 2)

    first, then = asyncio.run(main())
    assert first == [
        {"notice": "NEW_SESSION", "shard": 0, "after": None},
        {"shard": 0, "type": "READY", "s": 1, "d": {"from": 1}},
        {"shard": 0, "type": "MESSAGE_CREATE", "s": 2, "d": {"from": 1}},
    ]
    assert [(line["shard"], line.get("s")) for line in then] == [(1, None), (1, 1), (0, 3)]


def test_what_comes_again_after_the_duplicate_window_is_read_once(language):
    async def main():
        async with fleet() as (server, client):
            stream = client.jetstream()
            config = (await stream.stream_info(EVENTS)).config
            config.duplicate_window = 0.1
            await stream.update_stream(config)
            await publish(client, 1)
            while await publish(client, 1):
                await asyncio.sleep(0.1)
            await publish(client, 2)
            return await consume(language, server.url, BOT, 3)

    assert seen(asyncio.run(main())) == [(1, 1), (2, 1)]


def test_what_may_be_missing_is_said(language):
    async def main():
        async with fleet() as (server, client):
            await publish(client, 1)
            await publish(client, 4)
            await publish(client, 9, session="3fa2c1d0", kind="SHARDFW_NEW_SESSION")
            await publish(client, 1, session="two", kind="READY")
            await publish(client, 2, session="two")
            return await consume(language, server.url, BOT, 5)

    assert seen(asyncio.run(main())) == [
        (1, 1), ("GAP", 2, 3), (4, 1), ("NEW_SESSION", 4), (1, 1), (2, 1),
    ]  # fmt: skip


def test_nothing_of_a_former_owner_is_read_once_another_session_began(language):
    async def main():
        async with fleet() as (server, client):
            await publish(client, 1)
            await publish(client, 1, g=2, session="two", kind="READY")
            await publish(client, 2)
            await publish(client, 2, g=2, session="two")
            await publish(client, 5, shard=1)
            return await consume(language, server.url, BOT, 5)

    lines = seen(asyncio.run(main()))
    assert lines == [(1, 1), ("NEW_SESSION", 1), (1, 2), (2, 2), (5, 1)]


def test_what_a_former_owner_said_last_of_the_same_session_is_not_lost(language):
    """The new owner's copy has the same Msg-Id and comes second: the stream drops it."""

    async def main():
        async with fleet() as (server, client):
            await publish(client, 1)
            await publish(client, 2, g=2)
            await publish(client, 3)
            assert await publish(client, 3, g=2)
            await publish(client, 4, g=2)
            return await consume(language, server.url, BOT, 4)

    assert seen(asyncio.run(main())) == [(1, 1), (2, 2), (3, 1), (4, 2)]


def test_what_the_stream_took_late_is_read_late_whoever_published_it(language):
    """Without a leader it refuses some of what is published at once, and takes what follows."""

    async def main():
        async with fleet() as (server, client):
            await publish(client, 1)
            await publish(client, 2, g=2)
            await publish(client, 5, g=2)
            await publish(client, 3)
            await publish(client, 4, g=2)
            await publish(client, 6, g=2)
            return await consume(language, server.url, BOT, 6)

    assert seen(asyncio.run(main())) == [
        (1, 1), (2, 2), ("GAP", 3, 4), (5, 2), (3, 1), (4, 2), (6, 2),
    ]  # fmt: skip


def test_what_the_stream_dropped_meanwhile_is_said(language):
    async def main():
        async with fleet() as (server, client):
            for s in range(1, 6):
                await publish(client, s)
            first = await consume(language, server.url, BOT, 2)
            stream = client.jetstream()
            config = (await stream.stream_info(EVENTS)).config
            config.max_msgs = 1
            await stream.update_stream(config)
            return first, await consume(language, server.url, BOT, 1)

    first, then = asyncio.run(main())
    assert seen(first) == [(1, 1), (2, 1)]
    assert then[0] == {"notice": "DROPPED", "after": 2, "before": 5}
    assert seen(then[1:]) == [(5, 1)]


def test_a_stub_says_what_was_too_large(language):
    async def main():
        async with fleet() as (server, client):
            await publish(client, 1, kind="SHARDFW_OVERSIZE", type="GUILD_CREATE", size=700_000)
            return await consume(language, server.url, BOT, 1)

    d = {"type": "GUILD_CREATE", "size": 700_000}
    assert asyncio.run(main()) == [{"shard": 0, "type": "SHARDFW_OVERSIZE", "s": 1, "d": d}]


@pytest.mark.parametrize(
    ("body", "id_", "said"),
    [
        (b"[]", "one-1", "g=1 n=n1 t=4 s=1"),
        (b"null", "one-1", "g=1 n=n1 t=4 s=1"),
        (b"what", "one-1", "g=1 n=n1 t=4 s=1"),
        (b"\xff", "one-1", "g=1 n=n1 t=4 s=1"),
        (b'{"d":1}', "one-x", "g=1 n=n1 t=4 s=1"),
        (b'{"d":1}', "one-", "g=1 n=n1 t=4 s=1"),
        (b'{"d":1}', "-1", "g=1 n=n1 t=4 s=1"),
        (b'{"d":1}', "one-1", "g=x n=n1 t=4 s=1"),
        (b'{"d":1}', "one-1", "n=n1 t=4 s=1"),
    ],
)
def test_what_no_node_writes_is_passed_over_once(language, body, id_, said):
    """A reader that ended by it would be given it again, and again."""

    async def main():
        async with fleet() as (server, client):
            headers = {"Nats-Msg-Id": id_, "Shardfw": said}
            subject = f"shardfw.{BOT}.ev.0.MESSAGE_CREATE"
            await client.jetstream().publish(subject, body, headers=headers)
            await publish(client, 2)
            return await consume(language, server.url, BOT, 2)

    assert seen(asyncio.run(main())) == [(2, 1)]


def test_a_login_that_may_read_and_command_is_enough(language, tmp_path):
    word = "pw"
    chain, key, may = (
        make_chain(("127.0.0.1", "localhost")),
        nkey_of(bytes(32)),
        reader_permissions(BOT),
    )
    (tmp_path / "ca.pem").write_bytes(chain.root)
    users = NatsUser("ada", word, permissions=may), NatsUser(nkey=key.public, permissions=may)
    trust = {"SHARDFW_NATS_CA": str(tmp_path / "ca.pem")}
    boss = {"SHARDFW_NATS_USER": "boss", "SHARDFW_NATS_PASSWORD": word} | trust
    logins = boss | {"SHARDFW_NATS_USER": "ada"}, {"SHARDFW_NATS_NKEY": seed_text(key.seed)} | trust

    async def main():
        options = NatsOptions((NatsUser("boss", word), *users), chain)
        async with NatsServer(options) as server:
            await new_fleet(server.url, **boss)
            tls = ssl.create_default_context(cafile=tmp_path / "ca.pem")
            client = await nats.connect(server.url, user="boss", password=word, tls=tls)
            await publish(client, 1)
            found = []
            for name, login in zip("ab", logins, strict=True):
                lines = await consume(language, server.url, BOT, 1, "--durable", name, **login)
                said = await command(language, server.url, BOT, 0, '{"op":"restart"}', **login)
                found.append((seen(lines), said))
            await client.close()
            return found

    assert asyncio.run(main()) == [([(1, 1)], (1, "no node owns shard 0 now"))] * 2


def test_a_command_is_answered_refused_or_without_an_owner(language):
    async def main():
        async with fleet() as (server, client):
            asked = []

            async def node(message):
                asked.append((message.subject, message.data))
                await message.respond(
                    b'{"ok":true}' if len(asked) == 1 else b'{"ok":false,"err":"not_ready"}'
                )

            await client.subscribe(f"shardfw.{BOT}.cmd.3", cb=node)
            await settle(client)
            told = [
                await command(language, server.url, BOT, shard, '{"op":"restart"}')
                for shard in (3, 3, 2)
            ]
            return asked, told

    asked, told = asyncio.run(main())
    assert asked == [(f"shardfw.{BOT}.cmd.3", b'{"op":"restart"}')] * 2
    assert told == [
        (0, '{"ok":true}'),
        (1, '{"ok":false,"err":"not_ready"}'),
        (1, "no node owns shard 2 now"),
    ]
