"""A cluster agrees on one history, whatever happens to its servers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.nats.stream import EXPECTED
from tests.support.nats_script import cas, hpub, pub, watch

LEASE = "$KV.shardfw.b1.ctl.lease.0"
SESSION = "$KV.shardfw.b1.sess.0"
DIRECT = f"$JS.API.DIRECT.GET.KV_shardfw.{SESSION}"


def code(answer: bytes) -> int:
    """Error code of a JetStream answer; 0 for a PubAck, 503 when nobody heard."""
    if answer.startswith(b"NATS/1.0 503"):
        return 503
    return int(json.loads(answer).get("error", {}).get("err_code", 0))


def try_it(bench, client, number, expected=0, seconds=1.0) -> int | None:
    """One compare-and-swap; its code, or None when nothing answers."""
    client.say(cas(LEASE, expected, b"x", f"_I.{client.name}.{number}"))
    bench.run(seconds)
    answers = client.answers(number)
    return code(answers[0]) if answers else None


def test_of_several_compare_and_swaps_one_wins(bench_of):
    seen: Counter[int] = Counter()
    for seed in range(10):
        bench = bench_of(seed)
        clients = [bench.client(f"c{n}", n % 3) for n in range(6)]
        for each in clients:
            each.say(cas(LEASE, 0, each.name.encode(), f"_I.{each.name}.1"))
            bench.run(0.002)
        bench.run(1)
        codes = Counter(code(each.answers(1)[0]) for each in clients)
        assert codes[0] == 1
        seen += codes
    # Some meet one that is in flight, others one that is true.
    assert set(seen) == {0, 10071, 10164}


def test_a_lost_leader_stops_writes_for_some_seconds(bench_of):
    for seed in range(5):
        bench = bench_of(seed)
        client = bench.client("c", bench.followers()[0])
        bench.faults.kill(bench.leader())
        lost_ns = bench.events.now_ns
        assert try_it(bench, client, 1) == 503
        number = 2
        while try_it(bench, client, number, seconds=0.1) != 0:
            number += 1
        assert 4 <= (bench.events.now_ns - lost_ns) / NS_PER_S <= 9.2


def test_a_leader_that_stops_in_order_is_replaced_at_once(bench_of):
    bench = bench_of(1)
    client = bench.client("c", bench.followers()[0])
    bench.faults.kill(bench.leader(), handover=True)
    bench.run(0.7)
    assert try_it(bench, client, 1) == 0


def test_a_leader_that_stands_still_is_silence(bench_of):
    bench = bench_of(1)
    client = bench.client("c", bench.followers()[0])
    bench.faults.pause(bench.leader())
    assert try_it(bench, client, 1) is None
    bench.run(10)
    assert try_it(bench, client, 2) == 0


def test_an_isolated_leader_acknowledges_nothing_and_shows_the_past(bench_of):
    bench = bench_of(1)
    alone = bench.leader()
    inside, outside = bench.client("a", alone), bench.client("b", (alone + 1) % 3)
    outside.say(cas(SESSION, 0, b"old", "_I.b.0"))
    bench.run(1)
    bench.faults.isolate(alone)
    assert try_it(bench, inside, 1) is None
    assert try_it(bench, inside, 2) == 10164
    bench.run(8)
    assert try_it(bench, outside, 3) == 0
    outside.say(cas(SESSION, 1, b"new", "_I.b.4"))
    bench.run(1)
    assert code(outside.answers(4)[0]) == 0
    for client, shown in ((inside, b"old"), (outside, b"new")):
        client.say(pub(DIRECT, b"", f"_I.{client.name}.5"))
        bench.run(1)
        assert client.answers(5)[0].endswith(shown)
    bench.run(10)
    assert try_it(bench, inside, 6) == 503
    bench.faults.heal()
    bench.run(3)
    assert try_it(bench, inside, 7) == 10071
    inside.say(pub(DIRECT, b"", "_I.a.8"))
    bench.run(1)
    assert inside.answers(8)[0].endswith(b"new")


def test_an_isolated_follower_is_silent_and_then_503(bench_of):
    bench = bench_of(2)
    alone = bench.followers()[0]
    client = bench.client("c", alone)
    bench.faults.isolate(alone)
    assert try_it(bench, client, 1) is None
    bench.run(19)
    assert try_it(bench, client, 2) == 503


def test_an_isolated_server_makes_no_watch_and_says_so_once_it_knows(bench_of):
    bench = bench_of(2)
    alone = bench.followers()[0]
    client = bench.client("a", alone)
    bench.faults.isolate(alone)
    client.say(b"SUB _W.a 2\r\n" + watch("_W.a", "_I.a.1"))
    bench.run(1)
    assert client.answers(1) == []
    bench.run(19)
    client.say(watch("_W.a", "_I.a.2"))
    bench.run(1)
    assert json.loads(client.answers(2)[0])["error"] == {
        "code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable",
    }  # fmt: skip
    bench.faults.heal()
    bench.run(12)
    client.say(watch("_W.a", "_I.a.3"))
    bench.run(1)
    assert "error" not in json.loads(client.answers(3)[0])


def test_a_watch_of_an_isolated_server_beats_on_and_learns_nothing(bench_of):
    bench = bench_of(1)
    alone = bench.leader()
    watcher, writer = bench.client("a", alone), bench.client("b", (alone + 1) % 3)
    # Consumers live on any server: make one at home.
    while not bench.cluster.servers[alone].consumers:
        watcher.say(b"UNSUB 2\r\nSUB _W.a 2\r\n" + watch("_W.a", "_I.a.1", idle_heartbeat=NS_PER_S))
        bench.run(1)
        for server in bench.cluster.servers:
            for consumer in list(server.consumers) if server.index != alone else ():
                consumer.end()
    bench.faults.isolate(alone)
    bench.run(10)
    writer.say(cas(LEASE, 0, b"x", "_I.b.1"))
    before = len(watcher.of("2"))
    bench.run(5)
    since = watcher.of("2")[before:]
    assert len(since) == 5
    assert all(each.header.startswith(b"NATS/1.0 100") for each in since)
    bench.faults.heal()
    bench.run(3)
    assert [each.body for each in watcher.of("2") if each.reply] == [b"x"]


def test_a_consumer_dies_with_its_server(bench_of):
    bench = bench_of(1)
    client = bench.client("a", 0)
    client.say(b"SUB _W.a 2\r\n" + watch("_W.a", "_I.a.1", idle_heartbeat=NS_PER_S))
    bench.run(2.5)
    assert len(client.of("2")) == 2
    home = next(s for s in bench.cluster.servers if s.consumers)
    home.consumers[0].end()
    bench.run(5)
    assert len(client.of("2")) == 2


def test_what_is_replaced_before_it_was_shown_is_never_shown(bench_of):
    bench = bench_of(1)
    client = bench.client("a", 0)
    client.say(b"SUB _W.a 2\r\n" + watch("_W.a", "_I.a.1"))
    bench.run(1)
    home = next(s for s in bench.cluster.servers if s.consumers)
    bench.faults.pause(home.index)
    writer = bench.client("b", (home.index + 1) % 3)
    bench.run(10)
    for n in range(5):
        writer.say(pub(LEASE, b"%d" % n, f"_I.b.{n}"))
        bench.run(0.5)
    bench.faults.resume(home.index)
    bench.run(5)
    shown = [each for each in client.of("2") if each.reply]
    assert len(shown) < 5
    assert [each.place[1] for each in shown] == list(range(1, len(shown) + 1))
    assert shown[-1].body == b"4"


def test_lost_and_repeated_deliveries_show_in_the_consumer_sequence(bench_of):
    bench = bench_of(1, servers=1)
    client = bench.client("a")
    client.say(b"SUB _W.a 2\r\n" + watch("_W.a", "_I.a.1"))
    for n in range(3):
        client.say(pub(f"{LEASE}{n}", b"x"))
        bench.run(0.1)
    bench.actions["nats-skip"]("0")
    for n in range(3, 5):
        client.say(pub(f"{LEASE}{n}", b"x"))
        bench.run(0.1)
    bench.actions["nats-repeat"]("0 2")
    bench.run(0.1)
    assert [each.place[1] for each in client.of("2")] == [1, 2, 3, 5, 4, 5]


def test_what_a_server_says_may_come_late_and_in_order(bench_of):
    bench = bench_of(1, servers=1)
    client = bench.client("a")
    bench.actions["nats-lag"]("0 800")
    client.say(pub(LEASE, b"1", "_I.a.1"))
    bench.run(0.5)
    bench.actions["nats-lag"]("0 0")
    client.say(pub(LEASE, b"2", "_I.a.2"))
    bench.run(0.2)
    assert not client.heard
    bench.run(0.2)
    assert [each.subject for each in client.heard] == ["_I.a.1", "_I.a.2"]


def test_a_server_warns_before_it_leaves(bench_of):
    bench = bench_of(1)
    client = bench.client("a", 1)
    bench.actions["nats-retire"]("1")
    assert b'"ldm":true' in client.said
    bench.run(9.9)
    assert not client.closed
    bench.run(0.2)
    assert client.closed
    assert not bench.cluster.servers[1].up


def test_a_client_that_never_answers_is_stale(bench_of):
    bench = bench_of(1)
    client = bench.client("a", 1)
    bench.run(250)
    assert client.closed
    assert client.said.count(b"PING") == 2
    assert client.said.endswith(b"-ERR 'Stale Connection'\r\n")


def test_an_event_in_flight_is_not_stored_twice(bench_of):
    bench = bench_of(1)
    client = bench.client("a", 1)
    event = "shardfw.b1.ev.0.X"
    client.say(hpub(event, b"x", "_I.a.1", Nats_Msg_Id="s-1"))
    client.say(hpub(event, b"x", "_I.a.2", Nats_Msg_Id="s-1"))
    bench.run(1)
    client.say(hpub(event, b"x", "_I.a.3", Nats_Msg_Id="s-1"))
    bench.run(1)
    assert code(client.answers(2)[0]) == 10158
    assert client.answers(3) == [b'{"stream":"SHARDFW_EV","seq":1,"duplicate": true}']
    bench.run(120)
    client.say(hpub(event, b"x", "_I.a.4", Nats_Msg_Id="s-1"))
    bench.run(1)
    assert client.answers(4) == [b'{"stream":"SHARDFW_EV","seq":2}']


FAULTS = (
    "nats-kill 0", "nats-stop 1", "nats-start 0", "nats-start 1", "nats-pause 2", "nats-resume 2",
    "nats-retire 1", "nats-isolate 0", "nats-isolate 1", "nats-heal", "nats-depose",
    "nats-slow 500", "nats-slow 0", "nats-lag 0 300", "nats-lag 0 0", "nats-cut 2", "nats-lose 0",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_acknowledged_writes_are_one_history(bench_of, seed):
    """Random compare-and-swaps under random faults: every acknowledged one is in the log, in order."""
    bench = bench_of(seed)
    clients = [bench.client(f"c{n}", n % 3) for n in range(6)]
    keys = [f"$KV.shardfw.b1.ctl.{n}" for n in range(3)]
    known = dict.fromkeys(keys, 0)
    sent: dict[bytes, str] = {}
    for number in range(400):
        if bench.random.random() < 0.05:
            name, _, argument = bench.random.choice(FAULTS).partition(" ")
            bench.actions[name](argument)
        client = bench.random.choice(clients)
        if client.closed:
            if not bench.cluster.servers[client.server].up:
                client.server = (client.server + 1) % 3
                continue
            client.join()
        key = bench.random.choice(keys)
        body = b"%d" % number
        sent[body] = key
        client.say(cas(key, known[key], body, f"_I.{client.name}.{number}"))
        bench.run(bench.random.choice((0.0005, 0.005, 0.3)))
        known[key] = bench.cluster.streams["KV_shardfw"].last_of(key)
    bench.actions["nats-mend"]("")
    bench.run(30)
    log = bench.cluster.streams["KV_shardfw"].log
    last = dict.fromkeys(keys, 0)
    for message in log:
        assert f"{EXPECTED}: {last[message.subject]}\r\n".encode() in (message.header or b"")
        last[message.subject] = message.seq
    assert len({message.body for message in log}) == len(log)
    acked = 0
    for client in clients:
        for each in client.heard:
            if each.subject.startswith("_I.") and not each.header and code(each.body) == 0:
                acked += 1
                message = log[json.loads(each.body)["seq"] - 1]
                assert message.body == each.subject.rpartition(".")[2].encode()
    assert 0 < acked <= len(log)
    assert {s.applied["KV_shardfw"] for s in bench.cluster.servers} == {len(log)}


def test_a_run_replays_exactly(bench_of):
    runs = []
    for _ in range(2):
        bench = bench_of(9)
        client = bench.client("a", 1)
        client.say(b"SUB _W.a 2\r\n" + watch("_W.a", "_I.a.1"))
        for n in range(20):
            client.say(pub(f"{LEASE}{n}", b"x", f"_I.a.{n + 2}"))
            bench.run(0.01)
        bench.actions["nats-depose"]("")
        bench.run(20)
        runs.append(client.heard)
    assert runs[0] == runs[1]
