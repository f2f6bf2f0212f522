"""A push consumer: a server sends every message under a filter to one subject, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.simulation.clock import Alarm
from emulator.simulation.nats.protocol import header_block

if TYPE_CHECKING:
    from emulator.simulation.nats.cluster import NatsCluster
    from emulator.simulation.nats.server import NatsServer
    from emulator.simulation.nats.stream import Message, Stream


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """What its maker asked for."""

    deliver_subject: str
    filter_subject: str
    last_per_subject: bool
    start: int
    heartbeat_ns: int
    inactive_ns: int


class Consumer:
    """One consumer in the memory of one server.

    It looks at what its own server has of the log, so between two deliveries a message may have been
    replaced: then the older one is never shown, and the consumer sequence has no gap all the same.

    Attributes:
        home: where it lives; with that process it ends.
        name: eight characters.
        sent: consumer sequence of the last delivery.
        lossy: how many of the next deliveries are lost on their way.
        ended: whether it is gone.
    """

    def __init__(
        self,
        cluster: NatsCluster,
        home: NatsServer,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
    ) -> None:
        self.cluster, self.home, self.stream = cluster, home, stream
        self.name, self.config = name, config
        self.sent = 0
        upto = home.applied.get(stream.config.name, 0)
        self._first = stream.newest(config.filter_subject, upto) if config.last_per_subject else []
        self._next = upto + 1 if config.last_per_subject else config.start
        self._running = False
        self._busy = False
        self._heart = Alarm(cluster.events, self._beat)
        self._inactive = Alarm(cluster.events, self.end)
        self.ended = False
        self.lossy = 0

    @property
    def bound(self) -> bool:
        """Say whether somebody that its server reaches subscribed to its subject."""
        return self.cluster.hears_literally(self.home, self.config.deliver_subject)

    @property
    def first(self) -> int:
        """Sequence from which it looks on; 0 when it waits for the first of each subject."""
        if self.config.last_per_subject:
            return self._first[0] if self._first else 0
        return self._next

    @property
    def upto(self) -> int:
        """How much of the log its server has."""
        return self.home.applied.get(self.stream.config.name, 0)

    def pending(self) -> int:
        """Return how many messages it has not sent."""
        later = self.stream.under(
            self.config.filter_subject, self._next, self.upto, self.cluster.events.now_ns
        )
        return len(self._first) + sum(1 for _ in later)

    def interest_changed(self) -> None:
        """Run while somebody listens; end when nobody has for long enough."""
        if self.ended:
            return
        if self.bound == self._running:
            if not self._running and not self._inactive.running:
                self._inactive.set_after(self.config.inactive_ns)
            return
        self._running = self.bound
        if self._running:
            self._inactive.stop()
            self._rest()
            self.pump()
        else:
            self._heart.stop()
            self._inactive.set_after(self.config.inactive_ns)

    def pump(self) -> None:
        """Send the next message, if there is one and the last is on its way."""
        if not self._running or self._busy or self.ended or self.home.paused:
            return
        message = self._take()
        if message is None:
            return
        self.sent += 1
        where = f"{self.stream.config.name}.{self.name}.1.{message.seq}.{self.sent}"
        stamp = self.cluster.unix_ns(message.at_ns)
        reply = f"$JS.ACK.{where}.{stamp}.{self.pending()}"
        if self.lossy:
            self.lossy -= 1
            self._rest()
        else:
            self._say(reply, message.header, message.body, message.subject)
        self._busy = True
        self.cluster.later(self.cluster.pace.delivery, self._free)

    def repeat(self, count: int) -> None:
        """Go back by some deliveries, as after the loss of a leader that had told nobody of them."""
        back = min(count, self.sent)
        if back and not self._first:
            self.sent -= back
            self._next = max(1, self._next - back)
            self.pump()

    def end(self) -> None:
        """Stop for good."""
        self.ended = True
        self._running = False
        self._heart.stop()
        self._inactive.stop()
        if self in self.home.consumers:
            self.home.consumers.remove(self)

    def _free(self) -> None:
        self._busy = False
        self.pump()

    def _take(self) -> Message | None:
        now_ns = self.cluster.events.now_ns
        while self._first:
            message = self.stream.kept(self._first.pop(0), self.upto, now_ns)
            if message is not None:
                return message
        upto = self.upto
        for message in self.stream.under(self.config.filter_subject, self._next, upto, now_ns):
            self._next = message.seq + 1
            return message
        return None

    def _rest(self) -> None:
        if self.config.heartbeat_ns:
            self._heart.set_after(self.config.heartbeat_ns)

    def _beat(self) -> None:
        if not self.home.paused:
            header = header_block(
                "100 Idle Heartbeat",
                Nats_Last_Consumer=self.sent,
                Nats_Last_Stream=self._next - 1,
            )
            self._say("", header, b"", self.config.deliver_subject)
            # Only now does it look past what is not for it.
            if not self.pending():
                self._next = max(self._next, self.upto + 1)
        self._rest()

    def _say(self, reply: str, header: bytes | None, body: bytes, shown: str) -> None:
        self._rest()
        self.cluster.spread(
            self.home, self.config.deliver_subject, reply, header, body, shown=shown
        )
