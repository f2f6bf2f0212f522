"""For `shardfw check`: tells of progress through a pipe and saves the coverage of each process.

The environment names both: SHARDFW_CHECK_PIPE is a file descriptor, SHARDFW_CHECK_DIR a folder.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import currently_in_test_context

from emulator.coverage import note_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence


def tell(**message: object) -> None:
    """Write one message to whoever started the run."""
    line = json.dumps(message).encode() + b"\n"
    os.write(int(os.environ["SHARDFW_CHECK_PIPE"]), line)


class Progress:
    """Runs in the controlling process alone."""

    def __init__(self) -> None:
        self._told = False

    def _collected(self, count: int) -> None:
        if not self._told:
            self._told = True
            tell(total=count)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Tell how many tests there are; every worker collects the same."""
        self._collected(len(ids))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell how many tests there are when no workers are used."""
        if session.items:
            self._collected(len(session.items))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell of each finished test."""
        if report.when == "call" or (report.when == "setup" and not report.passed):
            tell(test=report.nodeid, outcome=report.outcome)


def pytest_configure(config: pytest.Config) -> None:
    """Register the progress reporter in the controlling process; tell drawn examples apart."""
    note_drawing(currently_in_test_context)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress())


def pytest_sessionfinish() -> None:
    """Save what this process saw."""
    from emulator.constant_time import FIGURES as TRACED  # noqa: PLC0415
    from emulator.coverage import process_coverage  # noqa: PLC0415 - after the tests' own imports
    from emulator.lockstep import STATISTICS  # noqa: PLC0415
    from emulator.native_judge import FIGURES  # noqa: PLC0415

    folder = Path(os.environ["SHARDFW_CHECK_DIR"])
    for drawn, kind in ((False, "fixed"), (True, "drawn")):
        process_coverage(drawn=drawn).save(folder / f"{os.getpid()}.{kind}.coverage.json")
    for name, figures in (("statistics", STATISTICS), ("native", FIGURES), ("traces", TRACED)):
        path = folder / f"{os.getpid()}.{name}.json"
        path.write_text(json.dumps(asdict(figures)), encoding="utf-8")
