"""`shardfw fleet tail` prints what nodes publish, and nothing that no node wrote."""

import asyncio
import json

import nats
import pytest

from pxe.nats import NatsOptions, NatsServer, NatsUser
from tests.support.fleet_cli import BOT, fleet, new_fleet
from toolchain.cli.fleet.tail import Event, line, subjects


def event(shard, kind, sequence, data, node="n7"):
    subject = f"shardfw.{BOT}.ev.{shard}.{kind}"
    headers = {"Nats-Msg-Id": f"session-{sequence}", "Shardfw": f"g=3 n={node} t=4 s={sequence}"}
    body = json.dumps({"t": kind, "s": sequence, "op": 0, "d": data}).encode()
    return subject, body, headers


EVENTS = [
    event(0, "MESSAGE_CREATE", 5, {"id": "1", "content": "a\nb"}),
    (f"shardfw.{BOT}.ev.0.MESSAGE_CREATE", b'{"d":1}', {}),
    event(1, "TYPING_START", 6, {"id": "2"}, "n8"),
    event(1, "MESSAGE_CREATE", 7, {"id": "3"}, "n8"),
]


def tailed(*words):
    """Return what the command prints of EVENTS, published again and again until it ends."""

    async def run():
        async with NatsServer() as server:
            await new_fleet(server.url)
            client = await nats.connect(server.url)
            work = asyncio.create_task(fleet(server.url, "tail", *words))
            while not work.done():
                for subject, body, headers in EVENTS:
                    await client.publish(subject, body, headers=headers)
                await asyncio.sleep(0.1)
            await client.close()
            return await work

    result = asyncio.run(run())
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_events_are_lines_in_their_order():
    assert tailed("--count", "3") == [
        'shard 0  n7 gen 3  5  MESSAGE_CREATE  {"id":"1","content":"a\\nb"}',
        'shard 1  n8 gen 3  6  TYPING_START  {"id":"2"}',
        'shard 1  n8 gen 3  7  MESSAGE_CREATE  {"id":"3"}',
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
    found = [json.loads(text) for text in tailed("--count", "2", "--json", *words)]
    assert [one["sequence"] for one in found] == kept
    assert set(found[0]) == {"shard", "type", "node", "generation", "sequence", "total", "d"}


def test_a_user_that_may_not_read_events_is_told():
    limited = NatsUser("ada", "pw", permissions={"subscribe": ["_INBOX.>"]})

    async def run():
        async with NatsServer(NatsOptions(users=(NatsUser("boss", "pw"), limited))) as server:
            await new_fleet(server.url, "--user", "boss")
            return await fleet(server.url, "tail", "--user", "ada")

    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setenv("SHARDFW_NATS_PASSWORD", "pw")
        result = asyncio.run(run())
    assert result.exit_code == 1
    assert "NATS does not let this user read events: permissions violation" in result.stderr


def test_what_steers_a_terminal_is_escaped():
    shown = line(Event(1, "X", "n7", 2, 3, 4, "\x1b[2J\u202e"))
    assert shown == 'shard 1  n7 gen 2  3  X  "\\u001b[2J\\u202e"'


def test_each_type_has_a_subject_of_its_own():
    assert subjects("b1", None, ()) == ["shardfw.b1.ev.*.*"]
    assert subjects("b1", 3, ("A", "B")) == ["shardfw.b1.ev.3.A", "shardfw.b1.ev.3.B"]
