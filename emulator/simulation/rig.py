"""One node of the release image, an internet, a gateway and a monitor: what most scenarios need.

    rig = Rig(seed=1)
    rig.until_ready()
    rig.gateway.peer_of(7).abort()
    rig.run(30)

Every turn is checked against the invariants.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.host import Host
from emulator.simulation.internet import SUBNET, Internet
from emulator.simulation.invariants import Invariants
from emulator.simulation.monitor import Monitor
from emulator.simulation.node import TSC_AT_ZERO, ImageNode
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.packet import ip
from emulator.simulation.pools import free_transmit_buffers
from emulator.simulation.wire import Segment
from emulator.simulation.world import World
from emulator.simulation.write_watch import WriteWatch
from firmware.layouts.node import CORE, PLAN, SLOT_ACTIVE
from firmware.layouts.shard import ShardState
from firmware.layouts.status import STATUS_REQUEST_MAGIC, StatusReply
from pxe.gateway import GatewayOptions
from pxe.gateway.protocol import PROFILES
from toolchain.layout.pack import pack, unpack

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from emulator.simulation.faults import FaultPlan
    from emulator.simulation.host import Datagram
    from emulator.simulation.world import Attachment
    from pxe.gateway import LoadOptions
    from pxe.gateway.load import LoadGenerator

GATEWAY_ADDRESS = "203.0.113.5"
OPERATOR = SUBNET + "20"
OPERATOR_PORT = 7701
STATUS_TRIES, STATUS_WAIT_S = 3, 0.2


class Rig:
    """A world around one node.

    Args:
        seed: decides everything.
        facts: of the node; None takes sixteen shards.
        faults: plan of the segment.
        trace: count instructions and record coverage.
        modern: drive the card through windows.
        watch: judge every store into a workspace.
        hub: repeat frames to every port; a switch would believe frames with a false source.
        tsc_at_zero: the node's TSC when virtual time is zero.
        tls: what the gateway's connections are wrapped with; None leaves them plain.
        options: settings of the gateway.
    """

    def __init__(
        self,
        seed: int = 1,
        facts: NodeFacts | None = None,
        *,
        faults: FaultPlan | str = "",
        trace: bool = False,
        modern: bool = False,
        watch: bool = False,
        hub: bool = False,
        tsc_at_zero: int = TSC_AT_ZERO,
        tls: ssl.SSLContext | None = None,
        **options: Any,  # noqa: ANN401 - those of GatewayOptions
    ) -> None:
        self.facts = facts = facts or NodeFacts()
        self.world = World(seed)
        self.internet = Internet(self.world, Segment(self.world, hub=hub))
        self.segment = self.internet.segment
        settings: dict[str, Any] = {
            "shards": facts.total or facts.start + facts.shards,
            "max_concurrency": facts.max_concurrency,
            "token": facts.token,
            "profile": PROFILES[facts.profile.name.lower()],
        }
        self.gateway = self.internet.gateway(
            address=GATEWAY_ADDRESS, port=443 if tls else 80, tls=tls,
            options=GatewayOptions(**(settings | options)),
        )  # fmt: skip
        self.monitor = Monitor(self.segment, "node")
        self.operator = Host(self.segment, "operator", OPERATOR)
        self._replies: list[bytes] = []
        self.operator.bind_udp(OPERATOR_PORT, self._take_reply)
        if faults:
            self.segment.set_faults(faults)
        self._trace, self._modern, self._watch = trace, modern, watch
        self._tsc_at_zero = tsc_at_zero
        self.boots = 0
        self.after_turn: list[Callable[[Attachment], None]] = []
        """Whoever else wants to look at the node after its turns, across power cycles."""
        self.node = self._boot()
        self.attachment = self.world.attach(self.node, self.segment.port("node"))
        self._connect()

    def _boot(self, kept: bytes = b"", *, crashed: bool = False) -> ImageNode:
        self.boots += 1
        return ImageNode(
            self.facts,
            seed=self.world.seed * 1000 + self.boots,
            now_ns=self.world.now_ns,
            modern=self._modern,
            trace=self._trace,
            kept=kept,
            crashed=crashed,
            tsc_at_zero=self._tsc_at_zero,
        )

    def _connect(self) -> None:
        self.node.plug(self.attachment)
        self.invariants = Invariants(self.node)
        self.transmit_buffers = free_transmit_buffers(self.node)
        self.attachment.after_turn[:] = [self.invariants.check]
        if self._watch:
            self.attachment.after_turn.append(WriteWatch(self.node).judge)
        self.attachment.after_turn.append(self._tell_turn)

    def _tell_turn(self, attachment: Attachment) -> None:
        for observe in self.after_turn:
            observe(attachment)

    def power_off(self) -> None:
        """Cut the node's power; without power already, nothing happens."""
        if self.attachment.powered:
            self.save_coverage()
            self.attachment.power_off()

    def power_on(self) -> None:
        """Boot the node anew; nothing of its memory is left."""
        if not self.attachment.powered:
            self.node = self._boot()
            self.attachment.power_on(self.node)
            self._connect()

    def warm_reset(self, *, crashed: bool = False, after_s: float = 0) -> None:
        """Reset the node: it boots anew, and the pages that a warm reset keeps are as they were.

        Args:
            crashed: whether a crash was the cause; the boot then finds its record.
            after_s: how long the machine takes until the image runs again.
        """
        kept = self.node.kept()
        self.power_off()
        if after_s:
            self.run(after_s)
        self.node = self._boot(kept, crashed=crashed)
        self.attachment.power_on(self.node)
        self._connect()

    def save_coverage(self) -> None:
        """Add what the node ran to the coverage of this process, when it is traced."""
        if self.node.trace is not None:
            self.node.trace.save()

    @property
    def states(self) -> list[ShardState]:
        """The state of every slot after the last turn."""
        return self.invariants.states()

    @property
    def stats(self) -> Any:  # noqa: ANN401 - GatewayStats, whose package has no stubs here
        """What the gateway counted."""
        return self.gateway.core.stats()

    def all_in(self, state: ShardState) -> bool:
        """Say whether every shard is in a state."""
        rows = self.invariants.rows
        if self.facts.spare or self.node.g(PLAN).generation > 1:
            slots = self.node.g(CORE).slots
            rows = [row for n, row in enumerate(rows) if slots[n].flags & SLOT_ACTIVE]
        return all(row.state == state for row in rows)

    def until_ready(self, within_s: float = 60) -> None:
        """Run until every shard is READY."""
        self.world.run_until(self.all_ready, within_ns=round(within_s * NS_PER_S))

    def all_ready(self) -> bool:
        """Say whether every shard is READY."""
        return self.all_in(ShardState.READY)

    def run(self, seconds: float) -> None:
        """Run for some virtual seconds."""
        self.world.run_for(round(seconds * NS_PER_S))

    def now_s(self) -> float:
        """Return the virtual time in seconds."""
        return self.world.now_ns / NS_PER_S

    def load(self, options: LoadOptions | None) -> LoadGenerator | None:
        """Start a load of dispatches from now on, or end the running one with None."""
        made = self.gateway.core.set_load(options)
        self.gateway.flush()
        return made

    def status(self, slot: int) -> dict[str, Any]:
        """Ask the node for its diagnostics over the wire and return the fields of the answer."""
        nonce = random.Random(self.world.steps).getrandbits(64)
        request = pack(StatusReply, {"magic": STATUS_REQUEST_MAGIC, "slot": slot, "nonce": nonce})
        self._replies.clear()
        address = self.node.address()
        # The node forgets who asks while it asks for their hardware address: ask again.
        for _ in range(STATUS_TRIES):
            self.operator.send_udp(ip(address), self.facts.diagnostics_port, OPERATOR_PORT, request)
            self.run(STATUS_WAIT_S)
            if self._replies:
                break
        else:
            raise AssertionError(f"no answer from {address} to {STATUS_TRIES} requests")
        reply = unpack(StatusReply, self._replies[-1])
        if reply["nonce"] != nonce:
            raise AssertionError("the node answered another question")
        return reply

    def _take_reply(self, datagram: Datagram) -> None:
        self._replies.append(datagram.payload)
