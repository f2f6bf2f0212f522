"""What lies outside the code under test: time, randomness, ports, MMIO, CPU identification.

The machine and the reference model are given the same answers: the machine runs first and its
answers are recorded; the model then gets the record, in order, and must ask the same questions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class UnansweredError(Exception):
    """The code asked for something that the test did not provide."""


def _no_port(port: int, size: int) -> int:
    raise UnansweredError(f"unexpected IN from port {port:#x} ({size} bytes); set on_port_in")


def _no_mmio(address: int, size: int) -> int:
    raise UnansweredError(f"unexpected MMIO read at {address:#x} ({size} bytes); set on_mmio_read")


def _no_cpuid(leaf: int, subleaf: int) -> tuple[int, int, int, int]:
    raise UnansweredError(f"unexpected CPUID {leaf:#x}.{subleaf}; set on_cpuid")


def _no_msr(msr: int) -> int:
    raise UnansweredError(f"unexpected RDMSR {msr:#x}; set on_rdmsr")


@dataclass
class Environment:
    """Answers of the outside, and the record of what was asked.

    `events` holds, in order, tuples whose first item is the kind: `in`, `out`, `mmio_read`,
    `mmio_write`, `wrmsr`, `system`. `answers` holds what the code got for each question.
    """

    tsc: Iterable[int] | Callable[[], int] = ()
    random: Iterable[tuple[bool, int]] = ()
    seeds: Iterable[tuple[bool, int]] = ()
    on_port_in: Callable[[int, int], int] = _no_port
    on_mmio_read: Callable[[int, int], int] = _no_mmio
    on_cpuid: Callable[[int, int], tuple[int, int, int, int]] = _no_cpuid
    on_rdmsr: Callable[[int], int] = _no_msr
    on_port_out: Callable[[int, int, int], None] | None = None
    on_mmio_write: Callable[[int, int, int], None] | None = None
    events: list[tuple[object, ...]] = field(default_factory=list)
    answers: deque[tuple[str, object]] = field(default_factory=deque)
    observer: Callable[[tuple[object, ...]], None] | None = None
    recording: bool = True

    def __post_init__(self) -> None:
        self._tsc = self.tsc if callable(self.tsc) else iter(self.tsc).__next__
        self._random = iter(self.random).__next__
        self._seeds = iter(self.seeds).__next__

    def _note(self, event: tuple[object, ...]) -> None:
        if self.observer is not None:
            self.observer(event)
        elif self.recording:
            self.events.append(event)

    def _answer(self, kind: str, value: object) -> None:
        if self.recording:
            self.answers.append((kind, value))

    def rdtsc(self) -> int:
        """Return the time-stamp counter."""
        try:
            value = self._tsc() & (1 << 64) - 1
        except StopIteration:
            raise UnansweredError("the test gave no further value for RDTSC") from None
        self._answer("rdtsc", value)
        return value

    def rdrand(self) -> tuple[bool, int]:
        """Return whether RDRAND succeeded, and its value."""
        try:
            answer = self._random()
        except StopIteration:
            raise UnansweredError("the test gave no further value for RDRAND") from None
        self._answer("rdrand", answer)
        return answer

    def rdseed(self) -> tuple[bool, int]:
        """Return whether RDSEED succeeded, and its value."""
        try:
            answer = self._seeds()
        except StopIteration:
            raise UnansweredError("the test gave no further value for RDSEED") from None
        self._answer("rdseed", answer)
        return answer

    def cpuid(self, leaf: int, subleaf: int) -> tuple[int, int, int, int]:
        """Return EAX, EBX, ECX, EDX."""
        value = self.on_cpuid(leaf, subleaf)
        self._answer("cpuid", value)
        return value

    def rdmsr(self, msr: int) -> int:
        """Return a model-specific register."""
        value = self.on_rdmsr(msr)
        self._answer("rdmsr", value)
        return value

    def wrmsr(self, msr: int, value: int) -> None:
        """Note a write of a model-specific register."""
        self._note(("wrmsr", msr, value))

    def system(self, mnemonic: str) -> None:
        """Note a system instruction that has no effect in the emulator."""
        self._note(("system", mnemonic))

    def port_in(self, port: int, size: int) -> int:
        """Return what a port read gives."""
        self._note(("in", port, size))
        value = self.on_port_in(port, size)
        self._answer("in", value)
        return value

    def port_out(self, port: int, size: int, value: int) -> None:
        """Note a port write."""
        self._note(("out", port, size, value & ((1 << 8 * size) - 1)))
        if self.on_port_out is not None:
            self.on_port_out(port, size, value)

    def mmio_read(self, address: int, size: int) -> int:
        """Return what a device register gives."""
        self._note(("mmio_read", address, size))
        value = self.on_mmio_read(address, size)
        self._answer("mmio_read", value)
        return value

    def mmio_write(self, address: int, size: int, value: int) -> None:
        """Note a write of a device register."""
        self._note(("mmio_write", address, size, value & ((1 << 8 * size) - 1)))
        if self.on_mmio_write is not None:
            self.on_mmio_write(address, size, value)
