"""What a campaign found, as data: counts per routine and layer, survivors, problems, JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emulator.mutation.operators import OPERATORS
from emulator.mutation.scope import LAYERS, SCORE_PERCENT, layer_of
from emulator.mutation.trial import BUILD, LOCKSTEP, NOBODY, PROOF, REPLAY
from emulator.mutation_survivors import SURVIVORS, reason_of
from toolchain.source import short_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolchain.asm.routine import Routine

JUDGES = (REPLAY, LOCKSTEP, BUILD)


@dataclass(frozen=True)
class Survivor:
    """A mutant that nobody kills."""

    routine: str
    offset: int
    operator: str
    key: str
    where: str
    calls: int
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        before, _, after = self.key.partition(" -> ")
        return {
            "routine": self.routine,
            "offset": self.offset,
            "operator": self.operator,
            "before": before,
            "after": after,
            "source": self.where,
            "calls": self.calls,
            "reason": self.reason,
        }


@dataclass
class Counts:
    """Mutants by what became of them."""

    by: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """All mutants."""
        return self.by.total()

    @property
    def killed(self) -> int:
        """Those that a judge found."""
        return sum(self.by[judge] for judge in JUDGES)

    @property
    def score(self) -> float:
        """The percentage killed of those that are not proved equivalent; of none, all."""
        left = self.total - self.by[PROOF]
        return 100 * self.killed / left if left else 100.0

    def as_json(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "mutants": self.total,
            "killed": {judge: self.by[judge] for judge in JUDGES},
            "equivalent": self.by[PROOF],
            "survived": self.by[NOBODY],
            "score_percent": round(self.score, 2),
        }


@dataclass
class MutationReport:
    """Everything that the command prints."""

    routines: Sequence[Routine]
    rows: dict[str, Counts]
    operators: dict[str, Counts]
    proofs: Counter[str]
    survivors: list[Survivor]
    figures: dict[str, float]
    tests: dict[str, int]
    restricted: bool
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> Counts:
        """The sum over all routines."""
        return summed(self.rows.values())

    def layers(self) -> Iterator[tuple[str, list[Routine]]]:
        """Yield the layers with their routines; those outside the judged ones come last."""
        for layer in (*LAYERS, ""):
            found = [r for r in self.routines if layer_of(r) == layer]
            if found:
                yield layer or "others", found

    def of(self, routines: Iterable[Routine]) -> Counts:
        """Return the sum over some routines."""
        return summed(self.rows[r.name] for r in routines)

    def judge(self) -> None:
        """Note every rule that is broken."""
        self.problems += [
            f"{s.routine}+{s.offset:#x} ({s.where}): `{s.key}` survives "
            f"{_calls(s.calls)}; add a test that kills it, or its reason to "
            "emulator/mutation_survivors.py"
            for s in self.survivors
            if not s.reason
        ]
        alive = {(s.routine, s.key) for s in self.survivors}
        tried = {r.name for r in self.routines}
        for name, reasons in SURVIVORS.items():
            if name not in tried:
                if not self.restricted:
                    self.problems.append(
                        f"{name} is in no judged layer; remove it from "
                        "emulator/mutation_survivors.py"
                    )
                continue
            self.problems += [
                f"{name}: `{key}` does not survive; remove it from emulator/mutation_survivors.py"
                for key in reasons
                if (name, key) not in alive
            ]
        if self.restricted:
            return
        for layer, routines in self.layers():
            score = self.of(routines).score
            if score < SCORE_PERCENT:
                self.problems.append(
                    f"{score:.1f} % of the mutants of {layer} are killed; {SCORE_PERCENT} % are promised"
                )

    def as_json(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        return {
            "ok": not self.problems,
            "problems": self.problems,
            "tests": self.tests,
            "total": self.total.as_json(),
            "layers": {name: self.of(found).as_json() for name, found in self.layers()},
            "operators": {name: c.as_json() for name, c in self.operators.items()},
            "routines": {
                r.name: {"layer": layer_of(r), **self.rows[r.name].as_json()} for r in self.routines
            },
            "proofs": dict(self.proofs),
            "survivors": [s.as_json() for s in self.survivors],
            **self.figures,
        }


def summed(counts: Iterable[Counts]) -> Counts:
    """Return the sum."""
    total = Counts()
    for one in counts:
        total.by += one.by
    return total


def report_of(
    routines: Sequence[Routine],
    result: dict[str, Any],
    tests: dict[str, int],
    *,
    restricted: bool,
) -> MutationReport:
    """Return the report on what the plugin saved; without a result it has no mutants."""
    rows = {r.name: Counts() for r in routines}
    operators = {name: Counts() for name in OPERATORS}
    proofs: Counter[str] = Counter()
    survivors = []
    for verdict in result.get("verdicts", ()):
        m, by = verdict["mutant"], verdict["by"]
        rows[m["routine"]].by[by] += 1
        operators[m["operator"]].by[by] += 1
        if by == PROOF:
            proofs[verdict["why"]] += 1
        if by == NOBODY:
            survivors.append(_survivor(m, verdict["calls"]))
    names = ("calls", "unrepeatable", "recording_seconds", "seconds")
    figures = {name: result.get(name, 0) for name in names}
    return MutationReport(routines, rows, operators, proofs, survivors, figures, tests, restricted)


def _survivor(m: dict[str, Any], calls: int) -> Survivor:
    number = f" #{m['ordinal']}" if m["ordinal"] > 1 else ""
    key = f"{m['before']} -> {m['after']}{number}"
    file, _, line = m["where"].rpartition(":")
    where = f"{short_path(file)}:{line}"
    reason = reason_of(m["routine"], key)
    return Survivor(m["routine"], m["offset"], m["operator"], key, where, calls, reason)


def _calls(count: int) -> str:
    if not count:
        return "because no recorded call runs it"
    return f"{count} recorded call{'s' if count > 1 else ''} that run{'s' * (count == 1)} it"
