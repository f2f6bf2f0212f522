"""Where Unicorn 2.1.4 departs from the SDM, found by the three-way comparison in the tests.

The processor sides with the Python semantics in every one. Generated code that Unicorn judges must
avoid these forms; a lockstep run that meets one reports the reason instead of a wrong routine.
"""

from collections.abc import Callable
from typing import Final

from iced_x86 import Code, Instruction, Mnemonic, OpKind


def _relative_then_immediate(ins: Instruction) -> bool:
    return ins.is_ip_rel_memory_operand and ins.op_count == 3


def _always(_: Instruction) -> bool:
    return True


_DOUBLE_SHIFT = "a RIP-relative operand before the immediate is addressed one byte off"

# Mnemonic -> (form affected, what goes wrong).
UNICORN_DEFECTS: Final[dict[int, tuple[Callable[[Instruction], bool], str]]] = {
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


def unicorn_defect(ins: Instruction) -> str:
    """Return what Unicorn gets wrong about an instruction, or an empty string."""
    affected, reason = UNICORN_DEFECTS.get(ins.mnemonic, (_always, ""))
    return reason if affected(ins) else ""
