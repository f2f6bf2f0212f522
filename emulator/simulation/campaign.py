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

import gc
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.faults import FaultPlan, shortest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from emulator.simulation.wire import Segment
    from emulator.simulation.world import World

    Scenario = Callable[["Trial"], object]

# Shortening reruns the scenario; a plan of n hits needs up to about n * log n runs.
MOST_RERUNS = 400


@dataclass(slots=True)
class Trial:
    """One run of a scenario.

    Args:
        seed: for the world.
        replacement: a plan to run with instead of the scenario's own; None takes its own.
        on_rig: called with the rig of the scenario before it runs, for whoever wants to watch.

    Attributes:
        segment: where the plan runs, once it does.
        plan: the plan that was started.
    """

    seed: int
    replacement: FaultPlan | None = None
    on_rig: Callable[[Any], None] | None = None
    segment: Segment | None = field(default=None, init=False)
    plan: FaultPlan = field(default_factory=FaultPlan, init=False)

    def faults(self, segment: Segment, plan: FaultPlan | str) -> None:
        """Start the scenario's fault plan on a segment, or the one that replaces it.

        Raises:
            ValueError: the trial has a plan on another segment already.
        """
        if self.segment is not None:
            raise ValueError("a trial has one fault plan: put every rule into it")
        self.segment = segment
        if self.replacement is not None:
            plan = self.replacement
        self.plan = FaultPlan.parse(plan) if isinstance(plan, str) else plan
        segment.set_faults(self.plan)

    @property
    def world(self) -> World | None:
        """The scenario's world, once it has a plan."""
        return None if self.segment is None else self.segment.world

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the run of one seed ended.

    Attributes:
        seed: its seed.
        error: type and text of the failure; empty when there was none.
        step: of the world at its end.
        virtual_s: length in virtual seconds.
        cpu_s: processor seconds, the boot of the node included.
        plan: the shortest fault plan found that still fails, as text; "" = it fails without one.
        reruns: runs that shortened it.
    """

    seed: int
    error: str
    step: int
    virtual_s: float
    cpu_s: float
    plan: str = ""
    reruns: int = 0


def run_seed(
    scenario: Scenario,
    seed: int,
    *,
    plan: FaultPlan | None = None,
    most_reruns: int = MOST_RERUNS,
) -> Outcome:
    """Run one seed; when it fails, drop rules and events from its plan while it still fails.

    A plan is shortened by whole rules and events, so that what is left reads like the plan of the
    run; `campaign` shortens frame by frame.

    Args:
        scenario: builds and runs one world.
        seed: for the world.
        plan: instead of the scenario's own.
        most_reruns: bound on the runs that shorten a plan; 0 does not shorten.
    """
    trial = Trial(seed, plan)
    started = time.process_time()
    with _garbage_kept():
        error = _outcome(scenario, trial)
    cpu_s = time.process_time() - started
    world = trial.world
    found = Outcome(
        seed=seed,
        error="" if error is None else f"{type(error).__name__}: {error}",
        step=0 if world is None else world.steps,
        virtual_s=0 if world is None else world.now_ns / NS_PER_S,
        cpu_s=cpu_s,
    )
    if error is None:
        return found
    kind = failure_kind(error)
    reruns = 0

    def fails(plan: FaultPlan) -> bool:
        nonlocal reruns
        if reruns >= most_reruns:
            return False
        reruns += 1
        again = _outcome(scenario, Trial(seed, plan))
        return again is not None and failure_kind(again) == kind

    short = shortest(trial.plan, fails)
    return replace(found, plan=str(short), reruns=reruns)


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect no cycles meanwhile: looking for them again and again takes a twentieth of a run."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def failure_kind(error: Exception) -> str:
    """Return what makes two failures the same: the type, and the rule when the text names one."""
    _, marked, rest = str(error).partition("rule '")
    return (
        f"{type(error).__name__} {rest.partition(chr(39))[0]}" if marked else type(error).__name__
    )


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
