"""Collect the figures, print them as one table, and write it to build/bench.md."""

from __future__ import annotations

import pytest

from tests.support.bench import TABLE, Row, commit, machine, table

ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture
def figure(request: pytest.FixtureRequest):
    """Return what adds a row; without a command the row names this very benchmark."""
    node = request.node
    own = f"make bench ARGS='-k {node.originalname.removeprefix('test_')}'"
    rows = request.config.stash.setdefault(ROWS, [])

    def add(name: str, value: str, command: str = own) -> None:
        rows.append(Row(name, value, command))

    return add


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    rows += [
        Row("measured on", machine(), "make bench"),
        Row("commit", commit(), "git rev-parse HEAD"),
    ]
    text = table(rows)
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(text, encoding="utf-8")
    terminalreporter.write("\n\n" + text)
    terminalreporter.write(f"\nalso in {TABLE}\n")
