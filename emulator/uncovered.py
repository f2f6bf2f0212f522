"""Instructions that no lockstep run reaches, and what judges them instead.

`shardfw check` prints this list and refuses an entry that is not needed any more. 16- and 32-bit
code needs no entry: the 64-bit machine cannot run it, so all of it is judged by booting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.asm.routine import Routine

# Routine -> what judges the rest of it. A routine listed here may lack a model.
UNCOVERED: dict[str, str] = {}

BOOTED = "runs before 64-bit mode; judged by booting a QEMU node"


def reason_of(routine: Routine) -> str:
    """Return why a routine need not be covered completely, or an empty string."""
    return UNCOVERED.get(routine.name, "") or (BOOTED if routine.bits != 64 else "")
