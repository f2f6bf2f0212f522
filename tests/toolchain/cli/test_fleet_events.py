"""What a gateway published against what a reader got: one that is missing or doubled is counted."""

import asyncio
import contextlib
import json
from types import SimpleNamespace
from typing import Any

import pytest

from pxe.examples.python.consumer import Event
from pxe.gateway import Gateway, GatewayOptions, LoadOptions, ManualClock
from pxe.gateway.protocol import DISCORD, FLUXER
from pxe.gateway.session import Session
from pxe.nats import NatsServer
from tests.support.fleet_cli import BOT, new_fleet
from toolchain.cli.fleet.connect import EVENTS, FleetError, Login, connected
from toolchain.cli.fleet_events import EventAccount, follow

ONE, TWO = (Session(name, 0, 1, 100, 10_000) for name in ("one", "two"))


def load(counter):
    return f'{{"load_counter":{counter},"content":"x"}}'


def event(session, s, body, *, place=0, g=1, kind="MESSAGE_CREATE"):
    return Event(session.shard, kind, g, session.id, s, place or s, json.loads(body))


@pytest.fixture
def account():
    """An account of READY and three events of one session, of which none was read."""
    found = EventAccount()
    found.published(ONE, 1, '{"v":10}')
    for s in (2, 3, 4):
        found.published(ONE, s, load(s - 1))
    assert (len(found.sent), len(found.missing)) == (4, 4)
    return found


def read_all(account):
    account.take(event(ONE, 1, '{"v":10}', kind="READY"))
    for s in (2, 3, 4):
        account.take(event(ONE, s, load(s - 1)))


def test_nothing_is_missing_or_doubled_when_all_was_read(account):
    read_all(account)
    assert (account.missing, account.doubled) == (set(), 0)


def test_one_that_is_missing_is_counted(account):
    for s in (2, 4):
        account.take(event(ONE, s, load(s - 1)))
    assert account.missing == {("one", 1), ("load of shard 0", 2)}


def test_a_repetition_of_one_message_is_for_the_reader_to_drop(account):
    read_all(account)
    account.take(event(ONE, 3, load(2), place=9))
    assert account.doubled == 0


def test_one_that_comes_again_in_another_session_is_counted(account):
    read_all(account)
    account.take(event(TWO, 1, load(2), place=9, g=2))
    account.take(event(TWO, 2, load(3), place=10, g=2))
    assert account.doubled == 2


def test_one_of_a_former_owner_that_the_reader_must_drop_is_missing(account):
    account.take(event(TWO, 1, '{"v":10}', place=1, g=2, kind="READY"))
    account.take(event(ONE, 2, load(1), place=2, g=1))
    assert ("load of shard 0", 1) in account.missing


def test_a_stub_stands_for_what_was_too_large(account):
    account.take(event(ONE, 2, "null", kind="SHARDFW_OVERSIZE"))
    assert ("load of shard 0", 1) not in account.missing


def test_what_two_sessions_were_offered_is_one_event(account):
    account.published(TWO, 2, load(1))
    assert len(account.sent) == 4
    account.take(event(TWO, 2, load(1), g=2))
    assert ("load of shard 0", 1) not in account.missing


def test_what_was_published_before_the_account_began_is_not_missed():
    account = EventAccount()
    account.take(event(ONE, 2, load(1)))
    account.published(TWO, 3, load(1))
    account.take(event(TWO, 4, '{"id":"1"}'))
    assert (account.missing, account.doubled) == (set(), 0)


@pytest.mark.parametrize(("profile", "first"), [(DISCORD, 3), (FLUXER, 1)])
def test_the_gateway_tells_of_every_dispatch_that_it_would_repeat(profile, first):
    clock, account = ManualClock(), EventAccount()
    load = LoadOptions(rate=100.0, poisson=False, mix=(("MESSAGE_CREATE", 1.0),))
    options = GatewayOptions(load=load, profile=profile)
    gateway = Gateway(options, clock=clock)
    gateway.roster.on_keep = account.published
    target = f"/?v={profile.version}&encoding=json"
    client = gateway.open(target, user_agent="x", host="h")
    body = {"token": "t", "properties": {"os": "", "browser": "", "device": ""}, "intents": 1}
    client.receive(json.dumps({"op": 2, "d": body | {"shard": [0, 1]}}))
    assert len(account.sent) == first
    client.lost()
    clock.set(50)
    gateway.poll()
    assert len(account.sent) == first + gateway.stats().shards[0].load_counter
    assert ("load of shard 0", 4) in account.missing


def test_events_are_read_from_the_stream(account):
    async def publish(client, s, body, kind):
        headers = {"Nats-Msg-Id": f"one-{s}", "Shardfw": f"g=1 n=n1 t=4 s={s}"}
        data = f'{{"t":"{kind}","s":{s},"op":0,"d":{body}}}'.encode()
        subject = f"shardfw.{BOT}.ev.0.{kind}"
        await client.jetstream().publish(subject, data, headers=headers)

    async def main():
        async with NatsServer() as server:
            await new_fleet(server.url)
            async with connected(Login((server.url,)), BOT) as fleet:
                reading = asyncio.ensure_future(follow(fleet, account))
                await publish(fleet.client, 1, '{"v":10}', "READY")
                await publish(fleet.client, 3, load(2), "MESSAGE_CREATE")
                await publish(fleet.client, 3, "null", "SHARDFW_GAP")
                while len(account.missing) > 2:
                    await asyncio.sleep(0.05)
                await publish(fleet.client, 4, load(3), "MESSAGE_CREATE")
                while len(account.missing) > 1:
                    await asyncio.sleep(0.05)
                assert not reading.done()
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(main())
    assert (account.missing, account.doubled) == ({("load of shard 0", 1)}, 0)


def test_a_reader_ends_though_the_library_loses_the_cancellation():
    class Stream:
        async def pull_subscribe(self, *_subject, **_options):
            return self

        async def fetch(self, *_batch, **_options):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            return []

    async def main():
        stream: Any = SimpleNamespace(bot=BOT, client=SimpleNamespace(jetstream=Stream))
        reading = asyncio.ensure_future(follow(stream, EventAccount()))
        await asyncio.sleep(0)
        reading.cancel()
        async with asyncio.timeout(10):
            await reading

    asyncio.run(main())


def test_events_without_a_stream_cannot_be_read():
    async def main():
        async with NatsServer() as server, connected(Login((server.url,)), BOT) as fleet:
            await follow(fleet, EventAccount())

    with pytest.raises(FleetError) as caught:
        asyncio.run(main())
    assert str(caught.value).startswith(f"the events of {BOT} cannot be read: ")
    assert str(caught.value).endswith(f"Look at the stream {EVENTS} and the servers' logs")
