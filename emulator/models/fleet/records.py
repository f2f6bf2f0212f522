"""The values of `ctl.`."""

import re
from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.tokens import number_take, text_differs, word_take
from firmware.layouts.bus import BUS, FLEET_SHARDS_MAX
from firmware.layouts.fleet import (
    DURATION_MAX_MS,
    DURATION_MIN_MS,
    BudgetView,
    Holder,
    SlotState,
    SlotView,
)
from firmware.layouts.plan import TOTAL_MAX

NAME = re.compile(rb"[A-Za-z0-9_-]{1,32}")
_BOOT = re.compile(rb"[0-9a-f]{8}")
SPACE, PLUS = ord(" "), ord("+")


class Text:
    """The tokens of a value, taken one after the other."""

    def __init__(self, w: World, at: int, size: int) -> None:
        self._world, self.at, self.end, self._good = w, at, at + size, True

    def number(self, separator: int = SPACE) -> int:
        """Take a number of 32 bits; 0 once the text is bad."""
        if self._good:
            bad, value, after = number_take(self._world, self.at, self.end, separator)
            self._good = not bad and value < 2**32
            if self._good:
                self.at = after
                return int(value)
        return 0

    def word(self) -> bytes:
        """Take a word; none once the text is bad."""
        if self._good:
            bad, at, size, after = word_take(self._world, self.at, self.end, SPACE)
            self._good = not bad
            if self._good:
                self.at = after
                return self._world.read(at, size)
        return b""

    def holder(self) -> Holder:
        """Take a holder."""
        if self._good:
            bad, who, _, after = holder_take(self._world, self.at, self.end, SPACE)
            self._good = not bad
            if self._good:
                self.at = after
                return Holder(who)
        return Holder.NOBODY

    def starts(self) -> bool:
        """Take the format."""
        bad, value, after = number_take(self._world, self.at, self.end, SPACE)
        self._good = not bad and value == 1
        if self._good:
            self.at = after
        return self._good

    def fine(self) -> bool:
        """Tell whether all that was taken was good."""
        return self._good

    @property
    def whole(self) -> bool:
        """Whether all of it was good, and nothing is left."""
        return self._good and self.at == self.end


@model
def holder_take(w: World, text: int, end: int, separator: int) -> tuple[int, Any, int, Any]:
    """Two words: a name and a boot, or two dashes."""
    refused = 1, None, SPACE, None
    bad, node, node_bytes, after = word_take(w, text, end, separator)
    if bad:
        return refused
    bad, boot, boot_bytes, after = word_take(w, after, end, separator)
    if bad:
        return refused
    name, number = w.read(node, node_bytes), w.read(boot, boot_bytes)
    if (name, number) == (b"-", b"-"):
        return 0, Holder.NOBODY, SPACE, after
    if not _BOOT.fullmatch(number) or not NAME.fullmatch(name):
        return refused
    bus = w.g(BUS)
    if text_differs(w, node, node_bytes, bus.offset_of("node"), bus.node_len):
        return 0, Holder.OTHER, SPACE, after
    if text_differs(w, boot, boot_bytes, bus.offset_of("boot_text"), 8):
        return 0, Holder.OTHER, SPACE, after
    return 0, Holder.MINE, SPACE, after


def fits(start: int, count: int, total: int) -> bool:
    """Tell whether a range lies within a total, and has no more shards than a node has rows."""
    return 1 <= count <= FLEET_SHARDS_MAX and 1 <= total <= TOTAL_MAX and start + count <= total


@model
def lease_record(w: World, text: int, size: int, view: int) -> int:
    """Eleven tokens."""
    slot, value = w.view(SlotView, view), Text(w, text, size)
    slot.state, slot.mine = SlotState.ABSENT, 0
    if not value.starts():
        return 1
    word = value.word()
    if word not in (b"held", b"free"):
        return 1
    holder = value.holder()
    names = ("generation", "op", "duration_ms", "epoch", "start", "count", "total")
    numbers = {name: value.number() for name in names}
    if not value.whole or numbers["generation"] == 2**32 - 1:
        return 1
    if word == b"free":
        good = holder == Holder.NOBODY and numbers["duration_ms"] == 0
    else:
        known = DURATION_MIN_MS <= numbers["duration_ms"] <= DURATION_MAX_MS
        good = holder != Holder.NOBODY and known
    if not good or not fits(numbers["start"], numbers["count"], numbers["total"]):
        return 1
    for name, number in numbers.items():
        setattr(slot, name, number)
    slot.state = SlotState.HELD if word == b"held" else SlotState.FREE
    slot.mine = int(holder == Holder.MINE)
    return 0


@model
def ticket_record(w: World, text: int, size: int) -> tuple[int, Any, Any]:
    """Five tokens."""
    value = Text(w, text, size)
    if not value.starts():
        return 1, None, None
    holder, op, _shard = value.holder(), value.number(), value.number()
    return (0, holder, op) if value.whole else (1, None, None)


@model
def budget_record(w: World, text: int, size: int, budget: int) -> int:
    """Five tokens; what is left is at most all."""
    view, value = w.view(BudgetView, budget), Text(w, text, size)
    if not value.starts():
        return 1
    remaining, total, node = value.number(), value.number(), value.word()
    if not value.fine() or not NAME.fullmatch(node):
        return 1
    value.number()
    if not value.whole or remaining > total:
        return 1
    view.remaining, view.total = remaining, total
    return 0
