"""An ordered consumer of a stream, as a node's watch is one: without a gap, or at its end."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import nats.errors
import nats.js.errors

from firmware.layouts.fleet import IDLE_HEARTBEAT_MS, WATCH_KEPT_MS, WATCH_SILENCE_MS
from toolchain.cli.fleet.connect import FleetError, no_fleet

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from toolchain.cli.fleet.connect import Fleet

NS_PER_MS = 1_000_000
STREAM_NOT_FOUND = 10059
REPLY_TOKENS = 9


class WatchEndedError(Exception):
    """Something may be missing: all that the watch showed is forgotten."""


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
        self.heard = time.monotonic()
        self._stream, self._subject, self._policy = stream, subject, policy
        self._deliver = deliver or fleet.client.new_inbox()
        self._sequence = 0
        self._subscription: Subscription | None = None

    async def start(self) -> int:
        """Subscribe literally, then make the consumer: no other order delivers anything.

        Returns:
            How many messages there are to deliver, those that came already included.

        Raises:
            FleetError: There is no fleet.
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
                raise FleetError(no_fleet(self.fleet.bot, self._stream)) from None
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
                    raise WatchEndedError("it fell silent") from None
                if time.monotonic() >= until:
                    return None
                continue
            except nats.errors.Error as error:
                raise WatchEndedError(str(error)) from error
            self.heard = time.monotonic()
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
