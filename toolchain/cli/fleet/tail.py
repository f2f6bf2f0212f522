"""`shardfw fleet tail`: the events that nodes publish, as they come, by the rules for readers.

The rules are those of `firmware/docs/guarantees.md`, and it is the Python example that carries them out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import nats.errors
import nats.js.errors

from firmware.layouts.fleet import WATCH_RETRY_MS
from pxe.examples.python import consumer
from toolchain.cli.fleet.connect import EVENTS, DeniedError, FleetError, no_fleet
from toolchain.cli.fleet.ordered import Ordered, Patience, WatchEndedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from nats.aio.msg import Msg

    from toolchain.cli.fleet.connect import Fleet

WAIT_S = 0.5
HEADER = "Shardfw"
PREFIX = "SHARDFW_"


@dataclass(frozen=True)
class Event:
    """One published dispatch, or what a node says of a session between two of them.

    Attributes:
        shard: Global shard number.
        type: Of the dispatch; of a notice SHARDFW_ and its name.
        node: Who published it.
        generation: Of that node's lease.
        sequence: Of the session.
        total: Shards of the whole bot.
        data: The `d` of the dispatch; of a notice its `first` and `second`.
    """

    shard: int
    type: str
    node: str
    generation: int
    sequence: int
    total: int
    data: Any

    @property
    def notice(self) -> str:
        """Return which notice it is, nothing for a dispatch."""
        return self.type.removeprefix(PREFIX) if self.type in consumer.NOTICES else ""

    def report(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        where = {
            "shard": self.shard,
            "type": self.type,
            "node": self.node,
            "generation": self.generation,
            "sequence": self.sequence,
            "total": self.total,
        }
        return where | ({"notice": self.notice, **self.data} if self.notice else {"d": self.data})

    def line(self) -> str:
        """Return it as one line for people."""
        where = f"shard {self.shard}  {self.node} gen {self.generation}  {self.sequence}  "
        if self.notice == "GAP":
            first, last = (
                value if isinstance(value := self.data[key], int) else "?"
                for key in ("first", "second")
            )
            return _plain(f"{where}-- GAP: {first} to {last} may be missing")
        if self.notice:
            return _plain(f"{where}-- {self.notice}")
        data = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return _plain(f"{where}{self.type}  {data}")


def _plain(text: str) -> str:
    """Return a text in which nothing steers a terminal."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


@dataclass(frozen=True)
class Hole:
    """Sequences that the stream does not have between two events of a session.

    Attributes:
        shard: Global shard number.
        first: The first of them.
        last: The last.
    """

    shard: int
    first: int
    last: int

    def report(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        return {"shard": self.shard, "notice": "HOLE", "first": self.first, "last": self.last}

    def line(self) -> str:
        """Return it as one line for people."""
        return f"shard {self.shard}  -- not in the stream: {self.first} to {self.last}"


def parse(message: Msg) -> Event | None:
    """Return the event or notice of a message; None for one that no node wrote."""
    words = dict(
        word.partition("=")[::2] for word in (message.headers or {}).get(HEADER, "").split(" ")
    )
    shard, kind = message.subject.split(".")[-2:]
    try:
        numbers = [int(words[key]) for key in ("g", "s", "t")]
        number, node, body = int(shard), words["n"], json.loads(message.data)
    except (KeyError, ValueError):
        return None
    if not isinstance(body, dict):
        return None
    if kind in consumer.NOTICES:
        data: object = {key: body.get(key) for key in ("first", "second")}
    else:
        data = consumer.data_of(kind, body)
    return Event(number, kind, node, numbers[0], numbers[1], numbers[2], data)


@dataclass
class Reader:
    """What was read so far, of all shards.

    Attributes:
        newest: Shard to the highest generation that spoke.
    """

    newest: dict[int, int] = field(default_factory=dict)
    _events: consumer.Reader = field(default_factory=consumer.Reader)

    def take(self, message: Msg) -> Iterator[Event | Hole]:
        """Give the event and a hole before it; nothing of what comes twice or too late."""
        found = parse(message)
        if found is None:
            return
        newest = self.newest.get(found.shard, 0)
        if found.notice:
            # A notice belongs to a connection, so that a former owner's is of no use any more.
            if found.generation >= newest:
                self.newest[found.shard] = found.generation
                yield found
            return
        try:
            event = consumer.Event.of(message)
        except ValueError:
            return
        if event is None:
            return
        self.newest[found.shard] = max(newest, found.generation)
        for line in self._events.take(event):
            if "notice" not in line:
                yield found
            elif line["notice"] == "GAP":
                yield Hole(found.shard, line["first"], line["last"])


async def _last(fleet: Fleet) -> int:
    """Return the place of the newest event in the stream.

    Raises:
        DeniedError: There is no such stream, or this user may not ask.
        FleetError: No answer.
    """
    try:
        return int((await fleet.api(f"STREAM.INFO.{EVENTS}"))["state"]["last_seq"])
    except nats.js.errors.NotFoundError:
        raise DeniedError(no_fleet(fleet, EVENTS)) from None


async def follow(
    fleet: Fleet,
    shard: int | None,
    types: tuple[str, ...],
    say: Callable[[str], None] | None = None,
) -> AsyncGenerator[Event | Hole | None]:
    """Give each event and notice from now on; None after a moment without one.

    All types are read, because what is too late shows by any event of the shard.

    Args:
        fleet: The connection.
        shard: This one alone; None = all.
        types: These alone, and no holes; nothing = all.
        say: Called with what keeps events out of sight, when that begins; None = nobody is told.

    Raises:
        FleetError: The connection is gone for good; or events have been out of sight for too long,
            because there is no stream, this user may not read it any more, or nothing answers.
    """
    subject = f"shardfw.{fleet.bot}.ev.{'*' if shard is None else shard}.*"
    reader, place, began = Reader(), await _last(fleet), False
    patience = Patience(fleet.servers)
    if say is not None:
        patience.say = say
    while not fleet.client.is_closed:
        policy = {"deliver_policy": "by_start_sequence", "opt_start_seq": place + 1}
        events = Ordered(fleet, EVENTS, subject, policy)
        try:
            await events.start()
            began = True
            while not fleet.client.is_closed:
                found = await events.take(WAIT_S)
                if events.came:
                    patience.over()
                if found is None:
                    yield None
                    continue
                place = found.place
                for each in reader.take(found.message):
                    if not types or (isinstance(each, Event) and each.type in types):
                        yield each
        except (WatchEndedError, FleetError) as error:
            if not began and isinstance(error, FleetError):
                raise
            if not fleet.client.is_closed:
                patience.bear(error)
        finally:
            await events.stop()
        await asyncio.sleep(WATCH_RETRY_MS / 1000)
        with contextlib.suppress(FleetError, nats.errors.Error):  # between two servers, say
            if await _last(fleet) < place:
                # It was in memory, and is another one now.
                reader, place = Reader(), 0
    raise FleetError(fleet.gone())
