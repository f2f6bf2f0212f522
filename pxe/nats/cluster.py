"""Three real NATS servers that keep each stream three times."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from pxe.nats.options import HERE, NatsOptions, Place
from pxe.nats.server import POLL_SECONDS, NatsServer
from pxe.process import NodeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

CLUSTER_SIZE: Final = 3
MAJORITY: Final = 2
LEADER_SECONDS: Final = 30.0
BIND_TRIES: Final = 5
TAKEN: Final = "address already in use"


class NatsCluster:
    """Three servers that keep each stream three times; use it as `async with`.

    Attributes:
        servers: The three; each may be ended and started again.
    """

    def __init__(
        self, options: NatsOptions | None = None, places: Sequence[Place] = (HERE,) * CLUSTER_SIZE
    ) -> None:
        """Prepare a cluster.

        Args:
            options: How each server is set up.
            places: Where each of the three runs.
        """
        self.options = NatsOptions() if options is None else options
        self.places = tuple(places)
        self.servers: list[NatsServer] = []

    async def __aenter__(self) -> Self:
        """Start the servers and wait until they have elected a leader.

        Raises:
            NodeError: One did not come up, or no leader was elected; with their words.
        """
        for left in reversed(range(BIND_TRIES)):
            try:
                await self._start()
            except NodeError as error:
                await self._leave()
                # Somebody else may take a port between our choice and the server's use of it.
                if TAKEN not in str(error) or not left:
                    raise
            except BaseException:
                await self._leave()
                raise
            else:
                break
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the servers and remove their folders."""
        await self._leave()

    async def _start(self) -> None:
        places = with_route_ports(self.places)
        at = [f"{place.host}:{place.route_port}" for place in places]
        self.servers = [
            NatsServer(
                self.options,
                f"n{number}",
                {
                    "name": "shardfw",
                    "listen": own,
                    "routes": [f"nats://{other}" for other in at if other != own],
                    "no_advertise": True,
                },
                place,
            )
            for number, (place, own) in enumerate(zip(places, at, strict=True), 1)
        ]
        started = await asyncio.gather(
            *(server.__aenter__() for server in self.servers), return_exceptions=True
        )
        for outcome in started:
            if isinstance(outcome, BaseException):
                raise outcome
        await self.settled()

    async def settled(self, seconds: float = LEADER_SECONDS) -> None:
        """Wait until every server that runs is healthy, and one leads all of them.

        Args:
            seconds: How long. One that was cut off needs a while to catch up.

        Raises:
            NodeError: That did not come.
        """
        try:
            async with asyncio.timeout(seconds):
                while not await self._is_settled():
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            logs = "\n".join(server.log for server in self.servers)
            raise NodeError(f"the cluster is not settled after {seconds} s: {logs}") from None

    async def _is_settled(self) -> bool:
        running = [each for each in self.servers if each.is_running]
        leaders, reached = set(), 0
        for server in running:
            found = (await server.monitor("/jsz")).get("meta_cluster", {})
            healthy = await server.monitor("/healthz")
            if healthy.get("status") != "ok":
                return False
            leaders.add(found.get("leader"))
            # Only a leader tells of its peers; it places no stream with one that it calls offline.
            peers = found.get("replicas", ())
            reached = max(reached, sum(not peer.get("offline", False) for peer in peers))
        return len(leaders) == 1 and bool(leaders - {None, ""}) and reached >= len(running) - 1

    async def leader_of(self, stream: str, *, without: NatsServer | None = None) -> NatsServer:
        """Return the server that two of the three call the leader of a stream; wait for it.

        Args:
            stream: Its name.
            without: A server that is not asked and that the leader shall not be, such as one that
                is paused or cut off.

        Raises:
            NodeError: There is none; with the servers' words.
        """
        asked = [server for server in self.servers if server is not without]
        try:
            async with asyncio.timeout(LEADER_SECONDS):
                while True:
                    told = [await self._leader(each, stream) for each in asked if each.is_running]
                    votes = Counter(told)
                    for server in asked:
                        if votes[server.name] >= MAJORITY and server.is_running:
                            return server
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            logs = "\n".join(server.log for server in self.servers)
            raise NodeError(f"{stream} has no leader after {LEADER_SECONDS} s: {logs}") from None

    @staticmethod
    async def _leader(server: NatsServer, stream: str) -> str:
        """Return whom a server calls the leader of a stream; empty when nobody."""
        found = await server.monitor("/jsz?accounts=1&streams=1")
        for account in found.get("account_details", ()):
            for detail in account.get("stream_detail", ()):
                if detail["name"] == stream:
                    return str(detail.get("cluster", {}).get("leader", ""))
        return ""

    @property
    def urls(self) -> list[str]:
        """Return where clients connect."""
        return [server.url for server in self.servers]

    async def _leave(self) -> None:
        await asyncio.gather(
            *(server.__aexit__(None, None, None) for server in self.servers), return_exceptions=True
        )


def with_route_ports(places: Sequence[Place]) -> list[Place]:
    """Return the places, each with a port for the others of its cluster."""
    ports = free_ports(sum(not place.route_port for place in places))
    return [
        place if place.route_port else replace(place, route_port=ports.pop()) for place in places
    ]


def free_ports(count: int) -> list[int]:
    """Return TCP ports of 127.0.0.1 that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            held = stack.enter_context(socket.socket())
            held.bind(("127.0.0.1", 0))
            found.append(int(held.getsockname()[1]))
        return found
