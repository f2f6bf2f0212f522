"""Run one scenario for many seeds; when one fails, find the shortest fault plan that still fails.

A scenario builds its own world from a trial and runs it::

    def scenario(trial: Trial) -> None:
        world = World(trial.seed)
        segment = Segment(world)
        trial.faults(segment, "drop p=0.01; delay p=0.01 by=40ms")
        ...
        world.run_for(120 * NS_PER_S)

    campaign(scenario, seeds=range(100))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.simulation.faults import FaultPlan, shortest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.simulation.wire import Segment

    Scenario = Callable[["Trial"], object]

# Shortening reruns the scenario; a plan of n hits needs up to about n * log n runs.
MOST_RERUNS = 400


@dataclass(slots=True)
class Trial:
    """One run of a scenario.

    Args:
        seed: for the world.
        replacement: a plan to run with instead of the scenario's own; None takes its own.
    """

    seed: int
    replacement: FaultPlan | None = None
    segment: Segment | None = field(default=None, init=False)

    def faults(self, segment: Segment, plan: FaultPlan | str) -> None:
        """Start the scenario's fault plan on a segment, or the one that replaces it.

        Raises:
            ValueError: the trial has a plan on another segment already.
        """
        if self.segment is not None:
            raise ValueError("a trial has one fault plan: put every rule into it")
        self.segment = segment
        segment.set_faults(plan if self.replacement is None else self.replacement)

    def script(self) -> FaultPlan:
        """Return what the plan did, without chance; empty when it did nothing."""
        if self.segment is None or self.segment.injector is None:
            return FaultPlan()
        return self.segment.injector.script()


def campaign(scenario: Scenario, seeds: Iterable[int], *, most_reruns: int = MOST_RERUNS) -> int:
    """Run a scenario for each seed and return how many runs that were.

    Args:
        scenario: builds and runs one world; an exception is a failure.
        seeds: in the order they run.
        most_reruns: bound on the runs that shorten a plan; 0 does not shorten.

    Raises:
        Exception: the scenario's own, with notes that say the seed and the shortest plan found.
    """
    runs = 0
    for seed in seeds:
        runs += 1
        trial = Trial(seed)
        try:
            scenario(trial)
        except Exception as error:
            for note in _explain(scenario, trial, error, most_reruns):
                error.add_note(note)
            raise
    return runs


def _explain(scenario: Scenario, trial: Trial, error: Exception, most: int) -> list[str]:
    script = trial.script()
    kind = type(error)
    reruns = 0

    def fails(plan: FaultPlan) -> bool:
        nonlocal reruns
        if reruns >= most:
            return False
        reruns += 1
        return isinstance(_outcome(scenario, Trial(trial.seed, plan)), kind)

    if not fails(script):
        if most == 0:
            return [f"seed {trial.seed}; what the faults did: {script}"]
        return [f"seed {trial.seed}; the script does not fail by itself: {script}"]
    found = shortest(script, fails)
    return [
        f"seed {trial.seed}; shortest fault plan found in {reruns} runs: {str(found) or 'none'}"
    ]


def _outcome(scenario: Scenario, trial: Trial) -> Exception | None:
    try:
        scenario(trial)
    except Exception as error:  # whatever it is, it is the outcome
        return error
    return None
