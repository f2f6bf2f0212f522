"""Routines of a lab on the processor alone: for whole operations and for cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.machine import STACK_TOP
from emulator.native import Access, Call, NativeProgram, Region, Result
from emulator.registers import GPR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.lab import Lab
    from toolchain.asm import Routine

RSP = STACK_TOP - 0x100


class Processor:
    """The memory of a lab as it is now, copied into a process of its own for each run.

    Args:
        lab: Whose linked image and memory.
        seconds: Processor time that one run may take.
    """

    def __init__(self, lab: Lab, seconds: float = 20.0) -> None:
        self._lab = lab
        regions = []
        for region in lab.machine.regions:
            kept = Access.DATA if region.writable else Access.CONSTANT
            access = Access.CODE if region.executable else kept
            regions.append(Region(region.address, bytes(region.buffer), access, (), region.aliases))
        self._program = NativeProgram(regions, seconds)

    def call(
        self,
        routine: Routine,
        memory: Sequence[tuple[int, bytes]] = (),
        reads: Sequence[tuple[int, int]] = (),
        /,
        **inputs: int,
    ) -> Call:
        """Return one call for `run`: memory to set before it and to return after it."""
        if set(inputs) != set(routine.parameters):
            raise TypeError(f"{routine.name} takes {routine.parameters}, got {tuple(inputs)}")
        registers = [0] * 16
        registers[GPR.index("rsp")] = RSP
        for i, name in zip(routine.contract.inputs, routine.parameters, strict=True):
            registers[GPR.index(i.reg.full)] = inputs[name]
        address = self._lab.image.address(routine)
        return Call(address, registers, memory=tuple(memory), reads=tuple(reads))

    def run(self, calls: Sequence[Call]) -> list[Result]:
        """Run calls one after another; memory carries over within the run."""
        return self._program.run(calls)
