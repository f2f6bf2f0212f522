"""Instructions that no lockstep run reaches, and what judges them instead.

`shardfw check` prints this list and refuses an entry that is not needed any more. 16- and 32-bit
code needs no entry: the 64-bit machine cannot run it. Its tests run the 32-bit stage on a bare
32-bit processor, up to the switch; the switch and the 16-bit stage are judged by booting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.asm.routine import Routine

# Routine -> what judges the rest of it. A routine listed here may lack a model.
_TRAP = (
    "entered by the processor, left by IRETQ; tests/system/test_boot.py provokes faults and halts"
)
_END = (
    "never returns; tests/system/test_boot.py provokes a panic and reads the record after the reset"
)
UNCOVERED: dict[str, str] = {
    "fault_common": _TRAP,
    "irq_common": _TRAP,
    **{f"fault_{vector:02}": _TRAP for vector in range(32)},
    **{f"irq_{line:02}": _TRAP for line in range(16)},
    "fault_handle": _END,
    "panic": _END,
    "node_reset": _END,
    "boot_stop": "never returns; tests/system/test_boot.py boots with too little memory",
    "node_off": "never returns; tests/system/test_stop.py stops nodes with and without ACPI",
    "node_entry": "takes the stack for itself and never returns; every boot runs it",
    "node_main": "the endless loop; its parts have models",
}

BOOTED = "runs before 64-bit mode; judged by booting a QEMU node"


def reason_of(routine: Routine) -> str:
    """Return why a routine need not be covered completely, or an empty string."""
    return UNCOVERED.get(routine.name, "") or (BOOTED if routine.bits != 64 else "")
