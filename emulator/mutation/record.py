"""The corpus: every lockstep call that the tests make, with all that a replay needs.

A test runs once; its calls are kept with the memory before and after, the registers, what the
outside answered and what it was told. Pages are kept as differences from a machine just reset, and
equal pages once.
"""

from __future__ import annotations

import functools
from array import array
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import unicorn.x86_const as ux

from emulator.effects import Event
from emulator.machine import ARENA, STACK_BYTES, STACK_TOP
from emulator.memory import PAGE, split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.environment import Environment
    from emulator.lockstep import Lockstep, Result
    from emulator.machine import Machine
    from emulator.memory import Region
    from emulator.native_judge import Start
    from toolchain.asm.routine import Routine
    from toolchain.link import Image

STACK = STACK_TOP - STACK_BYTES
_OWN_KINDS = ("write", "call", "return")
Key = tuple[int, int]
"""A page: number of its region in the machine, offset in the region's buffer."""
Stored = tuple[tuple[tuple[Key, int, bytes], ...], ...]
"""For each write to a device what it stored: page, offset in it, bytes."""


@dataclass(frozen=True)
class Call:
    """One call of a routine on which bytes and model agreed.

    Attributes:
        bench: Number of the machine it ran on.
        routine: What was called.
        inputs: Its inputs by name.
        registers: The 18 registers of `Snapshot` at the start.
        vectors: XMM0-15 at the start.
        gs_base: The base of GS.
        pages: Pages that differ from a machine just reset.
        final: The same after the call.
        answers: What the outside answered, in order.
        events: What the outside saw, in order.
        device: What each write to a port or device register made a device store, as (page, offset
            in it, bytes).
        outputs: The contract's outputs in order; None is not compared.
        length: Instructions.
    """

    bench: int
    routine: Routine
    inputs: dict[str, int]
    registers: tuple[int, ...]
    vectors: tuple[int, ...]
    gs_base: int
    pages: dict[Key, bytes]
    final: dict[Key, bytes]
    answers: tuple[tuple[str, object], ...]
    events: tuple[tuple[Any, ...], ...]
    device: Stored
    outputs: tuple[int | None, ...]
    length: int


@dataclass
class Bench:
    """What is needed to build the machine of some calls again.

    `touching` maps the address of an instruction to the calls that ran it.
    """

    image: Image
    extra: tuple[Region, ...]
    clean: list[bytes]
    numbers: dict[int, int]
    windows: list[tuple[int, int]]
    touching: dict[int, array[int]] = field(default_factory=dict)


class Corpus:
    """Records the calls of a test run; give it to `Lockstep.recorder`.

    Args:
        wanted: Names of the routines whose instructions will be mutated; None is all.
    """

    def __init__(self, wanted: Iterable[str] | None = None) -> None:
        self.wanted = None if wanted is None else frozenset(wanted)
        self.benches: list[Bench] = []
        self.calls: list[Call] = []
        self._machines: dict[int, tuple[Machine, int]] = {}
        self._pool: dict[bytes, bytes] = {}
        self._seen: set[object] = set()
        self._pages: dict[Key, bytes] = {}
        self._device = _Device()

    def touching(self, routine: str, offset: int) -> list[int]:
        """Return the numbers of the calls that ran an instruction, the shortest first."""
        found: list[int] = []
        for bench in self.benches:
            placed = bench.image.symbols.get(routine)
            if placed is not None:
                found += bench.touching.get(placed.address + offset, ())
        return sorted(found, key=lambda n: self.calls[n].length)

    def ways(self, routine: str) -> dict[int, int]:
        """Return for each call that ran a routine which of its instructions ran, as a number."""
        found: dict[int, int] = defaultdict(int)
        for bench in self.benches:
            placed = bench.image.symbols.get(routine)
            if placed is None:
                continue
            for offset in range(placed.size):
                for number in bench.touching.get(placed.address + offset, ()):
                    found[number] |= 1 << offset
        return found

    # -- recording --------------------------------------------------------------------------------
    def begin(self, machine: Machine) -> None:
        """Look at the memory before a call, and from then on at what devices store."""
        bench = self.benches[self._bench(machine)]
        self._device.attach(machine)
        found: dict[Key, bytes] = {}
        for number, (region, clean) in enumerate(zip(machine.regions, bench.clean, strict=True)):
            if region.executable or region.address == STACK:
                continue
            contents = region.buffer[:]
            if contents == clean:
                continue
            for offset in range(0, region.size, PAGE):
                page = contents[offset : offset + PAGE]
                if page != clean[offset : offset + PAGE]:
                    found[number, offset] = self._pool.setdefault(page, page)
        self._pages = found

    def end(
        self,
        lockstep: Lockstep,
        routine: Routine,
        inputs: dict[str, int],
        start: Start,
        result: Result,
    ) -> None:
        """Keep a call that ended well, unless an equal one was kept."""
        machine, environment = lockstep.machine, lockstep.machine.environment
        stored = self._device.detach()
        number = self._bench(machine)
        bench = self.benches[number]
        addresses = self._wanted(bench, result.trace)
        if not addresses:
            return
        call = Call(
            number,
            routine,
            inputs,
            tuple(start.registers),
            tuple(start.vectors),
            int(machine.engine.reg_read(ux.UC_X86_REG_GS_BASE)),
            self._pages,
            self._pages | self._after(machine, bench, result, stored),
            tuple(environment.answers),
            tuple(e.key for e in result.events if e.key[0] not in _OWN_KINDS),
            stored,
            _outputs(result),
            len(result.trace),
        )
        if self._known(call):
            return
        for address in addresses:
            bench.touching.setdefault(address, array("I")).append(len(self.calls))
        self.calls.append(call)

    def _bench(self, machine: Machine) -> int:
        known = self._machines.get(id(machine))
        if known is None:
            # Sections, stack and arena come with every machine.
            own = {s.address for s in machine.image.sections} | {STACK, ARENA}
            extra = tuple(r for r in machine.regions if r.address not in own)
            clean = [machine.clean(r) for r in machine.regions]
            numbers = {id(r): n for n, r in enumerate(machine.regions)}
            self._machines[id(machine)] = machine, len(self.benches)
            self.benches.append(Bench(machine.image, extra, clean, numbers, machine.windows))
            return len(self.benches) - 1
        return known[1]

    def _wanted(self, bench: Bench, trace: list[int]) -> set[int]:
        """Return the addresses that ran and belong to routines that will be mutated."""
        ran = set(trace)
        found: set[int] = set()
        for placed in bench.image.routines():
            if self.wanted is None or placed.name in self.wanted:
                end = placed.address + placed.size
                found |= {a for a in ran if placed.address <= a < end}
        return found

    def _after(
        self, machine: Machine, bench: Bench, result: Result, stored: Stored
    ) -> dict[Key, bytes]:
        keys = {key for stores in stored for key, _, _ in stores}
        for first in result.world.touched:
            region, offset, _ = machine.page(first * PAGE)
            if region.address != STACK:
                keys.add((bench.numbers[id(region)], offset))
        found = {}
        for number, offset in keys:
            page = machine.regions[number].buffer[offset : offset + PAGE]
            found[number, offset] = self._pool.setdefault(page, page)
        return found

    def _known(self, call: Call) -> bool:
        """Tell whether an equal call was kept; pages are interned, so their identity is enough."""
        pages = tuple(sorted((key, id(page)) for key, page in call.pages.items()))
        inputs = tuple(sorted(call.inputs.items()))
        outside = call.answers, call.device, call.gs_base
        what = (call.bench, call.routine.name, inputs, pages, outside)
        if what in self._seen:
            return True
        self._seen.add(what)
        return False


class _Device:
    """Notes what the devices of a test store when the code under test writes to them."""

    def __init__(self) -> None:
        self._environment: Environment | None = None
        self._originals: tuple[_OnWrite | None, _OnWrite | None] = None, None
        self._stored: list[tuple[tuple[Key, int, bytes], ...]] = []

    def attach(self, machine: Machine) -> None:
        """Stand between the code and the devices of the machine's environment."""
        self.detach()
        environment = self._environment = machine.environment
        self._originals = environment.on_port_out, environment.on_mmio_write
        for name, original in zip(_HANDLERS, self._originals, strict=True):
            setattr(environment, name, self._between(machine, original))

    def detach(self) -> Stored:
        """Step aside again; return what was stored, a row for each write."""
        if self._environment is not None:
            for name, original in zip(_HANDLERS, self._originals, strict=True):
                setattr(self._environment, name, original)
        stored, self._environment, self._stored = tuple(self._stored), None, []
        return stored

    def _between(self, machine: Machine, original: _OnWrite | None) -> _OnWrite:
        def note(place: int, size: int, value: int) -> None:
            if original is None:
                self._stored.append(())
                return
            stored: list[tuple[Key, int, bytes]] = []
            watcher = functools.partial(self._note, machine, stored)
            machine.watchers.append(watcher)
            original(place, size, value)
            machine.watchers.remove(watcher)
            self._stored.append(tuple(stored))

        return note

    @staticmethod
    def _note(
        machine: Machine, stored: list[tuple[Key, int, bytes]], address: int, contents: bytes
    ) -> None:
        for start, length in split(address, len(contents)):
            region, offset, _ = machine.page(start)
            done = start - address
            key = machine.regions.index(region), offset
            stored.append((key, start % PAGE, bytes(contents[done : done + length])))


_OnWrite = Callable[[int, int, int], None]
_HANDLERS = ("on_port_out", "on_mmio_write")


def _outputs(result: Result) -> tuple[int | None, ...]:
    """Return the outputs as the model gave them: what it leaves open is None."""
    last = result.world.effects[-1]
    if not isinstance(last, Event) or last.key[0] != "return":
        raise AssertionError("a model's last effect is its return")
    outputs: tuple[int | None, ...] = last.key[2]
    return outputs
