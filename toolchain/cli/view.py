"""The live table of `shardfw run`: boot steps above, shards below, the newest lines last."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from toolchain.cli.board import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from toolchain.cli.board import ShardRow
    from toolchain.cli.runner import Runner

BOOT_ROM_S = 5.4
"""What firmware and boot ROM take before our first instruction, measured; for the bar only."""
SHOWN_LINES = 6
FRAME_LINES = 8
"""Lines around the shards: steps, the table's head and edges, the ending."""
LACKS_LINES = 2
"""The sentence about memory, on a terminal of 80 columns."""
GRID_WIDTH = 64
STYLES = {
    "ASSIGNED": "cyan",
    "STARTING": "yellow",
    "READY": "green",
    "BACKOFF": "red",
    "FATAL": "bold red",
}


def _steps(runner: Runner) -> Table:
    """Return the boot steps, each with the time it was done, and one bar over all."""
    board, now = runner.board, runner.seconds
    count, ready = len(board.rows), board.ready
    line = Text(f"READY {ready}/{count}", "green" if ready == count else "yellow", no_wrap=True)
    current = None
    for name, _ in STEPS:
        if name in board.steps:
            line.append(f"  {name} {board.steps[name]:.1f} s", "green")
        elif current is None:
            current = name
            line.append(f"  {name} ...", "yellow")
        else:
            line.append(f"  {name}", "dim")
    # Half of the bar is the boot, by time; half the shards, by count.
    booted = 1.0 if current is None else min(now / BOOT_ROM_S, 0.95)
    bar = ProgressBar(total=2, completed=booted + ready / count, width=20)
    table = Table.grid(padding=(0, 2))
    table.add_row(f"{now:6.1f} s", bar, line)
    return table


def _grid(rows: Iterable[ShardRow]) -> Text:
    """Return one letter a shard, the first of its state, sixty-four to a line."""
    text = Text()
    for n, row in enumerate(rows):
        if n % GRID_WIDTH == 0:
            text.append(f"{chr(10) if n else ''}{row.shard:7} ", "dim")
        text.append(row.state[:1].lower(), STYLES.get(row.state, ""))
    return text


def _shards(runner: Runner, rows: Iterable[ShardRow]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("shard", "state", "detail", "attempts", "reconnects", "READY at"):
        table.add_column(name, no_wrap=True)
    stats = {}
    if runner.gateway is not None:
        for name in ("dispatches", "heartbeats"):
            table.add_column(name, justify="right")
        stats = {row.shard: row for row in runner.gateway.stats().shards}
    for row in rows:
        cells = _cells(row)
        if stats:
            # A move may bring shards that the local gateway does not serve.
            counted = stats.get(row.shard)
            cells += [str(counted.dispatches), str(counted.heartbeats)] if counted else ["", ""]
        table.add_row(*cells)
    return table


def _cells(row: ShardRow) -> list[str | Text]:
    ready = "" if row.ready_at is None else f"{row.ready_at:.2f} s"
    state = Text(row.state, STYLES.get(row.state, ""))
    return [str(row.shard), state, row.detail, str(row.attempts), str(row.reconnects), ready]


def render(runner: Runner, height: int) -> RenderableType:
    """Return what the terminal shows now.

    Args:
        runner: The node.
        height: Rows of the terminal; more shards than rows become a letter each, and the newest
            lines are shown only where there is room.
    """
    rows = list(runner.board.rows.values())
    shards: list[RenderableType] = [_shards(runner, rows)]
    lacks = [Text(runner.lacks, "bold red")] if runner.lacks else []
    frame = FRAME_LINES + LACKS_LINES * len(lacks)
    room = height - len(rows) - frame
    if room < 0:
        # More shards than lines: a letter each, and the rows of those that are not READY.
        lines_used = math.ceil(len(rows) / GRID_WIDTH) + 1
        waiting = [row for row in rows if row.state != "READY"]
        shown = waiting[: max(height - lines_used - frame, 0)]
        shards = [_grid(rows)]
        if shown:
            shards.append(_shards(runner, shown))
        if len(shown) < len(waiting):
            shards.append(Text(f"and {len(waiting) - len(shown)} more that are not READY", "dim"))
        room = height - lines_used - len(shown) - frame
    newest = list(runner.board.lines)[-max(min(room, SHOWN_LINES), 0) :] if room > 0 else []
    lines = [Text(f"{s:8.3f} {text}", "dim", no_wrap=True) for s, text in newest]
    ending = Text(
        "Ctrl-C ends the node; shardfw status asks it, shardfw stop closes it cleanly", "dim"
    )
    return Group(_steps(runner), *lacks, *shards, *lines, ending)
