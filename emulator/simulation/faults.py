"""Fault plans: what happens to frames, in words that can be printed, replayed and shortened.

One line is one rule or one timed event:

    drop p=0.01
    drop match=synack nth=3
    delay by=40ms jitter=10ms from=node after=2s before=5s
    duplicate copies=1 p=0.001 to=node
    reorder by=3ms p=0.02 match=tcp+data
    corrupt p=0.001 offset=54 mask=0xff
    truncate keep=20 nth=7
    at 5s link-down node

`match` joins conditions with `+`; `nth` counts matching frames from 1; `from` and `to` name ports.
The same plan drives the virtual wire and the relay between QEMU nodes.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_MS, NS_PER_S, NS_PER_US
from emulator.simulation.matching import matcher

if TYPE_CHECKING:
    from collections.abc import Callable

ACTIONS = ("drop", "delay", "duplicate", "reorder", "corrupt", "truncate")
_UNITS = (("ns", 1), ("us", NS_PER_US), ("ms", NS_PER_MS), ("s", NS_PER_S))


class PlanError(ValueError):
    """A line that is no fault rule."""


def parse_time(text: str) -> int:
    """Return nanoseconds for `40ms`, `1.5s`, `7us` or `100ns`."""
    for suffix, factor in _UNITS:
        number = text.removesuffix(suffix)
        if number != text and number.replace(".", "", 1).isdecimal():
            return round(float(number) * factor) if "." in number else int(number) * factor
    raise PlanError(f"{text!r} is no time: write a number and ns, us, ms or s, such as 40ms")


def format_time(value_ns: int) -> str:
    """Write nanoseconds in the largest unit that keeps them whole."""
    for suffix, factor in reversed(_UNITS):
        if value_ns % factor == 0:
            return f"{value_ns // factor}{suffix}"
    raise AssertionError("every whole number of nanoseconds is a multiple of 1 ns")


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of damage and the frames that it meets.

    Args:
        action: one of `ACTIONS`.
        p: probability for each matching frame, 0 to 1.
        match: conditions joined with `+`, see `emulator.simulation.matching`.
        nth: which matching frames, counted from 1; empty means every one.
        src: only frames that enter by this port.
        dst: only frames that leave by this port (judged once for each such port).
        after_ns: start of the time window, in nanoseconds of virtual time.
        before_ns: end of the time window; None means for ever.
        limit: at most this many hits; 0 means no limit.
        by_ns: length of a delay or of the time a reordered frame is overtaken.
        jitter_ns: random extra delay, up to this.
        copies: extra copies of a duplicated frame.
        keep: bytes left by truncation; None picks at random.
        offset: byte that corruption hits; None picks at random.
        mask: bits that corruption flips; 0 picks one bit at random.
    """

    action: str
    p: float = 1.0
    match: str = "any"
    nth: tuple[int, ...] = ()
    src: str = ""
    dst: str = ""
    after_ns: int = 0
    before_ns: int | None = None
    limit: int = 0
    by_ns: int = NS_PER_MS
    jitter_ns: int = 0
    copies: int = 1
    keep: int | None = None
    offset: int | None = None
    mask: int = 0

    def __str__(self) -> str:
        default = Rule(self.action)
        words = [
            f"{key}={show(getattr(self, name))}"
            for key, (name, _, show) in _FIELDS.items()
            if getattr(self, name) != getattr(default, name)
        ]
        return " ".join([self.action, *words])


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens at a time: `link-down node`, or any action a test registered."""

    at_ns: int
    name: str
    argument: str = ""

    def __str__(self) -> str:
        return f"at {format_time(self.at_ns)} {self.name} {self.argument}".rstrip()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _show_numbers(value: tuple[int, ...]) -> str:
    return ",".join(map(str, value))


def _whole(text: str) -> int:
    return int(text, 0)


# Key of a rule's text -> (field, reader, writer).
_FIELDS: dict[str, tuple[str, Callable[[str], object], Callable[..., str]]] = {
    "p": ("p", float, repr),
    "match": ("match", str, str),
    "nth": ("nth", _numbers, _show_numbers),
    "from": ("src", str, str),
    "to": ("dst", str, str),
    "after": ("after_ns", parse_time, format_time),
    "before": ("before_ns", parse_time, format_time),
    "limit": ("limit", _whole, str),
    "by": ("by_ns", parse_time, format_time),
    "jitter": ("jitter_ns", parse_time, format_time),
    "copies": ("copies", _whole, str),
    "keep": ("keep", _whole, str),
    "offset": ("offset", _whole, str),
    "mask": ("mask", _whole, hex),
}


def _parse_rule(words: list[str]) -> Rule:
    values: dict[str, object] = {}
    for word in words[1:]:
        key, equals, text = word.partition("=")
        if not equals or key not in _FIELDS:
            raise PlanError(f"{word!r} is no setting; known: {', '.join(_FIELDS)}")
        name, read, _ = _FIELDS[key]
        try:
            values[name] = read(text)
        except ValueError as error:
            raise PlanError(f"{word!r}: {error}") from None
    rule = replace(Rule(words[0]), **values)  # type: ignore[arg-type]  # names come from _FIELDS
    if not 0 <= rule.p <= 1:
        raise PlanError(f"p={rule.p} is no probability: write 0 to 1, such as p=0.01")
    matcher(rule.match)
    return rule


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Rules for frames and timed events, with the seed of their chances.

    `seed` None means that the world's own random source decides.
    """

    rules: tuple[Rule, ...] = ()
    events: tuple[Event, ...] = ()
    seed: int | None = None

    @classmethod
    def parse(cls, text: str, *, seed: int | None = None) -> FaultPlan:
        """Read a plan, one rule or event in each line or between semicolons; `#` comments.

        Raises:
            PlanError: a line is no rule; the text names the line and what to write.
        """
        rules: list[Rule] = []
        events: list[Event] = []
        lines = [part for line in text.splitlines() for part in line.split("#")[0].split(";")]
        for number, line in enumerate(lines, 1):
            words = line.split()
            try:
                if not words:
                    continue
                if words[0] == "at" and len(words) >= 3:
                    events.append(Event(parse_time(words[1]), words[2], " ".join(words[3:])))
                elif words[0] == "seed" and len(words) == 2:
                    seed = int(words[1])
                elif words[0] in ACTIONS:
                    rules.append(_parse_rule(words))
                else:
                    raise PlanError(f"{words[0]!r} is no action; known: {', '.join(ACTIONS)}, at")
            except ValueError as error:
                raise PlanError(f"fault plan line {number}: {error}") from None
        return cls(tuple(rules), tuple(events), seed)

    def __str__(self) -> str:
        lines = [] if self.seed is None else [f"seed {self.seed}"]
        return "; ".join(lines + [str(item) for item in (*self.rules, *self.events)])

    def without(self, removed: set[int]) -> FaultPlan:
        """Return the plan without the items of these numbers (rules first, then events)."""
        count = len(self.rules)
        rules = tuple(rule for i, rule in enumerate(self.rules) if i not in removed)
        events = tuple(event for i, event in enumerate(self.events) if i + count not in removed)
        return replace(self, rules=rules, events=events)


@dataclass(slots=True)
class Delivery:
    """One frame that comes out: after how long, and what is in it."""

    delay_ns: int
    frame: bytes


class FaultInjector:
    """Apply a plan to frames, counting and recording as it goes.

    Args:
        plan: the rules.
        source: decides chances when the plan has no seed of its own.
    """

    def __init__(self, plan: FaultPlan, source: random.Random | None = None) -> None:
        self.plan = plan
        self.hits: Counter[str] = Counter()
        self.on_hit: Callable[[Rule, bytes], None] | None = None
        self.frames: Counter[tuple[str, str]] = Counter()
        self._random = (
            random.Random(plan.seed) if plan.seed is not None else source or random.Random(0)
        )
        self._seen = [0] * len(plan.rules)
        self._hit = [0] * len(plan.rules)
        self._history: list[Rule] = []
        self._released: dict[tuple[str, str], int] = {}
        tests = [matcher(rule.match) for rule in plan.rules]
        numbered = list(enumerate(plan.rules))
        self._entering = [(i, rule, tests[i]) for i, rule in numbered if not rule.dst]
        self._leaving = [(i, rule, tests[i]) for i, rule in numbered if rule.dst]

    def enter(self, frame: bytes, now_ns: int, src: str) -> list[Delivery]:
        """Judge a frame that enters by port `src`, before it is switched."""
        return self._apply(self._entering, frame, now_ns, src, "")

    def leave(self, frame: bytes, now_ns: int, src: str, dst: str) -> list[Delivery]:
        """Judge a frame that leaves by port `dst`."""
        return self._apply(self._leaving, frame, now_ns, src, dst)

    def script(self) -> FaultPlan:
        """Return what happened so far as rules without chance: one rule for each hit.

        Such a plan replays the run and can be shortened rule by rule, see `shortest`.
        """
        return FaultPlan(tuple(self._history), self.plan.events, self.plan.seed)

    def _apply(
        self,
        rules: list[tuple[int, Rule, Callable[[bytes], bool]]],
        frame: bytes,
        now_ns: int,
        src: str,
        dst: str,
    ) -> list[Delivery]:
        way = (src, dst)
        self.frames[way] += 1
        out = [Delivery(0, frame)]
        overtaken = False
        for index, rule, test in rules:
            if rule.src not in ("", src) or (rule.dst and rule.dst != dst):
                continue
            if now_ns < rule.after_ns or (rule.before_ns is not None and now_ns >= rule.before_ns):
                continue
            if not test(frame):
                continue
            # A frame that another rule dropped still counts, so that `nth` means the same thing
            # whatever else is in the plan.
            self._seen[index] += 1
            if not out or not self._chosen(index, rule):
                continue
            if rule.action == "corrupt" and rule.offset is None and out[0].frame != frame:
                # Two flips may cancel out in a checksum of 16 bits, and nobody could tell.
                continue
            exact = self._exact(rule, len(out[0].frame))
            self.hits[rule.action] += 1
            nth = (self.frames[way],)
            self._history.append(
                replace(exact, p=1.0, match="any", nth=nth, src=src, dst=dst, limit=0,
                        after_ns=0, before_ns=None)
            )  # fmt: skip
            if self.on_hit is not None:
                self.on_hit(exact, frame)
            overtaken = overtaken or exact.action == "reorder"
            out = _EFFECTS[exact.action](exact, out)
        if not out:
            return out
        if overtaken:
            return out
        # Frames of one direction keep their order unless a rule says otherwise.
        earliest = self._released.get(way, 0)
        for delivery in out:
            earliest = max(earliest, now_ns + delivery.delay_ns)
            delivery.delay_ns = earliest - now_ns
        self._released[way] = earliest
        return out

    def _chosen(self, index: int, rule: Rule) -> bool:
        if rule.nth and self._seen[index] not in rule.nth:
            return False
        if rule.limit and self._hit[index] >= rule.limit:
            return False
        if rule.p < 1 and self._random.random() >= rule.p:
            return False
        self._hit[index] += 1
        return True

    def _exact(self, rule: Rule, length: int) -> Rule:
        """Replace what the rule leaves to chance by what chance says now."""
        rng = self._random
        if rule.action in ("delay", "reorder") and rule.jitter_ns:
            return replace(rule, by_ns=rule.by_ns + rng.randrange(rule.jitter_ns), jitter_ns=0)
        if rule.action == "truncate" and rule.keep is None:
            return replace(rule, keep=rng.randrange(length))
        if rule.action == "corrupt":
            offset = rng.randrange(length) if rule.offset is None else rule.offset
            return replace(rule, offset=offset, mask=rule.mask or 1 << rng.randrange(8))
        return rule


def _delay(rule: Rule, out: list[Delivery]) -> list[Delivery]:
    return [Delivery(item.delay_ns + rule.by_ns, item.frame) for item in out]


def _duplicate(rule: Rule, out: list[Delivery]) -> list[Delivery]:
    return out + [Delivery(out[0].delay_ns, out[0].frame) for _ in range(rule.copies)]


def _corrupt(rule: Rule, out: list[Delivery]) -> list[Delivery]:
    frame = bytearray(out[0].frame)
    if rule.offset is not None and rule.offset < len(frame):
        frame[rule.offset] ^= rule.mask
    return [Delivery(out[0].delay_ns, bytes(frame)), *out[1:]]


def _truncate(rule: Rule, out: list[Delivery]) -> list[Delivery]:
    return [Delivery(item.delay_ns, item.frame[: rule.keep]) for item in out]


_EFFECTS: dict[str, Callable[[Rule, list[Delivery]], list[Delivery]]] = {
    "drop": lambda _rule, _out: [],
    "delay": _delay,
    "reorder": _delay,
    "duplicate": _duplicate,
    "corrupt": _corrupt,
    "truncate": _truncate,
}


def shortest(plan: FaultPlan, fails: Callable[[FaultPlan], bool]) -> FaultPlan:
    """Remove items from a plan as long as the run still fails (delta debugging).

    Args:
        plan: a plan for which `fails` is true, best one made by `FaultInjector.script`.
        fails: run the world with a plan and say whether it still fails.
    """
    chunk = max(1, (len(plan.rules) + len(plan.events)) // 2)
    while True:
        start, removed_any = 0, False
        while start < len(plan.rules) + len(plan.events):
            trial = plan.without(set(range(start, start + chunk)))
            if trial != plan and fails(trial):
                plan, removed_any = trial, True
            else:
                start += chunk
        if chunk == 1 and not removed_any:
            return plan
        chunk = max(1, chunk // 2)
