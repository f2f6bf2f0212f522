"""What is known of a node from its serial lines: boot steps, the state of each shard, figures."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from firmware.layouts import log
from toolchain.cli.loglines import LogLine, parse_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from firmware.layouts.log_line import LogCode

KEPT_LINES = 40
NO_MEMORY = "no_memory"
"""Detail of a shard that the node was configured for and has no room for."""
# The step that a line completes; the boot ROM's work ends with our first line.
STEPS: tuple[tuple[str, tuple[LogCode, ...]], ...] = (
    ("boot ROM", (log.BOOT_STARTED,)),
    ("clock", (log.BOOT_CLOCK, log.BOOT_NO_CLOCK)),
    ("memory", (log.BOOT_READY, log.BOOT_NO_MEMORY)),
    ("node", (log.NODE_STARTED,)),
)


@dataclass
class ShardRow:
    """One shard as its lines tell.

    Attributes:
        shard: Shard id.
        state: Name of a ShardState.
        detail: Phase, hold or reason, for people.
        attempts: Attempts since boot.
        reconnects: Backoffs since boot.
        ready_at: Seconds from power-on to the newest READY; None before the first.
    """

    shard: int
    state: str = "ASSIGNED"
    detail: str = ""
    attempts: int = 0
    reconnects: int = 0
    ready_at: float | None = None


@dataclass
class Board:
    """All that the lines told so far.

    Attributes:
        rows: One row per shard of the node, by id; a move brings and takes rows.
        steps: Boot step to seconds since power-on.
        lines: The newest lines with their seconds, log lines or not.
        nbp_to_ready_ms: From the node's first instruction to the first moment when all shards were
            READY; the node's own clock.
        power_on_to_ready_ms: The same from power-on; this machine's clock.
        stopped: What the line `node.stopped` told; None while the node has not stopped.
        off: Whether the node said that it goes off.
        total: Shards of the whole bot, as the node told last; 0 while it has not.
        asked: Shards that the node is configured for; 0 = whatever it says.
    """

    rows: dict[int, ShardRow]
    steps: dict[str, float] = field(default_factory=dict)
    lines: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    nbp_to_ready_ms: int | None = None
    power_on_to_ready_ms: int | None = None
    stopped: dict[str, int | str] | None = None
    off: bool = False
    total: int = 0
    asked: int = 0

    @classmethod
    def of(cls, start: int, count: int) -> Board:
        """Return the board of a node that holds `count` shards from `start`."""
        return cls({n: ShardRow(n) for n in range(start, start + count)}, asked=count)

    @property
    def ready(self) -> int:
        """Return how many shards are READY now."""
        return sum(row.state == "READY" for row in self.rows.values())

    @property
    def fatal(self) -> list[ShardRow]:
        """Return the shards that no retry can save."""
        return [row for row in self.rows.values() if row.state == "FATAL"]

    @property
    def without_memory(self) -> list[ShardRow]:
        """Return the shards that found no memory when the node started."""
        return [row for row in self.rows.values() if row.detail == NO_MEMORY]

    def feed(self, seconds: float, text: str) -> LogLine | None:
        """Take one serial line; return it parsed, None when it is no log line.

        Args:
            seconds: Since power-on.
            text: The line.
        """
        self.lines.append((seconds, text))
        line = parse_line(text)
        if line is None:
            return None
        for step, codes in STEPS:
            if line.code in codes:
                if step == STEPS[0][0]:
                    self._restart()
                self.steps.setdefault(step, seconds)
        if line.code in _PLANS:
            if line.code is log.RESHARDED:  # who had failed for good begins anew
                self.rows = {n: row for n, row in self.rows.items() if row.state != "FATAL"}
            total, start, count = (int(line.values[key]) for key in _PLANS[line.code])
            self._hold(total, start, count)
            if line.code is log.NODE_STARTED and count < self.asked:
                self._hold(total, start, self.asked)
                for n in range(start + count, start + self.asked):
                    self.rows[n].detail = NO_MEMORY
        if line.code is log.NODE_STOPPED:
            self.stopped = line.values
        self.off = self.off or line.code is log.NODE_OFF
        row = self.rows.get(line.shard) if line.shard is not None else None
        change = _CHANGES.get(line.code)
        if row is not None and change is not None:
            change(row, line)
            if row.state == "READY":
                self._note_ready(row, seconds, line)
        return line

    def correct(
        self,
        seconds: float,
        node: Mapping[str, Any],
        shards: Sequence[Mapping[str, Any]],
        ready_ms: int,
    ) -> None:
        """Take the node's own word for its shards: a full serial port drops lines.

        Args:
            seconds: Since power-on.
            node: Its report of itself, as `shardfw status --json` has it.
            shards: Its reports of them.
            ready_ms: When the last of them became READY, from the node's first instruction.
        """
        self._hold(node["global_total"], node["local_start"], node["local_count"])
        for report in shards:
            row = self.rows.get(report["shard"])
            if row is None or row.state == report["state"]:
                continue
            row.state, row.attempts = report["state"], report["attempts"]
            row.reconnects = report["reconnects"]
            row.detail = "told by the node's diagnostics"
            if row.state == "READY":
                row.ready_at = seconds
        if self.power_on_to_ready_ms is None and self.ready == len(self.rows):
            self.power_on_to_ready_ms, self.nbp_to_ready_ms = round(seconds * 1000), ready_ms

    def _hold(self, total: int, start: int, count: int) -> None:
        """Have a row for each shard that the plan names, and no other.

        With another total every shard is another one.
        """
        stays = self.rows if total == self.total or not self.total else {}
        self.total = total
        self.rows = {n: stays.get(n) or ShardRow(n) for n in range(start, start + count)}

    def _restart(self) -> None:
        """Forget what a node that boots again has lost."""
        if self.steps:
            self.steps.clear()
            self.stopped, self.off = None, False
            for row in self.rows.values():
                row.state, row.detail, row.attempts, row.reconnects = "ASSIGNED", "", 0, 0

    def _note_ready(self, row: ShardRow, seconds: float, line: LogLine) -> None:
        if line.code is log.SHARD_READY:
            row.ready_at = seconds
        if self.power_on_to_ready_ms is None and self.ready == len(self.rows):
            self.power_on_to_ready_ms = round(seconds * 1000)
            self.nbp_to_ready_ms = line.t_ms


def _attempt(row: ShardRow, line: LogLine) -> None:
    row.state, row.attempts = "STARTING", int(line.values["attempt"])
    row.detail = f"dials {line.values['address']}:{line.values['port']}"


def _hello(row: ShardRow, _line: LogLine) -> None:
    row.state, row.detail = "STARTING", "hello"


def _state(row: ShardRow, line: LogLine) -> None:
    row.state = str(line.values["state"]).upper()
    detail = {"STARTING": "phase", "ASSIGNED": "hold"}.get(row.state)
    text = "" if detail is None else str(line.values[detail])
    row.detail = "" if text == "none" else text


def _ready(row: ShardRow, line: LogLine) -> None:
    row.state, row.attempts = "READY", int(line.values["attempt"])
    how = "resumed" if line.values["mode"] == "resume" else "identified"
    row.detail = f"{how} in {line.values['durationMs']} ms"


def _backoff(row: ShardRow, line: LogLine) -> None:
    row.state, row.attempts = "BACKOFF", int(line.values["attempt"])
    row.reconnects += 1
    code = f" {line.values['closeCode']}" if line.values["closeCode"] else ""
    row.detail = (
        f"{line.values['reason']}{code}, {line.values['next']} in {line.values['delayMs']} ms"
    )


def _reset(row: ShardRow, line: LogLine) -> None:
    row.detail, row.reconnects = "retries", int(line.values["reconnects"])


def _fatal(row: ShardRow, line: LogLine) -> None:
    code = f" {line.values['closeCode']}" if line.values["closeCode"] else ""
    row.state, row.detail = "FATAL", f"{line.values['stop']}: {line.values['reason']}{code}"


def _held(row: ShardRow, line: LogLine) -> None:
    row.state, row.detail = "ASSIGNED", str(line.values["hold"])


def _no_clock(row: ShardRow, _line: LogLine) -> None:
    row.state, row.detail = "ASSIGNED", "no_clock"


# What tells the plan, with the keys of its three numbers.
_PLANS: dict[LogCode, tuple[str, str, str]] = {
    log.NODE_STARTED: ("total", "start", "count"),
    log.RESHARDED: ("total", "start", "shards"),
}
_CHANGES: dict[LogCode, Callable[[ShardRow, LogLine], None]] = {
    log.SHARD_ATTEMPT: _attempt,
    log.SHARD_STATE: _state,
    log.SHARD_READY: _ready,
    log.GATEWAY_HELLO: _hello,
    log.CONNECTION_LOST: _backoff,
    log.CONNECTION_RETRY: _backoff,
    log.SHARD_RETRY: _reset,
    log.CONNECTION_ENDED: _fatal,
    log.SHARD_HELD: _held,
    log.SHARD_NO_CLOCK: _no_clock,
}
