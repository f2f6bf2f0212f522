"""The world: one seed, one clock, the nodes under test and whatever surrounds them."""

from __future__ import annotations

import hashlib
import random
import struct
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from emulator.simulation.clock import NS_PER_MS, NS_PER_S, NS_PER_US, EventQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.faults import Event, FaultPlan
    from emulator.simulation.wire import Port, Segment

T = TypeVar("T")

# A node that asks to be stepped at once, again and again, would stop the clock; the shortest
# time between two steps that it asked for itself keeps virtual time moving.
SHORTEST_TURN_NS = NS_PER_US
# Steps at one instant after which a world is declared stuck.
STUCK_AFTER = 100_000
MILLION = 1_000_000


class NotReachedError(AssertionError):
    """A condition did not come true in the virtual time allowed for it."""


class StuckError(RuntimeError):
    """Events keep happening and the clock does not move."""


class Node(Protocol):
    """A node under test: a step function over frames and time."""

    def deliver(self, frame: bytes) -> None:
        """Put one frame into the receive ring."""

    def step(self, now_ns: int) -> list[bytes]:
        """Run one turn at `now_ns` and return the frames it sent."""

    def next_deadline(self, now_ns: int) -> int | None:
        """Return the absolute time of the next turn it needs, or None for "only on a frame"."""


class Attachment:
    """A node, its port and its power switch.

    The node's own clock is the world's plus `clock_offset_ns`, so a test can jump it, and gains or
    loses `clock_ppm` against it.
    """

    def __init__(
        self, world: World, node: Node, port: Port, name: str, *, clock_ppm: int = 0
    ) -> None:
        self.world = world
        self.node = node
        self.port = port
        self.name = name
        self.powered = True
        self.clock_offset_ns = 0
        self.clock_ppm = clock_ppm
        self.halted = False
        self.turns = 0
        self.after_turn: list[Callable[[Attachment], None]] = []
        self._wake_at: int | None = None
        self._generation = 0
        port.receiver = self._receive
        self.wake()

    def wake(self, delay_ns: int = 0) -> None:
        """Give the node a turn after `delay_ns`, unless one is already due by then."""
        if not self.powered or self.halted:
            return
        when_ns = self.world.now_ns + delay_ns
        if self._wake_at is not None and self._wake_at <= when_ns:
            return
        self._wake_at = when_ns
        generation = self._generation
        self.world.events.at(when_ns, lambda: self._turn(when_ns, generation))

    def node_ns(self, world_ns: int) -> int:
        """Return what the node's clock shows at a virtual time."""
        return world_ns + world_ns * self.clock_ppm // MILLION + self.clock_offset_ns

    def power_off(self) -> None:
        """Cut the power: no more turns, and the link goes down."""
        self.powered = self.halted = False
        self._wake_at = None
        self._generation += 1
        self.port.set_link(up=False)

    def power_on(self, node: Node) -> None:
        """Start a fresh node on the same port."""
        self.node = node
        self.powered = True
        self.port.set_link(up=True)
        self.wake()

    def jump_clock(self, delta_ns: int) -> None:
        """Move the node's clock source by `delta_ns`, forwards or backwards."""
        self.clock_offset_ns += delta_ns
        self._wake_at = None
        self.wake()

    def halt(self, duration_ns: int, *, clock_too: bool = False) -> None:
        """Give the node no turns for a while, as when its processor is not scheduled.

        Args:
            duration_ns: virtual time.
            clock_too: whether its clock stands still as well, as in a virtual machine that was
                stopped; frames wait in its card all the same.
        """
        if not self.powered or self.halted:
            return
        self.halted = True
        self._wake_at = None
        generation = self._generation

        def go_on() -> None:
            if self.powered and generation == self._generation:
                self.halted = False
                if clock_too:
                    self.clock_offset_ns -= duration_ns + duration_ns * self.clock_ppm // MILLION
                self.wake()

        self.world.events.after(duration_ns, go_on)

    def _receive(self, frame: bytes) -> None:
        if self.powered:
            self.node.deliver(frame)
            self.wake()

    def _turn(self, when_ns: int, generation: int) -> None:
        if not self.powered or generation != self._generation or self._wake_at != when_ns:
            return
        self._wake_at = None
        self.turns += 1
        node_now = self.node_ns(when_ns)
        for frame in self.node.step(node_now):
            self.port.send(frame)
        for observe in self.after_turn:
            observe(self)
        deadline = self.node.next_deadline(node_now)
        if deadline is not None:
            # Rounded up: a turn a nanosecond early would find nothing due.
            wait_ns = -(-(deadline - node_now) * MILLION // (MILLION + self.clock_ppm))
            self.wake(max(wait_ns, SHORTEST_TURN_NS))


class World:
    """Own the seed, the clock and the list of everything that may be replayed.

    Args:
        seed: decides every random choice in this world.
        start_ns: the first value of the clock, in nanoseconds.
    """

    def __init__(self, seed: int, *, start_ns: int = 0) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.events = EventQueue(start_ns)
        self.steps = 0
        self.checks: list[Callable[[], None]] = []
        self.on_event: list[Callable[[Event], None]] = []
        self.segments: list[Segment] = []
        self.actions: dict[str, Callable[[str], None]] = {
            "link-up": lambda name: self.port(name).set_link(up=True),
            "link-down": lambda name: self.port(name).set_link(up=False),
            "power-off": lambda name: self.attachment(name).power_off(),
            "jump-clock": self._jump_clock,
            "halt": partial(self._halt, clock_too=False),
            "freeze": partial(self._halt, clock_too=True),
        }
        self._attachments: dict[str, Attachment] = {}
        self._digest = hashlib.blake2b(digest_size=16)

    @property
    def now_ns(self) -> int:
        """The virtual time, in nanoseconds."""
        return self.events.now_ns

    def _jump_clock(self, argument: str) -> None:
        """Carry out `jump-clock NODE MILLISECONDS` of a plan; the number may be negative."""
        name, milliseconds = argument.split()
        self.attachment(name).jump_clock(int(milliseconds) * NS_PER_MS)

    def _halt(self, argument: str, *, clock_too: bool) -> None:
        """Carry out `halt NODE MILLISECONDS`, or `freeze`, which stops the clock as well."""
        name, milliseconds = argument.split()
        self.attachment(name).halt(int(milliseconds) * NS_PER_MS, clock_too=clock_too)

    def attach(self, node: Node, port: Port, name: str = "", *, clock_ppm: int = 0) -> Attachment:
        """Put a node under test on a port; it gets its first turn at once.

        Args:
            node: the node.
            port: where its cable is.
            name: for plans; empty means that of the port.
            clock_ppm: how much faster than the world's its clock runs, in millionths.
        """
        attachment = Attachment(self, node, port, name or port.name, clock_ppm=clock_ppm)
        self._attachments[attachment.name] = attachment
        return attachment

    def attachment(self, name: str) -> Attachment:
        """Return the node attached under `name`."""
        return _named(self._attachments, name, "node")

    def port(self, name: str) -> Port:
        """Return the port called `name` on whichever segment has it."""
        ports = {port.name: port for segment in self.segments for port in segment.ports}
        return _named(ports, name, "port")

    def schedule(self, plan: FaultPlan) -> None:
        """Queue the timed events of a plan; its frame rules belong to a segment or a relay."""
        for event in plan.events:
            action = _named(self.actions, event.name, "action")
            self.events.at(event.at_ns, partial(self._happen, event, action))

    def _happen(self, event: Event, action: Callable[[str], None]) -> None:
        for tell in self.on_event:
            tell(event)
        action(event.argument)

    def run_until(self, goal: int | Callable[[], bool], *, within_ns: int = 60 * NS_PER_S) -> None:
        """Run until an absolute time, or until a condition holds.

        Args:
            goal: a time in nanoseconds, or a condition looked at after every event.
            within_ns: virtual time that the condition may take.

        Raises:
            NotReachedError: the condition did not hold in time; the text names seed and step.
            StuckError: the clock stands still although events keep happening.
        """
        if isinstance(goal, int):
            self._run(goal, None)
            self.events.now_ns = max(self.events.now_ns, goal)
            return
        limit_ns = self.now_ns + within_ns
        if goal() or self._run(limit_ns, goal):
            return
        name = getattr(goal, "__qualname__", repr(goal))
        raise NotReachedError(
            f"{name} did not hold within {within_ns / NS_PER_S:g} s of virtual time; "
            f"{self.describe()}"
        )

    def run_for(self, duration_ns: int) -> None:
        """Run for a length of virtual time."""
        self.run_until(self.now_ns + duration_ns)

    def describe(self) -> str:
        """Say where this run stands and how to get here again."""
        plans = [
            f"{segment.name}: {segment.injector.plan}"
            for segment in self.segments
            if segment.injector is not None
        ]
        faults = "; faults " + " | ".join(plans) if plans else ""
        return f"seed {self.seed}, step {self.steps}, t={self.now_ns / NS_PER_S:.9f} s{faults}"

    def record(self, kind: str, data: bytes) -> None:
        """Mix something that happened into the digest that two equal runs share."""
        self._digest.update(struct.pack("<QI", self.now_ns, len(data)))
        self._digest.update(kind.encode())
        self._digest.update(data)

    def digest(self) -> str:
        """Return a fingerprint of every frame and every time so far."""
        return self._digest.hexdigest()

    def _run(self, limit_ns: int, goal: Callable[[], bool] | None) -> bool:
        events = self.events
        same_instant, instant = 0, -1
        while True:
            next_ns = events.next_time()
            if next_ns is None or next_ns > limit_ns:
                if goal is not None:
                    events.now_ns = max(events.now_ns, limit_ns)
                return False
            same_instant = same_instant + 1 if next_ns == instant else 0
            instant = next_ns
            if same_instant > STUCK_AFTER:
                raise StuckError(f"{STUCK_AFTER} events at one instant; {self.describe()}")
            self.steps += 1
            try:
                events.run_next()
                for check in self.checks:
                    check()
            except Exception as error:
                error.add_note(f"in the simulated world: {self.describe()}")
                raise
            if goal is not None and goal():
                return True


def _named(table: dict[str, T], name: str, what: str) -> T:
    try:
        return table[name]
    except KeyError:
        known = ", ".join(sorted(table)) or "none"
        raise LookupError(f"no {what} is called {name!r}; known: {known}") from None
