"""The ordered watch over a fleet's records, as a node has one: gap-free, or begun anew."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import nats.errors
import nats.js.errors

from firmware.layouts.fleet import (
    IDLE_HEARTBEAT_MS,
    WATCH_KEPT_MS,
    WATCH_RETRY_MS,
    WATCH_SILENCE_MS,
)
from toolchain.cli.fleet.connect import STREAM, Fleet, FleetError, no_fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

NS_PER_MS = 1_000_000
STREAM_NOT_FOUND = 10059
CONTROL, SESSIONS = "ctl.>", "sess.>"
SYNC_S = 15.0
T = TypeVar("T")


class WatchEndedError(Exception):
    """Something may be missing: all that the watch showed is forgotten."""


@dataclass(frozen=True)
class Seen:
    """The newest record of a key.

    Attributes:
        value: Its text.
        revision: Its stream sequence.
        at: `time.monotonic()` when it came.
        stored: Seconds since 1970 when it was stored, by the server's clock.
    """

    value: str
    revision: int
    at: float
    stored: float


class Watch:
    """One consumer: the newest record of every key, then each new one, in order.

    Args:
        fleet: The connection.
        keys: Filter, behind `$KV.shardfw.<bot>.`.
        deliver: Subject to deliver to; empty = one of the library's.

    Attributes:
        synced: Whether all that was stored when it began has come.
    """

    def __init__(self, fleet: Fleet, keys: str = CONTROL, deliver: str = "") -> None:
        self.fleet = fleet
        self.synced = False
        self._prefix = f"$KV.shardfw.{fleet.bot}."
        self._filter = self._prefix + keys
        self._deliver = deliver or fleet.client.new_inbox()
        self._sequence = 0
        self._heard = time.monotonic()
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Subscribe literally, then make the consumer: no other order delivers anything.

        Raises:
            FleetError: There is no fleet.
            WatchEndedError: The server made no consumer.
        """
        self._subscription = await self.fleet.client.subscribe(self._deliver)
        config = {
            "deliver_subject": self._deliver,
            "deliver_policy": "last_per_subject",
            "ack_policy": "none",
            "max_deliver": 1,
            "filter_subject": self._filter,
            "idle_heartbeat": IDLE_HEARTBEAT_MS * NS_PER_MS,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": WATCH_KEPT_MS * NS_PER_MS,
        }
        request = json.dumps({"stream_name": STREAM, "config": config}).encode()
        try:
            made = await self.fleet.api(f"CONSUMER.CREATE.{STREAM}", request)
        except nats.js.errors.APIError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise FleetError(no_fleet(self.fleet.bot)) from None
            raise WatchEndedError(f"the server makes no consumer: {error.description}") from error
        self._heard = time.monotonic()
        if made["num_pending"] + made["delivered"]["consumer_seq"] == 0:
            self.synced = True

    async def stop(self) -> None:
        """Unsubscribe; the server forgets the consumer by itself."""
        if self._subscription is not None and not self.fleet.client.is_closed:
            await self._subscription.unsubscribe()

    async def next(self, timeout: float) -> tuple[str, Seen] | None:
        """Return the next key and its record; None when none came in time.

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
                if time.monotonic() - self._heard > WATCH_SILENCE_MS / 1000:
                    raise WatchEndedError("it fell silent") from None
                if time.monotonic() >= until:
                    return None
                continue
            except nats.errors.Error as error:
                raise WatchEndedError(str(error)) from error
            self._heard = time.monotonic()
            if (found := self._read(message)) is not None:
                return found
            if time.monotonic() >= until:
                return None

    def _read(self, message: Msg) -> tuple[str, Seen] | None:
        headers = message.headers or {}
        if headers.get("Status") == "100":
            if headers.get("Nats-Last-Consumer") != str(self._sequence):
                raise WatchEndedError("a heartbeat tells of another delivery")
            return None
        # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
        tokens = message.reply.split(".")
        if len(tokens) != 9:
            raise WatchEndedError(f"a delivery without its numbers: {message.reply!r}")
        revision, sequence, stored, pending = map(int, tokens[5:9])
        if sequence != self._sequence + 1:
            raise WatchEndedError("a delivery is missing")
        self._sequence = sequence
        self.synced = self.synced or pending == 0
        value = message.data.decode("ascii", "replace")
        key = message.subject.removeprefix(self._prefix)
        return key, Seen(value, revision, self._heard, stored / 1e9)


class View:
    """All records as the watch shows them now. A watch that ends is begun anew, and so is all of this.

    Args:
        fleet: The connection.
        keys: Filter, behind `$KV.shardfw.<bot>.`.
        deliver: Makes the subject of each watch from its number; None = the library does.

    Attributes:
        records: Key to newest record.
        since: `time.monotonic()` when the present watch had shown all; what is not here, was absent since.
        watches: How many watches were made.
    """

    def __init__(
        self,
        fleet: Fleet,
        keys: str = CONTROL,
        deliver: Callable[[int], str] | None = None,
    ) -> None:
        self.fleet = fleet
        self.keys = keys
        self.deliver = deliver
        self.records: dict[str, Seen] = {}
        self.since = 0.0
        self.watches = 0
        self._watch: Watch | None = None

    @property
    def synced(self) -> bool:
        """Return whether all that is stored has been seen."""
        return self._watch is not None and self._watch.synced

    async def pump(self, timeout: float) -> str | None:
        """Take the next record in; return its key, None when none came in time.

        Raises:
            FleetError: There is no fleet, or the connection is gone for good.
        """
        if self.fleet.client.is_closed:
            raise FleetError("the connection to NATS ended and no server of the list answers")
        try:
            if self._watch is None:
                self.watches += 1
                subject = "" if self.deliver is None else self.deliver(self.watches)
                self._watch = Watch(self.fleet, self.keys, subject)
                await self._watch.start()
                self._synced_now()
            was = self._watch.synced
            found = await self._watch.next(timeout)
        except WatchEndedError:
            await self._forget()
            return None
        except FleetError:
            if self.watches == 1:
                raise
            await self._forget()  # a cluster between two leaders answers nothing
            return None
        if found is None:
            return None
        self.records[found[0]] = found[1]
        if not was:
            self._synced_now()
        return found[0]

    def _synced_now(self) -> None:
        if self.synced:
            self.since = time.monotonic()

    async def _forget(self) -> None:
        watch, self._watch = self._watch, None
        self.records.clear()
        self.since = 0.0
        if watch is not None:
            await watch.stop()
        await asyncio.sleep(WATCH_RETRY_MS / 1000)

    async def until(self, found: Callable[[], T | None], timeout: float) -> T | None:
        """Take records in until a condition holds; return what it gave, None when it never did.

        Args:
            found: Called while synced; returns something else than None when it holds.
            timeout: Seconds.

        Raises:
            FleetError: There is no fleet, or the connection is gone for good.
        """
        until = time.monotonic() + timeout
        while True:
            if self.synced and (result := found()) is not None:
                return result
            left = until - time.monotonic()
            if left <= 0:
                return None
            await self.pump(min(left, 0.2))

    async def sync(self) -> None:
        """Take records in until all that is stored has been seen.

        Raises:
            FleetError: That took too long.
        """
        if await self.until(lambda: True, SYNC_S) is None:
            raise FleetError(
                f"the records of {self.fleet.bot} did not come within {SYNC_S:.0f} s. Look at the "
                "servers' logs"
            )

    async def stop(self) -> None:
        """End the watch."""
        if self._watch is not None:
            await self._watch.stop()
