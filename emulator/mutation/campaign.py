"""All mutants of some routines against a corpus, on several processes."""

from __future__ import annotations

import gc
import multiprocessing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.mutation.operators import mutants
from emulator.mutation.trial import Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from emulator.mutation.operators import Mutant
    from emulator.mutation.record import Corpus
    from emulator.mutation.trial import Verdict
    from toolchain.asm.routine import Routine

CHUNK = 40
"""Mutants that a process takes at a time."""


@dataclass
class _Work:
    """What the processes inherit when they are forked; each makes its own machines."""

    corpus: Corpus
    chunks: list[tuple[Routine, list[Mutant]]]
    dropped: frozenset[int]
    trials: Trials | None = None


@dataclass
class Campaign:
    """What a campaign found.

    Attributes:
        verdicts: One for each mutant, by routine and offset.
        calls: Recorded calls.
        unrepeatable: Those that a replay of the original bytes does not reproduce.
    """

    verdicts: list[Verdict] = field(default_factory=list)
    calls: int = 0
    unrepeatable: int = 0


_work: list[_Work] = []


def run_campaign(
    corpus: Corpus,
    routines: Sequence[Routine],
    jobs: int,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> Campaign:
    """Try every mutant of the routines.

    Args:
        corpus: The recorded calls.
        routines: Whose mutants.
        jobs: Processes.
        tell: Told of the mutants done and of all.
    """
    dropped = frozenset(Trials(corpus).unrepeatable(range(len(corpus.calls))))
    chunks = [
        (routine, found[at : at + CHUNK])
        for routine in routines
        for found in (mutants(routine),)
        for at in range(0, len(found), CHUNK)
    ]
    total = sum(len(chunk) for _, chunk in chunks)
    campaign = Campaign(calls=len(corpus.calls), unrepeatable=len(dropped))
    _work.append(_Work(corpus, chunks, dropped))
    tell(0, total)
    try:
        for verdicts in _verdicts(len(chunks), jobs):
            campaign.verdicts += verdicts
            tell(len(campaign.verdicts), total)
    finally:
        _work.pop()
    order = {routine.name: n for n, routine in enumerate(routines)}
    campaign.verdicts.sort(key=lambda v: (order[v.mutant.routine], v.mutant.offset))
    return campaign


def _verdicts(count: int, jobs: int) -> Iterator[list[Verdict]]:
    if jobs == 1:
        yield from map(_try_chunk, range(count))
        return
    gc.freeze()  # the collector must not touch, and so copy, what all processes share
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(_try_chunk, range(count))


def _try_chunk(number: int) -> list[Verdict]:
    work = _work[-1]
    if work.trials is None:
        work.trials = Trials(work.corpus)
    routine, chunk = work.chunks[number]
    return list(work.trials.verdicts(routine, chunk, work.dropped))
