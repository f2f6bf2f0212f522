"""One client of a server: its greeting, its subscriptions, and what it is told."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.simulation.clock import NS_PER_S, Alarm
from emulator.simulation.nats.auth import User, who
from emulator.simulation.nats.protocol import (
    Command,
    Parser,
    ProtocolError,
    error_line,
    header_block,
    message,
)
from emulator.simulation.nats.subjects import literal, matches, valid

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.nats.server import NatsServer

FIRST_PING_NS = 2 * NS_PER_S
PINGS_UNANSWERED_MAX = 2


@dataclass(slots=True)
class Subscription:
    """One SUB; `left` counts down after an UNSUB with a number."""

    sid: str
    subject: str
    left: int | None = None


class Session:
    """A connection of a client, without its transport.

    Args:
        server: that accepted it.
        number: the client's id.
        write: sends bytes to the client.
        close: ends the transport after what was written.
        reset: ends it at once.
        address: of the client, dotted.

    Attributes:
        greeted: whether CONNECT was taken.
        user: who it is.
        lag_ns: what the server says reaches the client so much later, in the same order.
        subscriptions: by sid.
    """

    def __init__(
        self,
        server: NatsServer,
        number: int,
        write: Callable[[bytes], None],
        close: Callable[[], None],
        reset: Callable[[], None],
        *,
        address: str = "127.0.0.1",
    ) -> None:
        self.server, self.number, self.address = server, number, address
        self.greeted = self.closed = False
        self.user: User | None = None
        self.name = ""
        self.nonce = base64.urlsafe_b64encode(server.random.randbytes(11)).decode().rstrip("=")
        self.lag_ns = server.lag_ns
        self.subscriptions: dict[str, Subscription] = {}
        self._write, self._close, self._reset = write, close, reset
        self._parser = Parser(server.options.max_payload)
        self._parser.greeted = not server.options.users
        self._held: list[bytes] = []
        self._connect: dict[str, Any] = {}
        self._replies: set[str] = set()
        self._told_again = False
        self._pings = 0
        self._last_out_ns = 0
        events = server.events
        self._auth = Alarm(events, lambda: self.end("Authentication Timeout"))
        self._ping = Alarm(events, self._send_ping)

    # -- transport --------------------------------------------------------------------------------
    def greet(self) -> None:
        """Say INFO; the client speaks next."""
        self.send(self.server.info(self))
        if self.server.options.users:
            self._auth.set_after(self.server.options.auth_timeout_ns)
        self._ping.set_after(FIRST_PING_NS + self.server.random.randrange(NS_PER_S))

    def receive(self, data: bytes) -> None:
        """Take bytes of the client."""
        if self.closed:
            return
        if self.server.paused:
            self._held.append(data)
            return
        for tap in self.server.cluster.taps:
            tap(self, True, data)
        try:
            for command in self._parser.feed(data):
                self._obey(command)
        except ProtocolError as error:
            self.end(error.said)

    def wake(self) -> None:
        """Read what came while the server stood still."""
        held, self._held = self._held, []
        for data in held:
            self.receive(data)

    def send(self, data: bytes) -> None:
        """Tell the client something, after what it was told before."""
        if self.closed:
            return
        events = self.server.events
        at_ns = max(self._last_out_ns, events.now_ns + self.lag_ns)
        if at_ns == events.now_ns:
            self._put(data)
        else:
            self._last_out_ns = at_ns
            events.at(at_ns, lambda: self._put(data))

    def _put(self, data: bytes) -> None:
        if not self.closed:
            for tap in self.server.cluster.taps:
                tap(self, False, data)
            self._write(data)

    def end(self, said: str = "") -> None:
        """Close the connection, with an `-ERR` unless there is nothing to say."""
        if self.closed:
            return
        if said:
            self._put(error_line(said))
        self.lost()
        self._close()

    def reset(self) -> None:
        """Cut the connection without a word."""
        if not self.closed:
            self.lost()
            self._reset()

    def lost(self) -> None:
        """Forget a client whose transport is gone."""
        if not self.closed:
            self.closed = True
            self._auth.stop()
            self._ping.stop()
            self.server.forget(self)

    # -- what a client hears ----------------------------------------------------------------------
    def matching(self, subject: str) -> list[Subscription]:
        """Return its subscriptions to a subject."""
        return [s for s in self.subscriptions.values() if matches(s.subject, subject)]

    def wants_literally(self, subject: str) -> bool:
        """Say whether it subscribed to exactly this subject, as a push consumer needs."""
        return any(s.subject == subject for s in self.subscriptions.values())

    def deliver(
        self, to: str, reply: str, header: bytes | None, body: bytes, shown: str = ""
    ) -> None:
        """Hand a message to every subscription to a subject.

        Args:
            to: subject that is subscribed to.
            reply: subject for answers; empty for none.
            header: block, or None.
            body: payload.
            shown: subject that is written, when it is another one.
        """
        if header is not None and not self._connect.get("headers"):
            header = None
        for subscription in self.matching(to):
            if subscription.left is not None:
                subscription.left -= 1
                if subscription.left <= 0:
                    del self.subscriptions[subscription.sid]
            if reply and self.user is not None and self.user.responses:
                self._replies.add(reply)
            self.send(message(shown or to, subscription.sid, reply, header, body))

    def no_responders(self, subject: str, reply: str) -> None:
        """Tell it that nobody hears what it asked."""
        if self._connect.get("no_responders"):
            self.deliver(reply, "", header_block("503", Nats_Subject=subject), b"")

    # -- what a client says -----------------------------------------------------------------------
    def _obey(self, command: Command) -> None:
        if self.closed:
            return
        if command.verb == "CONNECT":
            self._take_connect(command.body)
        elif command.verb == "PING":
            self.send(b"PONG\r\n")
            if not self._told_again and int(self._connect.get("protocol", 0)) >= 1:
                self._told_again = True
                self.send(self.server.info(self, connected=True))
        elif command.verb == "PONG":
            self._pings = 0
        elif command.verb == "SUB":
            self._take_sub(command.words[0], command.words[-1])
        elif command.verb == "UNSUB":
            self._take_unsub(*command.words)
        elif command.verb == "PUB":
            self._take_pub(command)

    def _take_connect(self, text: bytes) -> None:
        try:
            said = json.loads(text)
        except ValueError:
            raise ProtocolError from None
        self._connect = said
        user = who(self.server.options.users, said, self.nonce)
        if user is None:
            raise ProtocolError("Authorization Violation")
        if said.get("no_responders") and not said.get("headers"):
            raise ProtocolError("no responders requires headers support")
        self.user, self.name = user, str(said.get("name", ""))
        self.greeted = self._parser.greeted = True
        self._auth.stop()
        self._ok()

    def _ok(self) -> None:
        # A server thinks of clients that never said CONNECT as of verbose ones.
        if self._connect.get("verbose", not self._connect or None):
            self.send(b"+OK\r\n")

    def _take_sub(self, subject: str, sid: str) -> None:
        if not valid(subject):
            self.send(error_line("Invalid Subject"))
            return
        if self.user is not None and not self.user.may_subscribe(subject):
            self.send(error_line(f'Permissions Violation for Subscription to "{subject}"'))
            return
        # A second SUB with the sid of a living one changes nothing.
        self.subscriptions.setdefault(sid, Subscription(sid, subject))
        self._ok()
        self.server.interest_changed()

    def _take_unsub(self, sid: str, most: str = "") -> None:
        subscription = self.subscriptions.get(sid)
        if subscription is not None and most:
            subscription.left = int(most)
        else:
            self.subscriptions.pop(sid, None)
        self._ok()
        self.server.interest_changed()

    def _take_pub(self, command: Command) -> None:
        subject, reply = command.words[0], command.words[1] if len(command.words) > 1 else ""
        if self._connect.get("pedantic") and not (valid(subject) and literal(subject)):
            self.send(error_line("Invalid Publish Subject"))
        allowed = self.user is None or self.user.may_publish(subject) or subject in self._replies
        self._replies.discard(subject)
        if not allowed:
            self.send(error_line(f'Permissions Violation for Publish to "{subject}"'))
            return
        self._ok()
        self.server.publish(self, subject, reply, command.header, command.body)

    def _send_ping(self) -> None:
        if not self.server.paused:
            if self._pings >= PINGS_UNANSWERED_MAX:
                self.end("Stale Connection")
                return
            self._pings += 1
            self.send(b"PING\r\n")
        self._ping.set_after(self.server.options.ping_interval_ns)
