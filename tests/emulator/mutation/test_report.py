"""The report: scores, survivors with and without a reason, and what fails the command."""

import pytest

from emulator import mutation_survivors
from emulator.mutation import report, scope
from emulator.mutation.report import Counts, report_of
from emulator.mutation.scope import judged, layer_of
from firmware.fleet.guard import leases_end
from firmware.image import link_bios
from firmware.node.lease import lease_tick
from firmware.shard.backoff import schedule_backoff
from firmware.tcp.send import tcp_send
from toolchain.cli.check import ROOT

TESTS = {"passed": 3, "failed": 0, "skipped": 0, "exit": 0}


def verdict(by, routine="schedule_backoff", *, ordinal=1, calls=4, why="", offset=7):
    mutant = {
        "routine": routine,
        "offset": offset,
        "operator": "immediate",
        "before": "mov eax, 1",
        "after": "mov eax, 2",
        "where": f"{scope.__file__}:12",
        "ordinal": ordinal,
    }
    return {"mutant": mutant, "by": by, "why": why, "calls": calls}


def made(*verdicts, routines=(schedule_backoff,), restricted=False):
    figures = {"calls": 9, "unrepeatable": 0, "recording_seconds": 1.0, "seconds": 2.0}
    result = figures | {"verdicts": list(verdicts)}
    found = report_of(list(routines), result, dict(TESTS), restricted=restricted)
    found.judge()
    return found


@pytest.fixture(autouse=True)
def reasons(monkeypatch):
    """Judge without the reasons given for the firmware."""
    table: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(report, "SURVIVORS", table)
    monkeypatch.setattr(mutation_survivors, "SURVIVORS", table)
    return table


def test_the_score_leaves_out_what_is_equivalent():
    counts = Counts()
    counts.by.update(replay=90, lockstep=4, build=2, equivalent=50, survived=4)
    assert (counts.total, counts.killed, counts.score) == (150, 96, 96.0)
    assert counts.as_json() == {
        "mutants": 150,
        "killed": {"replay": 90, "lockstep": 4, "build": 2},
        "equivalent": 50,
        "survived": 4,
        "score_percent": 96.0,
    }
    assert Counts().score == 100.0


def test_a_good_campaign_has_no_problem():
    found = made(*[verdict("replay")] * 3, verdict("equivalent", why="a rule"))
    assert found.problems == []
    assert found.proofs == {"a rule": 1}
    data = found.as_json()
    assert data["ok"] is True
    assert data["total"]["score_percent"] == 100.0
    assert data["layers"]["lifecycle"]["mutants"] == 4
    assert data["routines"]["schedule_backoff"]["layer"] == "lifecycle"
    assert data["operators"]["immediate"]["mutants"] == 4
    assert (data["calls"], data["seconds"]) == (9, 2.0)


def test_a_survivor_without_a_reason_is_a_problem():
    found = made(*[verdict("replay")] * 99, verdict("survived"))
    assert found.problems == [
        "schedule_backoff+0x7 (emulator/mutation/scope.py:12): `mov eax, 1 -> mov eax, 2` survives "
        "4 recorded calls that run it; add a test that kills it, or its reason to "
        "emulator/mutation_survivors.py"
    ]
    assert found.as_json()["survivors"] == [
        {
            "routine": "schedule_backoff",
            "offset": 7,
            "operator": "immediate",
            "before": "mov eax, 1",
            "after": "mov eax, 2",
            "source": "emulator/mutation/scope.py:12",
            "calls": 4,
            "reason": "",
        }
    ]


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        (0, "survives because no recorded call runs it;"),
        (1, "survives 1 recorded call that runs it;"),
    ],
)
def test_a_survivor_says_how_often_it_ran(calls, says):
    found = made(*[verdict("replay")] * 99, verdict("survived", calls=calls))
    assert says in found.problems[0]


def test_a_survivor_with_a_reason_is_none(reasons):
    reasons["schedule_backoff"] = {"mov eax, 1 -> mov eax, 2 #2": "tried"}
    found = made(*[verdict("replay")] * 99, verdict("survived", ordinal=2))
    assert found.problems == []
    assert [s.reason for s in found.survivors] == ["tried"]


def test_a_reason_that_is_not_needed_is_a_problem(reasons):
    reasons["schedule_backoff"] = {"mov eax, 1 -> mov eax, 2": "tried"}
    reasons["gone"] = {"ret -> nop": "tried"}
    assert made(verdict("replay")).problems == [
        "schedule_backoff: `mov eax, 1 -> mov eax, 2` does not survive; remove it from "
        "emulator/mutation_survivors.py",
        "gone is in no judged layer; remove it from emulator/mutation_survivors.py",
    ]
    assert len(made(verdict("replay"), restricted=True).problems) == 1


def test_a_low_score_of_one_layer_is_a_problem_unless_restricted(reasons):
    reasons["lease_tick"] = {"mov eax, 1 -> mov eax, 2": "tried"}
    verdicts = [verdict("replay")] * 999
    verdicts += [verdict("replay", "lease_tick")] * 9 + [verdict("survived", "lease_tick")]
    routines = (schedule_backoff, lease_tick)
    found = made(*verdicts, routines=routines)
    assert found.problems == ["90.0 % of the mutants of lease are killed; 95 % are promised"]
    assert found.total.score > 99
    assert made(*verdicts, routines=routines, restricted=True).problems == []


def test_layers_are_those_that_the_promise_names():
    assert layer_of(schedule_backoff) == "lifecycle"
    assert layer_of(lease_tick) == "lease"
    assert layer_of(leases_end) == "fleet"
    assert layer_of(tcp_send) == ""
    found = judged(p.thing for p in link_bios()[0].routines())
    layers = {layer_of(r) for r in found}
    assert layers == set(scope.LAYERS)
    assert tcp_send not in found


def test_the_tests_that_are_recorded_exist():
    assert all((ROOT / path).exists() for path in scope.TESTS)


def test_a_routine_of_no_layer_comes_last():
    found = made(verdict("replay"), verdict("replay", "tcp_send"), routines=(tcp_send, schedule_backoff))  # fmt: skip
    assert [name for name, _ in found.layers()] == ["lifecycle", "others"]


def test_every_reason_is_a_sentence():
    for name, table in mutation_survivors.SURVIVORS.items():
        for key, reason in table.items():
            assert " -> " in key, (name, key)
            assert len(reason.split()) > 3, (name, key)
