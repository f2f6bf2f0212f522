"""One recorded call again, on bytes that may have been changed: does anything come out otherwise?

No hook looks at each instruction; a limit ends what would run for ever. What is compared is what
the lockstep would compare at the end: memory, outputs, preserved registers, what the outside saw.
"""

from __future__ import annotations

import ctypes
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import unicorn as uc
import unicorn.x86_const as ux
from unicorn.unicorn_py3.unicorn import uclib

from emulator.compare import FLAG_BITS, value_of, width
from emulator.effects import ModelError
from emulator.environment import Environment, UnansweredError
from emulator.lockstep import Lockstep
from emulator.machine import STOP, Machine, MachineError
from emulator.mismatch import Mismatch
from emulator.mutation.record import STACK
from emulator.registers import GPR

if TYPE_CHECKING:
    from collections.abc import Callable

    import iced_x86 as ix

    from emulator.mutation.operators import Mutant
    from emulator.mutation.record import Bench, Call, Key

PATIENCE = 4
"""A mutant may take so many times the instructions of the original, and some more."""
EXTRA_INSTRUCTIONS = 1000
_BIG = 0x2_0000
"""Regions above this size are compared only when a store reached them."""
_RSP, _RIP, _FLAGS = 4, 16, 17
_FREE_FLAGS = 0x8D5 | 0x400 | 0x10000
_SUPPORT = ctypes.CDLL(None)
_SUPPORT.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class ReplayError(AssertionError):
    """The replay differs from the record; the message says where."""


class Recalled(Environment):
    """Gives the recorded answers in their order, and none that was not recorded.

    A device stores what it stored then; a write that it did not get then changes nothing.

    Attributes:
        left: What was not asked for yet.
        reached: Numbers of the regions that a device stored into.
    """

    def __init__(self, call: Call, machine: Machine) -> None:
        self.left = deque(call.answers)
        self.reached: set[int] = set()
        self._stores = iter(call.device)
        self._machine = machine
        super().__init__(
            tsc=lambda: int(self._take("rdtsc")),
            random=iter(lambda: self._take("rdrand"), None),
            seeds=iter(lambda: self._take("rdseed"), None),
            on_port_in=lambda _port, _size: int(self._take("in")),
            on_mmio_read=lambda _address, _size: int(self._take("mmio_read")),
            on_cpuid=lambda _leaf, _subleaf: self._take("cpuid"),
            on_rdmsr=lambda _msr: int(self._take("rdmsr")),
            on_port_out=self._written,
            on_mmio_write=self._written,
        )

    def _written(self, _place: int, _size: int, _value: int) -> None:
        for (number, offset), at, contents in next(self._stores, ()):
            start = offset + at
            self.reached.add(number)
            self._machine.regions[number].buffer[start : start + len(contents)] = contents

    def _take(self, kind: str) -> Any:  # noqa: ANN401 - by kind
        if not self.left or self.left[0][0] != kind:
            raise UnansweredError(f"{kind} was not asked for here when the call was recorded")
        return self.left.popleft()[1]


class _Memory:
    """Buffers whose contents are known: clean ones, and the pages that differ from them."""

    def __init__(self, pointers: list[int], clean: list[bytes], kept: list[int]) -> None:
        self._pointers, self._clean, self._kept = pointers, clean, kept
        self._pages: dict[Key, bytes] = {}

    def put(self, pages: dict[Key, bytes]) -> None:
        """Make the contents those pages over the clean ones."""
        old = self._pages
        if old is pages:
            return
        for key in old.keys() - pages.keys():
            number, offset = key
            self._store(number, offset, self._clean[number][offset : offset + 0x1000])
        for key, page in pages.items():
            if old.get(key) is not page:
                self._store(*key, page)
        self._pages = pages

    def became(self, pages: dict[Key, bytes]) -> None:
        """Note that the contents are those now, without touching them."""
        self._pages = pages

    def wipe(self) -> None:
        """Put everything back that may have changed."""
        for number in self._kept:
            clean = self._clean[number]
            ctypes.memmove(self._pointers[number], clean, len(clean))
        self._pages = {}

    def _store(self, number: int, offset: int, page: bytes) -> None:
        ctypes.memmove(self._pointers[number] + offset, page, len(page))


class _Registers:
    """Sets all registers with one call of the library."""

    def __init__(self, machine: Machine) -> None:
        library = ctypes.PyDLL(uclib._name)
        self._write = library.uc_reg_write_batch
        names = [getattr(ux, f"UC_X86_REG_{n.upper()}") for n in GPR]
        names.append(ux.UC_X86_REG_RFLAGS)
        names += [ux.UC_X86_REG_XMM0 + n for n in range(16)]
        self._values = (ctypes.c_uint64 * (17 + 32))()
        start = ctypes.addressof(self._values)
        places = [start + 8 * n for n in range(17)]
        places += [start + 8 * 17 + 16 * n for n in range(16)]
        ids = (ctypes.c_int * len(names))(*names)
        pointers = (ctypes.c_void_p * len(names))(*places)
        self._arguments = machine.engine._uch, ids, pointers, len(names)

    def set(self, general: tuple[int, ...], flags: int, vectors: tuple[int, ...]) -> None:
        """Set the 16 general-purpose registers, RFLAGS and XMM0-15."""
        self._values[:16] = list(general)
        self._values[16] = flags
        self._values[17:] = [h for v in vectors for h in (v & (1 << 64) - 1, v >> 64)]
        self._write(*self._arguments)


def _built(bench: Bench) -> Machine:
    machine = Machine(bench.image, tuple(replace(r) for r in bench.extra))
    for address, size in bench.windows:
        machine.map_mmio(address, size)
    machine.engine.reg_write(ux.UC_X86_REG_GS_BASE, 0)
    return machine


class Replay:
    """A machine for the recorded calls of one bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._machine = machine = _built(bench)
        self._registers = _Registers(machine)
        self._gs_base = 0
        regions = machine.regions
        kept = [n for n, r in enumerate(regions) if not r.executable]
        self._stack = next(n for n, r in enumerate(regions) if r.address == STACK)
        pointers = [r.pointer for r in regions]
        self._memory = _Memory(pointers, bench.clean, kept)
        self._mirrors = [ctypes.create_string_buffer(c, len(c)) for c in bench.clean]
        wanted = [ctypes.addressof(m) for m in self._mirrors]
        self._wanted = _Memory(wanted, bench.clean, kept)
        compared = [
            (n, pointers[n], wanted[n], regions[n].size)
            for n in kept
            if n != self._stack and regions[n].writable
        ]
        self._small = [row for row in compared if row[3] <= _BIG]
        self._big = [row for row in compared if row[3] > _BIG]
        self._reached: set[int] = set()
        for number, *_ in self._big:
            self._watch(number)
        for address in machine.special:
            machine.engine.hook_add(uc.UC_HOOK_CODE, self._answer, None, address, address)
        self._patched: tuple[int, bytes, ix.Instruction | None] | None = None
        # The second machine, for the lockstep, is built when a mutant needs it.
        self._lockstep: Lockstep | None = None

    # -- changed bytes ----------------------------------------------------------------------------
    def patch(self, mutant: Mutant | None) -> None:
        """Put a mutant's bytes into the code, or the original ones."""
        if self._patched is not None:
            address, code, special = self._patched
            for machine in self._machines():
                machine.write(address, code)
                if special is not None:
                    machine.special[address] = special
            self._patched = None
        if mutant is not None:
            address = self._bench.image.address(mutant.routine) + mutant.offset
            code = self._machine.read(address, mutant.size)
            special = self._machine.special.get(address)
            self._patched = address, code, special
            for machine in self._machines():
                machine.write(address, mutant.patched(code))
                machine.special.pop(address, None)
        for machine in self._machines():
            machine.engine.ctl_flush_tb()

    def _machines(self) -> list[Machine]:
        return [self._machine] + ([self._lockstep.machine] if self._lockstep else [])

    # -- without hooks ----------------------------------------------------------------------------
    def differs(self, call: Call) -> str:
        """Run a call and return how it departs from the record, or an empty string."""
        try:
            self._run(call)
            self._compare(call)
        except (MachineError, UnansweredError, ReplayError) as why:
            self._memory.wipe()
            return str(why)
        self._memory.became(call.final)
        return ""

    def _run(self, call: Call) -> None:
        machine = self._machine
        self._memory.put(call.pages)
        stack = machine.regions[self._stack]
        ctypes.memmove(stack.pointer, self._bench.clean[self._stack], stack.size)
        if call.gs_base != self._gs_base:
            machine.engine.reg_write(ux.UC_X86_REG_GS_BASE, call.gs_base)
            self._gs_base = call.gs_base
        environment = Recalled(call, machine)
        machine.environment = environment
        machine.write(call.registers[_RSP], STOP.to_bytes(8, "little"))
        self._registers.set(call.registers[:16], call.registers[_FLAGS], call.vectors)
        self._reached.clear()
        start = machine.image.address(call.routine)
        machine.run(start, PATIENCE * call.length + EXTRA_INSTRUCTIONS)
        self._reached |= environment.reached
        if environment.left:
            raise ReplayError(f"it no longer asks for {environment.left[0][0]}")

    def _compare(self, call: Call) -> None:
        machine, contract = self._machine, call.routine.contract
        registers, halves = machine.snapshot.take(), machine.snapshot.vectors()
        vectors = [low | high << 64 for low, high in zip(halves[::2], halves[1::2], strict=True)]
        if tuple(machine.environment.events) != call.events:
            raise ReplayError("the outside saw something else")
        if registers[_RSP] != call.registers[_RSP] + 8:
            raise ReplayError("RSP is off")
        changed = (registers[_FLAGS] ^ call.registers[_FLAGS]) & ~_FREE_FLAGS
        if changed or registers[_FLAGS] >> FLAG_BITS["df"] & 1:
            raise ReplayError("RFLAGS changed beyond the status flags")
        for out, wanted in zip(contract.outputs, call.outputs, strict=True):
            if wanted is None:
                continue
            if value_of(out.reg, registers, halves) != wanted & ((1 << width(out.reg)) - 1):
                raise ReplayError(f"{out.reg.name} is another")
        free = {r.full for r in contract.clobbers} | {o.reg.full for o in contract.outputs}
        free.add("rsp")
        pairs = zip((*registers[:16], *vectors), (*call.registers[:16], *call.vectors), strict=True)
        for name, (now, before) in zip(_NAMES, pairs, strict=True):
            if now != before and name not in free:
                raise ReplayError(f"{name} is not kept")
        self._wanted.put(call.final)
        rows = self._small + [row for row in self._big if row[0] in self._reached]
        for number, mine, wanted_at, size in rows:
            if _SUPPORT.memcmp(mine, wanted_at, size):
                raise ReplayError(f"{machine.regions[number].name} has other contents")
        for number, *_ in self._big:
            if number not in self._reached and any(
                key[0] == number and call.pages.get(key) is not page
                for key, page in call.final.items()
            ):
                raise ReplayError(f"{machine.regions[number].name} was not written")

    def _watch(self, number: int) -> None:
        region, reached = self._machine.regions[number], self._reached

        def on_write(*_: object) -> None:
            reached.add(number)

        for start in (region.address, *region.aliases):
            end = start + region.size - 1
            self._machine.engine.hook_add(uc.UC_HOOK_MEM_WRITE, on_write, None, start, end)

    def _answer(self, _engine: uc.Uc, address: int, _size: int, _data: object) -> None:
        ins = self._machine.special.get(address)
        if ins is not None:
            self._machine.answer(ins)

    # -- in lockstep ------------------------------------------------------------------------------
    def judged(self, call: Call) -> str:
        """Run a call against its model; return what the judges say, or an empty string."""
        lockstep = self._full()
        machine = lockstep.machine
        for region in machine.regions:
            if not region.executable:
                region.buffer[:] = machine.clean(region)
        for (number, offset), page in call.pages.items():
            machine.regions[number].buffer[offset : offset + len(page)] = page
        machine.engine.reg_write(ux.UC_X86_REG_GS_BASE, call.gs_base)
        lockstep.limit = PATIENCE * call.length + EXTRA_INSTRUCTIONS
        return _said(lambda: lockstep.call(call.routine, Recalled(call, machine), **call.inputs))

    def _full(self) -> Lockstep:
        if self._lockstep is None:
            self._lockstep = Lockstep(_built(self._bench))
            if self._patched is not None:
                address, code, _ = self._patched
                machine = self._lockstep.machine
                machine.write(address, self._machine.read(address, len(code)))
                machine.special.pop(address, None)
        return self._lockstep


def _said(run: Callable[[], object]) -> str:
    try:
        run()
    except (Mismatch, MachineError, ModelError, UnansweredError) as why:
        return str(why).splitlines()[0]
    return ""


_NAMES = (*GPR, *(f"xmm{n}" for n in range(16)))
