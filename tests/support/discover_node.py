"""Two shards that need the gateway, one of which asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import DISCOVERY, DiscoveryMode, DiscoveryState
from firmware.layouts.node import CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import STARTUP
from firmware.layouts.shard import End, Phase, ShardState
from firmware.layouts.tcp import TcpState
from firmware.shard.discover import shard_discover
from tests.support.shard_node import LAB
from tests.support.shard_node import Node as TickNode
from tests.support.states import MS
from tests.support.stream import Stream

if TYPE_CHECKING:
    from toolchain.asm import Routine

S = DiscoveryState
BUDGET, STARTUP_LEFT = 30_000 * MS, 600_000 * MS
DOCUMENT: dict[str, object] = {
    "url": "ws://10.0.0.9:9090/",
    "session_start_limit": {"total": 9, "remaining": 8, "max_concurrency": 2},
}


class Node(TickNode):
    """Two shards in phase RESOLVE that need the gateway."""

    def __init__(self) -> None:
        super().__init__()
        LAB.g(CONFIG).discovery = DiscoveryMode.HTTP
        LAB.g(STARTUP).deadline = self.now + STARTUP_LEFT
        self.permits = LAB.g(PERMITS)
        for n, context in enumerate(self.shards):
            context.slot = n
            self.resolve(n)

    @property
    def found(self) -> Any:
        """What is known of the gateway."""
        return LAB.g(DISCOVERY)

    def resolve(self, n: int = 0) -> None:
        """Let a shard begin an attempt and need the address."""
        context = self.shards[n]
        context.state, context.phase = ShardState.STARTING, Phase.RESOLVE
        context.failure, context.attempts = End.NONE, context.attempts + 1
        context.attempt_started, context.attempt_deadline = self.now, self.now + BUDGET

    def call(self, routine: Routine, n: int = 0) -> dict[str, int]:
        """Call a routine for a shard; return its outputs."""
        env = self.bench.environment()
        env._tsc = lambda: self.now
        return LAB.call(routine, env, shard=self.shards[n].address_).outputs

    def discover(self, n: int = 0) -> bool:
        """Return whether the shard may go on."""
        return not self.call(shard_discover, n)["cf"]

    def connected(self, n: int = 0) -> Stream:
        """Let the connection of the shard that asks be made."""
        stream = Stream(LAB, self.shards[n].address_)
        stream.tcp.state = TcpState.ESTABLISHED
        return stream

    def asked(self, n: int = 0) -> Stream:
        """Return a stream on which the question was sent."""
        assert not self.discover(n)
        stream = self.connected(n)
        assert not self.discover(n)
        assert self.found.state == S.HEAD
        return stream

    def later(self, milliseconds: float) -> None:
        """Let time pass."""
        LAB.g(CORE).now = self.now + round(milliseconds * MS)
