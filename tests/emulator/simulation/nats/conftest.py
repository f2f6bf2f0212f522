"""Clients of a simulated cluster: they write bytes, and what they hear is cut into messages."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from emulator.simulation.clock import NS_PER_S, EventQueue
from emulator.simulation.nats.client import Ear, Heard
from emulator.simulation.nats.cluster import NatsCluster
from emulator.simulation.nats.faults import ClusterFaults, plan_actions
from tests.support.nats_script import CONNECT, SIMULATED_STREAMS


@dataclass
class Client:
    """One client of one server."""

    bench: Bench
    name: str
    server: int
    heard: list[Heard] = field(default_factory=list)
    closed: bool = False

    def join(self) -> Client:
        self.ear = Ear()
        self.closed = False
        accept = self.bench.cluster.servers[self.server].accept
        self.session = accept(self._take, self._end, self._end)
        self.session.greet()
        self.say(CONNECT + f"SUB _I.{self.name}.* 1\r\n".encode())
        return self

    def say(self, data: bytes) -> None:
        self.session.receive(data)

    def of(self, sid: str) -> list[Heard]:
        return [each for each in self.heard if each.sid == sid]

    def answers(self, number: object) -> list[bytes]:
        wanted = f"_I.{self.name}.{number}"
        return [each.header + each.body for each in self.heard if each.subject == wanted]

    def _end(self) -> None:
        self.closed = True

    @property
    def said(self) -> bytes:
        return self.ear.said

    def _take(self, data: bytes) -> None:
        self.heard += self.ear.hear(data)


class Bench:
    """A cluster, a clock and clients."""

    def __init__(self, seed: int = 1, servers: int = 3, **settings) -> None:
        self.events = EventQueue()
        self.random = random.Random(seed)
        self.cluster = NatsCluster(self.events, self.random, servers=servers, **settings)
        for config in SIMULATED_STREAMS:
            self.cluster.add_stream(config)
        self.faults = ClusterFaults(self.cluster)
        self.actions = plan_actions(self.cluster)

    def client(self, name: str, server: int = 0) -> Client:
        return Client(self, name, server).join()

    def run(self, seconds: float) -> None:
        limit_ns = self.events.now_ns + round(seconds * NS_PER_S)
        while (due := self.events.next_time()) is not None and due <= limit_ns:
            self.events.run_next()
        self.events.now_ns = limit_ns

    def leader(self, stream: str = "KV_shardfw") -> int:
        leader = self.cluster.leaders[stream]
        assert leader is not None
        return leader.index

    def followers(self) -> list[int]:
        return [n for n in range(3) if n != self.leader()]


@pytest.fixture
def bench_of():
    return Bench
