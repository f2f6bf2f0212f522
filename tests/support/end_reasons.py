"""The script of `firmware/docs/faults.md` that ends a connection for each reason, and its lines."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pxe.gateway.script import Step, parse_script

PAGE = Path(__file__).parents[2] / "firmware/docs/faults.md"
SHARDS = 8
HEARTBEAT_MS = 4000
REASONS = {
    "closed": 0,
    "heartbeatTimeout": 1,
    "reconnectRequested": 2,
    "invalidSession": 3,
    "protocol": 4,
    "network": 5,
    "timeout": 6,
}
"""Reason to the shard that shows it; the last one of the node shows none."""
_NUMBERS = re.compile(r"\b(t|delayMs)=\d+|\b\d+ ms\b")


def script() -> tuple[Step, ...]:
    """Return the steps as the page has them."""
    text = PAGE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    return parse_script(tomllib.loads(text)["step"])


def without_numbers(line: str) -> str:
    """Return a line without its times, which differ from run to run."""
    return _NUMBERS.sub("…", line)


def page_lines() -> list[str]:
    """Return the lines that the page shows."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.startswith("    t=")]
