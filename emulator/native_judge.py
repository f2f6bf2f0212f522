"""The processor as a judge: the same bytes from the same state must leave what Unicorn left.

A sample of the lockstep calls is run again in a forked child: each routine as soon as a call of it
can be, then one call in `EVERY`. Calls in which the test answers something (time, randomness, ports,
device registers) cannot be; their routines are listed with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import iced_x86 as ix
import unicorn.x86_const as ux

from emulator import native
from emulator.compare import FLAG_BITS
from emulator.memory import PAGE
from emulator.mismatch import Mismatch
from emulator.refused import refused_instructions
from emulator.registers import GPR
from emulator.sha_extensions import INSTRUCTIONS, MISSING, processor_has_them
from toolchain.asm.registers import Flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.compare import Recorded
    from emulator.machine import Machine
    from emulator.memory import Region
    from toolchain.asm.routine import Routine
    from toolchain.link import Image

EVERY = 64
_OWN_KINDS = ("write", "call", "return")
_RSP, _FLAGS = 4, 17
_DF = 1 << FLAG_BITS["df"]


@dataclass
class Figures:
    """What this process judged: calls by routine, and why others could not be."""

    judged: dict[str, int] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


FIGURES = Figures()
# By image: addresses of instructions that a user process cannot run, and of those that use GS.
_MARKS: dict[int, tuple[Image, dict[int, str], set[int]]] = {}


class Start:
    """The registers at the start of a call."""

    def __init__(self, machine: Machine) -> None:
        self.registers = machine.snapshot.take()
        halves = machine.snapshot.vectors()
        self.vectors = [a | b << 64 for a, b in zip(halves[::2], halves[1::2], strict=True)]


def _marks(image: Image) -> tuple[dict[int, str], set[int]]:
    known = _MARKS.get(id(image))
    if known is not None:
        return known[1], known[2]
    refused: dict[int, str] = {}
    based: set[int] = set()
    for placed in image.routines():
        section = image.section(placed.section)
        if placed.thing.bits != 64:
            continue
        start = placed.address - section.address
        code = section.contents[start : start + placed.size]
        for ins in refused_instructions(code, placed.address):
            refused[ins.ip] = f"{ins} at {placed.name}+{ins.ip - placed.address:#x}"
        for ins in ix.Decoder(64, code, ip=placed.address):
            if ins.code in INSTRUCTIONS and not processor_has_them():
                refused[ins.ip] = f"{ins} at {placed.name}: {MISSING}"
            if ins.segment_prefix == ix.Register.GS:
                based.add(ins.ip)
    _MARKS[id(image)] = image, refused, based
    return refused, based


class NativeJudge:
    """Runs calls of one machine's image on the processor.

    Args:
        machine: The machine whose calls are judged.
        every: Judge one call of each routine in so many, beside the first that can be.
    """

    def __init__(self, machine: Machine, every: int = EVERY) -> None:
        self._machine, self._every = machine, every
        self._refused, self._based = _marks(machine.image)
        self._calls: dict[str, int] = {}

    def wants(self, routine: Routine) -> bool:
        """Tell whether the next call of the routine shall be judged."""
        count = self._calls[routine.name] = self._calls.get(routine.name, 0) + 1
        return routine.name not in FIGURES.judged or count % self._every == 0

    def judge(
        self,
        routine: Routine,
        start: Start,
        before: dict[int, bytes],
        trace: Sequence[int],
        log: Sequence[Recorded],
    ) -> None:
        """Run the call again on the processor and compare.

        Args:
            routine: What was called.
            start: The registers at its start.
            before: Contents of the pages that the call changed, by page number.
            trace: The addresses that ran.
            log: What the machine recorded.

        Raises:
            Mismatch: The processor leaves another state, or faults.
        """
        why = self._why_not(trace, log)
        if why:
            if routine.name not in FIGURES.judged:
                FIGURES.left.setdefault(routine.name, why)
            return
        program = native.NativeProgram(self._regions(before))
        registers = list(start.registers)
        registers[_RSP] += 8  # the trampoline pushes its own return address
        based = not self._based.isdisjoint(trace)
        gs_base = self._machine.engine.reg_read(ux.UC_X86_REG_GS_BASE) if based else 0
        call = native.Call(
            self._machine.image.address(routine), registers, start.vectors, gs_base=gs_base
        )
        try:
            (result,) = program.run([call])
        except native.NativeFault as fault:
            raise Mismatch(f"{routine.name}: on the processor: {fault}") from None
        self._compare(routine, result)
        FIGURES.left.pop(routine.name, None)
        FIGURES.judged[routine.name] = FIGURES.judged.get(routine.name, 0) + 1

    def _why_not(self, trace: Sequence[int], log: Sequence[Recorded]) -> str:
        for item in log:
            if item.key[0] not in _OWN_KINDS:
                return f"asks the test: {item.key[0]}"
        for address in set(trace) & self._refused.keys():
            return self._refused[address]
        return ""

    def _regions(self, before: dict[int, bytes]) -> list[native.Region]:
        regions = []
        changed: dict[int, list[tuple[int, bytes]]] = {}
        for number, contents in before.items():
            region, offset, _ = self._machine.page(number * PAGE)
            changed.setdefault(id(region), []).append((offset, contents))
        for region in self._machine.regions:
            data = bytearray(region.buffer)
            for offset, contents in changed.get(id(region), ()):
                data[offset : offset + PAGE] = contents
            access = _access(region)
            # What may run was looked at in the trace.
            routines = () if access is native.Access.CODE else None
            regions.append(
                native.Region(region.address, bytes(data), access, routines, region.aliases)
            )
        return regions

    def _compare(self, routine: Routine, result: native.Result) -> None:
        registers = self._machine.snapshot.take()
        halves = self._machine.snapshot.vectors()
        vectors = [a | b << 64 for a, b in zip(halves[::2], halves[1::2], strict=True)]
        names = (*GPR, *(f"xmm{n}" for n in range(16)))
        pairs = zip((*registers[:16], *vectors), (*result.registers, *result.xmm), strict=True)
        for name, (mine, real) in zip(names, pairs, strict=True):
            if mine != real:
                raise self._differs(routine, name, mine, real)
        flags = [o.reg for o in routine.contract.outputs if isinstance(o.reg, Flag)]
        defined = _DF | sum(1 << FLAG_BITS[flag.name] for flag in flags)
        if (registers[_FLAGS] ^ result.flags) & defined:
            raise self._differs(routine, "RFLAGS", registers[_FLAGS], result.flags)
        for region in self._machine.regions:
            real_bytes = result.memory.get(region.address)
            if region.name == "stack" or real_bytes is None:
                continue
            mine_bytes = region.buffer[:]
            if mine_bytes != real_bytes:
                pairs_ = enumerate(zip(mine_bytes, real_bytes, strict=True))
                at = next(n for n, (a, b) in pairs_ if a != b)
                place = f"{region.name}+{at:#x}"
                raise self._differs(routine, place, mine_bytes[at], real_bytes[at])

    def _differs(self, routine: Routine, place: str, mine: int, real: int) -> Mismatch:
        return Mismatch(
            f"{routine.name}: {place} is {mine:#x} in Unicorn and {real:#x} on the processor"
        )


def _access(region: Region) -> native.Access:
    if region.executable:
        return native.Access.CODE
    return native.Access.DATA if region.writable else native.Access.CONSTANT
