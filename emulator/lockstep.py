"""Lockstep: one call of a routine, every effect matched against its reference model.

The machine runs the bytes of the image and records each store, call, port and MMIO access with the
instruction that made it. The model runs on a copy of the memory as it was and records the effects it
wants. Between two ordered events (calls, accesses to devices, publications) both must have stored
the same bytes; a surplus or missing effect names the instruction and the model's line.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import iced_x86 as ix
import unicorn as uc
import unicorn.x86_const as ux

from emulator.coverage import process_coverage
from emulator.effects import Event, World, Write, model_of
from emulator.environment import Environment
from emulator.machine import GPR, STACK_BYTES, STACK_TOP, Machine
from toolchain.asm.registers import Flag, Reg, Xmm

if TYPE_CHECKING:
    from toolchain.asm.routine import Routine

_FLAG_BITS = {"cf": 0, "pf": 2, "af": 4, "zf": 6, "sf": 7, "df": 10, "of": 11}
_JUNK = 0x5EED_0BAD_CAFE_0000
# Answered by the test instead of executed: the semantics judge cannot predict their results.
_OUTSIDE = frozenset(
    (ix.Mnemonic.RDTSC, ix.Mnemonic.RDRAND, ix.Mnemonic.CPUID, ix.Mnemonic.RDMSR, ix.Mnemonic.IN)
)


class Mismatch(AssertionError):
    """Routine and model disagree; the message names both sides."""


@dataclass
class Recorded:
    """One store or event of the machine, with the index of its instruction in the trace."""

    key: tuple[Any, ...]
    at: int


@dataclass
class Result:
    """What a matched call gave."""

    outputs: dict[str, int]
    trace: list[int]
    world: World
    events: list[Recorded] = field(default_factory=list)


@dataclass
class Statistics:
    """Instructions traced and seconds spent in the machine, over the process."""

    instructions: int = 0
    seconds: float = 0.0


STATISTICS = Statistics()


class Lockstep:
    """Runs routines of one machine against their models.

    Args:
        machine: The machine; its memory is the state before each call.
        semantics: Also let the Python semantics judge each instruction.
    """

    def __init__(self, machine: Machine, *, semantics: bool = False) -> None:
        self.machine, self.semantics = machine, semantics
        self._entries = {p.address: p for p in machine.image.routines()}
        self._trace: list[int] = []
        self._log: list[Recorded] = []
        self._judge: Any = None
        if semantics:
            from emulator.judge import SemanticsJudge  # noqa: PLC0415 - only when asked for

            self._judge = SemanticsJudge(machine)

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
        world.ordered = _ordered(machine)
        registers = self._registers(routine, inputs)
        self._run(routine, registers)
        world._answers = deque(machine.environment.answers)
        given = wanted(world, **inputs)
        after = machine.registers()
        flags = machine.engine.reg_read(ux.UC_X86_REG_RFLAGS)
        self._compare_effects(routine, world)
        self._compare_memory(routine, world)
        outputs = self._compare_registers(routine, registers, after, flags, given)
        process_coverage().add_trace(machine.image, self._trace)
        return Result(outputs, list(self._trace), world, list(self._log))

    # -- running ----------------------------------------------------------------------------------
    def _registers(self, routine: Routine, inputs: dict[str, int]) -> dict[str, int]:
        if set(inputs) != set(routine.parameters):
            raise TypeError(f"{routine.name} takes {routine.parameters}, got {tuple(inputs)}")
        registers = {name: _JUNK + n for n, name in enumerate(GPR)}
        for i, name in zip(routine.contract.inputs, routine.parameters, strict=True):
            value = inputs[name]
            if isinstance(i.reg, Xmm):
                number = int(i.reg.name[3:])
                self.machine.engine.reg_write(ux.UC_X86_REG_XMM0 + number, value)
                continue
            bits = _width(i.reg)
            low = value & ((1 << bits) - 1)
            # A narrow input says nothing of the rest of its register: fill it with junk.
            registers[i.reg.full] = (
                registers[i.reg.full] >> bits << bits | low if bits < 64 else low
            )
        return registers

    def _run(self, routine: Routine, registers: dict[str, int]) -> None:
        machine = self.machine
        trace, log = self._trace, self._log
        trace.clear()
        log.clear()
        self._returned = machine.prepare_call(machine.image.address(routine), registers)
        machine.environment.observer = lambda event: log.append(Recorded(event, len(trace) - 1))
        low, high = STACK_TOP - STACK_BYTES, STACK_TOP
        entries, special, append = self._entries, machine.special, trace.append
        judge = self._judge

        def on_code(_engine: uc.Uc, address: int, _size: int, _data: object) -> None:
            append(address)
            if address in entries:
                log.append(Recorded(self._entered(address), len(trace) - 1))
            if judge is not None:
                judge.step(address)
            if address in special:
                machine.answer(special[address])

        def on_write(
            _engine: uc.Uc, _kind: int, address: int, size: int, value: int, _data: object
        ) -> None:
            if judge is not None:
                judge.wrote(address, size, value)
            if not low <= address < high:
                raw = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
                log.append(Recorded(("write", address, raw), len(trace) - 1))

        if judge is not None:
            judge.start()
        handles = [
            machine.hook(uc.UC_HOOK_CODE, on_code),
            machine.hook(uc.UC_HOOK_MEM_WRITE, on_write),
        ]
        begun = time.perf_counter()
        try:
            machine.run(machine.image.address(routine))
        finally:
            STATISTICS.seconds += time.perf_counter() - begun
            STATISTICS.instructions += len(trace)
            for handle in handles:
                machine.unhook(handle)
            machine.environment.observer = None
        if judge is not None:
            judge.finish()

    def _entered(self, address: int) -> tuple[Any, ...]:
        placed = self._entries[address]
        registers = self.machine.registers()
        routine = placed.thing
        arguments = {}
        for i, name in zip(routine.contract.inputs, routine.parameters, strict=True):
            if isinstance(i.reg, Xmm):
                continue
            arguments[name] = registers[i.reg.full] & ((1 << _width(i.reg)) - 1)
        return ("call", routine.name, tuple(sorted(arguments.items())))

    # -- comparing --------------------------------------------------------------------------------
    def _place(self, at: int) -> str:
        return self.machine.where(self._trace[at]) if 0 <= at < len(self._trace) else "the end"

    def _compare_effects(self, routine: Routine, world: World) -> None:
        publish = {
            a
            for e in world.effects
            if isinstance(e, Write) and e.publish
            for a in range(e.address, e.address + len(e.contents))
        }
        machine_side = _segments_of_log(self._log, publish)
        model_side = _segments_of_model(world.effects)
        for (stores, event), (wanted, expected) in zip(machine_side, model_side, strict=False):
            self._compare_segment(routine, stores, wanted)
            if (event is None) != (expected is None) or (
                event is not None and expected is not None and not _same(event.key, expected[0])
            ):
                got = (
                    "nothing more"
                    if event is None
                    else f"{_show(event.key)} at {self._place(event.at)}"
                )
                want = (
                    "nothing more" if expected is None else f"{_show(expected[0])} ({expected[1]})"
                )
                raise Mismatch(f"{routine.name}: the machine did {got}; the model wants {want}")
        if len(machine_side) != len(model_side):
            raise Mismatch(
                f"{routine.name}: {len(machine_side) - 1} ordered events, "
                f"the model wants {len(model_side) - 1}"
            )
        if world.unanswered:
            raise Mismatch(f"{routine.name}: the model did not ask for {world.unanswered}")

    def _compare_segment(
        self, routine: Routine, stores: list[Recorded], wanted: list[Write]
    ) -> None:
        canonical = self.machine.canonical
        final: dict[int, tuple[int, Write]] = {}
        any_value: dict[int, set[int]] = {}
        for effect in wanted:
            for n, value in enumerate(effect.contents):
                at = canonical(effect.address + n)
                final[at] = (value, effect)
                any_value.setdefault(at, set()).add(value)
        got: dict[int, tuple[int, int]] = {}
        for store in stores:
            _, address, raw = store.key
            for n, value in enumerate(raw):
                at = canonical(address + n)
                if value not in any_value.get(at, ()):
                    want = (
                        f"{final[at][0]:#04x} ({final[at][1].what}, {final[at][1].line})"
                        if at in final
                        else "no store"
                    )
                    raise Mismatch(
                        f"{routine.name}: {self._place(store.at)} stores {value:#04x} at {at:#x}"
                        f"{self._name(at)}; the model wants {want}"
                    )
                got[at] = (value, store.at)
        for at, (value, effect) in final.items():
            if at not in got:
                raise Mismatch(
                    f"{routine.name}: nothing stores {effect.what} at {at:#x}{self._name(at)}; "
                    f"the model wants {value:#04x} ({effect.line})"
                )
            if got[at][0] != value:
                raise Mismatch(
                    f"{routine.name}: {self._place(got[at][1])} leaves {got[at][0]:#04x} in "
                    f"{effect.what}; the model wants {value:#04x} ({effect.line})"
                )

    def _name(self, address: int) -> str:
        placed = self.machine.image.symbol_at(address)
        return f" ({placed.name}+{address - placed.address:#x})" if placed is not None else ""

    def _compare_memory(self, routine: Routine, world: World) -> None:
        for region in self.machine.regions:
            if region.name == "stack":
                continue
            mine, wanted = region.buffer[:], bytes(world.memory_of(region))
            if mine != wanted:
                at = next(n for n, (a, b) in enumerate(zip(mine, wanted, strict=True)) if a != b)
                raise Mismatch(
                    f"{routine.name}: {region.name}+{at:#x} is {mine[at]:#04x}, "
                    f"the model has {wanted[at]:#04x}"
                )

    def _compare_registers(
        self,
        routine: Routine,
        before: dict[str, int],
        after: dict[str, int],
        flags: int,
        given: Any,  # noqa: ANN401 - None, a number or a tuple
    ) -> dict[str, int]:
        c = routine.contract
        if after["rsp"] != self._returned:
            raise Mismatch(f"{routine.name}: RSP is {after['rsp'] - self._returned:+d} bytes off")
        if flags >> _FLAG_BITS["df"] & 1:
            raise Mismatch(f"{routine.name}: returns with DF set")
        allowed = {r.full for r in c.clobbers} | {o.reg.full for o in c.outputs} | {"rsp"}
        for name in GPR:
            if name not in allowed and after[name] != before[name]:
                raise Mismatch(
                    f"{routine.name}: {name} changed from {before[name]:#x} to {after[name]:#x}"
                )
        values = () if given is None else given if isinstance(given, tuple) else (given,)
        if len(values) != len(c.outputs):
            raise Mismatch(
                f"{routine.name}: the model returns {len(values)} outputs, not {len(c.outputs)}"
            )
        outputs: dict[str, int] = {}
        for out, value in zip(c.outputs, values, strict=True):
            got = self._output(out.reg, after, flags)
            outputs[out.reg.name] = got
            if value is not None and got != int(value) & ((1 << _width(out.reg)) - 1):
                raise Mismatch(
                    f"{routine.name}: {out.reg.name} ({out.meaning}) is {got:#x}, "
                    f"the model has {int(value):#x}"
                )
        return outputs

    def _output(self, reg: Reg, after: dict[str, int], flags: int) -> int:
        if isinstance(reg, Flag):
            return flags >> _FLAG_BITS[reg.name] & 1
        if isinstance(reg, Xmm):
            number = int(reg.name[3:])
            return int(self.machine.engine.reg_read(ux.UC_X86_REG_XMM0 + number))
        return after[reg.full] & ((1 << _width(reg)) - 1)


def _width(reg: Reg) -> int:
    if isinstance(reg, Flag):
        return 1
    return 8 * ix.RegisterExt.size(reg.id)


def _ordered(machine: Machine) -> tuple[Any, ...]:
    return tuple(f for p in machine.image.routines() for f in p.thing.contract.ordered)


def _same(event: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    return event == expected


def _show(key: tuple[Any, ...]) -> str:
    if key[0] == "call":
        arguments = ", ".join(f"{n}={v:#x}" for n, v in key[2])
        return f"call {key[1]}({arguments})"
    return " ".join(f"{k:#x}" if isinstance(k, int) else str(k) for k in key)


def _segments_of_log(
    log: list[Recorded], publish: set[int]
) -> list[tuple[list[Recorded], Recorded | None]]:
    segments: list[tuple[list[Recorded], Recorded | None]] = []
    stores: list[Recorded] = []
    for item in log:
        if item.key[0] == "write" and item.key[1] not in publish:
            stores.append(item)
            continue
        segments.append((stores, item))
        stores = []
    segments.append((stores, None))
    return segments


def _segments_of_model(
    effects: list[Write | Event],
) -> list[tuple[list[Write], tuple[tuple[Any, ...], str] | None]]:
    segments: list[tuple[list[Write], tuple[tuple[Any, ...], str] | None]] = []
    stores: list[Write] = []
    for item in effects:
        if isinstance(item, Event):
            segments.append((stores, (item.key, item.line)))
        elif item.publish:
            segments.append((stores, (("write", item.address, item.contents), item.line)))
        else:
            stores.append(item)
            continue
        stores = []
    segments.append((stores, None))
    return segments
