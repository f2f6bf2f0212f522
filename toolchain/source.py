"""Reading the Python source of generators: comments for the listing, paths that do not depend on the place."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds the packages; paths in listings and debug information start there."""


@cache
def short_path(file: str) -> str:
    """Return a source path relative to the project, the same wherever the project lies."""
    path = Path(file).resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


@dataclass(frozen=True)
class Source:
    """The comments of one Python file.

    Args:
        above: Line number -> text of a comment that has the line to itself.
        beside: Line number -> text of a comment after code.
        functions: First line, last line of the header and last line of each function, inner ones last.
    """

    above: dict[int, str] = field(default_factory=dict)
    beside: dict[int, str] = field(default_factory=dict)
    functions: tuple[tuple[int, int, int], ...] = ()

    def function(self, lineno: int) -> tuple[int, int, int]:
        """Return the innermost function around a line."""
        around = [f for f in self.functions if f[0] <= lineno <= f[2]]
        return max(around, default=(0, 0, 0))

    def group(self, after: int, lineno: int) -> list[str]:
        """Return the whole-line comments between two lines of one function, `after` excluded."""
        own = self.function(lineno)
        lines = [n for n in range(after + 1, lineno) if n in self.above]
        return [self.above[n] for n in lines if self.function(n) == own]

    def directly_above(self, lineno: int) -> list[str]:
        """Return the run of whole-line comments that ends just above a line."""
        start = lineno
        while start - 1 in self.above:
            start -= 1
        return self.group(start - 1, lineno)


def _words(comment: str) -> str:
    text = comment.lstrip("#:").strip()
    noise = ("noqa", "type:", "fmt:", "pragma", "ruff:")
    return "" if text.startswith(noise) else text.split("  # noqa")[0]


@cache
def read_source(file: str) -> Source:
    """Return the comments of a file; none when it cannot be read as Python."""
    try:
        text = Path(file).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return Source()
    source = Source(functions=_functions(tree))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or not (words := _words(token.string)):
            continue
        row, column = token.start
        alone = not token.line[:column].strip()
        (source.above if alone else source.beside)[row] = words
    return source


def _functions(tree: ast.Module) -> tuple[tuple[int, int, int], ...]:
    found = []
    work: list[ast.AST] = [tree]
    while work:
        node = work.pop()
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            work += getattr(node, part, [])  # statements only: expressions define no function
        if not isinstance(node, ast.FunctionDef):
            continue
        parts = [*ast.walk(node.args), *([node.returns] if node.returns else [])]
        header = max((getattr(p, "end_lineno", 0) or 0 for p in parts), default=0)
        header = max(header, node.lineno)
        found.append((node.lineno, header, node.end_lineno or header))
    return tuple(sorted(found))


class Comments:
    """Hands out the comments of emitting lines in the order of emission, each where it belongs."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}
        self._previous: tuple[str, int] = ("", 0)

    def take(self, file: str, lineno: int) -> tuple[list[str], str]:
        """Return the comment lines above and the comment beside an emitting line.

        A line that emits several instructions in a row gives its comments to the first.
        """
        if self._previous == (file, lineno):
            return [], ""
        self._previous = (file, lineno)
        source = read_source(file)
        start, header, _ = source.function(lineno)
        # Statements that emit nothing (`with a.loop()`, `for`) may stand between; a second pass
        # over the same lines (an unrolled loop, a macro) repeats only what is directly above.
        last = self._last.get((file, start), header)
        above = (
            source.group(last, lineno) if start and last < lineno else source.directly_above(lineno)
        )
        self._last[file, start] = lineno
        return above, source.beside.get(lineno, "")
