"""What only several servers say: the same words to a real cluster of three and to the simulated one."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from emulator.simulation.clock import NS_PER_S, EventQueue
from emulator.simulation.nats.client import Ear
from emulator.simulation.nats.cluster import NatsCluster
from pxe import nats as real
from tests.support.nats_script import CONNECT, EVENTS, KV, SIMULATED_STREAMS, cas, hpub, pub

EVENT, LEASE = "shardfw.b1.ev.0.X", "$KV.shardfw.b1.ctl.lease.0"
TIMES = 4
SAID = {
    "one message id, several times at once": b"".join(
        hpub(EVENT, b"x", f"_I.a.{n}", Nats_Msg_Id="s-1") for n in range(TIMES)
    ),
    "one revision, several claims at once": b"".join(
        cas(LEASE, 0, b"%d" % n, f"_I.a.{n}") for n in range(TIMES)
    ),
    "a wrong revision while a right one is in flight": b"".join(
        cas(LEASE, n, b"%d" % n, f"_I.a.{n}") for n in range(TIMES)
    ),
}
HELLO = CONNECT + b"SUB _I.a.* 1\r\n"


def normal(ear: Ear, data: bytes) -> list[tuple[str, object]]:
    """Answers in the order in which they came."""
    return [(heard.subject, json.loads(heard.body)) for heard in ear.hear(data)]


def on_simulated(said: bytes) -> list[tuple[str, object]]:
    events, ear = EventQueue(), Ear()
    cluster = NatsCluster(events, random.Random(1))
    for config in SIMULATED_STREAMS:
        cluster.add_stream(config)
    heard = bytearray()
    leader = cluster.leaders["KV_shardfw" if b"KV" in said else "SHARDFW_EV"]
    assert leader is not None
    session = leader.accept(heard.extend, lambda: None, lambda: None)
    session.greet()
    session.receive(HELLO + said)
    while (due := events.next_time()) is not None and due <= NS_PER_S:
        events.run_next()
    return normal(ear, bytes(heard))


@pytest.fixture(scope="module")
def on_real():
    """Answers of a real cluster to each saying; it starts once."""

    async def ask(cluster: real.NatsCluster, said: bytes) -> list[tuple[str, object]]:
        ear = Ear()
        heard: list[tuple[str, object]] = []
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.servers[0].port)
        writer.write(HELLO + said)
        async with asyncio.timeout(30):
            while len(heard) < TIMES:
                heard += normal(ear, await reader.read(65_536))
        writer.close()
        await writer.wait_closed()
        return heard

    async def make(cluster: real.NatsCluster) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.servers[0].port)
        writer.write(HELLO)
        async with asyncio.timeout(60):
            for config in (EVENTS, KV):
                text, got = json.dumps(config | {"num_replicas": 3}).encode(), b""
                writer.write(pub(f"$JS.API.STREAM.CREATE.{config['name']}", text, "_I.a.0"))
                while b"did_create" not in got:
                    got += await reader.read(65_536)
        writer.close()
        await writer.wait_closed()

    async def run() -> dict[str, list[tuple[str, object]]]:
        out = {}
        for name, said in SAID.items():
            async with real.NatsCluster() as cluster:
                await make(cluster)
                out[name] = await ask(cluster, said)
        return out

    return asyncio.run(run())


@pytest.mark.parametrize("name", SAID)
def test_both_say_the_same(name, on_real):
    simulated = on_simulated(SAID[name])
    assert sorted(simulated, key=str) == sorted(on_real[name], key=str)
    assert len(simulated) == TIMES
