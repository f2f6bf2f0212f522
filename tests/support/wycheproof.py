"""Wycheproof's vectors, which lie beside the project (decision 35)."""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_BESIDE = Path(__file__).parents[2].parent / "shared" / "vectors"
FOLDER = Path(os.environ.get("SHARDFW_VECTORS", _BESIDE)) / "wycheproof"


@functools.cache
def groups(name: str) -> list[dict[str, Any]]:
    """Return the test groups of a file, which holds at least one.

    Args:
        name: The file, for example `x25519_test.json`.
    """
    found: list[dict[str, Any]] = _file(name)["testGroups"]
    return found


@functools.cache
def _file(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return found


Verdict = tuple[str, bool | None]


def judged(
    name: str, verdict: Callable[[dict[str, Any], dict[str, Any]], bool | None]
) -> Counter[Verdict]:
    """Let `verdict(group, case)` accept or refuse every case of a file; it must be right.

    Args:
        name: The file.
        verdict: Returns None for a case that the routine's contract leaves out.

    Returns:
        How many cases there were of each (result in the file, verdict).
    """
    counts: Counter[Verdict] = Counter()
    for group in groups(name):
        for case in group["tests"]:
            said = verdict(group, case)
            if said is not None:
                right = case["result"] == "valid"
                assert said == right, f"{name} {case['tcId']}: {case['comment']}"
            counts[case["result"], said] += 1
    assert counts.total() == _file(name)["numberOfTests"]
    return counts


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark a test that reads files of Wycheproof; without them it is skipped and names them."""
    missing = [name for name in names if not (FOLDER / name).is_file()]
    return pytest.mark.skipif(
        bool(missing),
        reason=f"Wycheproof's {', '.join(missing)} is missing: put it into "
        "../shared/vectors/wycheproof or name the parent folder in SHARDFW_VECTORS",
    )
