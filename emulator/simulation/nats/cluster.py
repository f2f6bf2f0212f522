"""Servers that share one linearizable state, and everything that may come between them.

A published message goes to the leader of its stream, waits until a majority has it, and only then is
it true. Who leads, who reaches whom and how long all that takes is decided by the seed and by faults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S, NS_PER_US
from emulator.simulation.nats.api import Api
from emulator.simulation.nats.leaders import Leaders
from emulator.simulation.nats.server import NatsServer, ServerOptions
from emulator.simulation.nats.stream import (
    WRONG_SEQUENCE_NOW,
    Proposal,
    Stream,
    StreamConfig,
    refused,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from emulator.simulation.clock import EventQueue
    from emulator.simulation.nats.session import Session
    from emulator.simulation.nats.stream import Message

Span = tuple[int, int]
"""From and to, in nanoseconds."""
LEADER_GIVES_UP_NS = 19 * NS_PER_S
UNIX_AT_ZERO = 1_795_000_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take when nothing is wrong.

    Attributes:
        hop: from one server to another.
        commit: until a majority has a message.
        work: until a server has answered a request.
        delivery: from one delivery of a consumer to its next.
    """

    hop: Span = (50 * NS_PER_US, 2 * NS_PER_MS)
    commit: Span = (NS_PER_MS, 10 * NS_PER_MS)
    work: Span = (20 * NS_PER_US, NS_PER_MS)
    delivery: Span = (0, 300 * NS_PER_US)


INSTANT = Pace((0, 0), (0, 0), (0, 0), (0, 0))
"""Nothing takes time: what a test compares with a single real server."""


@dataclass(slots=True)
class Cut:
    """A server that the others do not reach.

    Attributes:
        since_ns: virtual time.
        noticed_ns: when it has understood that.
        leads: streams that it still believes to lead.
        taken: subjects of what it took and cannot commit.
    """

    since_ns: int
    noticed_ns: int
    leads: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)


class NatsCluster:
    """The servers and their streams.

    Args:
        events: clock and queue.
        random: decides everything that the pace leaves open.
        servers: how many; one alone never waits for anybody.
        options: of all of them.
        pace: how long things take.

    Attributes:
        leaders: by stream, who leads; None during an election.
        slow_ns: further time that every commit takes.
        apart_ns: by stream, least time from one commit to the next: how much it takes.
        silent: streams whose lost leader still seems to listen: no 503, only silence.
        deaf: whether every lost leader seems to.
        on_commit: told of every message that becomes true.
        taps: told of every byte between a server and its clients: whose, whether a client said
            it, and the bytes.
    """

    def __init__(
        self,
        events: EventQueue,
        random: random.Random,
        *,
        servers: int = 3,
        options: ServerOptions | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.events, self.random = events, random
        self.clustered = servers > 1
        self.pace = pace or Pace()
        self.servers = [NatsServer(self, n, options or ServerOptions()) for n in range(servers)]
        self.streams: dict[str, Stream] = {}
        self.leaders: dict[str, NatsServer | None] = {}
        self.cuts: dict[int, Cut] = {}
        self.slow_ns = 0
        self.apart_ns: dict[str, int] = {}
        self.silent: set[str] = set()
        self.deaf = False
        self.on_commit: list[Callable[[Stream, Message], None]] = []
        self.taps: list[Callable[[Session, bool, bytes], None]] = []
        self.api = Api(self)
        self.lead = Leaders(self)
        self._arrivals: dict[tuple[int, int], int] = {}
        self._commits: dict[str, int] = {}

    # -- state ------------------------------------------------------------------------------------
    def add_stream(self, config: StreamConfig) -> Stream:
        """Make a stream, as an operator does."""
        stream = self.streams[config.name] = Stream(config)
        self.leaders[config.name] = self.random.choice(self.servers)
        for server in self.servers:
            server.applied[config.name] = 0
        return stream

    def unix_ns(self, at_ns: int) -> int:
        """Return the date of a virtual time in nanoseconds."""
        return UNIX_AT_ZERO * NS_PER_S + at_ns

    def span(self, span: Span) -> int:
        """Choose a length of time."""
        low, high = span
        return low if low == high else self.random.randrange(low, high)

    def later(self, span: Span, action: Callable[[], None]) -> None:
        """Do something after a chosen time; at once when it takes none."""
        delay_ns = self.span(span)
        if delay_ns:
            self.events.after(delay_ns, action)
        else:
            action()

    def alive(self, server: NatsServer) -> bool:
        """Say whether a server's process runs."""
        return server.up and not server.paused

    def reaches(self, one: NatsServer, other: NatsServer) -> bool:
        """Say whether what one server says to another arrives, at once or when that one goes on."""
        if one is other:
            return True
        cut = {one.index, other.index} & self.cuts.keys()
        return not cut and self.alive(one) and other.up

    def majority(self) -> list[NatsServer]:
        """Return the servers that can agree on something; none when they are too few."""
        able = [s for s in self.servers if self.alive(s) and s.index not in self.cuts]
        if not self.clustered:
            return [s for s in self.servers if self.alive(s)]
        return able if 2 * len(able) > len(self.servers) else []

    # -- core messages ----------------------------------------------------------------------------
    def publish(
        self, server: NatsServer, subject: str, reply: str, header: bytes | None, body: bytes
    ) -> bool:
        """Take a message that a client published; return whether anybody hears it."""
        heard = self.api.request(server, subject, reply, body)
        heard |= self.spread(server, subject, reply, header, body)
        for stream in self.streams.values():
            if stream.config.takes(subject):
                heard |= self._propose(server, stream, subject, reply, header, body)
        return heard

    def spread(
        self,
        server: NatsServer,
        subject: str,
        reply: str,
        header: bytes | None,
        body: bytes,
        *,
        shown: str = "",
    ) -> bool:
        """Hand a message to every client that subscribed; return whether there is one."""
        heard = False
        for other in self.servers:
            if not self.reaches(server, other):
                continue
            if any(session.matching(subject) for session in other.sessions):
                heard = True
                self._hop(server, other, _Delivery(other, subject, reply, header, body, shown))
        return heard

    def hears_literally(self, server: NatsServer, subject: str) -> bool:
        """Say whether a server knows of a subscription to exactly this subject."""
        return any(
            session.wants_literally(subject)
            for other in self.servers
            if self.reaches(server, other)
            for session in other.sessions
        )

    def interest_changed(self) -> None:
        """Let consumers look whether somebody hears them."""
        for server in self.servers:
            for consumer in list(server.consumers):
                consumer.interest_changed()

    def _hop(self, one: NatsServer, other: NatsServer, action: Callable[[], None]) -> None:
        """Let something arrive at another server, after all that went there before."""
        if one is other:
            action()
            return
        way = (one.index, other.index)
        at_ns = max(self._arrivals.get(way, 0), self.events.now_ns + self.span(self.pace.hop))
        self._arrivals[way] = at_ns

        def arrive() -> None:
            # What was under way when the route broke is lost.
            if not self.reaches(one, other):
                return
            if other.paused:
                other.backlog.append(action)
            else:
                action()

        self.events.at(at_ns, arrive)

    # -- writes -----------------------------------------------------------------------------------
    def _propose(
        self,
        server: NatsServer,
        stream: Stream,
        subject: str,
        reply: str,
        header: bytes | None,
        body: bytes,
    ) -> bool:
        proposal = Proposal(subject, header, body, reply)
        cut = self.cuts.get(server.index)
        if cut is not None:
            return self._propose_alone(server, cut, stream, proposal, reply)
        leader = self.leaders[stream.config.name]
        if leader is None:
            return self.deaf or stream.config.name in self.silent
        self._hop(server, leader, lambda: self._accept(leader, stream, proposal, reply))
        return True

    def _propose_alone(
        self, server: NatsServer, cut: Cut, stream: Stream, proposal: Proposal, reply: str
    ) -> bool:
        """Take a message on a server that was cut off: it is never acknowledged."""
        name = stream.config.name
        if name not in cut.leads:
            return self.events.now_ns < cut.noticed_ns
        if self.events.now_ns >= cut.since_ns + LEADER_GIVES_UP_NS:
            return False
        if proposal.compares and proposal.subject in cut.taken:
            self._answer(server, reply, refused(name, WRONG_SEQUENCE_NOW, "wrong last sequence"))
        cut.taken.add(proposal.subject)
        return True

    def _accept(self, leader: NatsServer, stream: Stream, proposal: Proposal, reply: str) -> None:
        name = stream.config.name
        if self.leaders[name] is not leader or not self.alive(leader):
            return
        refusal = stream.refusal(proposal, self.events.now_ns, clustered=self.clustered)
        if refusal is not None:
            self._answer(leader, reply, refusal)
            return
        stream.pending.append(proposal)
        wait_ns = self.span(self.pace.commit) + self.slow_ns
        soonest_ns = self._commits.get(name, 0) + self.apart_ns.get(name, 0)
        at_ns = max(soonest_ns, self.events.now_ns + wait_ns)
        self._commits[name] = at_ns
        if at_ns == self.events.now_ns:
            self.commit(leader, stream, proposal)
        else:
            self.events.at(at_ns, lambda: self.commit(leader, stream, proposal))

    def commit(self, leader: NatsServer, stream: Stream, proposal: Proposal) -> None:
        """Make a message true, unless its leader was lost meanwhile."""
        if self.leaders[stream.config.name] is not leader or proposal not in stream.pending:
            return
        stream.pending.remove(proposal)
        message = stream.commit(proposal, self.events.now_ns)
        for tell in self.on_commit:
            tell(stream, message)
        self._answer(leader, proposal.reply, stream.ack(message))
        for server in self.servers:
            if self.reaches(leader, server):
                self._hop(leader, server, partial(self._learn, server, stream, message.seq))

    def _learn(self, server: NatsServer, stream: Stream, seq: int) -> None:
        """Let a server apply a message that reached it; one that is behind does it later."""
        behind_ns = 0 if self.leaders[stream.config.name] is server else server.behind_ns
        self.later((behind_ns, behind_ns), partial(self.apply, server, stream, seq))

    def apply(self, server: NatsServer, stream: Stream, seq: int) -> None:
        """Let a server learn the log up to a sequence, and its consumers look."""
        name = stream.config.name
        server.applied[name] = max(server.applied[name], seq)
        for consumer in list(server.consumers):
            if consumer.stream is stream:
                consumer.pump()

    def _answer(self, server: NatsServer, reply: str, body: bytes) -> None:
        if reply:
            self.spread(server, reply, "", None, body)


@dataclass(frozen=True, slots=True)
class _Delivery:
    """A message on its way to the clients of one server."""

    server: NatsServer
    subject: str
    reply: str
    header: bytes | None
    body: bytes
    shown: str

    def __call__(self) -> None:
        for session in list(self.server.sessions):
            session.deliver(self.subject, self.reply, self.header, self.body, self.shown)
