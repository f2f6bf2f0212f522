"""Who leads a stream: what happens when a leader is lost, and what of its work outlives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from emulator.simulation.nats.cluster import NatsCluster, Span
    from emulator.simulation.nats.server import NatsServer
    from emulator.simulation.nats.stream import Stream

ELECTION: Span = (4 * NS_PER_S, 9 * NS_PER_S)
"""How long nobody leads after a leader is lost without a word."""
HANDOVER: Span = (300 * NS_PER_MS, 600 * NS_PER_MS)
"""How long after one that stops in order."""
CATCH_UP: Span = (10 * NS_PER_MS, 2 * NS_PER_S)
"""How long a server that came back takes to learn what it missed."""
LATE_ANSWER_SHARE = 0.5
"""How often a new leader answers what the old one had taken."""


class Leaders:
    """Keeps a leader for every stream, as far as a majority can agree on one.

    Args:
        cluster: whose.
    """

    def __init__(self, cluster: NatsCluster) -> None:
        self.cluster = cluster
        self._elections: dict[str, int] = {}

    def review(self, *, handover: bool = False) -> None:
        """Look who can still lead, after a server went or came.

        Args:
            handover: whether the one that went had said so before.
        """
        cluster = self.cluster
        able = cluster.majority()
        for name, leader in cluster.leaders.items():
            if leader is not None and leader not in able:
                self._lose(name)
            if cluster.leaders[name] is None and able and name not in self._elections:
                self._elect(name, HANDOVER if handover else ELECTION)
        cluster.interest_changed()

    def depose(self, name: str) -> None:
        """Let a stream lose its leader although every server runs, as by a pause of its disk."""
        if self.cluster.leaders[name] is not None:
            self._lose(name)
            self.review()

    def catch_up(self, server: NatsServer) -> None:
        """Let a server that came back learn what it missed, some time later."""
        cluster = self.cluster
        for stream in cluster.streams.values():

            def learn(stream: Stream = stream) -> None:
                if server in cluster.majority() and not server.behind_ns:
                    cluster.apply(server, stream, stream.last_seq)

            cluster.events.after(cluster.span(CATCH_UP) if cluster.clustered else 0, learn)

    def _lose(self, name: str) -> None:
        """Forget the leader; of what it had taken, the others know a part."""
        leader, pending = self.cluster.leaders[name], self.cluster.streams[name].pending
        # A process that ends closes its routes, and they tell; one that stands still keeps them.
        if leader is not None and leader.paused:
            self.cluster.silent.add(name)
        known = self.cluster.random.randint(0, len(pending))
        del pending[known:]
        self.cluster.leaders[name] = None

    def _elect(self, name: str, span: Span) -> None:
        cluster = self.cluster
        number = self._elections[name] = cluster.random.getrandbits(32)

        def elected() -> None:
            if self._elections.get(name) != number:
                return
            del self._elections[name]
            able = cluster.majority()
            if able:
                self._crown(name, cluster.random.choice(able), able)

        # A single server needs nobody's voice.
        cluster.events.after(cluster.span(span) if cluster.clustered else 0, elected)

    def _crown(self, name: str, leader: NatsServer, able: list[NatsServer]) -> None:
        cluster, stream = self.cluster, self.cluster.streams[name]
        cluster.leaders[name] = leader
        cluster.silent.discard(name)
        cluster.apply(leader, stream, stream.last_seq)
        # What a majority knew of becomes true now.
        for proposal in list(stream.pending):
            if cluster.random.random() >= LATE_ANSWER_SHARE:
                proposal.reply = ""
            cluster.commit(leader, stream, proposal)
        for server in able:
            self.catch_up(server)
