"""Compares what the machine stored and did with what the model wants, segment by segment.

A segment is what lies between two ordered events: calls, returns, accesses to devices, stores to
fields that a contract declares ordered. Within one, the order of stores is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import iced_x86 as ix

from emulator.effects import Event, Write
from emulator.memory import PAGE, split
from emulator.mismatch import Mismatch
from emulator.registers import GPR
from toolchain.asm.registers import Flag, Reg, Xmm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from emulator.effects import World
    from emulator.machine import Machine
    from toolchain.asm.routine import Routine


@dataclass
class Recorded:
    """One store or event of the machine, with the index of its instruction in the trace."""

    key: tuple[Any, ...]
    at: int


_ModelEvent = tuple[tuple[Any, ...], str]


class _Pages:
    """Bytes stored in a segment, by page: their values, and a mask of which were stored."""

    def __init__(self) -> None:
        self.pages: dict[int, tuple[bytearray, bytearray]] = {}

    def put(self, address: int, raw: bytes) -> None:
        """Store bytes that lie within one page."""
        found = self.pages.get(address // PAGE)
        if found is None:
            found = self.pages[address // PAGE] = bytearray(PAGE), bytearray(PAGE)
        at, end = address % PAGE, address % PAGE + len(raw)
        found[0][at:end] = raw
        found[1][at:end] = _ONES[: len(raw)]

    def holds(self, address: int, raw: bytes) -> bool:
        """Tell whether exactly these bytes are stored there."""
        found = self.pages.get(address // PAGE)
        at, end = address % PAGE, address % PAGE + len(raw)
        return (
            found is not None and found[0][at:end] == raw and found[1][at:end] == _ONES[: len(raw)]
        )


_ONES = b"\1" * PAGE


class Comparison:
    """One call of a routine: the machine's log against the model's effects.

    Args:
        machine: The machine, after the run.
        routine: What was called, for the messages.
        trace: The addresses that ran, in order.
    """

    def __init__(self, machine: Machine, routine: Routine, trace: Sequence[int]) -> None:
        self._machine, self._routine, self._trace = machine, routine, trace

    def effects(self, log: Sequence[Recorded], world: World) -> None:
        """Match stores and events in order.

        Raises:
            Mismatch: A surplus, missing or different effect.
        """
        publish = {
            self._machine.canonical(a)
            for e in world.effects
            if isinstance(e, Write) and e.publish
            for a in range(e.address, e.address + len(e.contents))
        }
        machine_side = self._of_log(log, publish)
        model_side = self._of_model(world.effects)
        for (stores, event), (wanted, expected) in zip(machine_side, model_side, strict=False):
            self._segment(stores, wanted)
            self._event(event, expected)
        if world.unanswered:
            raise self._mismatch(f"the model did not ask for {', '.join(world.unanswered)}")

    def memory(self, world: World) -> None:
        """Compare every page that either side wrote.

        Raises:
            Mismatch: A byte differs.
        """
        for number, wanted in world.touched.items():
            region, offset, _ = self._machine.page(number * PAGE)
            mine = region.buffer[offset : offset + PAGE]
            if mine != wanted:
                n = next(
                    n for n, pair in enumerate(zip(mine, wanted, strict=True)) if len({*pair}) > 1
                )
                raise self._mismatch(
                    f"{region.name}+{offset + n:#x}{self._name(number * PAGE + n)} is "
                    f"{mine[n]:#04x}, the model has {wanted[n]:#04x}"
                )

    # -- events -----------------------------------------------------------------------------------
    def _event(self, event: Recorded | None, expected: _ModelEvent | None) -> None:
        if event is None and expected is None:
            return
        if event is not None and expected is not None:
            if event.key[:2] == expected[0][:2] and event.key[0] == "return":
                self._outputs(event, expected)
                return
            if event.key == expected[0]:
                return
        got = "nothing more" if event is None else f"{_show(event.key)} at {self._place(event.at)}"
        want = "nothing more" if expected is None else f"{_show(expected[0])} ({expected[1]})"
        raise self._mismatch(f"the machine did {got}; the model wants {want}")

    def _outputs(self, event: Recorded, expected: _ModelEvent) -> None:
        (_, name, got), ((_, _, given), line) = event.key, expected
        outputs = self._machine.image.symbols[name].thing.contract.outputs
        if len(given) != len(outputs):
            raise Mismatch(
                f"{name}: the model returns {len(given)} outputs, the contract has "
                f"{len(outputs)} ({line})"
            )
        for out, value, wanted in zip(outputs, got, given, strict=True):
            if wanted is not None and value != wanted & ((1 << width(out.reg)) - 1):
                raise Mismatch(
                    f"{name}: {out.reg.name} ({out.meaning}) is {value:#x} at "
                    f"{self._place(event.at)}; the model has {wanted:#x} ({line})"
                )

    # -- stores -----------------------------------------------------------------------------------
    def _segment(self, stores: Sequence[Recorded], wanted: Sequence[Write]) -> None:
        want, got = _Pages(), _Pages()
        ever: dict[int, set[int]] = {}
        for effect in wanted:
            for at, raw in self._pieces(effect.address, effect.contents):
                want.put(at, raw)
        for store in stores:
            for at, raw in self._pieces(store.key[1], store.key[2]):
                if not want.holds(at, raw):
                    ever = ever or self._ever(wanted)
                    self._check_bytes(store, at, raw, wanted, ever)
                got.put(at, raw)
        for number, (values, mask) in want.pages.items():
            if got.pages.get(number) != (values, mask):
                self._explain(number * PAGE, want, got, stores, wanted)

    def _pieces(self, address: int, contents: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the parts of a store within a page, at the first address of their bytes."""
        for start, size in split(address, len(contents)):
            done = start - address
            yield self._machine.canonical(start), contents[done : done + size]

    def _bytes_of(self, wanted: Sequence[Write], at: int) -> Iterator[tuple[int, Write]]:
        """Yield what the model stores in a byte, the last store first."""
        for effect in reversed(wanted):
            for start, raw in self._pieces(effect.address, effect.contents):
                if start <= at < start + len(raw):
                    yield raw[at - start], effect

    def _ever(self, wanted: Sequence[Write]) -> dict[int, set[int]]:
        """Return all that the model stores in each byte within the segment, last or not."""
        ever: dict[int, set[int]] = {}
        for effect in wanted:
            for start, raw in self._pieces(effect.address, effect.contents):
                for at, value in enumerate(raw, start):
                    ever.setdefault(at, set()).add(value)
        return ever

    def _check_bytes(
        self,
        store: Recorded,
        start: int,
        raw: bytes,
        wanted: Sequence[Write],
        ever: Mapping[int, set[int]],
    ) -> None:
        """Raise unless the model stores each of these bytes at some time in the segment."""
        for at, value in enumerate(raw, start):
            if value not in ever.get(at, ()):
                good = next(self._bytes_of(wanted, at), None)
                want = f"{good[0]:#04x} ({_origin(good[1])})" if good else "no store"
                raise self._mismatch(
                    f"{self._place(store.at)} stores {value:#04x} at {at:#x}"
                    f"{self._name(at)}; the model wants {want}"
                )

    def _explain(
        self,
        page: int,
        want: _Pages,
        got: _Pages,
        stores: Sequence[Recorded],
        wanted: Sequence[Write],
    ) -> None:
        values, mask = want.pages[page // PAGE]
        stored, done = got.pages.get(page // PAGE, (values, bytes(PAGE)))
        n = next(n for n in range(PAGE) if mask[n] and (not done[n] or values[n] != stored[n]))
        at = page + n
        value, effect = next(self._bytes_of(wanted, at))
        if not done[n]:
            raise self._mismatch(
                f"nothing stores {effect.what} at {at:#x}{self._name(at)}; "
                f"the model wants {value:#04x} ({effect.line})"
            )
        last = next(
            store
            for store in reversed(stores)
            for start, raw in self._pieces(store.key[1], store.key[2])
            if start <= at < start + len(raw)
        )
        raise self._mismatch(
            f"{self._place(last.at)} leaves {stored[n]:#04x} in {effect.what}; "
            f"the model wants {value:#04x} ({effect.line})"
        )

    # -- segments ---------------------------------------------------------------------------------
    def _of_log(
        self, log: Sequence[Recorded], publish: set[int]
    ) -> list[tuple[list[Recorded], Recorded | None]]:
        segments: list[tuple[list[Recorded], Recorded | None]] = []
        stores: list[Recorded] = []
        for item in log:
            if item.key[0] == "write" and self._machine.canonical(item.key[1]) not in publish:
                stores.append(item)
                continue
            segments.append((stores, item))
            stores = []
        segments.append((stores, None))
        return segments

    def _of_model(
        self, effects: Sequence[Write | Event]
    ) -> list[tuple[list[Write], _ModelEvent | None]]:
        segments: list[tuple[list[Write], _ModelEvent | None]] = []
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

    # -- words ------------------------------------------------------------------------------------
    def _mismatch(self, what: str) -> Mismatch:
        return Mismatch(f"{self._routine.name}: {what}")

    def _place(self, at: int) -> str:
        return self._machine.where(self._trace[at]) if 0 <= at < len(self._trace) else "the end"

    def _name(self, address: int) -> str:
        placed = self._machine.image.symbol_at(address)
        return f" ({placed.name}+{address - placed.address:#x})" if placed is not None else ""


def width(reg: Reg) -> int:
    """Return the width of a register or flag in bits."""
    return 1 if isinstance(reg, Flag) else 8 * ix.RegisterExt.size(reg.id)


def _origin(effect: Write) -> str:
    return f"{effect.what}, {effect.line}"


def _value(value: Any) -> str:  # noqa: ANN401 - a part of an event's key
    if isinstance(value, bytes):
        return value.hex(" ")
    return f"{value:#x}" if isinstance(value, int) else str(value)


def _show(key: tuple[Any, ...]) -> str:
    if key[0] == "call":
        return f"call {key[1]}({', '.join(f'{n}={v:#x}' for n, v in key[2])})"
    if key[0] == "return":
        return f"return from {key[1]}({', '.join(_value(v) for v in key[2])})"
    return " ".join(_value(k) for k in key)


FLAG_BITS = {"cf": 0, "pf": 2, "af": 4, "zf": 6, "sf": 7, "df": 10, "of": 11}
_NUMBER = {name: n for n, name in enumerate(GPR)}
_HIGH = ("ah", "ch", "dh", "bh")


def value_of(reg: Reg, registers: Sequence[int], vectors: Sequence[int]) -> int:
    """Return a register or flag from the 18 registers and the 32 halves of XMM0-15."""
    if isinstance(reg, Flag):
        return registers[17] >> FLAG_BITS[reg.name] & 1
    if isinstance(reg, Xmm):
        number = int(reg.name[3:])
        return vectors[2 * number] | vectors[2 * number + 1] << 64
    whole = registers[_NUMBER[reg.full]] >> (8 if reg.name in _HIGH else 0)
    return whole & ((1 << width(reg)) - 1)
