"""Mutants that no judge kills, and why that is right or accepted.

`shardfw check --mutate` reads this table: a survivor without a reason fails it, and so does a
reason that no survivor needs any more. The keys are what the command prints.
"""

from __future__ import annotations

# Routine -> mutant -> reason.
SURVIVORS: dict[str, dict[str, str]] = {}


def reason_of(routine: str, key: str) -> str:
    """Return why a mutant may survive, or an empty string."""
    return SURVIVORS.get(routine, {}).get(key, "")
