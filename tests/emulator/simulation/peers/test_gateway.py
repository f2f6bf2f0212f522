"""The gateway on the wire against a client of the `websockets` library, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.faults import FaultPlan
from emulator.simulation.internet import Internet
from emulator.simulation.peers.gateway import GatewayPeer
from pxe.gateway import GatewayOptions, LoadOptions, parse_script
from pxe.gateway.rest import Reply


def gateway_on(pair, **options) -> GatewayPeer:
    return GatewayPeer(pair.peer, 80, GatewayOptions(**options))


def connect(shard, seconds: float = 1) -> Any:
    client = shard.dial()
    client.run(seconds)
    assert shard.session
    return client


def test_hello_identify_ready(pair, shard_of):
    gateway = gateway_on(pair, guilds_per_shard=3)
    shard = shard_of(pair)
    connect(shard)
    assert shard.ops[0] == 10
    assert shard.dispatches == [
        (1, "READY"), (2, "GUILD_CREATE"), (3, "GUILD_CREATE"), (4, "GUILD_CREATE"),
    ]  # fmt: skip
    assert [event.name for event in gateway.events] == ["connect", "identify", "ready"]


def test_a_client_that_never_beats_is_closed_4009_in_virtual_time(pair, shard_of):
    gateway_on(pair, heartbeat_interval_ms=40_000)
    client = connect(shard_of(pair))
    client.run(58)
    assert client.protocol.close_code is None
    client.run(3)
    assert client.protocol.close_code == 4009


def test_beats_are_acknowledged(pair, shard_of):
    gateway = gateway_on(pair, heartbeat_interval_ms=10_000)
    shard = shard_of(pair)
    client = connect(shard)
    for _ in range(5):
        shard.say(1, shard.sequence)
        client.run(10)
    assert shard.ops.count(11) == 5
    assert gateway.core.stats().shards[0].heartbeats == 5
    assert client.protocol.close_code is None


def test_cut_off_and_resumed_without_loss(pair, shard_of):
    gateway = gateway_on(pair)
    shard = shard_of(pair)
    connect(shard)
    gateway.peer_of(0).abort()
    shard.client.run()
    for number in range(5):
        gateway.core.dispatch(0, "TEST", {"number": number})
    shard.dial(resume=True).run()
    assert [sequence for sequence, _ in shard.dispatches] == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert shard.dispatches[-1][1] == "RESUMED"


@pytest.mark.parametrize(
    ("control", "code"),
    [
        (lambda core: core.kick(0, 4004), 4004),
        (lambda core: core.kick(0, 1005), 1005),
        (lambda core: core.abort(0), 1006),
        (lambda core: core.restart(), 1006),
    ],
)
def test_controls_end_connections(pair, shard_of, control, code):
    gateway = gateway_on(pair)
    shard = shard_of(pair)
    client = connect(shard)
    control(gateway.core)
    gateway.flush()
    client.run()
    if code == 1006:
        assert client.tcp.close_reason == "reset"
    else:
        assert client.protocol.close_code == code
    assert gateway.core.stats().open_connections == 0
    with pytest.raises(LookupError, match=r"shard 0 has no open connection; open: \[\]"):
        gateway.peer_of(0)


def test_a_stalled_shard_hears_nothing_until_released(pair, shard_of):
    gateway = gateway_on(pair)
    shard = shard_of(pair)
    client = connect(shard)
    gateway.core.stall(0)
    shard.say(1, 1)
    client.run(5)
    assert 11 not in shard.ops
    gateway.core.release(0)
    gateway.flush()
    client.run()
    assert 11 in shard.ops


def test_a_script_runs_in_virtual_time(pair, shard_of):
    gateway_on(pair, script=parse_script([{"on": "ready", "do": "reconnect", "after_ms": 3000}]))
    shard = shard_of(pair)
    client = connect(shard)
    client.run(1)
    assert 7 not in shard.ops
    client.run(2)
    assert 7 in shard.ops


@pytest.mark.parametrize("faults", ["", "drop p=0.01; reorder p=0.01 by=3ms; duplicate p=0.01"])
def test_load_arrives_complete_and_in_order(pair_of, shard_of, faults):
    pair = pair_of(3, faults)
    gateway = GatewayPeer(
        pair.peer, 80,
        GatewayOptions(shards=4, max_concurrency=4, load=LoadOptions(rate=400)),
    )  # fmt: skip
    shards = [shard_of(pair, number, 4) for number in range(4)]
    for shard in shards:
        shard.dial()
    pair.world.run_for(10 * NS_PER_S)
    stats = gateway.core.stats()
    pair.world.run_for(5 * NS_PER_S)
    for shard in shards:
        sequences = [sequence for sequence, _ in shard.dispatches]
        assert sequences == list(range(1, len(sequences) + 1))
        assert sequences[-1] >= stats.shards[shard.number].sequence > 500


def test_a_slow_reader_makes_messages_wait_in_the_core(pair, shard_of):
    gateway = gateway_on(pair)
    shard = shard_of(pair)
    client = connect(shard)
    client.tcp.pause()
    for _ in range(400):
        gateway.core.dispatch(0, "BIG", {"x": "y" * 2000})
        gateway.flush()
        pair.world.run_for(NS_PER_MS)
    assert gateway.peer_of(0).tcp.sender.backlog < 80_000
    client.tcp.resume()
    pair.world.run_for(20 * NS_PER_S)
    assert len(shard.dispatches) == 403


def test_equal_seeds_give_equal_sessions(pair_of, shard_of):
    # The client's masks are random; what the server decides is not.
    def run(seed: int) -> tuple[str, list[tuple[int, str]]]:
        pair = pair_of(seed, "drop p=0.02")
        gateway_on(pair, load=LoadOptions(rate=50))
        shard = shard_of(pair)
        shard.dial()
        pair.world.run_for(5 * NS_PER_S)
        return shard.session, shard.dispatches

    first, again, other = run(1), run(1), run(2)
    assert first == again
    assert first[0] != other[0]


def test_gateway_events_act_on_the_shard_they_name(pair, shard_of):
    internet = Internet(pair.world, pair.segment)
    gateway = internet.gateway(options=GatewayOptions(shards=2, max_concurrency=2))
    pair.node.gateway = internet.router.address
    address = gateway.server.address
    shards = [shard_of(pair, number, 2, address) for number in range(2)]
    for shard in shards:
        shard.dial()
    plan = "at 5s gateway-close 1 4009; at 6s gateway-reconnect 0; at 7s gateway-invalid 0 true"
    pair.world.schedule(FaultPlan.parse(plan + "; at 8s gateway-abort 0; at 9s gateway-abort 0"))
    pair.world.run_until(10 * NS_PER_S)
    assert shards[1].client.protocol.close_code == 4009
    assert shards[0].ops[-2:] == [7, 9]
    assert shards[0].client.tcp.close_reason == "reset"


class Browser:
    """A plain TCP client that asks one question of HTTP."""

    def __init__(self, pair, *pieces: bytes) -> None:
        self.answer, self.ended = bytearray(), False
        self.tcp = pair.connect()
        self.tcp.on_data = self.answer.extend
        self.tcp.on_eof = self._end
        for piece in pieces:
            pair.world.run_for(NS_PER_S)
            self.tcp.send(piece)
        pair.world.run_for(5 * NS_PER_S)

    def _end(self) -> None:
        self.ended = True
        self.tcp.close()


GET = b"GET /gateway/bot HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bot t\r\n\r\n"


def test_the_same_port_answers_a_get_in_pieces(pair):
    gateway = gateway_on(pair)
    browser = Browser(pair, GET[:11], GET[11:])
    assert browser.answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"url":"ws://gw.test"' in browser.answer
    assert browser.ended
    assert [event.name for event in gateway.events] == ["http"]


def test_a_silent_answer_keeps_the_connection_and_further_bytes_change_nothing(pair):
    gateway = gateway_on(pair)
    gateway.core.answer_http(Reply(silent=True))
    browser = Browser(pair, GET, GET)
    assert (bytes(browser.answer), browser.ended) == (b"", False)
    assert gateway.server.violations == []


@pytest.mark.parametrize("request_", [b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", b"what?\r\n\r\n"])
def test_what_is_no_get_is_judged_by_wsproto(pair, request_):
    gateway = gateway_on(pair)
    Browser(pair, request_)
    assert len(gateway.server.violations) == 1
