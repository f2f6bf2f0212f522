"""Routines that leave to the variant that boot chose (`firmware/crypto/begin.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.variants import Variant
from toolchain.asm import Asm, E, Mem32

if TYPE_CHECKING:
    from toolchain.asm import Routine


def leave_to(a: Asm, chosen: Mem32[Variant], fast: Routine, base: Routine) -> None:
    """Leave to the variant that a field of `Variants` says."""
    a.cmp(chosen, Variant.FAST)
    with a.if_(E):
        a.jmp(fast)
    a.jmp(base)
