"""The reads judge: what the bytes read of foreign memory, the model must have read or written too.

A parser that looks one byte behind its input does no visible harm in a test: the byte is there, and
often it even has the right value. The model states which bytes the rule depends on. So each load
from memory that is marked `foreign` (frames, rings, buffers of a caller) must lie within what the
model read or stored in the same call. In the node's own memory that holds for loads whose address
is computed (an index, a string instruction); plain fields are judged by the contracts at build.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import iced_x86 as ix
import unicorn as uc

from emulator.bare_hook import BareHook
from emulator.machine import STACK_BYTES, STACK_TOP
from emulator.memory import PAGE, split
from emulator.mismatch import Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.machine import Machine
    from emulator.memory import Region
    from toolchain.asm.routine import Routine
    from toolchain.link import Image

_STACK = STACK_TOP - STACK_BYTES
# By image: addresses of the instructions that compute where they load from.
_COMPUTED: dict[int, tuple[Image, frozenset[int]]] = {}


def computed(image: Image) -> frozenset[int]:
    """Return the addresses of instructions with an index, and of string instructions."""
    known = _COMPUTED.get(id(image))
    if known is not None:
        return known[1]
    found = set()
    for placed in image.routines():
        section = image.section(placed.section)
        if section.bits == placed.thing.bits == 64:
            start = placed.address - section.address
            code = section.contents[start : start + placed.size]
            for ins in ix.Decoder(64, code, ip=placed.address):
                if ins.is_string_instruction or ins.memory_index:
                    found.add(ins.ip)
    _COMPUTED[id(image)] = image, frozenset(found)
    return _COMPUTED[id(image)][1]


def merged(runs: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Join runs of (address, size) that touch; return their starts and their ends, in order."""
    starts: list[int] = []
    ends: list[int] = []
    for start, size in sorted(runs):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], start + size)
        else:
            starts.append(start)
            ends.append(start + size)
    return starts, ends


class ReadsJudge:
    """Notes loads from foreign memory while a routine runs and compares them with the model's.

    Args:
        machine: Where the routine runs.
        trace: The addresses that ran so far; the last one is the instruction that loads.
    """

    def __init__(self, machine: Machine, trace: Sequence[int]) -> None:
        self._machine, self._trace = machine, trace
        self._loads: dict[tuple[int, int], int] = {}
        loads, indexed, stop_with = self._loads, computed(machine.image), machine.stop_with

        def on_foreign(
            _engine: int, _kind: int, address: int, size: int, _value: int, _data: object
        ) -> None:
            try:
                loads.setdefault((address, size), len(trace) - 1)
            except BaseException as error:
                stop_with(error)

        def on_own(
            _engine: int, _kind: int, address: int, size: int, _value: int, _data: object
        ) -> None:
            try:
                if trace[-1] in indexed:
                    loads.setdefault((address, size), len(trace) - 1)
            except BaseException as error:
                stop_with(error)

        self._foreign = BareHook(uc.UC_HOOK_MEM_READ, on_foreign)
        self._own = BareHook(uc.UC_HOOK_MEM_READ, on_own)

    def hooks(self) -> list[int]:
        """Start anew; hook the loads that are judged and return the handles."""
        self._loads.clear()
        return [
            self._machine.hook_bare(
                self._foreign if region.foreign else self._own, start, start + region.size - 1
            )
            for region in self._machine.regions
            if region.foreign or self._is_own(region)
            for start in (region.address, *region.aliases)
        ]

    def _is_own(self, region: Region) -> bool:
        """Tell whether a region holds structs; the stack belongs to whoever runs."""
        return region.writable and not region.executable and region.address != _STACK

    def judge(self, routine: Routine, known: Iterable[tuple[int, int]]) -> None:
        """Compare with the runs (address, size) that the model read or stored.

        Raises:
            Mismatch: A load reaches bytes that the model did not look at.
        """
        if not self._loads:
            return
        canonical = self._machine.canonical
        starts, ends = merged((canonical(a), n) for run in known for a, n in split(*run))
        for (address, size), at in self._loads.items():
            for start, length in split(address, size):
                first = canonical(start)
                n = bisect_right(starts, first) - 1
                if n >= 0 and first + length <= ends[n]:
                    continue
                good = max(0, ends[n] - first) if n >= 0 else 0
                raise Mismatch(self._message(routine, start + good, address, size, at))

    def _message(self, routine: Routine, byte: int, address: int, size: int, at: int) -> str:
        region, offset, _ = self._machine.page(byte)
        place = f"{region.name}+{offset + byte % PAGE:#x}"
        return (
            f"{routine.name}: {self._machine.where(self._trace[at])} loads {size} bytes from "
            f"{address:#x}; the byte at {byte:#x} ({place}) is none that the model looked at: "
            "bound the load by the length of the input, or let the model read what the rule needs"
        )
