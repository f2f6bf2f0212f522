"""The semantics judge: each executed general-purpose instruction against the Python interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import iced_x86 as ix

if TYPE_CHECKING:
    from emulator.machine import Machine


class SemanticsJudge:
    """Predicts each instruction before it runs and compares when the next one starts."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._decoded: dict[int, ix.Instruction] = {}
