"""Several nodes of one bot on one wire: each has its own share of the shards, all one gateway.

    fleet = Fleet(seed=1, nodes=3, shards=4)
    fleet.until_ready()
    fleet.stations[1].power_off()
    fleet.run(30)

Every turn of every node is checked against the invariants, and every store of its code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.internet import Internet
from emulator.simulation.invariants import Invariants
from emulator.simulation.monitor import Monitor
from emulator.simulation.node import TSC_AT_ZERO, ImageNode
from emulator.simulation.node_facts import MAC, NodeFacts
from emulator.simulation.rig import GATEWAY_ADDRESS
from emulator.simulation.wire import Segment
from emulator.simulation.world import MILLION, World
from emulator.simulation.write_watch import WriteWatch
from firmware.layouts.node import CORE, SLOT_ACTIVE
from firmware.layouts.shard import ShardState
from pxe.gateway import GatewayOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.faults import FaultPlan
    from emulator.simulation.shard_row import ShardRow
    from emulator.simulation.world import Attachment


class Station:
    """One node of a fleet, its cable, and what watches it.

    Args:
        world: of the fleet.
        segment: where it is plugged in.
        name: of its port.
        facts: of the node.
        watch: judge every store into a workspace.
        clock_ppm: how much faster than the world's its clock runs, in millionths.
        tsc_at_zero: TSC when virtual time is zero.
    """

    def __init__(
        self,
        world: World,
        segment: Segment,
        name: str,
        facts: NodeFacts,
        *,
        watch: bool = True,
        clock_ppm: int = 0,
        tsc_at_zero: int = TSC_AT_ZERO,
    ) -> None:
        self.facts, self._watch = facts, watch
        self._ppm, self._tsc_at_zero = clock_ppm, tsc_at_zero
        self.after_turn: list[Callable[[Attachment], None]] = []
        """Whoever else wants to look at the node after its turns, across power cycles."""
        self.monitor = Monitor(segment, name)
        self.boots = 0
        self.invariants: Invariants
        self._world = world
        self.node = self._boot(world.now_ns + world.now_ns * clock_ppm // MILLION)
        self.attachment = world.attach(self.node, segment.port(name), clock_ppm=clock_ppm)
        self._connect()

    def power_off(self) -> None:
        """Cut the node's power; without power already, nothing happens."""
        if self.attachment.powered:
            self.attachment.power_off()

    def power_on(self) -> None:
        """Boot the node anew; nothing of its memory is left."""
        if not self.attachment.powered:
            self.node = self._boot(self.attachment.node_ns(self._world.now_ns))
            self.attachment.power_on(self.node)
            self._connect()

    @property
    def rows(self) -> list[ShardRow]:
        """Its shards after the last turn."""
        return self.invariants.rows

    def ready(self) -> bool:
        """Say whether the node has power and all its shards are READY."""
        slots = self.node.g(CORE).slots
        held = (row for n, row in enumerate(self.rows) if slots[n].flags & SLOT_ACTIVE)
        return self.attachment.powered and all(row.state == ShardState.READY for row in held)

    def _boot(self, now_ns: int) -> ImageNode:
        self.boots += 1
        # No two nodes and no two boots draw the same numbers.
        seed = (self._world.seed, self.facts.mac, self.boots)
        return ImageNode(
            self.facts, seed=repr(seed), now_ns=now_ns, tsc_at_zero=self._tsc_at_zero,
            wall_ns=lambda: self._world.now_ns,
        )  # fmt: skip

    def _connect(self) -> None:
        self.node.plug(self.attachment)
        self.invariants = Invariants(self.node)
        self.attachment.after_turn[:] = [self.invariants.check]
        if self._watch:
            self.attachment.after_turn.append(WriteWatch(self.node).judge)
        self.attachment.after_turn.append(self._tell_turn)

    def _tell_turn(self, attachment: Attachment) -> None:
        for observe in self.after_turn:
            observe(attachment)


class Fleet:
    """A world around several nodes.

    Args:
        seed: decides everything.
        nodes: how many; they are called node0, node1 and so on.
        shards: of each node.
        facts: of all of them; shards, start, total and mac are the fleet's own.
        faults: plan of the segment.
        watch: judge every store into a workspace; not where commands reach into them.
        options: settings of the gateway.
    """

    def __init__(
        self,
        seed: int = 1,
        *,
        nodes: int = 2,
        shards: int = 8,
        facts: NodeFacts | None = None,
        faults: FaultPlan | str = "",
        watch: bool = True,
        **options: Any,  # noqa: ANN401 - those of GatewayOptions
    ) -> None:
        self.world = World(seed)
        self.segment = Segment(self.world)
        self.internet = Internet(self.world, self.segment)
        facts = replace(facts or NodeFacts(), shards=shards, total=nodes * shards)
        settings: dict[str, Any] = {
            "shards": facts.total,
            "max_concurrency": facts.max_concurrency,
            "token": facts.token,
        }
        self.gateway = self.internet.gateway(
            address=GATEWAY_ADDRESS, options=GatewayOptions(**(settings | options))
        )
        self.stations = [
            Station(
                self.world,
                self.segment,
                f"node{number}",
                replace(facts, start=number * shards, mac=MAC[:5] + bytes((number + 1,))),
                watch=watch,
            )
            for number in range(nodes)
        ]
        # A plan names ports, so the nodes come first.
        if faults:
            self.segment.set_faults(faults)

    def rows(self) -> list[ShardRow]:
        """Every shard of the bot, in order."""
        return [row for station in self.stations for row in station.rows]

    def until_ready(self, within_s: float = 60) -> None:
        """Run until every shard of every node is READY."""
        self.world.run_until(self.all_ready, within_ns=round(within_s * NS_PER_S))

    def all_ready(self) -> bool:
        """Say whether every shard of every node is READY."""
        return all(station.ready() for station in self.stations)

    def run(self, seconds: float) -> None:
        """Run for some virtual seconds."""
        self.world.run_for(round(seconds * NS_PER_S))

    @property
    def stats(self) -> Any:  # noqa: ANN401 - GatewayStats, whose package has no stubs here
        """What the gateway counted."""
        return self.gateway.core.stats()
