"""The record of who spoke for which shard: two senders are seen, a dead or a closed one is none."""

import asyncio
import json

from websockets.asyncio.client import ClientConnection, connect

from pxe.gateway import GatewayOptions
from pxe.gateway.ownership import Overlap
from pxe.gateway.server import GatewayServer

SPACED = {"identify_interval_ms": 0}
PROPERTIES = {"os": "none", "browser": "test", "device": "test"}


def spans(b, shard=0):
    found = b.gateway.ownership.tenures(shard)
    return [(t.connection, t.began_ms, t.heard_ms, t.ended_ms) for t in found]


def beat(client):
    client.send(1, None)


def test_a_second_client_beside_one_that_goes_on_is_an_overlap(bench):
    b = bench(**SPACED)
    older = b.ready()
    b.advance(100)
    newer = b.ready()
    assert b.gateway.stats().overlaps == 0
    b.advance(50)
    beat(newer)
    assert b.gateway.stats().overlaps == 0
    beat(older)
    b.advance(50)
    beat(older)
    assert b.gateway.ownership.overlaps == [Overlap(0, 1, 2, "", "", 1100, 1200, 2)]
    assert b.gateway.stats().overlaps == 1
    told = [e.line() for e in b.events if e.name == "overlap"]
    assert told == ["t=1.150 event=overlap conn=1 shard=0 newer=2"]
    assert spans(b) == [(1, 1000, 1200, None), (2, 1100, 1150, None)]
    assert b.gateway.ownership.overlaps[0].to_dict()["messages"] == 2


def test_one_that_died_and_was_not_noticed_is_none(bench):
    b = bench(**SPACED)
    b.ready()
    b.advance(30_000)
    newer = b.ready()
    b.advance(100_000)
    beat(newer)
    assert b.gateway.ownership.overlaps == []
    assert spans(b)[0] == (1, 1000, 1000, 62_875)


def test_a_close_frame_that_comes_late_is_none(bench):
    b = bench(**SPACED)
    older = b.ready()
    b.ready()
    b.advance(10)
    older.connection.lost(1000)
    assert b.gateway.ownership.overlaps == []
    assert spans(b) == [(1, 1000, 1000, 1010), (2, 1000, 1000, None)]


def test_one_whose_session_was_resumed_elsewhere_may_not_go_on(bench):
    b = bench()
    older = b.ready()
    newer = b.connect()
    newer.resume(older.ready()["session_id"], 1)
    assert older.code == 4000
    older.connection.feed('{"op":1,"d":1}')
    assert [(o.older, o.newer) for o in b.gateway.ownership.overlaps] == [(1, 2)]
    older.connection.lost()
    beat(newer)
    assert b.gateway.stats().overlaps == 1


def test_an_identify_that_is_refused_counts(bench):
    b = bench(identify_interval_ms=5000)
    older = b.ready()
    refused = b.connect()
    refused.identify()
    assert refused.ops()[-1] == 9
    beat(older)
    assert [(o.older, o.newer) for o in b.gateway.ownership.overlaps] == [(1, 2)]


def test_shards_and_strangers_have_nothing_to_do_with_each_other(bench):
    b = bench(shards=2, max_concurrency=2)
    first = b.ready(0)
    b.ready(1)
    stranger = b.connect()
    beat(stranger)
    stranger.resume("unknown", 1)
    beat(first)
    assert b.gateway.ownership.overlaps == []
    assert [len(b.gateway.ownership.tenures(shard)) for shard in (0, 1, 2)] == [1, 1, 0]


def test_an_older_one_is_known_after_any_number_of_newer_ones(bench, monkeypatch):
    monkeypatch.setattr("pxe.gateway.ownership.TENURES_KEPT", 3)
    b = bench(**SPACED)
    older = b.ready()
    for _ in range(5):
        b.ready().connection.lost()
    assert [connection for connection, *_ in spans(b)] == [4, 5, 6]
    beat(older)
    assert [o.newer for o in b.gateway.ownership.overlaps] == [6, 5, 4]


async def become_ready(client: ClientConnection) -> None:
    await client.recv()
    body = {"token": "t", "properties": PROPERTIES, "intents": 1, "shard": [0, 1]}
    await client.send(json.dumps({"op": 2, "d": body}))
    assert json.loads(await client.recv())["t"] == "READY"


def test_two_clients_over_tcp_are_known_by_their_ports():
    async def scenario():
        options = GatewayOptions(guilds_per_shard=0, identify_interval_ms=0)
        async with GatewayServer(options) as server:
            url = server.url + "/?v=10&encoding=json"
            async with connect(url) as older, connect(url) as newer:
                await become_ready(older)
                await become_ready(newer)
                assert server.stats().overlaps == 0
                await older.send('{"op":1,"d":1}')
                assert json.loads(await older.recv())["op"] == 11
                (found,) = server.core.ownership.overlaps
                peers = ["{}:{}".format(*c.local_address) for c in (older, newer)]
                assert [found.older_peer, found.newer_peer] == peers
            stats = await server.wait_until(lambda s: s.open_connections == 0)
            assert all(t.ended_ms is not None for t in server.core.ownership.tenures(0))
            return stats

    assert asyncio.run(scenario()).overlaps == 1
