"""What a bot's programs ask of its shards, whatever they send, costs no lease."""

from __future__ import annotations

import itertools
import json
import random
from typing import TYPE_CHECKING

import pytest

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.fleet_shape import BOT, Shape
from emulator.simulation.leased import LeasedFleet
from emulator.simulation.nats.client import Client
from firmware.layouts.bus import BUS, CONTROL, DATA
from firmware.layouts.commands import COMMANDS
from firmware.layouts.fleet import FLEET, HELD_MAX, HeldPhase
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext

if TYPE_CHECKING:
    from emulator.simulation.leased import Member
    from emulator.simulation.nats.client import Heard

SHAPE = Shape(nodes=2, slots=2, total=2, servers=1, duration_ms=10_000)
SLOW_NS = 60 * NS_PER_MS
"""One way: a window of 20 KB in each round trip makes 170 KB a second."""
BULK = bytes(3 << 20)
LEFT_MS = 5_000
"""Of the 7.9 s that a lease of 10 s lets a node speak; renewals come more than once in the rest."""
PRESENCE = b'{"op":3,"d":{"status":"online"}}'
TOO_LARGE, DONE = {"ok": False, "err": "too_large"}, {"ok": True}


class Watch:
    """A fleet that is well, on a link that is slow from now on; what becomes of the owner of shard 0.

    Attributes:
        fleet: the fleet.
        owner: holds shard 0.
        left_ms: least time that was left to it until a hard stop.
    """

    def __init__(self) -> None:
        self.fleet = fleet = LeasedFleet(21, SHAPE)
        fleet.until_owned()
        fleet.run(5)
        self.owner = self._holder()
        self._before = self._state()
        self.left_ms = SHAPE.duration_ms
        self.owner.after_turn.append(lambda _attachment: self._look())
        fleet.segment.latency_ns = SLOW_NS

    def say(self, subject: str, body: bytes, reply: str = "") -> None:
        assert self.client.publish(f"shardfw.{BOT}.{subject}", body, reply)

    def ask(self, body: bytes, reply: str) -> None:
        self.say("cmd.0", body, reply)

    def hear(self, take) -> None:
        self.client = Client(self.fleet.nats.cluster, random.Random(1), ("_INBOX.bot.*",), take)

    def received(self) -> int:
        """Return the bytes that came over DATA."""
        node = self.owner.node
        link = node.g(BUS).links[DATA]
        return int(node.live.view(ShardContext, link.context).tcp.rcv_nxt)

    def judge(self) -> None:
        """No lease was late, no link was lost, no shard has another owner or life."""
        assert self.left_ms > LEFT_MS
        assert self._state() == self._before
        assert self.fleet.owned()

    def _holder(self) -> Member:
        grant = self.fleet.ownership.owner(0)
        assert grant is not None
        return next(each for each in self.fleet.stations if each.holder == grant.record.holder)

    def _state(self) -> list[object]:
        grants = [self.fleet.ownership.owner(shard) for shard in range(SHAPE.total)]
        links = self.owner.node.g(BUS).links
        return [
            *(grant and (grant.record.holder, grant.record.generation) for grant in grants),
            *(links[n].ups for n in (CONTROL, DATA)),
            [(row.shard_id, row.reconnects) for row in self.owner.shards],
        ]

    def _look(self) -> None:
        node = self.owner.node
        now, cycles = node.g(CORE).now, node.g(CLOCK).tsc_cycles_per_ms
        for n in range(HELD_MAX):
            held = node.g(FLEET).held[n]
            if held.phase == HeldPhase.RUNNING:
                self.left_ms = min(self.left_ms, (held.hard_stop - now) // cycles)


@pytest.mark.parametrize("subject", ["cmd.0", "diag.{node}"])
def test_messages_of_megabytes_on_a_slow_link_make_no_lease_late(subject):
    """More comes than the link carries: whatever stands behind it stands for ever."""
    watch = Watch()
    watch.hear(lambda heard: pytest.fail(f"nobody asked for {heard}"))
    before = watch.received()
    for _ in range(25):
        watch.say(subject.format(node=watch.owner.holder[0]), BULK)
        watch.fleet.run(1)
    assert watch.received() - before > len(BULK)
    watch.judge()


def test_commands_between_messages_of_megabytes_are_answered():
    watch, numbers, answers = Watch(), itertools.count(), []

    def ask() -> None:
        for body in (BULK, PRESENCE):
            watch.ask(body, f"_INBOX.bot.{next(numbers)}")

    def hear(heard: Heard) -> None:
        answers.append((int(heard.subject.split(".")[-1]), json.loads(heard.body)))
        if len(answers) % 2 == 0:
            ask()

    watch.hear(hear)
    ask()
    watch.fleet.world.run_until(lambda: len(answers) >= 4, within_ns=60 * NS_PER_S)
    assert answers[:4] == [(0, TOO_LARGE), (1, DONE), (2, TOO_LARGE), (3, DONE)]
    assert watch.owner.node.g(COMMANDS).taken == 2
    watch.judge()


@pytest.mark.parametrize("publish", [True, False])
def test_commands_leave_a_server_that_is_cut_off(publish):
    """A bot that is quiet publishes nothing, so nothing is missing by which a server would be left."""
    shape = Shape(nodes=1, slots=1, total=1, cap=1, servers=3, publish=publish)
    fleet = LeasedFleet(12, shape)
    fleet.until_owned()
    fleet.run(12)
    cluster, links = fleet.nats.cluster, fleet.stations[0].node.g(BUS).links
    cut = links[DATA].server
    fleet.world.run_until(lambda: not any(stream.pending for stream in cluster.streams.values()))
    cluster.leaders.update(dict.fromkeys(cluster.leaders, cluster.servers[cut - 1]))
    heard: list[Heard] = []
    there = len(cluster.servers[cut].sessions)
    client = Client(cluster, random.Random(1), ("_INBOX.bot.*",), heard.append)
    while len(cluster.servers[cut].sessions) != there:
        client.move_on()
        fleet.run(1)
    fleet.world.actions["nats-isolate"](str(cut))
    fleet.run(40)
    assert client.publish(f"shardfw.{BOT}.cmd.0", PRESENCE, "_INBOX.bot.x")
    fleet.run(1)
    assert cut not in (links[CONTROL].server, links[DATA].server)
    assert [json.loads(each.body) for each in heard] == [DONE]
    assert fleet.owned()
