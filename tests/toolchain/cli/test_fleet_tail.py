"""`shardfw fleet tail` prints what nodes publish, each event once, and nothing of a former owner."""

import asyncio
import itertools
import json
from dataclasses import dataclass

import nats
import pytest
from nats.js.api import StreamConfig

from pxe.nats import NatsOptions, NatsServer, NatsUser
from tests.support.fleet_cli import BOT, fleet, new_fleet
from toolchain.cli.fleet.connect import EVENTS, FleetError, Login, connected
from toolchain.cli.fleet.tail import Event, follow


@dataclass
class Said:
    """One publication, as a node makes it."""

    s: int
    kind: str = "MESSAGE_CREATE"
    data: object = None
    shard: int = 0
    g: int = 1
    session: str = "one"
    rest: dict[str, object] | None = None

    async def publish(self, client):
        """Publish it; return its place in the stream."""
        body = {"t": self.kind, "s": self.s} | (self.rest or {"op": 0, "d": self.data})
        headers = {
            "Nats-Msg-Id": f"{self.session}-{self.s}",
            "Shardfw": f"g={self.g} n=n{self.g} t=4 s={self.s}",
        }
        subject = f"shardfw.{BOT}.ev.{self.shard}.{self.kind}"
        await client.jetstream().publish(subject, json.dumps(body).encode(), headers=headers)


PUBLICATIONS = itertools.count()


def notice(name, s, first, second, **more):
    values = {"first": first, "second": second}
    session = f"0badcafe{next(PUBLICATIONS)}"
    return Said(s, f"SHARDFW_{name}", session=session, rest=values, **more)


async def listened(client):
    """Wait until somebody reads the stream."""
    while not (await client.jetstream().stream_info(EVENTS)).state.consumer_count:
        await asyncio.sleep(0.05)


def tailed(said, *words):
    """Return what the command prints of what is said while it listens."""

    async def run():
        async with NatsServer() as server:
            await new_fleet(server.url)
            client = await nats.connect(server.url)
            await Said(90, shard=3).publish(client)  # before: nobody hears it
            async with asyncio.timeout(30):
                work = asyncio.create_task(fleet(server.url, "tail", *words))
                await listened(client)
                for one in said:
                    await (one.publish(client) if isinstance(one, Said) else one(client))
                result = await work
            await client.close()
            return result

    result = asyncio.run(run())
    assert result.exit_code == 0, result.output
    return result.stdout.split("\n")[:-1]


async def unsigned(client):
    await client.publish(f"shardfw.{BOT}.ev.0.MESSAGE_CREATE", b'{"d":1}')


async def no_json(client):
    headers = {"Nats-Msg-Id": "one-5", "Shardfw": "g=1 n=n1 t=4 s=5"}
    await client.publish(f"shardfw.{BOT}.ev.0.MESSAGE_CREATE", b"{", headers=headers)


async def no_number(client):
    headers = {"Nats-Msg-Id": "one-x", "Shardfw": "g=1 n=n1 t=4 s=5"}
    await client.publish(f"shardfw.{BOT}.ev.0.MESSAGE_CREATE", b"{}", headers=headers)


EVENTS_SAID = [
    Said(5, data={"id": "1", "content": "a\nb"}),
    unsigned,
    no_json,
    no_number,
    Said(6, "TYPING_START", {"id": "2"}, 1, 3),
    Said(7, "MESSAGE_CREATE", {"id": "3"}, 1, 3),
]


def test_events_are_lines_in_their_order():
    assert tailed(EVENTS_SAID, "--count", "3") == [
        'shard 0  n1 gen 1  5  MESSAGE_CREATE  {"id":"1","content":"a\\nb"}',
        'shard 1  n3 gen 3  6  TYPING_START  {"id":"2"}',
        'shard 1  n3 gen 3  7  MESSAGE_CREATE  {"id":"3"}',
    ]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("--shard", "1"), [6, 7]),
        (("--type", "MESSAGE_CREATE"), [5, 7]),
        (("--shard", "1", "--type", "MESSAGE_CREATE", "--type", "TYPING_START"), [6, 7]),
    ],
)
def test_shards_and_types_are_chosen(words, kept):
    found = [json.loads(text) for text in tailed(EVENTS_SAID, "--count", "2", "--json", *words)]
    assert [one["sequence"] for one in found] == kept
    assert set(found[0]) == {"shard", "type", "node", "generation", "sequence", "total", "d"}


def test_a_former_owner_is_not_heard_once_another_session_began():
    said = [
        Said(1),
        Said(1, "READY", g=2, session="two"),
        Said(2),
        notice("GAP", 2, 1, 2, g=1),
        Said(2, g=2, session="two"),
    ]
    lines = tailed(said, "--count", "3")
    assert [line.split("  ")[1:4] for line in lines] == [
        ["n1 gen 1", "1", "MESSAGE_CREATE"],
        ["n2 gen 2", "1", "READY"],
        ["n2 gen 2", "2", "MESSAGE_CREATE"],
    ]


def test_what_a_former_owner_said_late_of_the_same_session_is_heard_though_types_are_chosen():
    said = [Said(1), Said(2, "TYPING_START", g=2), Said(3), Said(4, "TYPING_START", g=1)]
    lines = tailed(said, "--count", "2", "--type", "TYPING_START", "--json")
    assert [json.loads(line)["sequence"] for line in lines] == [2, 4]


def test_the_fence_counts_events_of_types_that_are_not_shown():
    said = [
        Said(1),
        Said(1, "READY", g=2, session="two"),
        Said(2),
        Said(2, g=2, session="two"),
    ]
    lines = tailed(said, "--count", "2", "--type", "MESSAGE_CREATE", "--json")
    assert [json.loads(line)["generation"] for line in lines] == [1, 2]


def test_notices_and_holes_stand_out_between_the_events():
    said = [
        Said(1),
        Said(4),
        notice("RESUMED", 4, 4, None),
        notice("GAP", 4, 2, 3),
        notice("GAP", 4, 2, None),
        notice("GAP", 4, "\x1b[2J", [1]),
    ]
    assert tailed(said, "--count", "7")[1:] == [
        "shard 0  -- not in the stream: 2 to 3",
        "shard 0  n1 gen 1  4  MESSAGE_CREATE  null",
        "shard 0  n1 gen 1  4  -- RESUMED",
        "shard 0  n1 gen 1  4  -- GAP: 2 to 3 may be missing",
        "shard 0  n1 gen 1  4  -- GAP: 2 to ? may be missing",
        "shard 0  n1 gen 1  4  -- GAP: ? to ? may be missing",
    ]


def test_notices_as_json_have_a_name_and_two_values():
    said = [notice("GAP", 4, 2, None), Said(4), Said(7)]
    gap, event, hole, _ = map(json.loads, tailed(said, "--count", "4", "--json"))
    assert gap == {
        "shard": 0, "type": "SHARDFW_GAP", "node": "n1", "generation": 1, "sequence": 4, "total": 4,
        "notice": "GAP", "first": 2, "second": None,
    }  # fmt: skip
    assert "notice" not in event
    assert hole == {"shard": 0, "notice": "HOLE", "first": 5, "last": 6}


def test_notices_are_chosen_by_their_subjects():
    said = [Said(1), Said(4), notice("RESUMED", 4, 4, None), notice("GAP", 4, 2, 3)]
    assert tailed(said, "--count", "1", "--type", "SHARDFW_GAP") == [
        "shard 0  n1 gen 1  4  -- GAP: 2 to 3 may be missing"
    ]


def test_a_stream_that_began_anew_is_read_from_its_beginning():
    async def run():
        async with NatsServer() as server, connected(Login((server.url,)), BOT) as reader:
            await new_fleet(server.url)
            client = await nats.connect(server.url)
            stream = client.jetstream()
            events, seen = follow(reader, None, ()), []

            async def heard():
                while (found := await anext(events)) is None:
                    pass
                seen.append(found.report()["sequence"])

            async with asyncio.timeout(30):
                for each in (1, 2):
                    await Said(each).publish(client)
                task = asyncio.create_task(heard())
                await listened(client)
                await Said(3).publish(client)
                await task
                await stream.delete_stream(EVENTS)
                await stream.add_stream(StreamConfig(EVENTS, subjects=[f"shardfw.{BOT}.ev.>"]))
                await Said(1, session="two").publish(client)
                await heard()
            await events.aclose()
            await client.close()
            return seen

    assert asyncio.run(run()) == [3, 1]


def test_a_user_that_may_not_read_events_is_told():
    limited = NatsUser("ada", "pw", permissions={"publish": ["shardfw.>"]})

    async def run():
        async with NatsServer(NatsOptions(users=(NatsUser("boss", "pw"), limited))) as server:
            await new_fleet(server.url, "--user", "boss")
            return await fleet(server.url, "tail", "--user", "ada")

    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setenv("SHARDFW_NATS_PASSWORD", "pw")
        result = asyncio.run(run())
    assert result.exit_code == 1
    assert " does not let user 'ada' do that: permissions violation" in result.stderr


def test_without_the_stream_there_is_no_fleet():
    async def run():
        async with NatsServer() as server:
            return await fleet(server.url, "tail")

    result = asyncio.run(run())
    assert result.exit_code == 1
    assert "Error: there is no stream SHARDFW_EV at nats://127.0.0.1:" in result.stderr
    assert ", so no fleet. Make it with: shardfw fleet init --bot b1\n" in result.stderr


def test_a_server_that_is_gone_for_good_ends_it():
    async def run():
        async with NatsServer() as server, connected(Login((server.url,)), BOT) as reader:
            await new_fleet(server.url)
            events = follow(reader, None, ())
            assert await anext(events) is None
            await reader.client.close()
            async with asyncio.timeout(30):
                while True:
                    await anext(events)

    with pytest.raises(FleetError, match="the connection to NATS ended and no server of the list"):
        asyncio.run(run())


def test_what_steers_a_terminal_is_escaped():
    shown = Event(1, "X", "n\x1b7", 2, 3, 4, "\x1b[2J\u202e").line()
    assert shown == 'shard 1  n\\u001b7 gen 2  3  X  "\\u001b[2J\\u202e"'
