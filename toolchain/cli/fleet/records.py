"""The records of a fleet as text: what `$KV.shardfw.<bot>.ctl.` and `.sess.` hold.

The grammar is that of `firmware/docs/fleet.md`, and as strict: what a node would not read is an error here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.fleet import (
    BOOT_DIGITS,
    CLOCK_RATE_PERCENT,
    DURATION_MAX_MS,
    DURATION_MIN_MS,
    FLEET_SLOTS_MAX,
    GUARD_MS,
    HIDDEN_MS,
    RECORD_FORMAT,
)
from firmware.layouts.fleet_config import NAME_MAX
from firmware.layouts.fleet_tickets import TICKET_GUARD_MS, TICKET_MS
from firmware.layouts.permit import IDENTIFY_REFUSED_MS, PERMITS_MAX
from firmware.layouts.plan import TOTAL_MAX

ACTIVE, DRAIN = "active", "drain"
HELD, FREE = "held", "free"
OPEN = "open"
NOBODY = "-"
DEFAULT_DURATION_MS: Final = 20_000
WORD = 2**32
NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_MAX}}}")
BOOT = re.compile(rf"[0-9a-f]{{{BOOT_DIGITS}}}")
NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")


class RecordError(ValueError):
    """A text is no record, or a record breaks a bound; the message says which."""


def takeover_s(duration_ms: int) -> float:
    """Return how long a record must stay unchanged until its slot may be taken: D'."""
    return (duration_ms * (100 + CLOCK_RATE_PERCENT) / 100 + 2 * GUARD_MS) / 1000


def hard_stop_s(duration_ms: int) -> float:
    """Return how long after the sending of a granted operation its holder must be silent."""
    return (duration_ms * (100 - CLOCK_RATE_PERCENT) / 100 - GUARD_MS - HIDDEN_MS) / 1000


def ticket_wait_s() -> float:
    """Return how long an Identify ticket must stay unchanged until it may be taken."""
    spacing = (IDENTIFY_REFUSED_MS + TICKET_MS) * (100 + CLOCK_RATE_PERCENT) / 100
    return (spacing + TICKET_GUARD_MS) / 1000


def _number(text: str) -> int:
    if not NUMBER.fullmatch(text) or int(text) >= WORD:
        raise RecordError(f"{text!r} is no number of 32 bits")
    return int(text)


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise RecordError(f"{text!r} is no name: 1 to {NAME_MAX} letters, digits, _ or -")
    return text


def _tokens(text: str, least: int, most: int | None = None) -> list[str]:
    """Return what follows the format number."""
    first, *rest = text.split(" ")
    if first != str(RECORD_FORMAT):
        raise RecordError(f"the record begins with {first!r}, not {RECORD_FORMAT}: {text!r}")
    if not least <= len(rest) <= (least if most is None else most):
        raise RecordError(f"the record has {len(rest) + 1} words: {text!r}")
    return rest


@dataclass(frozen=True, order=True)
class Range:
    """The shards of one slot."""

    start: int
    count: int

    @property
    def end(self) -> int:
        """Return the first shard behind it."""
        return self.start + self.count

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the range of `<start>+<count>`.

        Raises:
            RecordError: It is none.
        """
        start, plus, count = text.partition("+")
        if not plus:
            raise RecordError(f"{text!r} is no range. Write the first shard and how many: 0+16")
        return cls(_number(start), _number(count))

    def __str__(self) -> str:
        """Return `<start>+<count>`."""
        return f"{self.start}+{self.count}"


@dataclass(frozen=True)
class Plan:
    """How the shards of a bot are cut into slots.

    Attributes:
        mode: ACTIVE or DRAIN.
        epoch: Counts the plans.
        total: Shards of the whole bot.
        max_concurrency: Identify tickets.
        duration_ms: How long a lease lasts.
        slots: The shards of each slot.
    """

    mode: str
    epoch: int
    total: int
    max_concurrency: int
    duration_ms: int
    slots: tuple[Range, ...]

    def __post_init__(self) -> None:
        """Refuse what no node would read.

        Raises:
            RecordError: A bound is broken; the message says what to write.
        """
        _within("the total", self.total, 1, TOTAL_MAX)
        _within("max_concurrency", self.max_concurrency, 1, PERMITS_MAX)
        _within("the duration in ms", self.duration_ms, DURATION_MIN_MS, DURATION_MAX_MS)
        _within("the number of slots", len(self.slots), 1, FLEET_SLOTS_MAX)
        for number, one in enumerate(self.slots):
            _fits(f"slot {number}", one, self.total)
        for before, after in pairwise(self.slots):
            if after.start < before.end:
                raise RecordError(
                    f"{after} begins before {before} ends. Write the slots in ascending order"
                )

    @property
    def missing(self) -> int:
        """Return how many shards of the bot are in no slot."""
        return self.total - sum(one.count for one in self.slots)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the plan of a record.

        Raises:
            RecordError: It is none.
        """
        mode, *rest = _tokens(text, 7, 6 + FLEET_SLOTS_MAX)
        if mode not in (ACTIVE, DRAIN):
            raise RecordError(f"the plan is neither {ACTIVE} nor {DRAIN}: {text!r}")
        epoch, total, concurrency, duration, count = map(_number, rest[:5])
        if count != len(rest) - 5:
            raise RecordError(f"the plan counts {count} slots and names {len(rest) - 5}: {text!r}")
        return cls(mode, epoch, total, concurrency, duration, tuple(map(Range.parse, rest[5:])))

    def __str__(self) -> str:
        """Return the record."""
        numbers = f"{self.epoch} {self.total} {self.max_concurrency} {self.duration_ms}"
        return " ".join(
            [str(RECORD_FORMAT), self.mode, numbers, str(len(self.slots)), *map(str, self.slots)]
        )


def _within(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise RecordError(f"{what} is {value}. Write {least} to {most}")


def _fits(what: str, slot: Range, total: int) -> None:
    _within("the total", total, 1, TOTAL_MAX)
    _within(f"the number of shards of {what}, {slot},", slot.count, 1, FLEET_SHARDS_MAX)
    if slot.end > total:
        raise RecordError(f"{what}, {slot}, goes beyond the total of {total}")


def split(total: int, slots: int) -> tuple[Range, ...]:
    """Return ranges that share the shards as evenly as they can be.

    Raises:
        RecordError: More slots than shards.
    """
    _within("the number of slots", slots, 1, min(total, FLEET_SLOTS_MAX))
    small, large = divmod(total, slots)
    sizes = [small + (number < large) for number in range(slots)]
    return tuple(Range(sum(sizes[:number]), size) for number, size in enumerate(sizes))


@dataclass(frozen=True)
class Lease:
    """Who has a slot.

    Attributes:
        node: Its holder; NOBODY when it is free.
        boot: The holder's boot.
        generation: Counts the claims.
        op: Number of the holder's operation.
        duration_ms: How long the grant lasts; 0 when it is free.
        epoch: The plan that made it.
        slot: Its shards.
        total: Shards of the whole bot.
    """

    node: str
    boot: str
    generation: int
    op: int
    duration_ms: int
    epoch: int
    slot: Range
    total: int

    @property
    def held(self) -> bool:
        """Return whether somebody holds it."""
        return self.node != NOBODY

    def freed(self, op: int = 0) -> Lease:
        """Return the record of the same slot when nobody has it; the generation stays."""
        return Lease(NOBODY, NOBODY, self.generation, op, 0, self.epoch, self.slot, self.total)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the lease of a record.

        Raises:
            RecordError: It is none.
        """
        state, node, boot, *rest = _tokens(text, 10)
        generation, op, duration, epoch, start, count, total = map(_number, rest)
        if state == HELD:
            _name(node)
            if node == NOBODY or not BOOT.fullmatch(boot):
                raise RecordError(f"a held slot without node or boot: {text!r}")
            _within("the duration in ms", duration, DURATION_MIN_MS, DURATION_MAX_MS)
        elif (state, node, boot, duration) != (FREE, NOBODY, NOBODY, 0):
            raise RecordError(f"a slot is neither {HELD} nor {FREE}: {text!r}")
        _within("the generation", generation, 0, WORD - 2)
        slot = Range(start, count)
        _fits("the lease's slot", slot, total)
        return cls(node, boot, generation, op, duration, epoch, slot, total)

    def __str__(self) -> str:
        """Return the record."""
        state = HELD if self.held else FREE
        numbers = (self.generation, self.op, self.duration_ms, self.epoch)
        where = (self.slot.start, self.slot.count, self.total)
        return " ".join(map(str, (RECORD_FORMAT, state, self.node, self.boot, *numbers, *where)))


@dataclass(frozen=True)
class Ticket:
    """Who may send the next Identify for one value of `shard % max_concurrency`."""

    node: str = NOBODY
    boot: str = NOBODY
    op: int = 0
    shard: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the ticket of a record.

        Raises:
            RecordError: It is none.
        """
        node, boot, op, shard = _tokens(text, 4)
        if (node == NOBODY) != (boot == NOBODY) or not (node == NOBODY or BOOT.fullmatch(boot)):
            raise RecordError(f"a ticket has a node and its boot, or neither: {text!r}")
        return cls(_name(node), boot, _number(op), _number(shard))

    def __str__(self) -> str:
        """Return the record."""
        return f"{RECORD_FORMAT} {self.node} {self.boot} {self.op} {self.shard}"


@dataclass(frozen=True)
class Budget:
    """How many sessions the service still lets the bot begin."""

    remaining: int
    total: int
    node: str = NOBODY
    op: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the budget of a record.

        Raises:
            RecordError: It is none.
        """
        remaining, total, node, op = _tokens(text, 4)
        found = cls(_number(remaining), _number(total), _name(node), _number(op))
        _within("what is left of the budget", found.remaining, 0, found.total)
        return found

    def __str__(self) -> str:
        """Return the record."""
        return f"{RECORD_FORMAT} {self.remaining} {self.total} {self.node} {self.op}"


@dataclass(frozen=True)
class Session:
    """How far a shard has come; the session's id and URL are not kept.

    Attributes:
        generation: Of the lease of who wrote it.
        total: Shards of the whole bot.
        sequence: What a Resume would name.
        ended: The session ended, and there is no other yet.
    """

    generation: int
    total: int
    sequence: int
    ended: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the session of a record.

        Raises:
            RecordError: It is none.
        """
        generation, total, sequence, session, _url = _tokens(text, 5)
        return cls(_number(generation), _number(total), _number(sequence), session == NOBODY)

    def goes_on_in(self, total: int) -> bool:
        """Return whether a node whose plan has that total resumes it."""
        return not self.ended and self.total == total


@dataclass(frozen=True)
class NodeOrder:
    """What an operator asks of a node: to take slots as it finds them, or to give all back."""

    mode: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the order of a record.

        Raises:
            RecordError: It is none.
        """
        (mode,) = _tokens(text, 1)
        if mode not in (OPEN, DRAIN):
            raise RecordError(f"a node is neither {OPEN} nor {DRAIN}: {text!r}")
        return cls(mode)

    def __str__(self) -> str:
        """Return the record."""
        return f"{RECORD_FORMAT} {self.mode}"


@dataclass(frozen=True)
class Move:
    """Who shall have a slot next; it counts while the slot's lease has that generation."""

    generation: int
    node: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the order of a record.

        Raises:
            RecordError: It is none.
        """
        generation, node = _tokens(text, 2)
        return cls(_number(generation), _name(node))

    def __str__(self) -> str:
        """Return the record."""
        return f"{RECORD_FORMAT} {self.generation} {self.node}"
