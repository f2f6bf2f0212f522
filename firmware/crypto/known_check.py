"""What all checks of known answers do: compare, keep in mind what was wrong, tell it at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.known_answers import KNOWN_WORK
from toolchain.asm import AL, BL, CF, EBX, ECX, NE, RDI, RSI, Asm, Mem8, Out

if TYPE_CHECKING:
    from toolchain.asm.conditions import Condition
    from toolchain.layout import Data

W = KNOWN_WORK.it
OUTPUTS = [Out(CF, "1 = wrong: it must not be used")]
WRONG = EBX
"""Not 0 once something was wrong; all the rest is computed nevertheless, so that nothing branches."""


def note(a: Asm, wrong: Condition) -> None:
    """Keep in mind that a condition holds that should not."""
    a.set(wrong, AL)
    a.or_(BL, AL)


def compare(a: Asm, found: Mem8[int], wanted: Data) -> None:
    """Note when what was found is not the known answer."""
    a.lea(RSI, found)
    a.lea(RDI, wanted.address)
    a.mov(ECX, wanted.size)
    a.repe_cmpsb()
    note(a, NE)


def verdict(a: Asm) -> None:
    """Return whether something was wrong."""
    a.neg(WRONG)  # CF = 1 unless it was zero
    a.ret()
