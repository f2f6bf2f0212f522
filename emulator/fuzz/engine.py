"""The loop: choose an input, change it, run it, keep it when it reached something new."""

from __future__ import annotations

import hashlib
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.fuzz.footprint import Footprint, OutOfFootprintError
from emulator.fuzz.mutate import mutate
from emulator.fuzz.watch import BudgetError, Watch
from emulator.machine import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulator.machine import Machine

KEPT_MAX = 4000
"""Inputs of one target that are changed further; beyond that the oldest go."""


class BrokenRuleError(Exception):
    """What the code left behind cannot be; the message says what."""


@dataclass(frozen=True)
class Target:
    """What is fuzzed: a machine in a state, and a way to give it an input.

    Attributes:
        name: For reports and files.
        machine: In the state that every run begins with.
        run: Gives the machine an input; raises BrokenRuleError when what is left cannot be.
        seeds: Inputs that are good, to begin with.
        watch: Of the machine.
        allowed: Address and size of each place where the code may store.
        longest: Bytes that an input may have.
    """

    name: str
    machine: Machine
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    watch: Watch
    allowed: Sequence[tuple[int, int]]
    longest: int


@dataclass
class Finding:
    """An input that broke something."""

    target: str
    data: bytes
    reason: str

    @property
    def label(self) -> str:
        """A name for its file."""
        return f"{self.target}-{hashlib.sha256(self.data).hexdigest()[:12]}"


@dataclass
class Fuzzer:
    """One target under test.

    Attributes:
        target: What is fuzzed.
        seed: Of the randomness.
        kept: Inputs that reached something new, the seeds first.
        edges: What was reached.
        findings: What broke, one for each reason.
        executions: Inputs run.
        longest_run: Instructions of the longest run.
        seconds: Time spent.
        processor_s: Of it, seconds that the processor had for it.
    """

    target: Target
    seed: int = 1
    kept: list[bytes] = field(default_factory=list)
    edges: set[tuple[int, int]] = field(default_factory=set)
    findings: dict[str, Finding] = field(default_factory=dict)
    executions: int = 0
    longest_run: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed} {self.target.name}")
        self._footprint = Footprint(self.target.machine, self.target.allowed)
        self._fresh = [*self.target.seeds]

    @property
    def blocks(self) -> int:
        """Blocks that were reached."""
        return len({end for _, end in self.edges})

    def go_on(self, seconds: float) -> None:
        """Fuzz for a while."""
        start, busy = time.perf_counter(), time.process_time()
        end = start + seconds
        with self.target.watch.guarded():
            while time.perf_counter() < end:
                self.step()
        self.seconds += time.perf_counter() - start
        self.processor_s += time.process_time() - busy

    def step(self) -> None:
        """Run one input: a seed while there are some, then a changed one."""
        if self._fresh:
            data = self._fresh.pop(0)
        else:
            parent = self._choose()
            data = mutate(self._random, parent, self.kept, self.target.longest)
        if self.run(data) and data not in self.kept:
            self.kept.append(data)
            del self.kept[:-KEPT_MAX]

    def _choose(self) -> bytes:
        """Return an input to change: a late one as often as any."""
        kept = self.kept or [b""]
        if self._random.randrange(2):
            return self._random.choice(kept[-20:])
        return self._random.choice(kept)

    def run(self, data: bytes) -> bool:
        """Run an input; tell whether it reached something new. What it breaks is a finding."""
        target, footprint = self.target, self._footprint
        footprint.restore()
        target.watch.begin()
        self.executions += 1
        try:
            try:
                target.run(data)
            finally:
                edges, count = target.watch.end()
            footprint.judge()
        except (MachineError, BudgetError, OutOfFootprintError, BrokenRuleError) as problem:
            footprint.restore_all()
            reason = str(problem)
            self.findings.setdefault(reason, Finding(target.name, data, reason))
            return False
        self.longest_run = max(self.longest_run, count)
        if edges <= self.edges:
            return False
        self.edges |= edges
        return True
