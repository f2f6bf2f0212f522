"""The semantics judge: each executed general-purpose instruction against the Python interpreter.

Before an instruction runs, its result is computed from the registers and the memory as they are;
when the next one starts, the machine must show that result. SIMD, ports, device registers and what
the test's environment answers (time, randomness, CPUID) are left to the other judges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import iced_x86 as ix
import unicorn.x86_const as ux

from emulator.machine import MachineError
from emulator.memory import PAGE
from emulator.mismatch import Mismatch
from emulator.semantics import (
    Outside,
    ProcessorFault,
    Step,
    StepFunction,
    check_step,
    compile_instruction,
    supports,
    unicorn_defect,
)

if TYPE_CHECKING:
    from emulator.machine import Machine
    from toolchain.link import Image

_RF = 0x10000  # belongs to debugging alone
_FLAGS = 17
# With stores hooked, Unicorn 2.1.4 loses status flags over these when they are repeated, although
# they change none; the judge puts the flags back, because code may carry them across a copy.
_LOSES_FLAGS = frozenset(
    (
        *(ix.Mnemonic.MOVSB, ix.Mnemonic.MOVSW, ix.Mnemonic.MOVSD, ix.Mnemonic.MOVSQ),
        *(ix.Mnemonic.STOSB, ix.Mnemonic.STOSW, ix.Mnemonic.STOSD, ix.Mnemonic.STOSQ),
    )
)

# By image: decoded instructions, and step functions by address (None: not judged here).
_CACHE: dict[int, tuple[Image, dict[int, ix.Instruction], dict[int, StepFunction | None]]] = {}


class _NotMemory(Exception):  # noqa: N818 - control flow between reader and judge
    """The instruction reads something that no region holds: a device register, or it faults."""


def _of_image(image: Image) -> tuple[dict[int, ix.Instruction], dict[int, StepFunction | None]]:
    known = _CACHE.get(id(image))
    if known is not None:
        return known[1], known[2]
    decoded: dict[int, ix.Instruction] = {}
    for placed in image.routines():
        section = image.section(placed.section)
        if section.bits == placed.thing.bits == 64:
            start = placed.address - section.address
            code = section.contents[start : start + placed.size]
            decoded.update((ins.ip, ins) for ins in ix.Decoder(64, code, ip=placed.address))
    _CACHE[id(image)] = image, decoded, {}
    return decoded, _CACHE[id(image)][2]


class SemanticsJudge:
    """Predicts each instruction before it runs and compares when the next one starts.

    Attributes:
        judged: Instructions compared so far.
        skipped: Instructions left to other judges so far.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._decoded, self._steps = _of_image(machine.image)
        self._take = machine.snapshot.take
        self._pages = machine.pages
        self._outside = Outside()
        self._before: list[int] = []
        self._pending: Step | None = None
        self._fault: ProcessorFault | None = None
        self._written: list[tuple[int, int, int]] = []
        self.judged = self.skipped = 0

    def start(self) -> None:
        """Forget the previous run; take the segment bases of this one."""
        read = self._machine.engine.reg_read
        self._outside = Outside(read(ux.UC_X86_REG_FS_BASE), read(ux.UC_X86_REG_GS_BASE))
        self._pending = self._fault = None
        self._written.clear()

    def step(self, address: int) -> None:
        """Compare the instruction that ended and predict the one that starts.

        Raises:
            Mismatch: The machine departs from the semantics.
        """
        steps = self._steps
        function = steps[address] if address in steps else self._compile(address)
        pending = self._pending
        # Between two instructions that are not judged nobody looks at the registers.
        registers = self._take() if function is not None or pending is not None else []
        if pending is not None:
            if pending[1] == registers and not pending[2] and not self._written:
                self.judged += 1  # most instructions, without another call
            else:
                self._compare(pending, registers)
        elif self._fault is not None:
            self._must_fault(self._fault)
        self._written.clear()
        self._pending = self._fault = None
        if function is None:
            self.skipped += 1
            return
        self._before = registers
        try:
            self._pending = function(registers, self._read, self._outside)
        except (_NotMemory, MachineError):
            self.skipped += 1
        except ProcessorFault as fault:
            self._fault = fault

    def wrote(self, address: int, size: int, value: int) -> None:
        """Note a store of the running instruction; `value` is cut to its size."""
        self._written.append((address, size, value))

    def finish(self) -> None:
        """Compare the last instruction of a run that ended well.

        Raises:
            Mismatch: The machine departs from the semantics.
        """
        if self._pending is not None:
            self._compare(self._pending, self._take())
        elif self._fault is not None:
            self._must_fault(self._fault)
        self._pending = self._fault = None

    def _compare(self, step: Step, registers: list[int]) -> None:
        self.judged += 1
        expected, writes, written = step[1], step[2], self._written
        # Undefined flags follow the machine, so that one comparison of lists tells everything.
        if not (expected[_FLAGS] ^ registers[_FLAGS]) & ~(step[3] | _RF):
            expected[_FLAGS] = registers[_FLAGS]
        if expected == registers:
            if not writes and not written:
                return
            if len(writes) == len(written) == 1 and writes[0] == written[0]:
                return
        ins = step.instruction
        if ins.has_rep_prefix and ins.mnemonic in _LOSES_FLAGS:
            registers[_FLAGS] = expected[_FLAGS]
            self._machine.engine.reg_write(ux.UC_X86_REG_RFLAGS, expected[_FLAGS])
        difference = check_step(self._before, registers, step, self._read_any, written)
        if difference is not None:
            defect = unicorn_defect(ins)
            hint = f"; a known defect of Unicorn: {defect}" if defect else ""
            raise Mismatch(f"{self._machine.where(ins.ip)}: {difference}{hint}")

    def _must_fault(self, fault: ProcessorFault) -> None:
        ins = self._decoded[self._before[16]]
        raise Mismatch(
            f"{self._machine.where(ins.ip)}: {ins.ip:#x} `{ins}` must raise {fault}, "
            "but the machine went on"
        )

    def _compile(self, address: int) -> StepFunction | None:
        ins = self._decoded.get(address)
        function = None
        if ins is not None and supports(ins) and address not in self._machine.special:
            function = compile_instruction(ins, once=True)
        self._steps[address] = function
        return function

    def _read(self, address: int, size: int) -> int:
        found = self._pages.get(address >> 12)
        if found is None:
            raise _NotMemory
        offset = address & 0xFFF
        if offset + size > PAGE:
            return int.from_bytes(self._machine.read(address, size), "little")
        offset += found[1]
        return int.from_bytes(found[0].buffer[offset : offset + size], "little")

    def _read_any(self, address: int, size: int) -> int:
        """Read after the instruction; a store to a device register has no memory to look at."""
        try:
            return self._read(address, size)
        except (_NotMemory, MachineError):
            return next((v for a, s, v in self._written if (a, s) == (address, size)), 0)
