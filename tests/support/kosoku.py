"""kosoku as a server: somebody else's suite for WebSocket clients, and its verdicts."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = ("1", "2", "3", "4", "5", "6", "7", "10")
"""Autobahn's groups that need no compression and no message beyond the role's buffer."""
CASES = 247
AGENT = "shardfw"
# Both control clients of the fact sheet end up the same way in the first four.
NON_STRICT = {f"6.4.{n}" for n in range(1, 5)}
INFORMATIONAL = {"7.1.6", "7.13.1", "7.13.2"}
SUITE_CLOCK_MS = 500
"""The shortest of the suite's own clocks, which run in real time."""
RERUNS = 3
START_S = 30.0
_OPEN = {"01", "04", "05", "08"}
"""ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT in /proc/net/tcp."""
START_KOSOKU = "from kosoku._cli import main; raise SystemExit(main())"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Kosoku:
    """A running suite; `finish` ends it and returns its verdicts by case.

    Args:
        folder: Where the reports go.
        cases: Patterns of the cases' names.
    """

    def __init__(self, folder: Path, cases: tuple[str, ...]) -> None:
        self.folder, self.cases, self.port = folder, cases, _free_port()

    def __enter__(self) -> Self:
        include = [part for case in self.cases for part in ("-i", case)]
        self._server = subprocess.Popen(
            [sys.executable, "-c", START_KOSOKU, "-m", "fuzzingserver", *include, "-o",
             str(self.folder), f"127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self
        raise TimeoutError(f"kosoku did not listen on port {self.port} within {START_S} s")

    def __exit__(self, *_: object) -> None:
        self._server.kill()
        self._server.wait()

    def count(self) -> int:
        """Return how many cases there are."""
        with connect(f"ws://127.0.0.1:{self.port}/getCaseCount") as asked:
            return int(asked.recv())

    def path(self, case: int) -> str:
        """Return the path and query that runs a case; they count from 1."""
        return f"/runCase?case={case}&agent={AGENT}"

    def _connections(self) -> int:
        """Return how many connections the suite has not closed yet."""
        rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
        return sum(
            local.endswith(f":{self.port:04X}") and state in _OPEN
            for local, _, state in (row.split()[1:4] for row in rows)
        )

    def settle(self) -> None:
        """Wait until the suite has seen the end of every connection: only then a case counts."""
        deadline = time.monotonic() + START_S
        while self._connections() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.count()

    def finish(self) -> dict[str, dict[str, Any]]:
        """Return the verdicts; the server writes them, drops the connection and ends."""
        self.settle()
        address = f"ws://127.0.0.1:{self.port}/updateReports?agent={AGENT}"
        with connect(address) as asked, suppress(ConnectionClosed):
            asked.recv()
        self._server.wait(START_S)
        verdicts: dict[str, dict[str, Any]] = json.loads((self.folder / "index.json").read_text())
        return verdicts[AGENT]


def verdicts(folder: Path, play: Callable[[Kosoku], None]) -> dict[str, dict[str, Any]]:
    """Return the verdicts of every case.

    A case that the suite's own clock ended says that the machine was busy, or that the client is
    stuck: it runs again, alone, and a client that is stuck fails every time.

    Args:
        folder: Where the reports go.
        play: Runs every case of a suite, in order.
    """
    report: dict[str, dict[str, Any]] = {}
    cases = tuple(f"{group}.*" for group in GROUPS)
    for attempt in range(1 + RERUNS):
        with Kosoku(folder / str(attempt), cases) as suite:
            play(suite)
            report |= suite.finish()
        cases = tuple(c for c in failures(report) if report[c]["duration"] >= SUITE_CLOCK_MS)
        if not cases:
            break
    return report


def failures(report: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return the cases that did not end as a conforming client's do."""
    return {
        case: (v["behavior"], v["behaviorClose"])
        for case, v in report.items()
        if v["behavior"] not in {"OK", "NON-STRICT", "INFORMATIONAL"}
        or v["behaviorClose"] not in {"OK", "INFORMATIONAL"}
        or (v["behavior"] == "NON-STRICT" and case not in NON_STRICT)
        or (v["behavior"] == "INFORMATIONAL" and case not in INFORMATIONAL)
    }
