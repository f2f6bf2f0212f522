"""Owners of one shard, one after the other, and the store between them; the reference models run."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from emulator.models.node import handover
from emulator.models.node.handover import handover_begin, handover_tick
from emulator.models.node.handover_answer import handover_answer
from emulator.workspace import SECTIONS
from firmware.layouts.bus import BUS_IN
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet import FLEET_OUT
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import LEVEL_SILENT, LOG
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE
from firmware.layouts.plan import Leaving
from firmware.layouts.policy import SessionProvider
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardFlag, ShardState
from firmware.node.handover import handover_tick as tick_routine
from firmware.node.handover_answer import handover_answer as answer_routine
from tests.support.fleet import name_node, set_fields
from tests.support.fleet_memory import SCRATCH, Memory
from toolchain.link import Linker

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    import pytest

    from toolchain.link import Image

CYCLES = 1_000
SHARD = SCRATCH + 0x1000
STEP_MS = 10
TOTAL = 16


@functools.cache
def image() -> Image:
    """Return an image of the hand-over."""
    return Linker((tick_routine, answer_routine), SECTIONS).link()


class Store:
    """The record of one shard, all its revisions, and messages on their way.

    Args:
        rng: Delays, losses and how far a replica is behind.
        blind_fence: Grant the fence whatever revision it expects.
    """

    def __init__(self, rng: random.Random, *, blind_fence: bool = False) -> None:
        self.random, self.blind = rng, blind_fence
        self.now = 1_000
        self.log: list[tuple[int, bytes]] = []
        self.on_its_way: list[tuple[int, int, Callable[[], None]]] = []
        self.sequence = self.sent = 0

    @property
    def revision(self) -> int:
        """Of the newest record; 0 = there is none."""
        return self.log[-1][0] if self.log else 0

    def later(self, act: Callable[[], None]) -> None:
        """Let something happen after a while, or never."""
        if self.random.random() < 0.9:
            self.sent += 1
            delay = self.random.choice((1, 30, 300, 3_000))
            self.on_its_way.append((self.now + self.random.randrange(delay), self.sent, act))

    def step(self) -> None:
        """Let time pass, and happen what is due."""
        self.now += STEP_MS
        due = sorted(one for one in self.on_its_way if one[0] <= self.now)
        self.on_its_way = [one for one in self.on_its_way if one[0] > self.now]
        for _, _, act in due:
            act()

    def read(self) -> tuple[int, bytes] | None:
        """Return the record as a replica has it, perhaps one from before."""
        # The last one has nothing yet.
        behind = self.random.choice((0, 0, 0, 1, 2, len(self.log)))
        return self.log[-1 - behind] if len(self.log) > behind else None

    def write(self, expected: int, value: bytes, *, fence: bool) -> int | None:
        """Return the new revision, or None for a refusal."""
        if expected != self.revision and not (fence and self.blind):
            return None
        self.sequence += self.random.randrange(1, 5)
        self.log.append((self.sequence, value))
        return self.sequence


class Owner:
    """A node while it holds the shard, under one generation of the lease."""

    def __init__(self, store: Store, generation: int, hold_ms: int) -> None:
        self.store, self.generation = store, generation
        self.memory = memory = Memory(image())
        self.image, self.g = memory.image, memory.g
        name_node(self, node=b"n%d" % generation)
        memory.g(CLOCK).tsc_cycles_per_ms = CYCLES
        memory.g(LOG).level = LEVEL_SILENT
        memory.g(CONFIG).session_provider = SessionProvider.BUS
        core = memory.g(CORE)
        core.slots_used, core.now = 1, store.now * CYCLES
        set_fields(core.slots[0], context=SHARD, flags=SLOT_ACTIVE)
        self.shard = memory.view(ShardContext, SHARD)
        set_fields(self.shard, session_ptr=self.shard.session.address_, shard_total=TOTAL)
        self.shard.events.fence = generation
        self.shard.hard_stop = (store.now + hold_ms) * CYCLES
        self.shard.load_deadline = (store.now + 20_000) * CYCLES
        self.inbox = 0
        self.answers: list[tuple[int, int, bytes, bytes]] = []
        self.taken: tuple[bytes, int] | None = None
        """Session and sequence that it resumed from."""
        self.started = self.released = self.waited = False
        handover_begin(memory, SHARD)

    @property
    def alive(self) -> bool:
        """Whether the lease holds."""
        return bool(self.shard.hard_stop > self.store.now * CYCLES)

    @property
    def session(self) -> tuple[bytes, int]:
        """Its session, and the sequence that is acknowledged."""
        session, shard = self.shard.session, self.shard
        known = shard.gateway.seq_acked if shard.state == ShardState.READY else shard.sequence
        return bytes(session.session_id[: session.session_id_len]), int(known)

    def ask(self, act: Callable[[], tuple[int, bytes, bytes]]) -> tuple[int, int]:
        """Send a request whose answer comes later."""
        self.inbox += 1
        number = self.inbox

        def served() -> None:
            status, header, body = act()
            self.store.later(lambda: self.answers.append((number, status, header, body)))

        self.store.later(served)
        return 0, number

    def read(self) -> tuple[int, int]:
        """Ask for the record."""

        def act() -> tuple[int, bytes, bytes]:
            found = self.store.read()
            if found is None:
                return 404, b"NATS/1.0 404\r\n\r\n", b""
            return 0, b"NATS/1.0\r\nNats-Sequence: %d\r\n\r\n" % found[0], found[1]

        return self.ask(act)

    def write(self, expected: int) -> tuple[int, int]:
        """Ask for another record."""
        out = self.g(FLEET_OUT)
        value = bytes(out.value[: out.value_len])
        fence = self.shard.load == SessionLoad.OPEN

        def act() -> tuple[int, bytes, bytes]:
            revision = self.store.write(expected, value, fence=fence)
            if revision is None:
                return 0, b"", b'{"error":{"code":400,"err_code":10071},"seq":0}'
            return 0, b"", b'{"stream":"KV_shardfw","seq":%d}' % revision

        return self.ask(act)

    def turn(self) -> None:
        """Answers, then what is due, then the shard."""
        memory = self.memory
        self.g(CORE).now = self.store.now * CYCLES
        for number, status, header, body in self.answers:
            message = self.g(BUS_IN)
            set_fields(message, inbox=number, status=status, header=SCRATCH, body=SCRATCH + 0x400)
            set_fields(message, header_len=len(header), body_len=len(body))
            memory.store(SCRATCH, header, "")
            memory.store(SCRATCH + 0x400, body + b"\r\n", "")
            handover_answer(memory)
        self.answers.clear()
        handover_tick(memory)
        if self.shard.leaving == Leaving.NO:
            self.live()

    def live(self) -> None:
        """Start with or without a session, then receive."""
        shard = self.shard
        if not self.started:
            late = shard.load_deadline <= self.store.now * CYCLES
            if shard.load == SessionLoad.OPEN and not late:
                return
            self.waited = shard.load == SessionLoad.OPEN
            shard.load, self.started = SessionLoad.SETTLED, True
            shard.state, shard.gateway.state = ShardState.READY, GatewayState.READY
            shard.connected_at = self.store.now * CYCLES
            if shard.session.valid:
                self.taken = self.session[0], int(shard.sequence)
                shard.gateway.seq_acked = shard.sequence
            else:
                name = b"s%d" % self.generation
                shard.session.session_id[: len(name)] = name
                set_fields(shard.session, valid=1, session_id_len=len(name), resume_host_len=0)
                shard.flags, shard.sequence, shard.gateway.seq_acked = ShardFlag.SEQ_VALID, 1, 1
            return
        shard.sequence += self.store.random.randrange(3)
        lag = self.store.random.randrange(3)
        shard.gateway.seq_acked = max(shard.gateway.seq_acked, shard.sequence - lag)

    def leave(self) -> None:
        """Close the connection and keep the place until the session is saved."""
        shard = self.shard
        if self.started and not self.released:
            self.released = True
            shard.sequence = shard.gateway.seq_acked
            shard.gateway.state, shard.connected_at = GatewayState.IDLE, 0
            shard.state, shard.hold = ShardState.ASSIGNED, Hold.PLAN_CHANGED
            shard.leaving = Leaving.KEEPING


def connect(monkeypatch: pytest.MonkeyPatch, owners: dict[int, Owner]) -> None:
    """Let requests of the models go to the owner whose memory they run on."""
    monkeypatch.setattr(handover, "session_ask", lambda w, _shard: owners[id(w)].read())
    monkeypatch.setattr(handover, "cas_send", lambda w, expected: owners[id(w)].write(expected))
