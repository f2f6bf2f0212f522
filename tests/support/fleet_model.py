"""One node of a fleet in plain Python: the reference models, a clock of its own, a connection."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from emulator.models.fleet.answer import lease_answered
from emulator.models.fleet.budget import budget_answered
from emulator.models.fleet.claim import claims_tick
from emulator.models.fleet.delivery import watch_heard
from emulator.models.fleet.guard import leases_end
from emulator.models.fleet.held import lease_mirror
from emulator.models.fleet.renew import held_tick_all
from emulator.models.fleet.ticket import ticket_answered, ticket_spend, ticket_take
from emulator.models.fleet.turn import fleet_setup
from emulator.models.fleet.watch import watch_answered, watch_begin, watch_check
from firmware.layouts.bus import BUS, BUS_IN, CONTROL, LinkState
from firmware.layouts.fleet import FLEET, FLEET_OUT, HELD_MAX, HeldPhase
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_sites import FLEET_EXPIRED
from firmware.layouts.log import LEVEL_SILENT, LOG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext
from tests.support.fleet import name_node
from tests.support.fleet_memory import SCRATCH, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.fleet_world import FleetWorld
    from toolchain.link import Image

CYCLES = 1_000
"""Of a TSC in a millisecond, by its calibration."""
SPACING_MS = 5_000
SHARD = SCRATCH + 0x1000
"""The context of the shard that identifies."""
RUNNING = (HeldPhase.RUNNING, HeldPhase.STOPPING)


class Node:
    """One node: its memory, its clock, its connection."""

    def __init__(self, fleet: FleetWorld, number: int, rate: float, cap: int = 1) -> None:
        self.fleet, self.rate = fleet, rate
        self.offset = fleet.random.randrange(10**9)
        self.memory = memory = Memory()
        memory.now = self.tsc
        self.g = memory.g
        name_node(self, node=b"n%d" % number, boot=b"%08x" % fleet.random.getrandbits(32))
        memory.g(CLOCK).tsc_cycles_per_ms = CYCLES
        memory.g(LOG).level = LEVEL_SILENT
        memory.g(FLEET_CONFIG).cap, memory.g(FLEET_CONFIG).servers_used = cap, 3
        memory.view(ShardContext, SHARD).shard_id = number
        fleet_setup(memory)
        memory.g(FLEET).rtc_judges = 1
        self.stream: deque[Callable[[], None]] = deque()
        self.connection = 0
        self.inbox = 0
        self.watching: tuple[int, int] | None = None
        self.watch_delay = self.pause_after_send = 0.0

    @property
    def image(self) -> Image:
        return self.memory.image

    def tsc(self) -> int:
        """Return the TSC of this very moment."""
        return self.offset + int(self.fleet.now * 1_000 * CYCLES * self.rate)

    # -- what it holds ----------------------------------------------------------------------------
    def holds(self) -> Iterator[tuple[range, int]]:
        """Yield the shards that may send now, and the generation of their slot."""
        for n in range(HELD_MAX):
            held = self.g(FLEET).held[n]
            if held.phase in RUNNING and held.shards and self.fleet.may_send(self, held):
                yield range(held.start, held.start + held.count), int(held.generation)

    # -- a turn -----------------------------------------------------------------------------------
    def turn(self) -> None:
        """Guard, messages, time; then the node makes and drops shards."""
        memory = self.memory
        self.g(CORE).now = self.tsc()
        if not self.fleet.unsafe("no deadline"):
            leases_end(memory, FLEET_EXPIRED.code)
        self.silence()
        for _ in range(self.fleet.random.choice((1, 4, 50))):
            if not self.stream:
                break
            self.stream.popleft()()
        if watch_check(memory):
            self.watch()
        held_tick_all(memory)
        lease_mirror(memory)
        claims_tick(memory)
        self.carry_out()
        self.identify()

    def silence(self) -> None:
        """Drop the shards of what is gone."""
        for n in range(HELD_MAX):
            held = self.g(FLEET).held[n]
            if held.phase in (HeldPhase.GONE, HeldPhase.NONE):
                held.shards = 0

    def carry_out(self) -> None:
        """Make the shards of slots that run, and drop those of slots that stop."""
        self.silence()
        for n in range(HELD_MAX):
            held = self.g(FLEET).held[n]
            early = self.fleet.unsafe("before the echo") and held.phase == HeldPhase.HELD
            if held.phase == HeldPhase.RUNNING or early:
                held.shards = held.count
                if early:
                    held.phase = HeldPhase.RUNNING
            elif held.phase == HeldPhase.STOPPING and self.fleet.random.random() < 0.2:
                held.shards = 0

    def identify(self) -> None:
        """Let the node's shard identify again and again, as soon as it may."""
        if self.fleet.identifies is None:
            return
        if not ticket_take(self.memory, SHARD, SPACING_MS):
            self.fleet.identifies.append(self.fleet.now)
            ticket_spend(self.memory, SHARD)

    # -- the network ------------------------------------------------------------------------------
    def arrive(self, connection: int, do: Callable[[], None]) -> None:
        """Queue what a server sent, unless its connection is gone."""
        if connection == self.connection:
            self.stream.append(do)

    def connect(self) -> None:
        """Come up on a new connection."""
        self.connection += 1
        self.stream.clear()
        self.watching = None
        link = self.g(BUS).links[CONTROL]
        link.state = LinkState.UP
        link.ups += 1

    def drop(self, longest: float = 1) -> None:
        """Lose the connection; what was sent may still arrive at the other end."""
        self.connection += 1
        self.stream.clear()
        self.watching = None
        self.g(BUS).links[CONTROL].state = LinkState.DOWN
        self.fleet.after(self.fleet.random.uniform(0.1, longest), self.connect)

    def hand(self, body: bytes, **fields: int | bytes) -> None:
        """Put a message in hand."""
        message, at = self.g(BUS_IN), SCRATCH
        message.status = 0
        for name, value in {"body": body, **fields}.items():
            if isinstance(value, bytes):
                self.memory.write(at, value)
                setattr(message, name, at)
                setattr(message, name + "_len", len(value))
                at += len(value)
            else:
                setattr(message, name, value)

    def watch(self) -> None:
        """Ask for a watch: the newest record of each key, then each new one."""
        self.inbox += 1
        watch_begin(self.memory, self.inbox)
        number, connection = self.inbox, self.connection
        self.watching = connection, int(self.g(FLEET).resyncs)
        self.fleet.travel(lambda: self.fleet.subscribe(self, connection, number))

    def answered(self, number: int) -> None:
        """Take the answer that a watch was made."""
        if number == self.g(FLEET).watch_inbox:
            self.hand(b'{"num_pending":%d}' % len(self.fleet.store.records))
            watch_answered(self.memory)

    def delivered(
        self, watch: int, key: str, value: bytes, revision: int, count: int, pending: int
    ) -> None:
        """Take a delivery of a watch, if it is still the newest."""
        if watch == self.g(FLEET).resyncs and self.g(FLEET).watch:
            reply = b"$JS.ACK.KV_shardfw.c.1.%d.%d.0.%d" % (revision, count, pending)
            self.hand(value, subject=b"$KV.shardfw." + key.encode(), reply=reply)
            watch_heard(self.memory)

    def beat(self, watch: int, count: int) -> None:
        """Take a heartbeat of a watch."""
        if watch == self.g(FLEET).resyncs and self.g(FLEET).watch:
            header = b"NATS/1.0 100 Idle\r\nNats-Last-Consumer: %d\r\n\r\n" % count
            self.hand(b"", status=100, header=header)
            watch_heard(self.memory)

    def swap(self, memory: Memory, expected: int) -> tuple[int, int]:
        """Stand in for `cas_send`."""
        if self.g(BUS).links[CONTROL].state != LinkState.UP:
            return 1, 0
        out = memory.g(FLEET_OUT)
        key = bytes(out.key[: out.key_len]).decode().removeprefix("$KV.shardfw.")
        value = bytes(out.value[: out.value_len])
        self.inbox += 1
        number, connection = self.inbox, self.connection
        self.fleet.request(self, connection, number, key, expected, value)
        self.fleet.pause(self)
        return 0, number

    def told(self, number: int, revision: int) -> None:
        """Take the answer to a compare-and-swap."""
        refused = b'{"error":{"code":400,"err_code":10071},"seq":0}'
        self.hand(b'{"stream":"KV_shardfw","seq":%d}' % revision if revision else refused)
        if lease_answered(self.memory, number) and ticket_answered(self.memory, number):
            budget_answered(self.memory, number)
