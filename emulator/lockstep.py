"""Lockstep: one call of a routine, every effect matched against its reference model.

The machine runs the bytes of the image and records each store, call, return, port and MMIO access
with the instruction that made it. The model runs on the memory as it was and records the effects it
wants. Between two ordered events both must have stored the same bytes; a surplus or missing effect
names the instruction and the model's line.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import unicorn as uc
import unicorn.x86_const as ux

from emulator.bare_hook import BareHook
from emulator.compare import FLAG_BITS, Comparison, Recorded, value_of, width
from emulator.coverage import add_run
from emulator.effects import World, Write, model_of
from emulator.environment import Environment
from emulator.judge import SemanticsJudge
from emulator.kept import changed
from emulator.machine import STACK_BYTES, STACK_TOP, STOP, Machine
from emulator.memory import PAGE, split
from emulator.mismatch import Mismatch
from emulator.native_judge import NativeJudge, Start
from emulator.reads import ReadsJudge
from emulator.registers import GPR
from toolchain.asm.registers import Xmm

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.asm.routine import Routine

__all__ = ["STATISTICS", "Lockstep", "Mismatch", "Recorded", "Result", "Statistics", "registers_of"]

_JUNK = 0x5EED_0BAD_CAFE_0000
_VECTOR_JUNK = 0x0BAD_5EED_0BAD_5EED_CAFE_BABE_DEAD_BEEF
_RSP, _RIP, _FLAGS = 4, 16, 17
_RECOVERY = STACK_TOP - 8
"""Where `guard` routines note their stack pointer, above every frame."""
# Status flags may change; DF is compared by itself. Everything else in RFLAGS stays as it was.
_ACCESSES = ("in", "out", "mmio_read", "mmio_write")
_FREE_FLAGS = 0x8D5 | 0x400 | 0x10000
LIMIT = 5_000_000
"""Instructions that one call may take."""


@dataclass
class Result:
    """What a matched call gave; `events` holds stores and events up to its own return."""

    outputs: dict[str, int]
    trace: list[int]
    world: World
    events: list[Recorded] = field(default_factory=list)


@dataclass
class Statistics:
    """Instructions traced and seconds spent in the machine, over the process.

    `judged` are those that the semantics judge compared, `skipped` those that it leaves to others.
    """

    instructions: int = 0
    seconds: float = 0.0
    calls: int = 0
    judged: int = 0
    skipped: int = 0


STATISTICS = Statistics()


@dataclass
class _Frame:
    """A routine that was entered and has not returned."""

    routine: Routine
    back: int
    registers: list[int]
    vectors: list[int]


class Recorder(Protocol):
    """Who is shown every call: its state before, and what it gave once the judges agreed."""

    def begin(self, machine: Machine) -> None:
        """Look at the memory before the call."""

    def end(
        self,
        lockstep: Lockstep,
        routine: Routine,
        inputs: dict[str, int],
        start: Start,
        result: Result,
    ) -> None:
        """Take the call that ended well."""


def registers_of(machine: Machine, routine: Routine, inputs: dict[str, int]) -> dict[str, int]:
    """Return the general registers for a call, junk where no input says more; set the vectors.

    Args:
        machine: Whose vector registers are set.
        routine: What will be called.
        inputs: The inputs by name; XMM values as 128-bit integers.
    """
    if set(inputs) != set(routine.parameters):
        raise TypeError(f"{routine.name} takes {routine.parameters}, got {tuple(inputs)}")
    registers = {name: _JUNK + n for n, name in enumerate(GPR)}
    vectors = [_VECTOR_JUNK + n for n in range(16)]
    for i, name in zip(routine.contract.inputs, routine.parameters, strict=True):
        if isinstance(i.reg, Xmm):
            vectors[int(i.reg.name[3:])] = inputs[name]
            continue
        bits = width(i.reg)
        low = inputs[name] & ((1 << bits) - 1)
        # A narrow input says nothing of the rest of its register: fill it with junk.
        registers[i.reg.full] = registers[i.reg.full] >> bits << bits | low
    for number, value in enumerate(vectors):
        machine.engine.reg_write(ux.UC_X86_REG_XMM0 + number, value)
    return registers


class Lockstep:
    """Runs routines of one machine against their models.

    Args:
        machine: The machine; its memory is the state before each call.
        semantics: Also let the Python semantics judge each instruction.
        native: Also run a sample of the calls on the processor; it must leave the same state.
        limit: Instructions that one call may take.

    Attributes:
        recorder: Who is shown the calls of all machines; None is nobody.
    """

    recorder: ClassVar[Recorder | None] = None

    def __init__(
        self,
        machine: Machine,
        *,
        semantics: bool = False,
        native: bool = False,
        limit: int = LIMIT,
    ) -> None:
        self.machine, self.semantics, self.limit = machine, semantics, limit
        self.statistics = STATISTICS
        self._entries = {p.address: p.thing for p in machine.image.routines() if p.thing.bits == 64}
        self._ordered = tuple(f for r in self._entries.values() for f in r.contract.ordered)
        self._judge = SemanticsJudge(machine) if semantics else None
        self._native = NativeJudge(machine) if native else None
        self._trace: list[int] = []
        self._log: list[Recorded] = []
        self._frames: list[_Frame] = []
        self._watched: set[int] = set(self._entries)
        self._reads = ReadsJudge(machine, self._trace)
        self._before: dict[int, bytes] | None = None

    def call(
        self, routine: Routine, environment: Environment | None = None, /, **inputs: int
    ) -> Result:
        """Call the routine and its model on the same state; raise `Mismatch` when they differ.

        Args:
            routine: What to run.
            environment: Answers for time, randomness and devices.
            inputs: The inputs by name; XMM values as 128-bit integers.
        """
        machine = self.machine
        machine.environment = environment or Environment()
        wanted = model_of(routine.module, routine.name)
        world = World(machine)
        world.ordered = self._ordered
        native = self._native if self._native and self._native.wants(routine) else None
        self._before = {} if native else None
        if self.recorder is not None:
            self.recorder.begin(machine)
        self._run(routine, registers_of(machine, routine, inputs), world)
        world._answers = deque(machine.environment.answers)
        wanted(world, **inputs)
        comparison = Comparison(machine, routine, self._trace)
        comparison.effects(self._log, world)
        comparison.memory(world)
        stored = ((e.address, len(e.contents)) for e in world.effects if isinstance(e, Write))
        self._reads.judge(routine, [*world.looked, *stored])
        if native is not None and self._before is not None:
            native.judge(routine, self._start, self._before, self._trace, self._log)
        add_run(machine.image, self._trace)
        result = Result(self._outputs(routine), list(self._trace), world, self._log[:-1])
        if self.recorder is not None:
            self.recorder.end(self, routine, inputs, self._start, result)
        return result

    # -- running ----------------------------------------------------------------------------------
    def _run(self, routine: Routine, registers: dict[str, int], world: World) -> None:
        machine, statistics = self.machine, self.statistics
        self._trace.clear()
        self._log.clear()
        self._frames.clear()
        self._watched = set(self._entries)
        start = machine.image.address(routine)
        machine.prepare_call(start, registers)
        machine.environment.observer = self._observe
        self._accesses = 0
        self._start = Start(machine)
        handles = [*self._hooks(routine, world), *self._reads.hooks()]
        if self._judge is not None:
            self._judge.start()
        machine.watchers.append(self._arrived(world))
        begun = time.perf_counter()
        try:
            machine.run(start)
            statistics.seconds += time.perf_counter() - begun
            statistics.instructions += len(self._trace)
            statistics.calls += 1
        finally:
            for handle in handles:
                machine.unhook(handle)
            machine.environment.observer = None
            machine.watchers.pop()
        if self._judge is not None:
            self._judge.finish()
            statistics.judged += self._judge.judged
            statistics.skipped += self._judge.skipped
            self._judge.judged = self._judge.skipped = 0
        self._visit(STOP)

    def _observe(self, event: tuple[object, ...]) -> None:
        self._accesses += event[0] in _ACCESSES
        self._log.append(Recorded(event, len(self._trace) - 1))

    def _arrived(self, world: World) -> Callable[[int, bytes], None]:
        """Return what hands a device's store on to the model, at the access at which it comes."""

        def note(address: int, contents: bytes) -> None:
            for start, _ in split(address, len(contents)):
                copy = world.keep(start // PAGE)
                if self._before is not None:
                    first = self.machine.pages[start // PAGE].first
                    self._before.setdefault(first, bytes(copy))
            world.arrivals.append((self._accesses, address, bytes(contents)))

        return note

    def _hooks(self, routine: Routine, world: World) -> list[int]:
        machine, trace, log = self.machine, self._trace, self._log
        low, high, top = STACK_TOP - STACK_BYTES, STACK_TOP, machine.snapshot.take()[_RSP]
        floor = top - machine.image.stack[routine.name]
        special, watched, append, limit = machine.special, self._watched, trace.append, self.limit
        judge, pages, keep, kept = self._judge, machine.pages, world.keep, set[int]()
        step = judge.step if judge is not None else None
        before = self._before

        def on_code(_engine: int, address: int, _size: int, _data: object) -> None:
            try:
                append(address)
                if step is not None:
                    step(address)
                if address in watched:
                    self._visit(address)
                if address in special:
                    machine.answer(special[address])
                if len(trace) > limit:
                    raise Mismatch(
                        f"{routine.name}: {machine.where(address)} still runs after "
                        f"{limit} instructions"
                    )
            except BaseException as error:
                machine.stop_with(error)

        def on_write(
            _engine: int, _kind: int, address: int, size: int, value: int, _data: object
        ) -> None:
            try:
                stored(address, size, value)
            except BaseException as error:
                machine.stop_with(error)

        def stored(address: int, size: int, value: int) -> None:
            value &= (1 << 8 * size) - 1
            if judge is not None:
                judge.wrote(address, size, value)
            if low <= address < high:
                own = self._guards() if address == _RECOVERY else floor <= address < top
                if not own:
                    self._bad_stack(routine, address - top, top - floor)
                return
            number = address // PAGE
            if number not in pages:
                return  # a device register: the environment notes it
            last = (address + size - 1) // PAGE
            for page in (number,) if number == last else (number, last):
                if page not in kept and page in pages:
                    kept.add(page)
                    copy = keep(page)
                    if before is not None:
                        before.setdefault(pages[page].first, bytes(copy))
            raw = value.to_bytes(size, "little")
            log.append(Recorded(("write", address, raw), len(trace) - 1))

        return [
            machine.hook_bare(BareHook(uc.UC_HOOK_CODE, on_code)),
            machine.hook_bare(BareHook(uc.UC_HOOK_MEM_WRITE, on_write)),
        ]

    def _guards(self) -> bool:
        """Tell whether the routine that runs may note where its shard's fault comes back to."""
        placed = self.machine.image.symbol_at(self._trace[-1])
        return placed is not None and bool(placed.thing.contract.guard)

    def _bad_stack(self, routine: Routine, offset: int, allowed: int) -> None:
        where = self.machine.where(self._trace[-1])
        if offset >= 0:
            raise Mismatch(
                f"{routine.name}: {where} stores at RSP+{offset:#x} of the caller, "
                "in a frame that is not its own"
            )
        raise Mismatch(
            f"{routine.name}: {where} uses {-offset} bytes of stack; the linker counted {allowed}"
        )

    # -- calls and returns ------------------------------------------------------------------------
    def _visit(self, address: int) -> None:
        """Close the frames that return here, then open one if a routine starts here."""
        registers, vectors = self.machine.snapshot.take(), self.machine.snapshot.vectors()
        frames = self._frames
        while frames and frames[-1].back == address:
            self._leave(frames.pop(), registers, vectors)
        routine = self._entries.get(address)
        if routine is None:
            return
        rsp = registers[_RSP]
        if frames and frames[-1].routine is routine and frames[-1].registers[_RSP] == rsp:
            return  # a loop whose top is the first instruction
        back = int.from_bytes(self.machine.read(rsp, 8), "little")
        frames.append(_Frame(routine, back, registers, vectors))
        self._watched.add(back)
        arguments = {
            name: value_of(i.reg, registers, vectors)
            for i, name in zip(routine.contract.inputs, routine.parameters, strict=True)
        }
        self._observe(("call", routine.name, tuple(sorted(arguments.items()))))

    def _leave(self, frame: _Frame, registers: list[int], vectors: list[int]) -> None:
        routine = frame.routine
        off = registers[_RSP] - frame.registers[_RSP] - 8
        if off:
            raise self._bad_return(routine, registers, f"RSP is {off:+d} bytes off")
        if registers[_FLAGS] >> FLAG_BITS["df"] & 1:
            raise self._bad_return(routine, registers, "returns with DF set")
        bits = (registers[_FLAGS] ^ frame.registers[_FLAGS]) & ~_FREE_FLAGS
        if bits:
            raise self._bad_return(routine, registers, f"changed bits {bits:#x} of RFLAGS")
        what = changed(routine, (frame.registers, frame.vectors), (registers, vectors))
        if what:
            raise self._bad_return(routine, registers, what)
        outputs = tuple(value_of(o.reg, registers, vectors) for o in routine.contract.outputs)
        self._observe(("return", routine.name, outputs))

    def _bad_return(self, routine: Routine, registers: list[int], what: str) -> Mismatch:
        place = self.machine.where(self._trace[-1 if registers[_RIP] == STOP else -2])
        return Mismatch(f"{routine.name}: {what} at {place}")

    def _outputs(self, routine: Routine) -> dict[str, int]:
        """Return the outputs of the call that ended, by register name."""
        values = self._log[-1].key[2]
        return dict(zip((o.reg.name for o in routine.contract.outputs), values, strict=True))
