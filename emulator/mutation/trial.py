"""The verdict on each mutant: who kills it, or that nobody does.

First the recorded calls that ran the instruction, without hooks, until one comes out otherwise;
then, for what is left, some of them in lockstep with the models, which also see the order of stores,
the arguments of calls and the depth of the stack.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.mutation.build import refusal
from emulator.mutation.proofs import Proofs
from emulator.mutation.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from emulator.mutation.operators import Mutant
    from emulator.mutation.record import Call, Corpus
    from toolchain.asm.routine import Routine

CALLS_MAX = 400
"""Recorded calls that one mutant is tried on without hooks."""
LOCKSTEP_CALLS_MAX = 40
"""Those that it is tried on in lockstep afterwards."""
LOCKSTEP_INSTRUCTIONS_MAX = 100_000
"""Instructions of all those calls together."""
_REMEMBERED = 12

REPLAY, LOCKSTEP, BUILD, PROOF, NOBODY = "replay", "lockstep", "build", "equivalent", "survived"


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        mutant: The mutant.
        by: Who killed it; `equivalent` with a proof that nobody could, or `survived`.
        why: What the judge said, or the rule of the proof.
        calls: Recorded calls that run the instruction.
    """

    mutant: Mutant
    by: str
    why: str
    calls: int


class Trials:
    """Tries mutants on the calls of a corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._replays: dict[int, Replay] = {}
        self._killers: dict[str, list[int]] = defaultdict(list)
        self._proofs = Proofs()
        self._ways: dict[str, dict[int, int]] = {}

    def unrepeatable(self, numbers: Iterable[int]) -> list[int]:
        """Return the calls whose replay on the original bytes departs from the record."""
        return [n for n in numbers if self._replay(n).differs(self._corpus.calls[n])]

    def verdicts(
        self, routine: Routine, mutants: Sequence[Mutant], dropped: frozenset[int] = frozenset()
    ) -> Iterator[Verdict]:
        """Yield a verdict for each mutant of one routine.

        Args:
            routine: The routine.
            mutants: Its mutants, those of one instruction in a row.
            dropped: Calls that cannot be repeated.
        """
        for mutant in mutants:
            touching = self._corpus.touching(mutant.routine, mutant.offset)
            yield self._verdict(routine, mutant, [n for n in touching if n not in dropped])

    def _verdict(self, routine: Routine, mutant: Mutant, touching: list[int]) -> Verdict:
        killers = self._killers[mutant.routine]
        known = set(touching)
        first = [n for n in killers if n in known]
        various = self._various(mutant.routine, touching)
        order = [*first, *(n for n in various[:CALLS_MAX] if n not in set(first))]
        for judge, by, numbers in (
            (Replay.differs, REPLAY, order),
            (Replay.judged, LOCKSTEP, self._affordable(various)),
        ):
            number, why = self._tried(mutant, numbers, judge)
            if why:
                if by == REPLAY:
                    self._remember(killers, number)
                return Verdict(mutant, by, why, len(touching))
        why = refusal(routine, mutant)
        if why:
            return Verdict(mutant, BUILD, why, len(touching))
        why = self._proofs.equivalent(routine, mutant)
        return Verdict(mutant, PROOF if why else NOBODY, why, len(touching))

    def _tried(
        self, mutant: Mutant, numbers: list[int], judge: Callable[[Replay, Call], str]
    ) -> tuple[int, str]:
        """Return the first call that kills the mutant, and what was said."""
        patched: set[int] = set()
        try:
            for number in numbers:
                call = self._corpus.calls[number]
                replay = self._replay(number)
                if call.bench not in patched:
                    replay.patch(mutant)
                    patched.add(call.bench)
                why = judge(replay, call)
                if why:
                    return number, why
        finally:
            for bench in patched:
                self._replays[bench].patch(None)
        return -1, ""

    def _replay(self, number: int) -> Replay:
        bench = self._corpus.calls[number].bench
        found = self._replays.get(bench)
        if found is None:
            found = self._replays[bench] = Replay(self._corpus.benches[bench])
        return found

    def _various(self, routine: str, touching: list[int]) -> list[int]:
        """Return the calls so that each way through the routine comes once before any comes twice.

        Within a way, and among the first of all ways, the shortest come first.
        """
        ways = self._ways.get(routine)
        if ways is None:
            ways = self._ways[routine] = self._corpus.ways(routine)
        turns: Counter[int] = Counter()
        ranked = []
        for place, number in enumerate(touching):
            turns[ways[number]] += 1
            ranked.append((turns[ways[number]], place, number))
        return [number for _, _, number in sorted(ranked)]

    def _affordable(self, numbers: list[int]) -> list[int]:
        """Return those calls that fit into the budget of the lockstep, in their order."""
        left = LOCKSTEP_INSTRUCTIONS_MAX
        found: list[int] = []
        for number in numbers[:LOCKSTEP_CALLS_MAX]:
            left -= self._corpus.calls[number].length
            if left < 0 and found:
                break
            found.append(number)
        return found

    @staticmethod
    def _remember(killers: list[int], number: int) -> None:
        if number in killers:
            killers.remove(number)
        killers.insert(0, number)
        del killers[_REMEMBERED:]
