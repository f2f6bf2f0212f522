"""The judge of secrets: whatever they are, the same instructions run and the same memory is touched.

A routine runs with several secrets for each public input; the blocks of instructions that run, and
kind, address and size of each memory access, must be the same for all of them, in order. A block is
its address and its bytes, so equal blocks are equal instructions, at a hundredth of the cost. The
judge sees neither latency that depends on data nor speculation; `toolchain/asm/secrecy.py` refuses
divisions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import iced_x86 as ix
import unicorn as uc

from emulator.environment import Environment
from emulator.lockstep import registers_of
from emulator.mismatch import Mismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulator.machine import Machine
    from toolchain.asm.routine import Routine

S = TypeVar("S")
P = TypeVar("P")
SECRETS_MIN = 5
FIRST_LOADS = 64
"""Loads whose values are looked at; what is stored is looked at in every store."""
_CODE, _READ, _WRITE = "runs", "reads", "writes"
_Event = tuple[str, int, int]


@dataclass
class Figures:
    """Traces compared in this process, by routine: what was called, and what that called."""

    judged: dict[str, int] = field(default_factory=dict)


FIGURES = Figures()


@dataclass(frozen=True)
class Trace:
    """One run: what happened in order, values that were moved, how many instructions ran."""

    events: list[_Event]
    values: list[int | bytes]
    instructions: int


def trace_of(machine: Machine, routine: Routine, inputs: dict[str, int]) -> Trace:
    """Run the routine once on the memory as it is."""
    machine.environment = Environment()
    events: list[_Event] = []
    values: list[int | bytes] = []
    load = machine.read
    start = machine.image.address(routine)
    machine.prepare_call(start, registers_of(machine, routine, inputs))

    def on_block(_engine: uc.Uc, address: int, size: int, _data: object) -> None:
        events.append((_CODE, address, size))

    def on_read(
        _engine: uc.Uc, _kind: int, address: int, size: int, _value: int, _data: object
    ) -> None:
        events.append((_READ, address, size))
        if len(values) < FIRST_LOADS:
            values.append(load(address, size))

    def on_write(
        _engine: uc.Uc, _kind: int, address: int, size: int, value: int, _data: object
    ) -> None:
        events.append((_WRITE, address, size))
        values.append(value)

    handles = [
        machine.hook(uc.UC_HOOK_BLOCK, on_block),
        machine.hook(uc.UC_HOOK_MEM_READ, on_read),
        machine.hook(uc.UC_HOOK_MEM_WRITE, on_write),
    ]
    try:
        machine.run(start)
    finally:
        for handle in handles:
            machine.unhook(handle)
    values += machine.snapshot.take()
    blocks = Counter(event for event in events if event[0] == _CODE)
    count = sum(
        times * sum(1 for _ in ix.Decoder(64, load(address, size), ip=address))
        for (_, address, size), times in blocks.items()
    )
    return Trace(events, values, count)


def same_traces(
    machine: Machine,
    routine: Routine,
    prepare: Callable[[S, P], dict[str, int]],
    *,
    secrets: Sequence[S],
    publics: Sequence[P],
    minimum: int,
) -> None:
    """Run the routine with every secret for every public input and compare the traces.

    Args:
        machine: Where it runs; its memory is reset before each run.
        routine: What is judged.
        prepare: Lays a secret and a public input down; returns the routine's inputs by name.
        secrets: At least SECRETS_MIN, each of which changes what is computed.
        publics: What the trace may depend on.
        minimum: Instructions that each run must have.

    Raises:
        Mismatch: A trace depends on the secret, is too short, or the secret changes nothing.
    """
    if len(secrets) < SECRETS_MIN:
        raise ValueError(f"{len(secrets)} secrets tell little; give {SECRETS_MIN} or more")
    for public in publics:
        first: Trace | None = None
        seen: list[list[int | bytes]] = []
        for secret in secrets:
            machine.reset()
            trace = trace_of(machine, routine, prepare(secret, public))
            if trace.instructions < minimum:
                raise Mismatch(
                    f"{routine.name}: a trace of {trace.instructions} instructions proves nothing, "
                    f"{minimum} are expected"
                )
            if trace.values in seen:
                raise Mismatch(
                    f"{routine.name}: two secrets move the same values: they never reach it"
                )
            seen.append(trace.values)
            first = first or trace
            if trace.events != first.events:
                raise Mismatch(_difference(machine, routine, first.events, trace.events))
        if first is not None:
            _count(machine, first, len(secrets))


def _count(machine: Machine, trace: Trace, runs: int) -> None:
    entries = {placed.address: placed.name for placed in machine.image.routines()}
    for address in {at for kind, at, _ in trace.events if kind == _CODE} & entries.keys():
        name = entries[address]
        FIGURES.judged[name] = FIGURES.judged.get(name, 0) + runs


def _difference(
    machine: Machine, routine: Routine, first: list[_Event], other: list[_Event]
) -> str:
    at = next(
        (n for n, pair in enumerate(zip(first, other, strict=False)) if pair[0] != pair[1]),
        min(len(first), len(other)),
    )
    last = next((e[1] for e in reversed(other[:at]) if e[0] == _CODE), 0)
    shown = [
        f"{e[0]} {e[1]:#x} ({e[2]} bytes)" if e is not None else "ends"
        for e in (x[at] if at < len(x) else None for x in (first, other))
    ]
    return (
        f"{routine.name}: the secret shows after {machine.where(last)}: with one it {shown[0]}, "
        f"with another it {shown[1]}"
    )
