"""Instruction forms that Unicorn 2.1.4 runs wrong, found by comparing it with processor and SDM.

No lockstep run could tell whether a routine that uses one is right, so the build refuses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import iced_x86 as ix
from iced_x86 import Code, Mnemonic, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable


def _relative_then_immediate(ins: ix.Instruction) -> bool:
    return ins.is_ip_rel_memory_operand and ins.op2_kind == OpKind.IMMEDIATE8


def _always(_: ix.Instruction) -> bool:
    return True


_DOUBLE_SHIFT = "a RIP-relative operand before the immediate is addressed one byte off"

# Mnemonic -> (form affected, what goes wrong).
UNICORN_DEFECTS: Final[dict[int, tuple[Callable[[ix.Instruction], bool], str]]] = {
    Mnemonic.BLSI: (_always, "CF is inverted"),
    Mnemonic.BZHI: (_always, "an index of size - 1 or more clears the top bit or misreports CF"),
    Mnemonic.BEXTR: (_always, "a start or length at the operand size loses or keeps wrong bits"),
    Mnemonic.PDEP: (
        lambda ins: ins.code == Code.VEX_PDEP_R32_R32_RM32,
        "the 32-bit form does not clear the upper half",
    ),
    Mnemonic.NEG: (lambda ins: ins.has_lock_prefix, "LOCK NEG sets flags by the old value"),
    Mnemonic.CMPXCHG: (
        lambda ins: ins.code == Code.CMPXCHG_RM32_R32 and ins.op0_kind == OpKind.REGISTER,
        "an unequal 32-bit register destination loses its upper half",
    ),
    Mnemonic.SHLD: (_relative_then_immediate, _DOUBLE_SHIFT),
    Mnemonic.SHRD: (_relative_then_immediate, _DOUBLE_SHIFT),
    Mnemonic.RORX: (_relative_then_immediate, _DOUBLE_SHIFT),
    Mnemonic.RET: (
        lambda ins: ins.op_count == 1 and ins.immediate16 >= 0x8000,
        "the bytes to release are sign-extended",
    ),
}


def unicorn_defect(ins: ix.Instruction) -> str:
    """Return what Unicorn gets wrong about an instruction, or an empty string."""
    affected, reason = UNICORN_DEFECTS.get(ins.mnemonic, (_always, ""))
    return reason if affected(ins) else ""
