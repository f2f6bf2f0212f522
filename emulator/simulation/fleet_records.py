"""The values that a fleet keeps in NATS, read and written without the firmware (docs/fleet.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """Whose a slot is.

    Attributes:
        node: holder; `-` when it is free.
        boot: of the holder.
        generation: counts the claims of the slot.
        op: number in the holder's counting.
        duration_ms: of the grant; 0 when it is free.
        epoch: of the plan.
        start: first shard.
        count: shards.
        total: shards of the bot.
    """

    node: str = "-"
    boot: str = "-"
    generation: int = 0
    op: int = 0
    duration_ms: int = 0
    epoch: int = 1
    start: int = 0
    count: int = 1
    total: int = 1

    @property
    def holder(self) -> tuple[str, str] | None:
        """Node and boot, or None."""
        return None if self.node == "-" else (self.node, self.boot)

    def covers(self, shard: int) -> bool:
        """Say whether a shard belongs to the slot."""
        return self.start <= shard < self.start + self.count

    def freed(self, epoch: int, start: int, count: int, total: int) -> LeaseRecord:
        """Return the record with which an operator gives the slot other shards."""
        return replace(
            self, node="-", boot="-", op=self.op + 1, duration_ms=0,
            epoch=epoch, start=start, count=count, total=total,
        )  # fmt: skip

    def __str__(self) -> str:
        word = "free" if self.holder is None else "held"
        numbers = (
            self.generation, self.op, self.duration_ms, self.epoch, self.start, self.count,
            self.total,
        )  # fmt: skip
        return " ".join(map(str, (1, word, self.node, self.boot, *numbers)))

    @classmethod
    def parse(cls, text: bytes) -> LeaseRecord:
        """Read a record.

        Raises:
            ValueError: it is none; the text holds it.
        """
        words = text.decode("latin-1").split(" ")
        if len(words) != 11 or words[0] != "1" or words[1] not in ("held", "free"):
            raise ValueError(f"{text!r} is no lease record")
        generation, op, duration, epoch, start, count, total = map(int, words[4:])
        record = cls(
            node=words[2], boot=words[3], generation=generation, op=op, duration_ms=duration,
            epoch=epoch, start=start, count=count, total=total,
        )  # fmt: skip
        if str(record).encode() != text:
            raise ValueError(f"{text!r} is written otherwise than {record}")
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """What may be claimed.

    Attributes:
        active: False while nodes have to give everything back.
        epoch: counts the plans.
        total: shards of the bot.
        max_concurrency: Identify keys.
        duration_ms: of a grant.
        ranges: first shard and number of shards of each slot.
    """

    active: bool = True
    epoch: int = 1
    total: int = 1
    max_concurrency: int = 1
    duration_ms: int = 20_000
    ranges: tuple[tuple[int, int], ...] = ((0, 1),)

    def __str__(self) -> str:
        mode = "active" if self.active else "drain"
        head = (1, mode, self.epoch, self.total, self.max_concurrency, self.duration_ms)
        ranges = (f"{start}+{count}" for start, count in self.ranges)
        return " ".join(map(str, (*head, len(self.ranges), *ranges)))

    @classmethod
    def parse(cls, text: bytes) -> PlanRecord:
        """Read a record.

        Raises:
            ValueError: it is none; the text holds it.
        """
        words = text.decode("latin-1").split(" ")
        if len(words) < 8 or words[0] != "1" or words[1] not in ("active", "drain"):
            raise ValueError(f"{text!r} is no plan")
        epoch, total, keys, duration, count = map(int, words[2:7])
        ranges = tuple((int(a), int(b)) for a, b in (w.split("+") for w in words[7:]))
        if len(ranges) != count:
            raise ValueError(f"{text!r} has {len(ranges)} ranges and says {count}")
        return cls(
            active=words[1] == "active", epoch=epoch, total=total, max_concurrency=keys,
            duration_ms=duration, ranges=ranges,
        )  # fmt: skip


def cut(total: int, slots: int) -> tuple[tuple[int, int], ...]:
    """Cut so many shards into so many ranges, as even as they go."""
    bounds = [total * n // slots for n in range(slots + 1)]
    return tuple((a, b - a) for a, b in pairwise(bounds))
