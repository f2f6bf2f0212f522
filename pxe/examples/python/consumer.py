"""Read the events of a fleet: each one once, and nothing of a shard's former owner.

    python consumer.py --server nats://127.0.0.1:4222 --bot b1 --durable worker

Needs nats-py. Prints a line of JSON for each event, and for what may be missing between two of them.
What a reader has to do, and why: firmware/docs/guarantees.md.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import nats
import nats.errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nats.aio.msg import Msg

STREAM = "SHARDFW_EV"
BATCH = 100
WAIT_S = 5.0
NOTICES = {
    f"SHARDFW_{name}" for name in ("NEW_SESSION", "RESUMED", "RESTORED", "THREADS_STALE", "GAP")
}
"""What the node says of a session itself. What may be missing this reader finds out from the events;
RESTORED (a restart cost nothing) and THREADS_STALE (Fluxer: ask for threads anew) are for whoever needs them."""
OVERSIZE = "SHARDFW_OVERSIZE"
SEEN_MAX = 100_000
"""Ids that are remembered: more than can be delivered a second time."""
say = functools.partial(print, flush=True)


@dataclass(frozen=True)
class Event:
    """One dispatch, and where it stands.

    Attributes:
        shard: Global shard number.
        type: Of the dispatch.
        generation: Of the lease under which it was published.
        session: Of the gateway.
        sequence: `s` of the dispatch in its session.
        place: In the stream.
        data: `d` of the dispatch; of one that was too large its type and size, to ask REST for it.
    """

    shard: int
    type: str
    generation: int
    session: str
    sequence: int
    place: int
    data: Any

    @classmethod
    def of(cls, message: Msg) -> Event | None:
        """Return the event of a message, None of a notice, and when no node wrote it."""
        headers = message.headers or {}
        words = dict(word.partition("=")[::2] for word in headers.get("Shardfw", "").split(" "))
        session, _, sequence = headers.get("Nats-Msg-Id", "").rpartition("-")
        shard, kind = message.subject.split(".")[-2:]
        try:
            numbers = int(shard), int(words["g"]), int(sequence)
            body = json.loads(message.data)
        except (KeyError, ValueError):
            return None
        if not session or kind in NOTICES or not isinstance(body, dict):
            return None
        place = message.metadata.sequence.stream
        return cls(numbers[0], kind, numbers[1], session, numbers[2], place, data_of(kind, body))


def data_of(kind: str, body: dict[str, Any]) -> object:
    """Return what a message of the stream says: `d`, or of a stub what it stands for."""
    if kind == OVERSIZE:
        return {key: body.get(key) for key in ("type", "size")}
    return body.get("d")


@dataclass
class Shard:
    """What has been read of one shard.

    Attributes:
        began: Generation to the place of its first event.
        last: The newest event of the newest session.
    """

    began: dict[int, int] = field(default_factory=dict)
    last: Event | None = None

    def is_stale(self, event: Event) -> bool:
        """Return whether a former owner published it after the next one had begun.

        One of the session that the new owner goes on with counts: the new owner's copy of it has
        the same Msg-Id, so the stream drops whichever of both comes second.
        """
        late = any(g > event.generation and at < event.place for g, at in self.began.items())
        return late and not (self.last and self.last.session == event.session)

    def notices(self, event: Event) -> Iterator[dict[str, Any]]:
        """Say what may be missing before an event, and remember the event."""
        last = self.last
        if last is not None and event.place < last.place:
            return  # delivered a second time, behind newer ones
        self.began.setdefault(event.generation, event.place)
        if last and last.session == event.session and event.sequence < last.sequence:
            return  # it fills a hole: the stream had refused it at first
        self.last = event
        if last is None or last.session != event.session:
            if last is not None or event.type == "READY":
                after = None if last is None else last.sequence
                yield {"notice": "NEW_SESSION", "shard": event.shard, "after": after}
        elif event.sequence > last.sequence + 1:
            hole = {"first": last.sequence + 1, "last": event.sequence - 1}
            yield {"notice": "GAP", "shard": event.shard, **hole}


class Reader:
    """What has been read of all shards."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._shards: dict[int, Shard] = {}

    def take(self, event: Event) -> Iterator[dict[str, Any]]:
        """Give the event and the notices before it; nothing when it is not to be used."""
        key = event.session, event.sequence
        if key in self._seen:
            return
        self._seen[key] = None
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        shard = self._shards.setdefault(event.shard, Shard())
        if shard.is_stale(event):
            return
        yield from shard.notices(event)
        yield {"shard": event.shard, "type": event.type, "s": event.sequence, "d": event.data}


async def read(server: str, bot: str, durable: str, count: int | None, who: dict[str, Any]) -> None:
    """Read until so many messages are done with; None = for ever."""
    client = await nats.connect(server, **who)
    stream = client.jetstream()
    subscription = await stream.pull_subscribe(
        f"shardfw.{bot}.ev.>", durable=durable, stream=STREAM
    )
    done = (await subscription.consumer_info()).ack_floor
    first = (await stream.stream_info(STREAM)).state.first_seq
    if done and 0 < done.stream_seq < first - 1:
        # While no reader was here the stream dropped its oldest, of this bot or of another one.
        say(json.dumps({"notice": "DROPPED", "after": done.stream_seq, "before": first}))
    reader = Reader()
    while count is None or count > 0:
        try:
            messages = await subscription.fetch(min(BATCH, count or BATCH), timeout=WAIT_S)
        except nats.errors.TimeoutError:
            continue
        for message in messages:
            event = Event.of(message)
            for line in reader.take(event) if event else ():
                say(json.dumps(line))
            # Only what is done with is acknowledged; the rest is delivered again.
            await message.ack()
        count = None if count is None else count - len(messages)
    await client.drain()


if __name__ == "__main__":
    from login import login  # type: ignore[import-not-found]  # beside this file

    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="nats://127.0.0.1:4222")
    parser.add_argument("--bot", required=True)
    parser.add_argument(
        "--durable", default="worker", help="its place is kept under this name; one reader each"
    )
    parser.add_argument("--count", type=int, help="end after so many messages")
    asyncio.run(read(**vars(parser.parse_args()), who=login()))
