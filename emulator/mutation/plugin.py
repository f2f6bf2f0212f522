"""For `shardfw check --mutate`: records the calls of a run of the tests, then tries the mutants.

Loaded beside `emulator.pytest_plugin`, whose pipe and folder it uses. SHARDFW_MUTATE names the
routines as `module:routine`, SHARDFW_MUTATE_JOBS the processes.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from emulator.mutation.record import Corpus
    from toolchain.asm.routine import Routine

RESULT = "mutation.json"
_found: list[tuple[Corpus, list[Routine], float]] = []


def _wanted() -> list[Routine]:
    names = (pair.split(":") for pair in os.environ["SHARDFW_MUTATE"].split(","))
    return [getattr(importlib.import_module(module), name) for module, name in names]


def pytest_sessionstart() -> None:
    """Let every lockstep call be recorded."""
    from emulator.lockstep import Lockstep  # noqa: PLC0415 - after the tests' own imports
    from emulator.mutation.record import Corpus  # noqa: PLC0415

    routines = _wanted()
    corpus = Corpus(r.name for r in routines)
    Lockstep.recorder = corpus
    _found.append((corpus, routines, time.monotonic()))


def pytest_sessionfinish(exitstatus: int | pytest.ExitCode) -> None:
    """Try the mutants, if the tests passed, and save the verdicts."""
    from emulator.lockstep import Lockstep  # noqa: PLC0415 - after the tests' own imports
    from emulator.mutation.campaign import run_campaign  # noqa: PLC0415
    from emulator.pytest_plugin import tell  # noqa: PLC0415

    Lockstep.recorder = None
    corpus, routines, begun = _found.pop()
    if exitstatus:
        return
    recorded = time.monotonic()

    def told(done: int, total: int) -> None:
        tell(mutants=total, done=done)

    campaign = run_campaign(corpus, routines, int(os.environ["SHARDFW_MUTATE_JOBS"]), told)
    path = Path(os.environ["SHARDFW_CHECK_DIR"]) / RESULT
    result = asdict(campaign) | {
        "recording_seconds": recorded - begun,
        "seconds": time.monotonic() - recorded,
    }
    for verdict in result["verdicts"]:
        verdict["mutant"] = {
            name: verdict["mutant"][name]
            for name in ("routine", "offset", "operator", "before", "after", "where", "ordinal")
        }
    path.write_text(json.dumps(result), encoding="utf-8")
