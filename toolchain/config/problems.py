"""What is wrong with a configuration, and where: the lines of a TOML file by key."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One thing to mend.

    Attributes:
        source: the file as the user named it, or "command line".
        line: line in the file, from 1; 0 when the problem has no line.
        key: the dotted key, "" for the file as a whole.
        message: what is wrong and what to write instead.
    """

    source: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        """Return `file:line: key: message`, leaving out what there is none of."""
        place = f"{self.source}:{self.line}" if self.line else self.source
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class ConfigError(Exception):
    """The configuration cannot be used; the text has one line per problem.

    Attributes:
        problems: all that was found, in file order.
    """

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))


def parse_toml(text: str, source: str) -> dict[str, object]:
    """Parse TOML.

    Raises:
        ConfigError: the text is not TOML; with the line.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The parser tells the place only in words.
        what, _, place = str(error).partition(" (at ")
        found = re.match(r"line (\d+)", place)
        line = int(found[1]) if found else len(text.splitlines()) or 1
        advice = "write key = value under a [section], text in double quotes"
        raise ConfigError([Problem(source, line, "", f"not TOML: {what}; {advice}")]) from None


def index_lines(text: str) -> dict[str, int]:
    """Return the line, from 1, on which each dotted key and each table begins.

    The text must be valid TOML. A statement is the fewest lines, from where the last one ended, that
    are valid TOML by themselves: so values of several lines need no rules of our own.
    """
    lines: dict[str, int] = {}
    table: tuple[str, ...] = ()
    pending: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        pending.append(line)
        try:
            statement = tomllib.loads("\n".join(pending))
        except tomllib.TOMLDecodeError:
            continue
        began = number - len(pending) + 1
        is_header = pending[0].lstrip().startswith("[")
        pending = []
        paths = list(_paths(statement))
        if is_header:
            table = paths[-1]
        for path in paths:
            lines.setdefault(".".join(path if is_header else (*table, *path)), began)
    return lines


def _paths(value: object, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every key in nested tables, outer ones first."""
    if isinstance(value, list) and value and isinstance(value[-1], dict) and prefix:
        value = value[-1]
    if not isinstance(value, dict):
        return []
    found: list[tuple[str, ...]] = []
    for key, inner in value.items():
        found.append((*prefix, key))
        found.extend(_paths(inner, (*prefix, key)))
    return found
