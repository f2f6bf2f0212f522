"""A whole network around a node: lease, name, sixteen shards, faults, outages, all in virtual time.

The node here is a step function made of the reference host, so that what surrounds a node is
proved before there is one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from dnslib import DNSRecord

from emulator.simulation import dhcp_message as dhcp
from emulator.simulation.clock import NS_PER_S
from emulator.simulation.dhcp_message import DhcpMessage
from emulator.simulation.host import Host
from emulator.simulation.internet import Internet
from emulator.simulation.monitor import Monitor
from emulator.simulation.packet import BROADCAST_IP, ZERO_IP, Ipv4, Udp, ip
from emulator.simulation.peers.websocket import TEXT, frame
from emulator.simulation.wire import Segment
from emulator.simulation.world import World
from pxe.gateway import GatewayOptions, LoadOptions

MASK = b"\x01\x02\x03\x04"
REQUEST = (
    "GET /?v=10&encoding=json HTTP/1.1\r\nHost: gateway.test\r\nUser-Agent: reference\r\n"
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class ReferenceNode:
    """A `Node` whose inside is a world of its own with one host that boots and dials."""

    def __init__(self, seed: int, shards: int) -> None:
        self.inner = World(seed)
        self.out: list[bytes] = []
        cable = Segment(self.inner, latency_ns=0)
        self.cable = cable.port("outside", self.out.append)
        self.host = Host(cable, "inside", "10.0.0.50", gateway="10.0.0.1")
        self.shards = shards
        self.ready: set[int] = set()
        self.dispatches = [0] * shards
        self.acked = False
        self.host.bind_udp(68, lambda d: self._dhcp(DhcpMessage.decode(d.payload)))
        self.host.bind_udp(3053, lambda d: self._dial(DNSRecord.parse(d.payload)))
        self.inner.events.after(0, lambda: self._ask(dhcp.DISCOVER))

    # What a world calls.

    def deliver(self, data: bytes) -> None:
        self.cable.send(data)

    def step(self, now_ns: int) -> list[bytes]:
        self.inner.run_until(now_ns)
        out = self.out[:]
        self.out.clear()
        return out

    def next_deadline(self, now_ns: int) -> int | None:
        return self.inner.events.next_time()

    # What it does.

    def _ask(self, kind: int, *options: tuple[int, bytes]) -> None:
        if kind == dhcp.DISCOVER and self.acked:
            return
        message = DhcpMessage(1, 7, self.host.mac, [(dhcp.OPT_TYPE, bytes([kind])), *options])
        raw = Udp(68, 67, message.encode()).encode(ZERO_IP, BROADCAST_IP)
        self.host.send_ip(Ipv4(ZERO_IP, BROADCAST_IP, 17, raw))
        self.inner.events.after(NS_PER_S, lambda: self._ask(dhcp.DISCOVER))

    def _dhcp(self, answer: DhcpMessage) -> None:
        if answer.kind == dhcp.OFFER and not self.acked:
            chosen = (dhcp.OPT_SERVER, answer.option(dhcp.OPT_SERVER) or b"")
            self._ask(dhcp.REQUEST, chosen, (dhcp.OPT_REQUESTED_IP, answer.yiaddr))
        elif answer.kind == dhcp.ACK and not self.acked:
            self.acked = True
            self._resolve()

    def _resolve(self) -> None:
        if not self.host.tcp.connections:
            question = DNSRecord.question("gateway.test")
            question.header.id = self.inner.random.getrandbits(16)
            self.host.send_udp(ip("10.0.0.1"), 53, 3053, question.pack())
            self.inner.events.after(NS_PER_S, self._resolve)

    def _dial(self, answer: DNSRecord) -> None:
        if not self.host.tcp.connections:
            for number in range(self.shards):
                self._connect(number, ip(str(answer.rr[0].rdata)))

    def _connect(self, number: int, address: bytes) -> None:
        tcp = self.host.tcp.connect(self.host.address, address, 80)
        stream = bytearray()

        def take(data: bytes) -> None:
            stream.extend(data)
            if stream.startswith(b"HTTP") and b"\r\n\r\n" in stream:
                del stream[: stream.index(b"\r\n\r\n") + 4]
            for text in texts(stream):
                self._message(number, tcp, json.loads(text))

        tcp.on_open = lambda: tcp.send(REQUEST.encode())
        tcp.on_data = take

    def _message(self, number: int, tcp: Any, message: dict[str, Any]) -> None:
        if message["op"] == 10:
            properties = {"os": "x", "browser": "x", "device": "x"}
            shard = [number, self.shards]
            body = {"token": "t", "properties": properties, "intents": 1, "shard": shard}
            say(tcp, {"op": 2, "d": body})
            self._beat(tcp, message["d"]["heartbeat_interval"] * 1_000_000)
        elif message["op"] == 0:
            self.dispatches[number] += 1
            if message["t"] == "READY":
                self.ready.add(number)

    def _beat(self, tcp: Any, interval_ns: int) -> None:
        def beat() -> None:
            if not tcp.close_reason:
                say(tcp, {"op": 1, "d": None})
                self._beat(tcp, interval_ns)

        self.inner.events.after(interval_ns, beat)


def say(tcp: Any, message: dict[str, Any]) -> None:
    tcp.send(frame(TEXT, json.dumps(message).encode(), mask=MASK))


def texts(stream: bytearray) -> list[str]:
    """Take the whole text frames off the front of a server's stream."""
    out = []
    while len(stream) >= 2:
        size, head = stream[1], 2
        if size == 126:
            size, head = int.from_bytes(stream[2:4], "big"), 4
        elif size == 127:
            size, head = int.from_bytes(stream[2:10], "big"), 10
        if len(stream) < head + size or len(stream) < head:
            break
        if stream[0] == 0x81:
            out.append(stream[head : head + size].decode())
        del stream[: head + size]
    return out


class Setup:
    """A world with an internet, a gateway, a reference node and a monitor on its port."""

    def __init__(self, seed: int, shards: int = 16, faults: str = "", **options: Any) -> None:
        self.world = World(seed)
        self.internet = Internet(self.world)
        self.gateway = self.internet.gateway(
            options=GatewayOptions(shards=shards, max_concurrency=shards, **options)
        )
        self.monitor = Monitor(self.internet.segment, "node")
        self.node = ReferenceNode(seed, shards)
        if faults:
            self.internet.segment.set_faults(faults)
        self.attachment = self.world.attach(self.node, self.internet.segment.port("node"))

    def all_ready(self) -> bool:
        return len(self.node.ready) == self.node.shards


@pytest.mark.parametrize(
    "faults", ["", "drop p=0.05; reorder p=0.05 by=2ms; duplicate p=0.05; corrupt p=0.01"]
)
def test_sixteen_shards_become_ready_from_a_cold_start(faults):
    setup = Setup(1, faults=faults)
    setup.world.run_until(setup.all_ready, within_ns=60 * NS_PER_S)
    assert setup.internet.dhcp.lease_of(setup.node.host.mac) is not None
    assert setup.internet.dns.asked("gateway.test") >= 1
    assert len(setup.monitor.dials("203.0.113.5", 80)) == 16
    assert setup.gateway.core.stats().open_connections == 16
    assert setup.monitor.malformed == []


def test_equal_seeds_give_equal_worlds_with_load_and_faults():
    def run(seed: int) -> tuple[str, list[int]]:
        setup = Setup(seed, 4, "drop p=0.02; delay p=0.05 by=5ms", load=LoadOptions(rate=100))
        setup.world.run_until(10 * NS_PER_S)
        return setup.world.digest(), setup.node.dispatches

    first = run(1)
    assert first == run(1)
    assert first[0] != run(2)[0]
    assert sum(first[1]) > 500


def test_ten_minutes_pass_quickly_and_heartbeats_keep_sixteen_shards_alive():
    setup = Setup(1)
    setup.world.run_until(600 * NS_PER_S)
    stats = setup.gateway.core.stats()
    assert stats.open_connections == 16
    assert all(shard.heartbeats == 14 for shard in stats.shards)


def test_a_cable_pulled_for_sixty_seconds_by_plan_ends_in_4009_or_a_reset():
    setup = Setup(1, 2, "at 10s link-down node; at 70s link-up node", heartbeat_interval_ms=10_000)
    setup.world.run_until(9 * NS_PER_S)
    assert setup.gateway.core.stats().open_connections == 2
    setup.world.run_until(69 * NS_PER_S)
    assert setup.gateway.core.stats().shards[0].closes == {"4009": 1}
    setup.world.run_until(100 * NS_PER_S)
    assert setup.monitor.sent_since(70 * NS_PER_S) != []


def test_power_off_is_silence_and_power_on_boots_again():
    setup = Setup(1, 2)
    setup.world.run_until(setup.all_ready)
    setup.attachment.power_off()
    off_ns = setup.world.now_ns
    setup.world.run_for(30 * NS_PER_S)
    assert setup.monitor.sent_since(off_ns) == []
    again = ReferenceNode(2, 2)
    again.inner.events.now_ns = setup.world.now_ns
    setup.attachment.power_on(again)
    setup.world.run_until(lambda: len(again.ready) == 2)


def test_one_killed_connection_leaves_the_others_alone():
    setup = Setup(1)
    setup.world.run_until(setup.all_ready)
    setup.gateway.peer_of(7).abort()
    setup.world.run_for(30 * NS_PER_S)
    stats = setup.gateway.core.stats()
    assert [shard.shard for shard in stats.shards if not shard.connected] == [7]
