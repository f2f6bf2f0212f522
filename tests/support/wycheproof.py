"""Wycheproof's vectors, which lie beside the project (decision 35)."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

_BESIDE = Path(__file__).parents[2].parent / "shared" / "vectors"
FOLDER = Path(os.environ.get("SHARDFW_VECTORS", _BESIDE)) / "wycheproof"


@functools.cache
def groups(name: str) -> list[dict[str, Any]]:
    """Return the test groups of a file, which holds at least one.

    Args:
        name: The file, for example `x25519_test.json`.
    """
    found: list[dict[str, Any]] = json.loads((FOLDER / name).read_text(encoding="utf-8"))[
        "testGroups"
    ]
    return found


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark a test that reads files of Wycheproof; without them it is skipped and names them."""
    missing = [name for name in names if not (FOLDER / name).is_file()]
    return pytest.mark.skipif(
        bool(missing),
        reason=f"Wycheproof's {', '.join(missing)} is missing: put it into "
        "../shared/vectors/wycheproof or name the parent folder in SHARDFW_VECTORS",
    )
