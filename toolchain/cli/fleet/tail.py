"""`shardfw fleet tail`: the events that nodes publish, as they come."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolchain.cli.fleet.connect import FleetError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from nats.aio.msg import Msg

    from toolchain.cli.fleet.connect import Fleet

WAIT_S = 0.5
WAITING_MAX = 65_536
HEADER = "Shardfw"
OVERSIZE = "SHARDFW_OVERSIZE"


@dataclass(frozen=True)
class Event:
    """One published dispatch.

    Attributes:
        shard: Global shard number.
        type: Of the dispatch.
        node: Who published it.
        generation: Of that node's lease; lower than one seen before = its time was over.
        sequence: Of the session.
        total: Shards of the whole bot.
        data: The `d` of the dispatch; None when the body is no dispatch.
    """

    shard: int
    type: str
    node: str
    generation: int
    sequence: int
    total: int
    data: object

    def report(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        return {
            "shard": self.shard,
            "type": self.type,
            "node": self.node,
            "generation": self.generation,
            "sequence": self.sequence,
            "total": self.total,
            "d": self.data,
        }


def subjects(bot: str, shard: int | None, types: tuple[str, ...]) -> list[str]:
    """Return what to subscribe to."""
    where = "*" if shard is None else str(shard)
    return [f"shardfw.{bot}.ev.{where}.{kind}" for kind in types or ("*",)]


def parse(message: Msg) -> Event | None:
    """Return the event of a message; None for one without the header that every node writes."""
    header = (message.headers or {}).get(HEADER, "")
    words = dict(word.partition("=")[::2] for word in header.split(" "))
    shard, kind = message.subject.split(".")[-2:]
    try:
        numbers = [int(words[key]) for key in ("g", "s", "t")]
        number, node = int(shard), words["n"]
    except (KeyError, ValueError):
        return None
    try:
        body = json.loads(message.data)
        data = body.get("d") if isinstance(body, dict) else body
    except ValueError:
        data = None
    return Event(number, kind, node, numbers[0], numbers[1], numbers[2], data)


async def follow(
    fleet: Fleet, shard: int | None, types: tuple[str, ...]
) -> AsyncGenerator[Event | None]:
    """Give each event; None after a moment without one, and after one that no node wrote.

    Raises:
        FleetError: The connection is gone for good, or this user may not read events.
    """
    queue: asyncio.Queue[Msg] = asyncio.Queue(WAITING_MAX)
    for name in subjects(fleet.bot, shard, types):
        await fleet.client.subscribe(name, cb=queue.put)
    await fleet.client.flush()
    while True:
        if fleet.complaints and "permissions" in fleet.complaints[-1].lower():
            raise FleetError(
                f"NATS does not let this user read events: {fleet.complaints[-1]}. Log in as an "
                "operator"
            )
        if fleet.client.is_closed:
            raise FleetError("the connection to NATS ended and no server of the list answers")
        try:
            message = await asyncio.wait_for(queue.get(), WAIT_S)
        except TimeoutError:
            yield None
        else:
            yield parse(message)


def line(event: Event) -> str:
    """Return an event as one line for people."""
    data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
    shown = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in data)
    where = f"shard {event.shard}  {event.node} gen {event.generation}  {event.sequence}"
    return f"{where}  {event.type}  {shown}"
