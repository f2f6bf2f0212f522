"""The gateway as a whole: accounts, events, determinism, no I/O."""

import subprocess
import sys


def test_refused_connections_are_counted_by_code(bench):
    b = bench()
    b.connect("/?v=1&encoding=json")
    b.connect().send_raw("{")
    assert b.gateway.stats().refused == {"4012": 1, "4002": 1}


def test_events_read_as_one_line_of_pairs(bench):
    b = bench()
    client = b.ready()
    b.gateway.kick(0, 4000)
    lines = [event.line() for event in b.events]
    assert lines == [
        "t=1.000 event=connect conn=1 target='/?v=10&encoding=json'",
        "t=1.000 event=identify conn=1 shard=0 intents=1",
        f"t=1.000 event=ready conn=1 shard=0 session={client.ready()['session_id']}",
        "t=1.000 event=close conn=1 shard=0 code=4000",
    ]


def test_same_seed_gives_the_same_session_ids(bench):
    assert bench(seed=7).ready().ready() == bench(seed=7).ready().ready()
    assert bench(seed=7).ready().ready() != bench(seed=8).ready().ready()


def test_package_imports_neither_asyncio_nor_sockets():
    code = "import sys, pxe.gateway; print({'asyncio', 'socket', 'websockets'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_gateway_that_has_grown_wants_the_new_total(bench):
    b = bench()
    total = b.gateway.options.shards
    session = b.ready().ready()["session_id"]
    b.gateway.reshard(total + 1)
    assert b.gateway.options.shards == total + 1
    assert b.gateway.stats().shards[0].session_id == session
    assert len(b.gateway.stats().shards) == total + 1
    b.gateway.reshard(total)
    assert len(b.gateway.stats().shards) == total + 1
