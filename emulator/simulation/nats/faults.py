"""What may go wrong with a cluster, by hand or by the lines of a fault plan.

at 5s nats-kill 0; at 20s nats-start 0      a process ends and begins
at 5s nats-stop 0                           it ends in order: another one leads soon
at 5s nats-pause 0; at 20s nats-resume 0    it stands still
at 5s nats-retire 0                         it warns its clients and stops
at 5s nats-isolate 0; at 30s nats-heal      the others do not reach it, its clients do
at 5s nats-depose                           nobody leads for some seconds
at 5s nats-slow 3000; at 9s nats-slow 0     every write takes so many milliseconds more
at 5s nats-lag 0 800; at 9s nats-lag 0 0    what a server says arrives so much later
at 5s nats-behind 0 3000; at 9s nats-behind 0 0     it learns so much later what was stored
at 5s nats-cut 0                            its clients' connections are reset
at 5s nats-deaf 1; at 9s nats-deaf 0        without a leader there is no 503, only silence
at 5s nats-lose 0                           its consumers are lost, and nobody is told
at 5s nats-skip 0                           its consumers lose the next delivery of each
at 5s nats-repeat 0 3                       its consumers go back by so many deliveries
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.nats.cluster import Cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.nats.cluster import NatsCluster, Span

ROUTE_SILENCE: Span = (2 * NS_PER_S, 19 * NS_PER_S)
"""How long a server does not notice that it was cut off from the others."""


class ClusterFaults:
    """The hands that break a cluster and mend it.

    Args:
        cluster: which.
    """

    def __init__(self, cluster: NatsCluster) -> None:
        self.cluster = cluster

    def isolate(self, index: int) -> None:
        """Cut a server off from the others; its clients stay."""
        cluster = self.cluster
        if index in cluster.cuts or not cluster.clustered:
            return
        now_ns = cluster.events.now_ns
        cut = Cut(now_ns, now_ns + cluster.span(ROUTE_SILENCE))
        server = cluster.servers[index]
        cut.leads = {name for name, leader in cluster.leaders.items() if leader is server}
        cluster.cuts[index] = cut
        cluster.lead.review()

    def heal(self) -> None:
        """End every cut; whoever was alone learns what happened."""
        cluster = self.cluster
        cuts = list(cluster.cuts)
        cluster.cuts.clear()
        cluster.lead.review()
        for index in cuts:
            cluster.lead.catch_up(cluster.servers[index])

    def kill(self, index: int, *, handover: bool = False) -> None:
        """End a server's process, at once or in order."""
        server = self.cluster.servers[index]
        if server.up:
            server.stop()
            self.cluster.lead.review(handover=handover)

    def start(self, index: int) -> None:
        """Begin a server's process anew."""
        cluster, server = self.cluster, self.cluster.servers[index]
        if server.up:
            return
        server.start()
        for stream in cluster.streams.values():
            if stream.config.memory and cluster.clustered:
                server.applied[stream.config.name] = 0
        cluster.lead.review()
        cluster.lead.catch_up(server)

    def pause(self, index: int) -> None:
        """Let a server's process stand still."""
        server = self.cluster.servers[index]
        if self.cluster.alive(server):
            server.pause()
            self.cluster.lead.review()

    def resume(self, index: int) -> None:
        """Let it go on."""
        server = self.cluster.servers[index]
        if server.up and server.paused:
            server.resume()
            self.cluster.lead.review()
            self.cluster.lead.catch_up(server)

    def retire(self, index: int) -> None:
        """Let a server warn its clients, and stop some time later."""
        server = self.cluster.servers[index]
        if not self.cluster.alive(server) or server.lame:
            return
        server.warn()

        def leave() -> None:
            if server.lame:
                self.kill(index, handover=True)

        self.cluster.events.after(server.options.lame_duck_ns, leave)

    def depose(self) -> None:
        """Let every stream lose its leader."""
        for name in self.cluster.streams:
            self.cluster.lead.depose(name)

    def lag(self, index: int, milliseconds: int) -> None:
        """Let everything that a server says to its clients take longer."""
        server = self.cluster.servers[index]
        server.lag_ns = milliseconds * NS_PER_MS
        for session in server.sessions:
            session.lag_ns = server.lag_ns

    def behind(self, index: int, milliseconds: int) -> None:
        """Let a server apply so much later what a majority has agreed on, unless it leads."""
        server = self.cluster.servers[index]
        was_behind, server.behind_ns = server.behind_ns, milliseconds * NS_PER_MS
        if was_behind and not milliseconds:
            self.cluster.lead.catch_up(server)

    def cut(self, index: int) -> None:
        """Reset the connections of a server's clients."""
        for session in list(self.cluster.servers[index].sessions):
            session.reset()

    def lose(self, index: int) -> None:
        """Let a server forget its consumers."""
        for consumer in list(self.cluster.servers[index].consumers):
            consumer.end()

    def skip(self, index: int) -> None:
        """Let the next delivery of each consumer be lost on its way."""
        for consumer in self.cluster.servers[index].consumers:
            consumer.lossy += 1

    def repeat(self, index: int, count: int) -> None:
        """Let consumers deliver again what they had delivered."""
        for consumer in list(self.cluster.servers[index].consumers):
            consumer.repeat(count)

    def mend(self) -> None:
        """End all of this."""
        self.cluster.slow_ns, self.cluster.deaf = 0, False
        for server in self.cluster.servers:
            self.start(server.index)
            self.resume(server.index)
            self.lag(server.index, 0)
            self.behind(server.index, 0)
        self.heal()


def plan_actions(cluster: NatsCluster) -> dict[str, Callable[[str], None]]:
    """Return what timed events of a fault plan may do to a cluster, for `World.actions`."""
    faults = ClusterFaults(cluster)

    def on(act: Callable[..., None]) -> Callable[[str], None]:
        return lambda argument: act(*map(int, argument.split()))

    def slow(milliseconds: int) -> None:
        cluster.slow_ns = milliseconds * NS_PER_MS

    def deaf(wanted: int) -> None:
        cluster.deaf = bool(wanted)

    return {
        "nats-kill": on(faults.kill),
        "nats-stop": on(lambda index: faults.kill(index, handover=True)),
        "nats-start": on(faults.start),
        "nats-pause": on(faults.pause),
        "nats-resume": on(faults.resume),
        "nats-retire": on(faults.retire),
        "nats-isolate": on(faults.isolate),
        "nats-heal": on(faults.heal),
        "nats-depose": on(faults.depose),
        "nats-slow": on(slow),
        "nats-lag": on(faults.lag),
        "nats-behind": on(faults.behind),
        "nats-cut": on(faults.cut),
        "nats-deaf": on(deaf),
        "nats-lose": on(faults.lose),
        "nats-skip": on(faults.skip),
        "nats-repeat": on(faults.repeat),
        "nats-mend": on(faults.mend),
    }
