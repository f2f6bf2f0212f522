"""Put a node's event datagrams together: chunks to events, numbers to a count of what is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from firmware.layouts.events import (
    EVENT_BODY_MAX,
    EVENT_MAGIC,
    EVENT_UNKNOWN,
    EventHeader,
    EventKind,
    Notice,
    Verdict,
)
from firmware.layouts.json import T_MAX
from toolchain.layout.pack import unpack

BODY_AND_NAME = EVENT_BODY_MAX + T_MAX
WINDOW = 1024
"""Events that may still be incomplete while later ones arrive; what lies further back is lost."""


@dataclass(frozen=True)
class Dispatch:
    """A dispatch of the service.

    Attributes:
        number: its place among this listener's events.
        shard: global shard number.
        type: `t`.
        sequence: `s`.
        payload: the whole message as it came; None when the node withheld it (READY).
    """

    number: int
    shard: int
    type: str
    sequence: int
    payload: bytes | None

    def report(self) -> dict[str, Any]:
        """Return it in the stable keys of `shardfw events --json`."""
        data = None if self.payload is None else json.loads(self.payload).get("d")
        return {"shard": self.shard, "type": self.type, "sequence": self.sequence, "d": data}


@dataclass(frozen=True)
class NoticeEvent:
    """What the node says of a shard's session.

    Attributes:
        number: its place among this listener's events.
        shard: global shard number.
        notice: what.
        values: its two values; None = unknown.
    """

    number: int
    shard: int
    notice: Notice
    values: tuple[int | None, int | None]

    def report(self) -> dict[str, Any]:
        """Return it in the stable keys of `shardfw events --json`."""
        said: dict[str, Any] = {"shard": self.shard, "notice": self.notice.name}
        first, last = self.values
        if self.notice == Notice.GAP:
            # First 0: the service repeated everything that was missed.
            return said | {"missing": first != 0, "first": first or None, "last": last or None}
        return said | {"sequence": first}


@dataclass
class _Pending:
    """Chunks of an event by number, and how many there are once the last has come."""

    chunks: dict[int, bytes] = field(default_factory=dict)
    head: dict[str, Any] | None = None
    name: bytes = b""


def _known(value: int) -> int | None:
    return None if value == EVENT_UNKNOWN else value


def _is_event(head: dict[str, Any], rest: int) -> bool:
    """Say whether a header is one that a node writes before `rest` bytes."""
    if head["magic"] != EVENT_MAGIC or head["kind"] not in list(EventKind):
        return False
    whats = list(Notice) if head["kind"] == EventKind.NOTICE else list(Verdict)
    return head["what"] in whats and head["length"] + head["name_len"] == rest <= BODY_AND_NAME


class EventStream:
    """Takes datagrams in any order and gives events as they become complete.

    Attributes:
        stream: what the node calls this subscription; None before the first datagram.
        restarts: times that it became another one: what lay between is not known.
        lost: events that did not arrive whole.
        aborted: dispatches whose connection ended in their middle.
        strange: datagrams that are none of a node's.
    """

    def __init__(self) -> None:
        self.stream: int | None = None
        self.restarts = self.lost = self.aborted = self.strange = 0
        self._pending: dict[int, _Pending] = {}
        self._done: set[int] = set()
        self._next = self._end = 0

    def feed(self, datagram: bytes) -> list[Dispatch | NoticeEvent]:
        """Take one datagram; return the event that it completes, if any."""
        if len(datagram) < EventHeader.SIZE:
            self.strange += 1
            return []
        head = unpack(EventHeader, datagram[: EventHeader.SIZE])
        rest = datagram[EventHeader.SIZE :]
        if not _is_event(head, len(rest)):
            self.strange += 1
            return []
        if head["stream"] != self.stream:
            self._restart(head["stream"])
        number = head["number"]
        if number < self._next or number in self._done:
            return []
        self._end = max(self._end, number + 1)
        pending = self._pending.setdefault(number, _Pending())
        pending.chunks[head["chunk"]] = rest[: head["length"]]
        if head["last"]:
            pending.head, pending.name = head, rest[head["length"] :]
        made = []
        if pending.head is not None and len(pending.chunks) == pending.head["chunk"] + 1:
            made = self._finish(number, pending, pending.head)
        while self._end - self._next > WINDOW:
            self._lose(self._next)
        return made

    def close(self) -> None:
        """Count what is incomplete as lost: nothing more comes."""
        while self._next < self._end:
            self._lose(self._next)

    @property
    def open(self) -> int:
        """How many events are missing or incomplete, and may still come."""
        return self._end - self._next - len(self._done)

    def _restart(self, stream: int) -> None:
        if self.stream is not None:
            self.close()
            self.restarts += 1
        self.stream = stream
        self._pending.clear()
        self._done.clear()
        self._next = self._end = 0

    def _lose(self, number: int) -> None:
        if self._pending.pop(number, None) is not None or number not in self._done:
            self.lost += 1
        self._settle(number)

    def _settle(self, number: int) -> None:
        self._done.add(number)
        while self._next in self._done:
            self._done.remove(self._next)
            self._next += 1

    def _finish(
        self, number: int, pending: _Pending, head: dict[str, Any]
    ) -> list[Dispatch | NoticeEvent]:
        del self._pending[number]
        self._settle(number)
        if head["kind"] == EventKind.NOTICE:
            values = (_known(head["sequence"]), _known(head["second"]))
            return [NoticeEvent(number, head["shard"], Notice(head["what"]), values)]
        if head["what"] == Verdict.ABORTED:
            self.aborted += 1
        if head["what"] not in (Verdict.OK, Verdict.WITHHELD):
            return []
        whole = b"".join(pending.chunks[n] for n in range(head["chunk"] + 1))
        payload = None if head["what"] == Verdict.WITHHELD else whole
        name = pending.name.decode(errors="replace")
        if not name and payload:
            name = str(json.loads(payload).get("t"))
        return [Dispatch(number, head["shard"], name, head["sequence"], payload)]
