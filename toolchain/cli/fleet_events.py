"""What a gateway published, against what a reader gets that does as the guarantees say.

The reader is the example's of `pxe/examples`; what it has to do is in firmware/docs/guarantees.md.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import nats.errors
import nats.js.errors

from pxe.examples.python.consumer import Event, Reader
from pxe.gateway.load import COUNTER_KEY
from pxe.nats import is_wanted
from toolchain.cli.fleet.connect import EVENTS, RETRY_S, FleetError

if TYPE_CHECKING:
    from pxe.gateway.session import Session
    from toolchain.cli.fleet.connect import Fleet

Key = tuple[str, int]
"""Shard or session of a dispatch, and its counter or sequence."""
DURABLE, BATCH, WAIT_S = "demonstration", 100, 1.0
_COUNTER: Final = re.compile(rf'\{{"{COUNTER_KEY}":(\d+),')


class EventAccount:
    """Which dispatches were published, and which of them a reader got, and how often.

    A dispatch of the load is known by its shard and the counter in its body, whatever session it is of;
    any other one by session and sequence.

    Attributes:
        sent: Dispatches that the gateway published and would repeat; what it would not may be missing.
        missing: Those of them that the reader has not got.
        doubled: How often the reader got one that it had.
    """

    def __init__(self) -> None:
        self.sent: set[Key] = set()
        self.missing: set[Key] = set()
        self.doubled = 0
        self._reader = Reader()
        self._known: dict[Key, Key] = {}
        self._got: set[Key] = set()

    def published(self, session: Session, sequence: int, body: str) -> None:
        """Take a dispatch of the gateway.

        Args:
            session: Of the gateway.
            sequence: `s` of the dispatch.
            body: JSON text of `d`.
        """
        counter = _COUNTER.match(body)
        name = session.id, sequence
        key = name if counter is None else _of_load(session.shard, int(counter[1]))
        self._known[name] = key
        self.sent.add(key)
        if key not in self._got:
            self.missing.add(key)

    def take(self, event: Event) -> None:
        """Take an event of the stream; the reader decides whether it is to be used."""
        if not any("type" in line for line in self._reader.take(event)):
            return
        name = event.session, event.sequence
        counter = event.data.get(COUNTER_KEY) if isinstance(event.data, dict) else None
        key = self._known.get(name, name) if counter is None else _of_load(event.shard, counter)
        self.doubled += key in self._got
        self._got.add(key)
        self.missing.discard(key)


def _of_load(shard: int, counter: int) -> Key:
    return f"load of shard {shard}", counter


async def follow(fleet: Fleet, account: EventAccount) -> None:
    """Read a fleet's events into an account until cancelled.

    Raises:
        FleetError: There is no such stream, or the connection is gone for good.
    """
    try:
        await _follow(fleet, account)
    except nats.errors.Error as error:
        raise FleetError(
            f"the events of {fleet.bot} cannot be read: {error}. Look at the stream {EVENTS} and "
            "the servers' logs"
        ) from error


async def _follow(fleet: Fleet, account: EventAccount) -> None:
    stream = fleet.client.jetstream()
    subject = f"shardfw.{fleet.bot}.ev.>"
    subscription = await stream.pull_subscribe(subject, durable=DURABLE, stream=EVENTS)
    while is_wanted():
        try:
            messages = await subscription.fetch(BATCH, timeout=WAIT_S)
        except (nats.errors.TimeoutError, TimeoutError):
            continue
        except (nats.errors.NoRespondersError, nats.js.errors.ServiceUnavailableError):
            # A cluster between two leaders, or a server that lost the others.
            await asyncio.sleep(RETRY_S)
            await fleet.client.force_reconnect()
            continue
        for message in messages:
            if (event := Event.of(message)) is not None:
                account.take(event)
            await message.ack()
