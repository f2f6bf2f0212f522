"""A node's log lines, read by the declarations that the node writes them from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from firmware.layouts.log import CODES
from firmware.layouts.log_line import Level, LogCode, Render

_BY_NAME = {code.name: code for code in CODES}
_LEVELS = {level.name.lower(): level for level in Level}
_TEXTS = (Render.IP, Render.NAMES, Render.WORD, Render.FIXED)
_PAIR = re.compile(r'(\w+)=("[^"]*"|\S*)')


@dataclass(frozen=True)
class LogLine:
    """One line.

    Attributes:
        t_ms: Milliseconds since the node's first instruction; 0 while its clock is not calibrated.
        level: How much it matters.
        code: What happened, by its declaration.
        shard: Shard id, None for the node's own lines.
        values: Key to value: numbers as int, names, words and addresses as text.
        text: The sentence for people; empty when the line has none.
    """

    t_ms: int
    level: Level
    code: LogCode
    shard: int | None = None
    values: dict[str, int | str] = field(default_factory=dict)
    text: str = ""


def parse_line(text: str) -> LogLine | None:
    """Return a line as declared; None for text that is no log line of this firmware."""
    pairs = dict(_PAIR.findall(text))
    code = _BY_NAME.get(pairs.get("code", ""))
    level = _LEVELS.get(pairs.get("level", ""))
    if code is None or level is None:
        return None
    try:
        shard = int(pairs["shard"]) if "shard" in pairs else None
        values = {key: _value(kind.render, pairs[key]) for key, kind in code.fields}
        text = pairs.get("text", "").strip('"')
        return LogLine(int(pairs["t"]), level, code, shard, values, text)
    except (KeyError, ValueError):
        # Cut off, or two writers on one port.
        return None


def _value(render: Render, text: str) -> int | str:
    if render in _TEXTS or (render is Render.KNOWN and text == "none"):
        return text
    return int(text, 16 if render is Render.HEX else 10)
