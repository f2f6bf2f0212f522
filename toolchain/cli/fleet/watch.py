"""The ordered watch over a fleet's records, as a node has one: gap-free, or begun anew."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from firmware.layouts.fleet import WATCH_RETRY_MS
from toolchain.cli.fleet.connect import STREAM, FleetError
from toolchain.cli.fleet.ordered import Ordered, Patience, WatchEndedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.cli.fleet.connect import Fleet

CONTROL, SESSIONS = "ctl.>", "sess.>"
SYNC_S = 15.0
T = TypeVar("T")


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


class Watch(Ordered):
    """The newest record of every key, then each new one, in order.

    Args:
        fleet: The connection.
        keys: Filter, behind `$KV.shardfw.<bot>.`.
        deliver: Subject to deliver to; empty = one of the library's.

    Attributes:
        synced: Whether all that was stored when it began has come.
    """

    def __init__(self, fleet: Fleet, keys: str = CONTROL, deliver: str = "") -> None:
        self.synced = False
        self._prefix = f"$KV.shardfw.{fleet.bot}."
        newest: dict[str, object] = {"deliver_policy": "last_per_subject"}
        super().__init__(fleet, STREAM, self._prefix + keys, newest, deliver)

    async def start(self) -> int:
        """Begin; return how many records there are.

        Raises:
            FleetError: There is no fleet.
            WatchEndedError: The server made no consumer.
        """
        count = await super().start()
        self.synced = self.synced or count == 0
        return count

    async def next(self, timeout: float) -> tuple[str, Seen] | None:
        """Return the next key and its record; None when none came in time.

        Raises:
            WatchEndedError: One is missing, or nothing is heard any more.
        """
        found = await self.take(timeout)
        if found is None:
            return None
        self.synced = self.synced or found.pending == 0
        value = found.message.data.decode("ascii", "replace")
        key = found.message.subject.removeprefix(self._prefix)
        return key, Seen(value, found.place, self.heard, found.stored)


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
        self._patience = Patience(fleet.servers)

    @property
    def trouble(self) -> str:
        """Return what keeps the records out of sight now; empty when nothing does."""
        return self._patience.why

    @property
    def synced(self) -> bool:
        """Return whether all that is stored has been seen."""
        return self._watch is not None and self._watch.synced

    async def pump(self, timeout: float) -> str | None:
        """Take the next record in; return its key, None when none came in time.

        Raises:
            FleetError: There is no fleet, or the records have been out of sight for too long.
        """
        if self.fleet.client.is_closed:
            raise FleetError(self.fleet.gone())
        try:
            if self._watch is None:
                self.watches += 1
                subject = "" if self.deliver is None else self.deliver(self.watches)
                self._watch = Watch(self.fleet, self.keys, subject)
                await self._watch.start()
                self._synced_now()
            was = self._watch.synced
            found = await self._watch.next(timeout)
        except WatchEndedError as error:
            await self._forget()
            self._patience.bear(error)
            return None
        except FleetError as error:
            if self.watches == 1:
                raise
            await self._forget()
            self._patience.bear(error)
            await self.fleet.client.force_reconnect()
            return None
        if self._watch.came:
            self._patience.over()
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
            FleetError: There is no fleet, or the records have been out of sight for too long.
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
                f"the records of {self.fleet.bot} did not come within {SYNC_S:.0f} s"
                f"{f': {self.trouble}' if self.trouble else ''}. Look at the servers' logs"
            )

    async def stop(self) -> None:
        """End the watch."""
        if self._watch is not None:
            await self._watch.stop()
