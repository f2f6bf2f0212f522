"""`shardfw events`: dispatches and notices of a node's shards, as they come."""

from __future__ import annotations

import json
import struct
import time
from collections import deque
from typing import TYPE_CHECKING

import click

from firmware.layouts.control import ControlVerb
from firmware.layouts.events import EVENT_LEASE_MAX_MS, EVENT_LEASE_MIN_MS, EVENT_SHARDS_ALL, Notice
from toolchain.cli.control import Commander, CommandError, Place, find_place, place_options
from toolchain.cli.event_stream import Dispatch, EventStream, NoticeEvent

if TYPE_CHECKING:
    from collections.abc import Generator

LEASE_S = 30
RENEWALS = 3
"""Renewals in one lease: two may be lost."""


class Listener:
    """Subscribes, renews, and gives events as they come.

    Args:
        place: The node.
        shard: Global shard number; None = all.
        lease_s: Seconds until a place that is not renewed is free.
    """

    def __init__(self, place: Place, shard: int | None = None, lease_s: float = LEASE_S) -> None:
        self._waiting: deque[bytes] = deque()
        self._node = Commander(place, min(lease_s, 5), on_other=self._waiting.append)
        first, count = (0, EVENT_SHARDS_ALL) if shard is None else (shard, 1)
        self._wanted = struct.pack("<II", first, count)
        self._lease_s = lease_s
        self.stream = EventStream()
        self.node_lost = 0

    def events(self) -> Generator[Dispatch | NoticeEvent | None]:
        """Give each event; None after a moment without one. The place is given up at the end.

        Raises:
            CommandError: The node refuses, or has not answered for a whole lease.
        """
        with self._node:
            try:
                until = self._renew()
                while True:
                    wait = min(until - time.monotonic(), 1.0)
                    datagram = self._waiting.popleft() if self._waiting else None
                    if datagram is None and wait > 0:
                        datagram = self._node.listen(wait)
                    if datagram is None:
                        yield None
                    else:
                        yield from self.stream.feed(datagram)
                    if time.monotonic() >= until:
                        until = self._renew()
            finally:
                self._leave()

    def _renew(self) -> float:
        """Take or renew the place; return when to do so again."""
        argument = round(self._lease_s * 1000)
        reply = self._node.send(ControlVerb.SUBSCRIBE, argument=argument, payload=self._wanted)
        self.node_lost = reply.value
        return time.monotonic() + self._lease_s / RENEWALS

    def _leave(self) -> None:
        try:
            self._node.send(ControlVerb.UNSUBSCRIBE)
        except CommandError:
            return  # the lease ends by itself


def _values(event: NoticeEvent) -> str:
    first, last = event.values
    if event.notice == Notice.GAP:
        if first == 0:
            return "nothing is missing"
        start = "events may be missing" if first is None else f"missing from sequence {first} on"
        return start if last is None else f"{start}, to {last}"
    return "" if first is None else f"sequence {first}"


def line(event: Dispatch | NoticeEvent) -> str:
    """Return an event as one line for people."""
    if isinstance(event, NoticeEvent):
        return f"shard {event.shard}  {event.notice.name}  {_values(event)}".rstrip()
    data = "(withheld)" if event.payload is None else _compact(event.report()["d"], ascii_=False)
    return f"shard {event.shard}  {event.sequence}  {_printable(event.type)}  {_printable(data)}"


def _printable(text: str) -> str:
    """Return text in which nothing steers a terminal, ends a line, or is half a character."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _compact(data: object, *, ascii_: bool = True) -> str:
    return json.dumps(data, ensure_ascii=ascii_, separators=(",", ":"))


class Printer:
    """Prints what is wanted, and how much is missing as soon as that is known.

    Args:
        types: Types of dispatches to print; empty = all.
        count: How many dispatches to print at most; None = no end.
        as_json: One JSON object a line.
    """

    def __init__(self, types: tuple[str, ...], count: int | None, *, as_json: bool) -> None:
        self.types, self.left, self.as_json = types, count, as_json
        self._lost = self._restarts = 0

    def show(self, event: Dispatch | NoticeEvent) -> None:
        """Print one event when it is wanted."""
        if isinstance(event, Dispatch):
            if self.types and event.type not in self.types:
                return
            if self.left is not None:
                self.left -= 1
        click.echo(_compact(event.report()) if self.as_json else line(event))

    def losses(self, stream: EventStream) -> None:
        """Tell of events that are known to be lost since the last time."""
        if stream.restarts != self._restarts:
            self._restarts = stream.restarts
            self._say({"restarted": True}, "the node, or this subscription, began anew")
        if stream.lost != self._lost:
            more, self._lost = stream.lost - self._lost, stream.lost
            self._say({"lost": more}, f"{more} events were lost, {stream.lost} in all")

    def _say(self, fields: dict[str, object], text: str) -> None:
        click.echo(_compact(fields) if self.as_json else text, err=not self.as_json)

    @property
    def done(self) -> bool:
        """Whether enough was printed."""
        return self.left == 0


def follow(listener: Listener, printer: Printer) -> None:
    """Print events until enough have come."""
    events = listener.events()
    try:
        for event in events:
            if event is not None:
                printer.show(event)
            if printer.done:
                return
            printer.losses(listener.stream)
    finally:
        events.close()  # which gives the place up
        listener.stream.close()
        printer.losses(listener.stream)


@click.command(
    epilog="""\b
Examples:
  shardfw events                                   everything that the node's shards receive
  shardfw events --shard 3 --type MESSAGE_CREATE   messages of one shard
  shardfw events --json --count 100 > sample.jsonl

\b
A line per event, in the order of each shard: dispatches as the service sent them (of READY only that
it came: its session id stays in the node), and notices: NEW_SESSION, RESUMED, RESTORED,
THREADS_STALE, and GAP, which tells the sequence from which on events may be missing. Delivery is
best effort; what was lost is told, on standard error. Four can listen at a time.

\b
--json: {"shard", "type", "sequence", "d"} for a dispatch; {"shard", "notice", "sequence"} for a
notice, {"shard", "notice": "GAP", "missing", "first", "last"} for a gap; {"lost": N} when events
were lost; {"restarted": true} when the node began anew.
Exit codes: 0 ended by --count or Ctrl-C, 1 no node or refused, 2 wrong usage."""
)
@click.option("--shard", type=click.IntRange(0, 0xFFFF_FFFE), help="This shard only.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="These dispatches only.")
@click.option("--count", type=click.IntRange(1), help="End after so many dispatches.")
@click.option(
    "--lease",
    "lease_s",
    default=LEASE_S,
    show_default=True,
    type=click.IntRange(EVENT_LEASE_MIN_MS // 1000, EVENT_LEASE_MAX_MS // 1000),
    help="Seconds that the node goes on sending after this command died.",
)
@place_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def command(
    *,
    shard: int | None,
    types: tuple[str, ...],
    count: int | None,
    lease_s: int,
    name: str,
    host: str | None,
    port: int | None,
    as_json: bool,
) -> None:
    """Print dispatches and notices of a node's shards as they come."""
    printer = Printer(types, count, as_json=as_json)
    try:
        follow(Listener(find_place(name, host, port), shard, lease_s), printer)
    except KeyboardInterrupt:
        return
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
