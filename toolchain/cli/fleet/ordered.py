"""An ordered consumer of a stream, as a node's watch is one: without a gap, or at its end."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import nats.errors
import nats.js.errors

from firmware.layouts.fleet import IDLE_HEARTBEAT_MS, WATCH_KEPT_MS, WATCH_SILENCE_MS
from toolchain.cli.fleet.connect import DeniedError, FleetError, no_fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from toolchain.cli.fleet.connect import Fleet

NS_PER_MS = 1_000_000
STREAM_NOT_FOUND = 10059
REPLY_TOKENS = 9
DENIED_S, LOST_S = 10.0, 60.0
"""So long a watch may be impossible before a command ends: a refusal seldom passes, an election does."""


class WatchEndedError(Exception):
    """Something may be missing: all that the watch showed is forgotten."""


def _nobody(_text: str) -> None:
    pass


@dataclass
class Patience:
    """How long it is tried again and again to see what cannot be seen.

    A cluster between two leaders answers nothing, and a server that lost the others neither.

    Attributes:
        servers: Where that is.
        say: Called with what is wrong, once until it has passed.
        why: What is wrong now; empty when nothing is.
    """

    servers: tuple[str, ...]
    say: Callable[[str], None] = _nobody
    why: str = field(default="", init=False)
    _since: float | None = field(default=None, init=False)
    _denied: float | None = field(default=None, init=False)

    def over(self) -> None:
        """Something came: begin anew."""
        self.why, self._since, self._denied = "", None, None

    def bear(self, error: Exception) -> None:
        """Note that it failed again.

        Args:
            error: Why.

        Raises:
            FleetError: That has lasted long enough.
        """
        now = time.monotonic()
        if not self.why:
            self.say(str(error))
        self.why = str(error)
        self._since = self._since or now
        self._denied = (self._denied or now) if isinstance(error, DeniedError) else None
        if now - self._since < LOST_S and (self._denied is None or now - self._denied < DENIED_S):
            return
        if isinstance(error, FleetError):
            raise error
        raise FleetError(
            f"NATS at {', '.join(self.servers)} showed nothing for {LOST_S:.0f} s: {error}. Look at the "
            "servers' logs"
        ) from error


@dataclass(frozen=True)
class Delivery:
    """A message of the stream.

    Attributes:
        message: As it came.
        place: Its sequence in the stream.
        stored: Seconds since 1970 when it was stored, by the server's clock.
        pending: How many are still to come now.
    """

    message: Msg
    place: int
    stored: float
    pending: int


class Ordered:
    """One consumer of a stream's messages, each once and in order.

    Args:
        fleet: The connection.
        stream: Its name.
        subject: Filter.
        policy: Where it begins: JetStream's `deliver_policy` and what belongs to it.
        deliver: Subject to deliver to; empty = one of the library's.

    Attributes:
        heard: `time.monotonic()` when anything came last.
        came: Whether anything came.
    """

    def __init__(
        self,
        fleet: Fleet,
        stream: str,
        subject: str,
        policy: dict[str, object],
        deliver: str = "",
    ) -> None:
        self.fleet = fleet
        self.heard, self.came = time.monotonic(), False
        self._stream, self._subject, self._policy = stream, subject, policy
        self._deliver = deliver or fleet.client.new_inbox()
        self._sequence = 0
        self._subscription: Subscription | None = None

    async def start(self) -> int:
        """Subscribe literally, then make the consumer: no other order delivers anything.

        Returns:
            How many messages there are to deliver, those that came already included.

        Raises:
            DeniedError: There is no such stream, or this user may not watch it.
            FleetError: Nothing answers.
            WatchEndedError: The server made no consumer.
        """
        self._subscription = await self.fleet.client.subscribe(self._deliver)
        # Filter and name stand in the subject too, where permissions bound them.
        name = secrets.token_hex(8)
        config = {
            "name": name,
            "deliver_subject": self._deliver,
            **self._policy,
            "ack_policy": "none",
            "max_deliver": 1,
            "filter_subject": self._subject,
            "idle_heartbeat": IDLE_HEARTBEAT_MS * NS_PER_MS,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": WATCH_KEPT_MS * NS_PER_MS,
        }
        request = json.dumps({"stream_name": self._stream, "config": config}).encode()
        try:
            made = await self.fleet.api(
                f"CONSUMER.CREATE.{self._stream}.{name}.{self._subject}", request
            )
        except nats.js.errors.APIError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise DeniedError(no_fleet(self.fleet, self._stream)) from None
            raise WatchEndedError(f"the server makes no consumer: {error.description}") from error
        self.heard = time.monotonic()
        return int(made["num_pending"]) + int(made["delivered"]["consumer_seq"])

    async def stop(self) -> None:
        """Unsubscribe; the server forgets the consumer by itself."""
        if self._subscription is not None and not self.fleet.client.is_closed:
            await self._subscription.unsubscribe()

    async def take(self, timeout: float) -> Delivery | None:
        """Return the next message; None when none came in time.

        Raises:
            WatchEndedError: One is missing, or nothing is heard any more.
        """
        if self._subscription is None:
            raise WatchEndedError("it was not started")
        until = time.monotonic() + timeout
        while True:
            left = max(until - time.monotonic(), 0.001)
            try:
                message = await self._subscription.next_msg(min(left, WATCH_SILENCE_MS / 1000))
            except (nats.errors.TimeoutError, TimeoutError):
                if time.monotonic() - self.heard > WATCH_SILENCE_MS / 1000:
                    raise WatchEndedError("the server fell silent") from None
                if time.monotonic() >= until:
                    return None
                continue
            except nats.errors.Error as error:
                raise WatchEndedError(str(error)) from error
            self.heard, self.came = time.monotonic(), True
            if (found := self._read(message)) is not None:
                return found
            if time.monotonic() >= until:
                return None

    def _read(self, message: Msg) -> Delivery | None:
        headers = message.headers or {}
        if headers.get("Status") == "100":
            if headers.get("Nats-Last-Consumer") != str(self._sequence):
                raise WatchEndedError("a heartbeat tells of another delivery")
            return None
        # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
        tokens = message.reply.split(".")
        if len(tokens) != REPLY_TOKENS:
            raise WatchEndedError(f"a delivery without its numbers: {message.reply!r}")
        place, sequence, stored, pending = map(int, tokens[5:])
        if sequence != self._sequence + 1:
            raise WatchEndedError("a delivery is missing")
        self._sequence = sequence
        return Delivery(message, place, stored / 1e9, pending)
