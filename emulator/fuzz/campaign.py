"""All targets in turn for as long as it takes, what they reached together, and the files of findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.fuzz.engine import Fuzzer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from emulator.fuzz.engine import Finding, Target

SLICE_S = 5.0
"""How long a target has at a time, more or less."""


@dataclass(frozen=True)
class Reached:
    """What was reached of the watched routines of all targets, each block counted once.

    Attributes:
        blocks: Blocks that ran.
        total: Blocks that there are.
    """

    blocks: int
    total: int


class Campaign:
    """Fuzzes targets in turn.

    Args:
        targets: What is fuzzed.
        seed: Of the randomness.
        folder: Where findings are saved.
        tell: Given a line whenever there is something to say.
    """

    def __init__(
        self, targets: Sequence[Target], seed: int, folder: Path, tell: Callable[[str], object]
    ) -> None:
        self.fuzzers = [Fuzzer(target, seed) for target in targets]
        self._folder, self._tell = folder, tell
        self._told: set[str] = set()

    def run(self, seconds: float) -> None:
        """Fuzz for so many seconds altogether."""
        count = len(self.fuzzers)
        rounds = max(1, round(seconds / SLICE_S / count))
        piece = seconds / rounds / count
        for _ in range(rounds):
            for fuzzer in self.fuzzers:
                fuzzer.go_on(piece)
                self._report(fuzzer)

    @property
    def findings(self) -> list[Finding]:
        """What broke."""
        return [finding for one in self.fuzzers for finding in one.findings.values()]

    def _report(self, fuzzer: Fuzzer) -> None:
        for finding in fuzzer.findings.values():
            if finding.label in self._told:
                continue
            self._told.add(finding.label)
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._folder / finding.label
            file.write_bytes(finding.data)
            self._tell(f"{finding.target}: {finding.reason}")
            self._tell(f"  input of {len(finding.data)} bytes in {file}: {finding.data[:64].hex()}")

    def reached(self) -> Reached:
        """Return the coverage of all targets together; their images differ in addresses alone."""
        ran: set[tuple[str, int]] = set()
        there: set[tuple[str, int]] = set()
        for fuzzer in self.fuzzers:
            watch = fuzzer.target.watch
            there |= watch.places
            ran |= {watch.place(end) for _, end in fuzzer.edges}
        return Reached(len(ran & there), len(there))

    def table(self) -> list[str]:
        """Return what each target did, and all of them."""
        rows = [f"{'target':32} executions  seconds  inputs  blocks  longest run  findings"]
        for one in self.fuzzers:
            rows.append(
                f"{one.target.name:32} {one.executions:10,} {one.seconds:8.0f} {len(one.kept):7} "
                f"{one.blocks:7} {one.longest_run:12,} {len(one.findings):9}"
            )
        reached = self.reached()
        executions = sum(one.executions for one in self.fuzzers)
        seconds = sum(one.seconds for one in self.fuzzers)
        busy = sum(one.processor_s for one in self.fuzzers)
        rows.append(
            f"{executions:,} executions in {seconds:,.0f} s ({busy:,.0f} s of a processor), "
            f"{reached.blocks:,} of {reached.total:,} blocks, {len(self.findings)} findings"
        )
        return rows


def replay(target: Target, data: bytes) -> str:
    """Run one input; return what it breaks, or an empty text."""
    fuzzer = Fuzzer(target)
    fuzzer.run(data)
    return next(iter(fuzzer.findings), "")
